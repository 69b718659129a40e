//! What one receive does with messages that were received as often as their queue's redrive policy
//! allows: they are taken out of the slice instead of being handed out (SQS-CONTRACT section 9).
//!
//! Only the receives in this queue count towards its limit: a dead letter that comes from elsewhere
//! brings its receive count along and could not be received once otherwise.

use std::sync::Arc;

use crate::held::Held;
use crate::ids::PackedName;
use crate::moved::Moved;

/// Messages that one receive, or one step of a move task, moves at most, so that no entry takes long to apply. The next receive
/// goes on.
pub(crate) const MOVES_MAX: usize = 100;

/// A message on its way out of a slice.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub name: PackedName,
    pub held: Held,
    /// Where it had one.
    pub message_group: Option<Arc<str>>,
    /// What was known of it if it had come from another queue.
    pub moved: Option<Moved>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Parting {
    /// `None`: whatever the count, messages are handed out.
    max_receive_count: Option<u32>,
    room: usize,
    /// The messages taken out.
    pub leaving: Vec<Leaving>,
}

impl Parting {
    /// A receive that takes out up to `room` messages with so many receives.
    pub fn from(max_receive_count: u32, room: usize) -> Self {
        Self {
            max_receive_count: Some(max_receive_count),
            room: room.min(MOVES_MAX),
            leaving: Vec::new(),
        }
    }

    /// Whether a message, received so many times here, leaves.
    pub fn takes(&self, receives_here: u32) -> bool {
        self.max_receive_count
            .is_some_and(|limit| receives_here >= limit)
    }

    /// Whether `more` messages beside those that left may leave.
    pub fn has_room(&self, more: usize) -> bool {
        self.max_receive_count.is_none() || self.leaving.len() + more < self.room
    }
}
