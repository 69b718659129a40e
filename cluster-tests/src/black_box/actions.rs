//! The entries of a history's operations, each with its span and its queue.

use crate::history::{ChangeEntry, DeleteEntry, Delivery, SendEntry};

/// When an entry's operation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub invoked: u64,
    pub returned: u64,
}

impl Span {
    /// Whether this one was over before the other began.
    pub fn before(self, other: Span) -> bool {
        self.returned < other.invoked
    }
}

/// One message sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'h> {
    /// The operation's place in the history.
    pub operation: usize,
    pub span: Span,
    /// Its place in the index.
    pub queue: usize,
    pub entry: &'h SendEntry,
}

impl Sent<'_> {
    /// The id that the queue answered.
    pub fn message_id(&self) -> Option<&str> {
        self.entry.outcome.ok().map(|sent| sent.message_id.as_str())
    }

    /// Whether it may have made a message.
    pub fn may_have_effect(&self) -> bool {
        self.entry.outcome.may_have_effect()
    }
}

/// One message received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'h> {
    /// The operation's place in the history.
    pub operation: usize,
    /// Where in the answer.
    pub place: usize,
    pub span: Span,
    /// Its place in the index.
    pub queue: usize,
    /// The shortest visibility timeout that may have applied.
    pub timeout: u64,
    pub attempt: Option<&'h str>,
    pub delivery: &'h Delivery,
    /// The same delivery again, because the client repeated its attempt.
    pub repeated: bool,
}

/// One delete that may have an effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deleted<'h> {
    /// The operation's place in the history.
    pub operation: usize,
    pub span: Span,
    /// Its place in the index.
    pub queue: usize,
    pub entry: &'h DeleteEntry,
}

impl Deleted<'_> {
    pub fn is_certain(&self) -> bool {
        self.entry.outcome.ok().is_some()
    }
}

/// One change of visibility that may have an effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed<'h> {
    /// The operation's place in the history.
    pub operation: usize,
    pub span: Span,
    pub entry: &'h ChangeEntry,
}

impl Changed<'_> {
    pub fn is_certain(&self) -> bool {
        self.entry.outcome.ok().is_some()
    }

    /// The new timeout, microseconds.
    pub fn timeout(&self) -> u64 {
        self.entry.visibility_timeout_ms.saturating_mul(1_000)
    }
}
