//! The model's move tasks.

use hikyaku_queue::{MoveObstacle, MoveTaskId, Name, QueueId, Reply};

use super::{Arriving, Message, Model, PARTITION, Queue};

impl Model {
    /// Moves what was there when the task came, as far as it is visible and has somewhere to go.
    pub(super) fn move_back(&mut self, id: QueueId, task: MoveTaskId, max: usize) -> Reply {
        let now = self.now;
        let queue = self.queue_mut(id);
        queue.pass_time(now);
        queue.used_at = now;
        let order = queue.descriptor.move_order.clone();
        let (Some(order), Some((known, before, total))) = (order, queue.moving) else {
            return Reply::NoMoveTask;
        };
        if known != task {
            return Reply::NoMoveTask;
        }
        let mut movable = queue.movable(now, before);
        movable.truncate(if order.halted { 0 } else { max.min(100) });
        let mut moved = 0;
        for name in movable {
            let source = self.queue(id).and_then(|queue| queue.source(name));
            let target = match (order.destination, &source) {
                (Some(destination), _) => Some(destination),
                (None, Some(source)) => order.sources.get(source).copied(),
                (None, None) if moved > 0 => break,
                (None, None) => return Reply::MoveBlocked(MoveObstacle::NoSource),
            };
            let source = source.filter(|_| order.destination.is_none());
            let source = source.map(|it| it.as_str().into());
            let no_place = Reply::MoveBlocked(MoveObstacle::NoPlace { source });
            let is_gone = |id| self.tombstones.iter().any(|(gone, ..)| *gone == id);
            let refused = match target.filter(|target| !is_gone(*target)) {
                None => Some(no_place),
                Some(target) => match self.queue(target) {
                    None => Some(Reply::TargetNeeded { target }),
                    Some(queue) => {
                        let descriptor = &queue.descriptor;
                        let mut takes = descriptor.spread.iter().chain(&descriptor.guests);
                        let here = takes.any(|partition| *partition == PARTITION);
                        let from = self.queue(id).expect("the command has met its queue");
                        (!here || from.is_fifo() != queue.is_fifo()).then_some(no_place)
                    }
                },
            };
            match (refused, target) {
                (None, Some(target)) => self.take_back(id, name, target),
                (Some(refused), _) if moved == 0 => return refused,
                _ => break,
            }
            moved += 1;
        }
        let queue = self.queue_mut(id);
        queue.moving = Some((task, before, total + moved));
        let left = queue.messages.iter().any(|it| it.name.index < before);
        Reply::MovedBack {
            now: moved as u8,
            total: total + moved,
            done: order.halted || !left,
        }
    }

    fn take_back(&mut self, from: QueueId, name: Name, target: QueueId) {
        let now = self.now;
        let message = self.queue_mut(from).take_out(name, now);
        let queue = self.queue_mut(target);
        queue.pass_time(now);
        queue.used_at = now;
        let purge_epoch = queue.descriptor.purge_epoch;
        self.arriving.push(Arriving {
            target,
            purge_epoch,
            source: None,
            message,
        });
    }
}

impl Queue {
    /// The messages named before the entry that could be handed out, oldest first; on FIFO, group after
    /// group.
    pub(super) fn movable(&self, now: u64, before: u64) -> Vec<Name> {
        let mut messages: Vec<&Message> = self.messages.iter().collect();
        messages.sort_by_key(|message| message.name);
        let mut groups: Vec<&str> = vec![];
        for message in &messages {
            if !groups.contains(&message.message_group.as_str()) {
                groups.push(&message.message_group);
            }
        }
        let visible = |message: &&&Message| self.visible_at(message) <= now;
        let older = |message: &&Message| message.name.index < before;
        if !self.is_fifo() {
            let movable = messages.iter().filter(visible).copied();
            return movable.filter(older).map(|it| it.name).collect();
        }
        let of_group = groups.into_iter().flat_map(|group| {
            let of_group = messages.iter().filter(move |it| it.message_group == group);
            let movable = of_group.take_while(visible).copied();
            movable.take_while(older).map(|it| it.name)
        });
        of_group.collect()
    }

    /// The name of the queue whose dead letter a message is.
    pub(super) fn source(&self, name: Name) -> Option<String> {
        let found = self.messages.iter().find(|it| it.name == name)?;
        found.letter.as_ref()?.source.clone()
    }

    pub(super) fn take_out(&mut self, name: Name, now: u64) -> Message {
        let at = self.messages.iter().position(|it| it.name == name);
        let message = self.messages.remove(at.unwrap());
        self.file(&message.message_group, now);
        message
    }
}
