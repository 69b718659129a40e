//! Receives that their router has given up.
//!
//! A router that needs an answer no more says so with a return, and cancels the call; the two travel
//! apart, and the return may be here first. A receive that was given up must hand nothing out after
//! that: its router has taken back all it ever will.

use std::collections::{HashSet, VecDeque};

use hikyaku_queue::RequestId;

/// Ids remembered, the latest ones: a return overtakes its receive by milliseconds. 32 bytes each.
const REMEMBERED: usize = 4_096;

/// The latest receives that were given up.
#[derive(Default)]
pub struct GivenUp {
    ids: HashSet<RequestId>,
    order: VecDeque<RequestId>,
}

impl GivenUp {
    /// Remembers one, and forgets the oldest when there are too many.
    pub fn note(&mut self, receive: RequestId) {
        if !self.ids.insert(receive) {
            return;
        }
        self.order.push_back(receive);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    /// Whether this one was given up.
    pub fn contains(&self, receive: RequestId) -> bool {
        self.ids.contains(&receive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let mut given_up = GivenUp::default();
        let ids = || (0..=REMEMBERED as u128).map(RequestId);
        for id in ids().flat_map(|id| [id, id]) {
            given_up.note(id);
        }
        assert!(!given_up.contains(RequestId(0)));
        assert!(ids().skip(1).all(|id| given_up.contains(id)));
    }
}
