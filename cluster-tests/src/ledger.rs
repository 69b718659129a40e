//! What the clients of one queue did and were told, and whether a queue that keeps its promises
//! could have told them so.
//!
//! Every operation has a span on one monotonic clock and an outcome: *ok*; *fail*, which promises
//! that it had no effect and never will; or *info* (a timeout, a reset, a 5xx), which may take
//! effect once, at any time after it was invoked. The rules only report what no order of effects
//! explains, so a finding is never a false alarm, whatever clients did at the same time.
//!
//! A body is written into the ledger whole and should be unique, but for FIFO sends that are tried
//! again with their deduplication id. Dead letters and retention are not modelled: keep them out of
//! the histories recorded here.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

mod messages;
mod rules;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// More findings than this are counted, not printed.
const MAX_PRINTED_FINDINGS: usize = 20;

/// When an operation was invoked and when its answer was there, since an epoch all clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Before the first byte was written.
    pub invoked: Duration,
    /// After the last byte was read, or when the client gave up.
    pub returned: Duration,
}

impl Span {
    /// Whether this operation was over before the other began.
    pub fn before(&self, other: &Span) -> bool {
        self.returned < other.invoked
    }
}

/// What a client knows about the effect of its operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It took effect, with this answer.
    Ok(T),
    /// It had no effect and never will.
    Fail,
    /// It may take effect once, now or later.
    Info,
}

impl<T> Outcome<T> {
    /// Whether it took effect or still may.
    pub fn may_have_effect(&self) -> bool {
        !matches!(self, Outcome::Fail)
    }

    /// The answer, when there was one.
    pub fn ok(&self) -> Option<&T> {
        match self {
            Outcome::Ok(answer) => Some(answer),
            Outcome::Fail | Outcome::Info => None,
        }
    }
}

/// Which promises hold beyond those for every queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No order.
    Standard,
    /// Order within each message group; deduplication over the whole queue.
    Fifo,
    /// Order within each message group; deduplication within each of them.
    FifoByMessageGroup,
}

/// One message handed to the queue: an entry of a batch is one of these.
#[derive(Debug, Clone)]
pub struct Send {
    /// When.
    pub span: Span,
    /// The whole body.
    pub body: String,
    /// FIFO's message group.
    pub message_group: Option<String>,
    /// FIFO's deduplication id.
    pub deduplication_id: Option<String>,
    /// How long the message stays hidden at first.
    pub delay: Duration,
    /// What the queue said.
    pub outcome: Outcome<Sent>,
}

/// The answer to a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The queue's name for the message.
    pub message_id: String,
    /// FIFO's sequence number.
    pub sequence: Option<u128>,
}

/// One receive with all that it returned.
#[derive(Debug, Clone)]
pub struct Receive {
    /// When.
    pub span: Span,
    /// The visibility timeout that applied: the request's, or else the queue's.
    pub visibility_timeout: Duration,
    /// The messages, in the order of the answer.
    pub outcome: Outcome<Vec<Delivery>>,
}

/// One message of a receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The queue's name for the message.
    pub message_id: String,
    /// The whole body.
    pub body: String,
    /// `ApproximateReceiveCount`, which is exact here.
    pub receive_count: u32,
    /// FIFO's message group.
    pub message_group: Option<String>,
    /// FIFO's sequence number.
    pub sequence: Option<u128>,
}

/// One message deleted.
#[derive(Debug, Clone)]
pub struct Delete {
    /// When.
    pub span: Span,
    /// Which message the receipt handle was for.
    pub message_id: String,
    /// What the queue said.
    pub outcome: Outcome<()>,
}

/// One message's visibility timeout changed.
#[derive(Debug, Clone)]
pub struct ChangeVisibility {
    /// When.
    pub span: Span,
    /// Which message the receipt handle was for.
    pub message_id: String,
    /// From now on.
    pub visibility_timeout: Duration,
    /// What the queue said.
    pub outcome: Outcome<()>,
}

/// The whole queue purged.
#[derive(Debug, Clone)]
pub struct Purge {
    /// When.
    pub span: Span,
    /// What the queue said.
    pub outcome: Outcome<()>,
}

/// The promises, one word each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An acknowledged message that nobody deleted comes out of the final drain.
    Lost,
    /// What comes out was sent before, with this body, message group and id.
    Phantom,
    /// One send makes one message.
    Duplicated,
    /// A deleted or purged message does not come back.
    Resurrected,
    /// A received message is hidden until its visibility timeout.
    HeldTwice,
    /// A delayed message is hidden until its delay is over.
    TooEarly,
    /// Receive counts are 1, 2, 3 and so on.
    ReceiveCount,
    /// A message group comes out in order; nothing passes an older message that still exists.
    GroupOrder,
    /// Sequence numbers rise with time and are never used twice.
    SequenceOrder,
    /// One deduplication id makes one message within five minutes.
    Deduplication,
    /// While nothing runs, the counts say how many messages there are.
    Counts,
}

/// A promise broken, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The promise.
    pub rule: Rule,
    /// The operations that no order of effects explains.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// The history of one queue.
#[derive(Debug, Clone)]
pub struct Ledger {
    kind: Kind,
    sends: Vec<Send>,
    receives: Vec<Receive>,
    deletes: Vec<Delete>,
    changes: Vec<ChangeVisibility>,
    purges: Vec<Purge>,
    drain_from: Option<Duration>,
    /// What the counts said, and what they might have said.
    counted: Vec<(u64, RangeInclusive<u64>)>,
}

impl Ledger {
    /// An empty history of a queue of this kind, created just now.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            sends: Vec::new(),
            receives: Vec::new(),
            deletes: Vec::new(),
            changes: Vec::new(),
            purges: Vec::new(),
            drain_from: None,
            counted: Vec::new(),
        }
    }

    /// Writes down a send.
    pub fn sent(&mut self, send: Send) {
        self.sends.push(send);
    }

    /// Writes down a receive.
    pub fn received(&mut self, receive: Receive) {
        self.receives.push(receive);
    }

    /// Writes down a delete.
    pub fn deleted(&mut self, delete: Delete) {
        self.deletes.push(delete);
    }

    /// Writes down a change of visibility.
    pub fn changed(&mut self, change: ChangeVisibility) {
        self.changes.push(change);
    }

    /// Writes down a purge.
    pub fn purged(&mut self, purge: Purge) {
        self.purges.push(purge);
    }

    /// From here on, clients only receive and delete until nothing is left, visible or not. Without
    /// it nothing counts as lost.
    pub fn drain_begins(&mut self, at: Duration) {
        self.drain_from = Some(at);
    }

    /// Writes down the sum of the queue's counts, asked for while nothing runs. Not after a purge.
    pub fn counted(&mut self, messages: u64) {
        assert!(
            self.purges.is_empty(),
            "counts are not followed through a purge"
        );
        let expected = messages::expected(self);
        self.counted.push((messages, expected));
    }

    /// How many operations of each kind there are, and how many of them are uncertain.
    pub fn summary(&self) -> String {
        let unsure = |infos: usize, all: usize, word: &str| format!("{all} {word} ({infos} info)");
        let infos =
            |outcomes: &mut dyn Iterator<Item = bool>| outcomes.filter(|info| *info).count();
        let sends = infos(&mut self.sends.iter().map(|s| s.outcome == Outcome::Info));
        let receives = infos(&mut self.receives.iter().map(|r| r.outcome == Outcome::Info));
        let deletes = infos(&mut self.deletes.iter().map(|d| d.outcome == Outcome::Info));
        let deliveries: usize = self
            .receives
            .iter()
            .filter_map(|r| r.outcome.ok())
            .map(Vec::len)
            .sum();
        format!(
            "{}, {} with {deliveries} messages, {}",
            unsure(sends, self.sends.len(), "sends"),
            unsure(receives, self.receives.len(), "receives"),
            unsure(deletes, self.deletes.len(), "deletes"),
        )
    }

    /// How many operations have no answer.
    pub fn uncertain(&self) -> usize {
        let sends = self
            .sends
            .iter()
            .filter(|s| s.outcome == Outcome::Info)
            .count();
        let receives = self
            .receives
            .iter()
            .filter(|r| r.outcome == Outcome::Info)
            .count();
        let deletes = self
            .deletes
            .iter()
            .filter(|d| d.outcome == Outcome::Info)
            .count();
        let changes = self
            .changes
            .iter()
            .filter(|c| c.outcome == Outcome::Info)
            .count();
        sends + receives + deletes + changes
    }

    /// How many sends were acknowledged.
    pub fn acknowledged_sends(&self) -> usize {
        self.sends
            .iter()
            .filter(|s| s.outcome.ok().is_some())
            .count()
    }

    /// How many deletes were acknowledged.
    pub fn acknowledged_deletes(&self) -> usize {
        self.deletes
            .iter()
            .filter(|d| d.outcome.ok().is_some())
            .count()
    }

    /// A number for the whole history, times included: equal when the same happened at the same
    /// time (FNV-1a).
    pub fn digest(&self) -> u64 {
        let text = format!("{self:?}");
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// Every broken promise.
    pub fn findings(&self) -> Vec<Finding> {
        rules::check(self)
    }

    /// Panics with the broken promises, if there are any.
    pub fn assert_kept(&self) {
        let findings = self.findings();
        let shown: Vec<String> = findings
            .iter()
            .take(MAX_PRINTED_FINDINGS)
            .map(Finding::to_string)
            .collect();
        assert!(
            findings.is_empty(),
            "{} broken promises in {}:\n{}",
            findings.len(),
            self.summary(),
            shown.join("\n")
        );
    }
}
