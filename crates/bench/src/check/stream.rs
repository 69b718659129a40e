//! What is known of each message of one stream, a byte each, from the oldest unsettled one on.

use std::collections::VecDeque;

/// What is known of one message: its send in the lowest two bits, its receive and delete above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The service has the message.
    Acknowledged,
    /// The service does not have it: it said that the client is wrong, or never saw it.
    Refused,
    /// Nobody knows: it may or may not be received.
    Unknown,
}

impl State {
    const PENDING: Self = Self(0);
    const SEND: u8 = 0b0011;
    const RECEIVED: u8 = 0b0100;
    const DELETED: u8 = 0b1000;

    fn code(outcome: SendOutcome) -> u8 {
        match outcome {
            SendOutcome::Acknowledged => 1,
            SendOutcome::Refused => 2,
            SendOutcome::Unknown => 3,
        }
    }

    /// The send's outcome, once there is one.
    pub(super) fn outcome(self) -> Option<SendOutcome> {
        match self.0 & Self::SEND {
            1 => Some(SendOutcome::Acknowledged),
            2 => Some(SendOutcome::Refused),
            3 => Some(SendOutcome::Unknown),
            _ => None,
        }
    }

    pub(super) fn is_received(self) -> bool {
        self.0 & Self::RECEIVED != 0
    }

    pub(super) fn is_deleted(self) -> bool {
        self.0 & Self::DELETED != 0
    }

    /// Nothing more is expected of it.
    fn is_settled(self) -> bool {
        match self.outcome() {
            Some(SendOutcome::Refused) => true,
            Some(SendOutcome::Acknowledged | SendOutcome::Unknown) => self.is_deleted(),
            None => false,
        }
    }
}

/// One stream's messages.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the first of `states`: all before it are settled.
    base: u64,
    states: VecDeque<State>,
    /// One more than the highest number received.
    pub(super) received_end: u64,
}

/// Where a number is in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Settled, and forgotten.
    Settled,
    /// Known.
    Kept(State),
    /// Never given to a message.
    Unborn,
}

impl Stream {
    /// The next message's number.
    pub(super) fn begin(&mut self) -> u64 {
        self.states.push_back(State::PENDING);
        self.base + self.states.len() as u64 - 1
    }

    pub(super) fn place(&self, sequence: u64) -> Place {
        let Some(offset) = sequence.checked_sub(self.base) else {
            return Place::Settled;
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.states
            .get(offset)
            .map_or(Place::Unborn, |state| Place::Kept(*state))
    }

    /// Writes a send's outcome down.
    pub(super) fn set_outcome(&mut self, sequence: u64, outcome: SendOutcome) {
        let state = self.kept(sequence);
        assert_eq!(state.outcome(), None, "a send has one outcome");
        state.0 |= State::code(outcome);
    }

    pub(super) fn set_received(&mut self, sequence: u64) {
        self.kept(sequence).0 |= State::RECEIVED;
    }

    pub(super) fn set_deleted(&mut self, sequence: u64) {
        self.kept(sequence).0 |= State::DELETED;
    }

    fn kept(&mut self, sequence: u64) -> &mut State {
        let offset = sequence.checked_sub(self.base);
        offset
            .and_then(|offset| self.states.get_mut(usize::try_from(offset).ok()?))
            .expect("an unsettled message is kept")
    }

    /// Forgets the settled messages at the front and gives back how many.
    pub(super) fn trim(&mut self) -> usize {
        let settled = self.states.iter().take_while(|state| state.is_settled());
        let settled = settled.count();
        self.states.drain(..settled);
        self.base += settled as u64;
        settled
    }

    /// The acknowledged messages that nobody received.
    pub(super) fn missing(&self) -> impl Iterator<Item = u64> {
        let missing = |state: &State| {
            state.outcome() == Some(SendOutcome::Acknowledged) && !state.is_received()
        };
        let states = (self.base..).zip(&self.states);
        states.filter_map(move |(sequence, state)| missing(state).then_some(sequence))
    }
}
