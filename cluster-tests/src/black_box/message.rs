//! All that is known of one message, and what follows from it.

use std::collections::HashSet;

use super::actions::{Changed, Deleted, Seen, Span};
use super::index::Index;

/// One message id.
#[derive(Debug)]
pub(super) struct Message<'h> {
    pub id: &'h str,
    /// Where it was sent to; where it was seen first when nobody knows that.
    pub queue: usize,
    /// Its content, by its place in the index.
    pub content: usize,
    pub group: Option<&'h str>,
    pub sequence: Option<u128>,
    /// When it may have come into being at the earliest.
    pub born: u64,
    /// When the first send that was told this id returned.
    pub acknowledged: Option<u64>,
    /// The sends that were told this id, by their places in the index.
    pub sends: Vec<usize>,
    /// In the order of their invocation.
    pub seen: Vec<Seen<'h>>,
    /// In the order of their invocation.
    pub deletes: Vec<Deleted<'h>>,
    /// In the order of their invocation.
    pub changes: Vec<Changed<'h>>,
    /// For each change, the latest return of it and those before it.
    changes_returned: Vec<u64>,
}

impl<'h> Message<'h> {
    pub fn new(id: &'h str, queue: usize, content: usize) -> Self {
        Self {
            id,
            queue,
            content,
            group: None,
            sequence: None,
            born: u64::MAX,
            acknowledged: None,
            sends: Vec::new(),
            seen: Vec::new(),
            deletes: Vec::new(),
            changes: Vec::new(),
            changes_returned: Vec::new(),
        }
    }

    /// Once everything is there: puts it in order.
    pub fn settle(&mut self) {
        self.seen
            .sort_by_key(|seen| (seen.span.invoked, seen.span.returned));
        self.deletes.sort_by_key(|delete| delete.span.invoked);
        self.changes.sort_by_key(|change| change.span.invoked);
        let mut latest = 0;
        for change in &self.changes {
            let returned = if change.is_certain() {
                change.span.returned
            } else {
                u64::MAX
            };
            latest = returned.max(latest);
            self.changes_returned.push(latest);
        }
        // A message whose group is in doubt is kept out of the rules about groups.
        if self
            .seen
            .iter()
            .any(|seen| seen.delivery.group.as_deref() != self.group)
        {
            self.group = None;
        }
        let mut attempts = HashSet::new();
        for seen in &mut self.seen {
            if let Some(attempt) = seen.attempt {
                seen.repeated = !attempts.insert((attempt, seen.delivery.receipt));
            }
        }
    }

    /// The deliveries that counted.
    pub fn deliveries(&self) -> impl Iterator<Item = &Seen<'h>> {
        self.seen.iter().filter(|seen| !seen.repeated)
    }

    /// The acknowledged delete that returned first and ended the message for this queue: a delete from
    /// the source is granted, too, when the message is a dead letter already, and then does nothing.
    pub fn gone(&self, queue: usize) -> Option<&Deleted<'h>> {
        let counts = |d: &&Deleted<'_>| d.is_certain() && (queue == self.queue || d.queue == queue);
        let certain = self.deletes.iter().filter(counts);
        certain.min_by_key(|delete| delete.span.returned)
    }

    /// When a client or its owner may have ended it at the earliest: a delete, a purge, the queue's
    /// delete.
    pub fn may_be_ended(&self, index: &Index<'_>) -> u64 {
        let deleted = self.deletes.first().map(|delete| delete.span.invoked);
        let endings = &index.queues[self.queue].endings;
        let ended = endings
            .first_possible(self.born)
            .map(|ending| ending.invoked);
        deleted.into_iter().chain(ended).min().unwrap_or(u64::MAX)
    }

    /// When it may have left its queue at the earliest, its retention and dead letters included.
    pub fn may_have_left(&self, index: &Index<'_>) -> u64 {
        let queue = &index.queues[self.queue];
        let expired = index.timers.not_before(self.born, queue.least_retention);
        let ended = self.may_be_ended(index).min(expired);
        let Some(redrive) = &queue.redrive else {
            return ended;
        };
        let mut receives = self.deliveries().filter(|seen| seen.queue == self.queue);
        let moved = match receives.nth(redrive.least_count.saturating_sub(1)) {
            Some(last) => last.span.invoked,
            // Receives without an answer may have counted too.
            None if !queue.uncertain_receives.is_empty() => self.born,
            None => u64::MAX,
        };
        ended.min(moved)
    }

    /// The changes that may take effect between the delivery's invocation and `until`.
    pub fn changes_between(&self, seen: &Seen<'_>, until: u64) -> &[Changed<'h>] {
        let from = self
            .changes_returned
            .partition_point(|r| *r < seen.span.invoked);
        let to = self
            .changes
            .partition_point(|change| change.span.invoked < until);
        self.changes.get(from..to).unwrap_or_default()
    }

    /// Until when a delivery certainly kept the message for itself.
    pub fn certainly_held_until(&self, seen: &Seen<'h>, index: &Index<'_>) -> u64 {
        let unrepeated = self.held_until_repeated(seen, index);
        unrepeated.min(self.may_be_repeated(seen, index))
    }

    /// The same, as long as the client does not repeat the attempt.
    pub fn held_until_repeated(&self, seen: &Seen<'h>, index: &Index<'_>) -> u64 {
        let timed = index.timers.not_before(seen.span.invoked, seen.timeout);
        // Where a change has no answer, the first of them all says enough.
        let changed = self.changes_between(seen, timed).first();
        let changed = changed.map_or(u64::MAX, |change| change.span.invoked);
        timed.min(changed).min(self.may_be_ended(index))
    }

    /// When the same attempt may have set the delivery's timeout anew.
    fn may_be_repeated(&self, seen: &Seen<'h>, index: &Index<'_>) -> u64 {
        let Some(attempt) = seen.attempt else {
            return u64::MAX;
        };
        if index.queues[seen.queue]
            .uncertain_attempts
            .contains(attempt)
        {
            return 0;
        }
        let others = self.seen.iter().filter(|other| {
            let is_other = other.operation != seen.operation;
            is_other && other.attempt == seen.attempt && !other.span.before(seen.span)
        });
        others
            .map(|other| other.span.invoked)
            .min()
            .unwrap_or(u64::MAX)
    }
}

impl Message<'_> {
    /// Until when a certain change of visibility, by its place, certainly hid the message: nothing
    /// when an earlier change may have come after it.
    pub fn certainly_changed_until(&self, place: usize, index: &Index<'_>) -> u64 {
        let change = &self.changes[place];
        let before = place
            .checked_sub(1)
            .map_or(0, |before| self.changes_returned[before]);
        if !change.is_certain() || before >= change.span.invoked {
            return 0;
        }
        let timed = index
            .timers
            .not_before(change.span.invoked, change.timeout());
        let next = self.changes.get(place + 1);
        let next = next.map_or(u64::MAX, |next| next.span.invoked);
        timed.min(next).min(self.may_be_ended(index))
    }
}

/// What hides a message for a while.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hold {
    /// The operation's place in the history.
    pub operation: usize,
    pub span: Span,
    pub timeout: u64,
    /// It took effect within its span; otherwise at any time after it was invoked, or never.
    pub certain: bool,
}

impl<'h> Message<'h> {
    /// What may have hidden the message last when `next` received it, having been handed out by
    /// `held`: the receive itself, repeats of its attempt or changes of visibility. Nothing when that
    /// cannot be told.
    pub fn last_holds(&self, held: &Seen<'h>, next: Span, index: &Index<'_>) -> Vec<Hold> {
        let attempts = &index.queues[held.queue].uncertain_attempts;
        if held
            .attempt
            .is_some_and(|attempt| attempts.contains(attempt))
        {
            return Vec::new();
        }
        let receive = |seen: &Seen<'_>| Hold {
            operation: seen.operation,
            span: seen.span,
            timeout: seen.timeout,
            certain: true,
        };
        let repeats = self.seen.iter().filter(|seen| {
            let is_other = seen.operation != held.operation;
            is_other && seen.attempt == held.attempt && !seen.span.before(held.span)
        });
        let repeats = repeats.filter(|_| held.attempt.is_some());
        let repeats = repeats.filter(|seen| seen.span.invoked < next.returned);
        let changes = self.changes_between(held, next.returned).iter();
        let changes = changes
            .filter(|change| !change.is_certain() || change.span.returned >= held.span.invoked)
            .map(|change| Hold {
                operation: change.operation,
                span: change.span,
                timeout: change.timeout(),
                certain: change.is_certain(),
            });
        let receives = std::iter::once(held).chain(repeats).map(receive);
        let mut holds: Vec<Hold> = receives.chain(changes).collect();
        let replacing = holds
            .iter()
            .filter(|hold| hold.certain && hold.span.before(next));
        let last = replacing.map(|hold| hold.span.invoked).max().unwrap_or(0);
        holds.retain(|hold| !hold.certain || hold.span.returned >= last);
        holds
    }
}
