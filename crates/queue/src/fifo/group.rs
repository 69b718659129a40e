//! One message group, and how a slice files its groups.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Fifo;
use crate::ids::PackedName;
use crate::runs::Runs;

/// The messages of one message group, oldest first: those received before, then the others.
#[derive(Debug)]
pub(super) struct Group {
    pub key: Arc<str>,
    pub received: VecDeque<PackedName>,
    pub waiting: Runs,
    /// The head under which the group stands in `oldest`.
    pub filed_head: PackedName,
    pub turn: Option<u64>,
}

/// What a group costs beside its key and its runs: itself in a vector that doubles; 24 in the map of
/// keys at two thirds; 16 each in the turns and the heads; 32 for the shared key's header and
/// rounding; 80 for the first allocation of its runs.
pub(super) const GROUP_BYTES: usize =
    size_of::<Option<Group>>() * 4 / 3 + 24 * 3 / 2 + 2 * 16 + 32 + 80;

impl Group {
    fn head(&self) -> Option<PackedName> {
        self.received
            .front()
            .copied()
            .or_else(|| self.waiting.front().map(|run| run.first()))
    }
}

impl Fifo {
    pub(super) fn group(&self, slot: u32) -> &Group {
        self.groups[slot as usize]
            .as_ref()
            .expect("a slot in use has its group")
    }

    pub(super) fn group_mut(&mut self, slot: u32) -> &mut Group {
        self.groups[slot as usize]
            .as_mut()
            .expect("a slot in use has its group")
    }

    /// The slot of the message group `key`; made, with `head` to come as its oldest, if it is new.
    pub(super) fn slot(&mut self, key: &str, head: PackedName) -> u32 {
        if let Some(slot) = self.by_key.get(key) {
            return *slot;
        }
        let key: Arc<str> = key.into();
        let group = Group {
            key: Arc::clone(&key),
            received: VecDeque::new(),
            waiting: Runs::default(),
            filed_head: head,
            turn: None,
        };
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.groups[slot as usize] = Some(group);
                slot
            }
            None => {
                self.groups.push(Some(group));
                u32::try_from(self.groups.len() - 1).expect("memory ends before 2^32 groups")
            }
        };
        self.oldest.insert(head, slot);
        self.key_bytes += key.len();
        self.by_key.insert(key, slot);
        slot
    }

    /// Changes a group's untouched messages and the slice's totals with them.
    pub(super) fn change_waiting<T>(
        &mut self,
        slot: u32,
        change: impl FnOnce(&mut Group) -> T,
    ) -> T {
        let group = self.group_mut(slot);
        let (messages, runs) = (group.waiting.messages(), group.waiting.len());
        let result = change(group);
        let (messages_now, runs_now) = (group.waiting.messages(), group.waiting.len());
        self.untouched_messages = self.untouched_messages + messages_now - messages;
        self.runs = self.runs + runs_now - runs;
        result
    }

    /// T from which a group's oldest message is visible.
    pub(super) fn head_visible_at(&self, slot: u32) -> Option<u64> {
        let group = self.group(slot);
        match group.received.front() {
            Some(name) => self.held.get(*name).map(|held| held.visible_at),
            None => {
                let run = group.waiting.front()?;
                Some(run.sent_at().saturating_add(self.delay_ms))
            }
        }
    }

    /// Files a group under what is true of it now; `behind` takes its turn away first.
    pub(super) fn refile(&mut self, slot: u32, now: u64, behind: bool) {
        let Some(head) = self.group(slot).head() else {
            self.remove_group(slot);
            return;
        };
        let filed_head = std::mem::replace(&mut self.group_mut(slot).filed_head, head);
        if filed_head != head {
            self.oldest.remove(filed_head);
            self.oldest.insert(head, slot);
        }
        let ready = self.head_visible_at(slot).is_some_and(|at| at <= now);
        let turn = self.group(slot).turn;
        if turn.is_some() && ready && !behind {
            return;
        }
        if let Some(turn) = turn {
            self.turns.remove(turn);
        }
        self.group_mut(slot).turn = ready.then_some(self.next_turn);
        if ready {
            self.turns.insert(self.next_turn, slot);
            self.next_turn += 1;
        }
    }

    fn remove_group(&mut self, slot: u32) {
        if let Some(group) = self.groups[slot as usize].take() {
            self.oldest.remove(group.filed_head);
            if let Some(turn) = group.turn {
                self.turns.remove(turn);
            }
            self.key_bytes -= group.key.len();
            self.by_key.remove(&group.key);
            self.free_slots.push(slot);
        }
        if self.by_key.is_empty() {
            self.groups = Vec::new();
            self.free_slots = Vec::new();
        }
    }
}
