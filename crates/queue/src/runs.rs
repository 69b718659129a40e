//! Messages that were never handed out, as runs of names.
//!
//! Under a steady load consecutive entries bring the same number of messages at the same ordinals.
//! A run covers such entries in 16 bytes, whatever their number, so that an untouched backlog costs
//! bytes per run and not per message. Messages join at the back and leave at the front: only a
//! receive or the end of retention takes an untouched message.
//!
//! Invariants: names rise strictly through the runs, and the stamps never fall.

use std::collections::VecDeque;

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::PackedName;

const STAMP_BITS: u32 = 44;
const ENTRIES_LIMIT: u64 = 1 << 8;
const COUNT_LIMIT: u64 = 1 << 12;

/// What one run costs. A deque doubles when it is full and halves at a quarter; it is charged at
/// three quarters full.
pub(crate) const RUN_BYTES: usize = 16 * 4 / 3;

/// Runs whose memory is not worth giving back: 1 KiB.
const SHRINK_ABOVE: usize = 64;

/// Consecutive entries that each hold `count` messages from the same ordinal on, with one stamp.
///
/// Packed: 44 bits of stamp, 8 of entries, 12 of count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    first: PackedName,
    packed: u64,
}

impl Run {
    fn new(first: PackedName, sent_at: u64, entries: u64, count: u64) -> Self {
        assert!(sent_at < 1 << STAMP_BITS, "stamps have 44 bits");
        assert!(
            (1..ENTRIES_LIMIT).contains(&entries),
            "a run covers 1 to 255 entries"
        );
        assert!(
            (1..COUNT_LIMIT).contains(&count),
            "an entry of a run has 1 to 4095 messages"
        );
        Self {
            first,
            packed: sent_at << 20 | entries << 12 | count,
        }
    }

    pub fn first(self) -> PackedName {
        self.first
    }

    pub fn sent_at(self) -> u64 {
        self.packed >> 20
    }

    pub fn entries(self) -> u64 {
        self.packed >> 12 & 0xff
    }

    /// Messages in each entry.
    pub fn count(self) -> u64 {
        self.packed & 0xfff
    }

    pub fn messages(self) -> u64 {
        self.entries() * self.count()
    }

    fn last_index(self) -> u64 {
        self.first.index() + self.entries() - 1
    }

    /// Whether a message is one of the run's.
    pub fn contains(self, name: PackedName) -> bool {
        let ordinals = self.first.ordinal()..self.first.ordinal() + self.count() as u32;
        (self.first.index()..=self.last_index()).contains(&name.index())
            && ordinals.contains(&name.ordinal())
    }

    pub fn names(self) -> impl Iterator<Item = PackedName> {
        (0..self.entries()).flat_map(move |entry| {
            (0..self.count()).map(move |nth| {
                PackedName::new(
                    self.first.index() + entry,
                    self.first.ordinal() + nth as u32,
                )
            })
        })
    }

    pub fn last(self) -> PackedName {
        PackedName::new(
            self.last_index(),
            self.first.ordinal() + self.count() as u32 - 1,
        )
    }

    /// The run without its first message, as up to two runs: what is left of the first entry, and
    /// the entries after it.
    fn without_first(self) -> (Option<Self>, Option<Self>) {
        let (index, ordinal) = (self.first.index(), self.first.ordinal());
        let rest_of_entry = (self.count() > 1).then(|| {
            let first = PackedName::new(index, ordinal + 1);
            Self::new(first, self.sent_at(), 1, self.count() - 1)
        });
        let later_entries = (self.entries() > 1).then(|| {
            let first = PackedName::new(index + 1, ordinal);
            Self::new(first, self.sent_at(), self.entries() - 1, self.count())
        });
        (rest_of_entry, later_entries)
    }

    /// This run and the message `name` as one run, if they continue each other.
    fn with(self, name: PackedName) -> Option<Self> {
        let continues = self.entries() == 1
            && name.index() == self.first.index()
            && u64::from(name.ordinal()) == u64::from(self.first.ordinal()) + self.count()
            && self.count() + 1 < COUNT_LIMIT;
        continues.then(|| Self::new(self.first, self.sent_at(), 1, self.count() + 1))
    }

    /// This run and the one-entry run `next` as one run, if they have the same shape.
    fn joined(self, next: Self) -> Option<Self> {
        let same_shape = next.entries() == 1
            && next.first.index() == self.last_index() + 1
            && next.first.ordinal() == self.first.ordinal()
            && next.count() == self.count()
            && next.sent_at() == self.sent_at()
            && self.entries() + 1 < ENTRIES_LIMIT;
        let entries = self.entries() + 1;
        same_shape.then(|| Self::new(self.first, self.sent_at(), entries, self.count()))
    }

    fn write(self, writer: &mut Writer) {
        writer.number(self.first.bits());
        writer.number(self.packed);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let first = PackedName::from_bits(reader.number("run's first name")?)
            .ok_or(DecodeError::Impossible("run's first name"))?;
        let run = Self {
            first,
            packed: reader.number("run's shape")?,
        };
        let last_ordinal = u64::from(first.ordinal()) + run.count();
        let fits = run.messages() > 0
            && last_ordinal <= u64::from(crate::ids::ORDINAL_LIMIT)
            && first.index() + run.entries() <= crate::ids::INDEX_LIMIT;
        fits.then_some(run)
            .ok_or(DecodeError::Impossible("run's shape"))
    }
}

/// Untouched messages in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: VecDeque<Run>,
    messages: u64,
}

impl Runs {
    /// Adds a message behind all others.
    pub fn push(&mut self, name: PackedName, sent_at: u64) {
        self.messages += 1;
        if let Some(last) = self.runs.back_mut()
            && last.sent_at() == sent_at
            && let Some(longer) = last.with(name)
        {
            *last = longer;
            return;
        }
        self.join_last();
        self.runs.push_back(Run::new(name, sent_at, 1, 1));
    }

    /// Joins the last two runs once the last one's entry has ended: until then its shape may grow.
    fn join_last(&mut self) {
        let Some(before) = self.runs.len().checked_sub(2) else {
            return;
        };
        if let Some(joined) = self.runs[before].joined(self.runs[before + 1]) {
            self.runs.pop_back();
            self.runs[before] = joined;
        }
    }

    pub fn front(&self) -> Option<Run> {
        self.runs.front().copied()
    }

    /// Takes the oldest message with its stamp.
    pub fn pop(&mut self) -> Option<(PackedName, u64)> {
        let run = self.runs.pop_front()?;
        let (rest_of_entry, later_entries) = run.without_first();
        for rest in [later_entries, rest_of_entry].into_iter().flatten() {
            self.runs.push_front(rest);
        }
        self.messages -= 1;
        self.give_memory_back();
        Some((run.first, run.sent_at()))
    }

    /// Drops the oldest run whole.
    pub fn drop_front(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.messages -= run.messages();
            self.give_memory_back();
        }
    }

    /// A drained backlog must not keep its memory; halving at a quarter keeps this amortised.
    fn give_memory_back(&mut self) {
        let capacity = self.runs.capacity();
        if capacity > SHRINK_ABOVE && self.runs.len() < capacity / 4 {
            self.runs.shrink_to(capacity / 2);
        }
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs the messages take.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied()
    }

    pub fn names(&self) -> impl Iterator<Item = (PackedName, u64)> {
        self.iter()
            .flat_map(|run| run.names().map(move |name| (name, run.sent_at())))
    }

    pub fn check(&self) -> Result<(), &'static str> {
        if self.messages != self.iter().map(Run::messages).sum::<u64>() {
            return Err("the runs' count of messages is wrong");
        }
        let rising = self
            .iter()
            .zip(self.iter().skip(1))
            .all(|(one, next)| one.last() < next.first() && one.sent_at() <= next.sent_at());
        rising
            .then_some(())
            .ok_or("names and stamps rise through the runs")
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.length(self.runs.len());
        self.iter().for_each(|run| run.write(writer));
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let runs: VecDeque<Run> = reader.list("runs", Run::read)?.into();
        let messages = runs.iter().map(|run| run.messages()).sum();
        Ok(Self { runs, messages })
    }
}
