//! Messages that a move task takes back out of a dead-letter queue: redrive (SQS-CONTRACT section 9).
//!
//! The task is the descriptor's; the slice knows by an index what was there when it came. It moves the
//! oldest messages first and only visible ones: what is in flight or delayed moves once it is visible,
//! so that a task lasts until nothing of that time is left. Each step moves a few messages, within one
//! entry: a message leaves the dead-letter queue and is in the other, and nobody sees the time between.
//!
//! A message goes to the slice of its queue in this same partition, whose descriptor must say that it
//! takes messages here: receives look for them nowhere else. Where that is not so, nothing moves, and
//! whoever drives the task has to see to it.

use std::sync::Arc;

use super::{Partition, effects, has_taken_effect};
use crate::command::Command;
use crate::descriptor::QueueKind;
use crate::ids::{MoveTaskId, PackedName, QueueId};
use crate::parting::MOVES_MAX;
use crate::reply::{MoveObstacle, Outcome, Reply};

impl Partition {
    pub(super) fn move_back(&mut self, command: &Command, task: MoveTaskId, max: u8) -> Outcome {
        let (queue, now) = (command.queue, self.applied.now);
        let room = self.arrivals.room().min(MOVES_MAX).min(usize::from(max));
        let hosted = self.slices.get_mut(&queue);
        let slice = &mut hosted.expect("a slice with a descriptor is hosted").slice;
        let deadline_before = slice.next_deadline(now);
        slice.settle(now);
        slice.used_at = now;
        let reply = self.move_some(queue, task, room);
        let slice = self.slice(queue).expect("it was there before");
        let effects = effects(queue, slice, deadline_before, now);
        if has_taken_effect(&reply) {
            self.requests.remember(command, &reply);
        }
        self.refile(queue);
        Outcome { reply, effects }
    }

    fn move_some(&mut self, queue: QueueId, task: MoveTaskId, max: usize) -> Reply {
        let now = self.applied.now;
        let slice = self.slice(queue).expect("it was there before");
        let order = slice.descriptor.move_order.as_ref();
        let (Some(order), Some(moving)) = (order, slice.moving.filter(|it| it.task == task)) else {
            return Reply::NoMoveTask;
        };
        let halted = order.halted;
        let movable = match halted {
            true => Vec::new(),
            false => slice.movable(moving.before, max, now),
        };
        let mut moved = 0;
        for name in movable {
            match self.place(queue, name) {
                Ok(target) => {
                    let hosted = self.slices.get_mut(&queue).expect("it was there before");
                    let message = hosted.slice.take_out(name, now);
                    self.set_off(message, target, None);
                    moved += 1;
                }
                Err(reply) if moved == 0 => return reply,
                // The next step meets it first.
                Err(_) => break,
            }
        }
        let hosted = self.slices.get_mut(&queue).expect("it was there before");
        let slice = &mut hosted.slice;
        let total = moving.total + u64::from(moved);
        let done = halted || !slice.has_older(moving.before);
        slice.moving = Some(crate::slice::Moving { total, ..moving });
        Reply::MovedBack {
            now: moved,
            total,
            done,
        }
    }

    /// The queue that a message goes to, if it can go there now.
    fn place(&self, queue: QueueId, name: PackedName) -> Result<QueueId, Reply> {
        let slice = self.slice(queue).expect("it was there before");
        let order = slice.descriptor.move_order.as_ref();
        let order = order.expect("only an order moves messages");
        let (target, source): (_, Option<Arc<str>>) = match order.destination {
            Some(destination) => (Some(destination), None),
            None => {
                let source = slice.moved().source(name);
                let no_source = || Reply::MoveBlocked(MoveObstacle::NoSource);
                let source = source.ok_or_else(no_source)?;
                (order.sources.get(&*source).copied(), Some(source))
            }
        };
        let no_place = Reply::MoveBlocked(MoveObstacle::NoPlace { source });
        let Some(target) = target.filter(|target| !self.is_gone(*target)) else {
            return Err(no_place);
        };
        let Some(descriptor) = self.descriptor(target) else {
            return Err(Reply::TargetNeeded { target });
        };
        let fifo = |kind| matches!(kind, QueueKind::Fifo { .. });
        let fits = fifo(descriptor.kind) == fifo(slice.descriptor.kind);
        match fits && descriptor.takes_moves(self.id) {
            true => Ok(target),
            false => Err(no_place),
        }
    }
}
