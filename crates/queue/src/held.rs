//! Messages that left the runs, each with its own account: in flight, returned, or delayed by
//! itself.
//!
//! Ordered by name for handles and retention, and by the time each becomes visible for receives and
//! long polls; those of a standard queue's message groups stand apart in the latter, so that others
//! are found without them. Nothing moves when a deadline passes: [`HeldMessages::settle`] only counts
//! it.
//!
//! Invariants: every message is in both orders; `in_flight` and `delayed` count those whose
//! deadline lies after `settled_at`.

use crate::codec::{DecodeError, Reader, Writer};
use crate::dense::DenseMap;
use crate::handle::ReceiptHandle;
use crate::ids::PackedName;

/// A message with an account of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// T of the send, as the queue's kind rounds it.
    pub sent_at: u64,
    /// T from which the message is visible.
    pub visible_at: u64,
    /// T of the first counted receive, after `sent_at` less the most that rounding adds to it; 49
    /// days fit, and retention is at most 14.
    first_received_after: u32,
    /// Receives that count.
    pub receive_count: u32,
    /// Receives that were taken back.
    returned: u32,
    /// FIFO: the slot of its message group. Standard: the same, with [`APART`] if there is one.
    pub group: u32,
}

/// Marks the slot of a standard queue's message group; slots stay far below.
const APART: u32 = 1 << 31;

/// What a held message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Its visibility timeout, or for whoever received it to delete it.
    InFlight,
    /// Its delay.
    Delayed,
    /// The next receive.
    Receive,
}

/// How far a standard queue's stamp may lie after the send.
pub(crate) const STAMP_MS: u64 = 4_000;

impl Held {
    /// A message that was not received yet.
    pub fn unread(sent_at: u64, visible_at: u64) -> Self {
        let (first_received_after, receive_count, returned, group) = (0, 0, 0, 0);
        Self {
            sent_at,
            visible_at,
            first_received_after,
            receive_count,
            returned,
            group,
        }
    }

    /// The same message after one more receive.
    pub fn received(self, now: u64, visible_at: u64) -> Self {
        let first_received_after = match self.receive_count {
            0 => u32::try_from(now.saturating_sub(self.base())).unwrap_or(u32::MAX),
            _ => self.first_received_after,
        };
        let receive_count = self.receive_count.saturating_add(1);
        Self {
            visible_at,
            first_received_after,
            receive_count,
            ..self
        }
    }

    /// The same message with another end of its visibility timeout.
    pub fn visible_from(self, visible_at: u64) -> Self {
        Self { visible_at, ..self }
    }

    /// The same message, received so many times before it came here.
    pub fn received_before(self, receive_count: u32) -> Self {
        Self {
            receive_count,
            ..self
        }
    }

    /// The same message in the message group of a slot.
    pub fn in_group(self, group: u32) -> Self {
        Self { group, ..self }
    }

    /// The same message in a message group of a standard queue.
    pub fn in_fair_group(self, slot: u32) -> Self {
        assert!(slot < APART, "slots are far fewer");
        let group = slot | APART;
        Self { group, ..self }
    }

    /// The same message out of its message group.
    pub fn in_no_group(self) -> Self {
        Self { group: 0, ..self }
    }

    /// The slot of its message group, on a standard queue.
    pub fn fair_group(self) -> Option<u32> {
        (self.group & APART != 0).then_some(self.group & !APART)
    }

    /// The same message with its latest receive taken back. Its receive number stays used, so that
    /// the handle of that receive never passes for a later one's.
    pub fn returned_unread(self, visible_at: u64) -> Self {
        let receive_count = self.receive_count.saturating_sub(1);
        let returned = self.returned.saturating_add(1);
        Self {
            visible_at,
            receive_count,
            returned,
            ..self
        }
    }

    /// T of the first receive that counts.
    pub fn first_received_at(self) -> u64 {
        self.base() + u64::from(self.first_received_after)
    }

    /// Which receive the latest one was, those taken back included.
    pub fn receive_number(self) -> u32 {
        self.receive_count.saturating_add(self.returned)
    }

    /// Whether `handle` is of the latest receive and its visibility timeout still runs.
    pub fn is_held_by(self, handle: &ReceiptHandle, now: u64) -> bool {
        self.receive_number() == handle.receive_number && self.visible_at > now
    }

    fn is_delayed(self) -> bool {
        self.receive_number() == 0
    }

    fn base(self) -> u64 {
        self.sent_at.saturating_sub(STAMP_MS)
    }

    fn write(self, writer: &mut Writer) {
        writer.number(self.sent_at);
        writer.number(self.visible_at);
        writer.number(u64::from(self.first_received_after));
        writer.number(u64::from(self.receive_count));
        writer.number(u64::from(self.returned));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sent_at: reader.number("sent at")?,
            visible_at: reader.number("visible at")?,
            first_received_after: reader.small("first received at")?,
            receive_count: reader.small("receive count")?,
            returned: reader.small("receives taken back")?,
            group: 0,
        })
    }
}

/// The bytes one held message costs: 40 + 16 in the two orders, 7 in 8 of which are used.
pub(crate) const HELD_BYTES: usize = (40 + 16) * 8 / 7;

/// A message's place in the order of time: when it is visible, and its name with one bit that tells
/// whether it counts as delayed, so that passing deadlines are counted without a look at each.
type Due = (u64, u64);

/// All messages of a slice that left the runs.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    by_name: DenseMap<PackedName, Held>,
    by_time: DenseMap<Due, ()>,
    /// The same order, of the message groups of a standard queue.
    apart: DenseMap<Due, ()>,
    settled_at: u64,
    in_flight: u64,
    delayed: u64,
}

impl HeldMessages {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn get(&self, name: PackedName) -> Option<Held> {
        self.by_name.get(name)
    }

    pub fn oldest(&self) -> Option<(PackedName, Held)> {
        self.by_name.first()
    }

    /// Those that are visible and were named before the entry `before`, by name.
    pub fn older(&self, before: u64, now: u64) -> impl Iterator<Item = PackedName> {
        let older = self.by_name.iter();
        let older = older.take_while(move |(name, _)| name.index() < before);
        let visible = older.filter(move |(_, held)| held.visible_at <= now);
        visible.map(|(name, _)| name)
    }

    pub fn names(&self) -> impl Iterator<Item = PackedName> {
        self.by_name.iter().map(|(name, _)| name)
    }

    pub fn insert(&mut self, name: PackedName, held: Held) {
        if let Some(counter) = self.waiting_counter(held) {
            *counter += 1;
        }
        self.order_of(held).insert(due(name, held), ());
        let before = self.by_name.insert(name, held);
        assert!(before.is_none(), "a message is held once");
    }

    pub fn remove(&mut self, name: PackedName) -> Option<Held> {
        let held = self.by_name.remove(name)?;
        if let Some(counter) = self.waiting_counter(held) {
            *counter -= 1;
        }
        self.order_of(held).remove(due(name, held));
        Some(held)
    }

    pub fn replace(&mut self, name: PackedName, held: Held) {
        self.remove(name);
        self.insert(name, held);
    }

    /// What a message waits for at the last settling.
    pub fn wait(&self, held: Held) -> Wait {
        match (held.visible_at > self.settled_at, held.is_delayed()) {
            (false, _) => Wait::Receive,
            (true, true) => Wait::Delayed,
            (true, false) => Wait::InFlight,
        }
    }

    /// The counter a message stands in while its deadline is ahead.
    fn waiting_counter(&mut self, held: Held) -> Option<&mut u64> {
        match self.wait(held) {
            Wait::Receive => None,
            Wait::Delayed => Some(&mut self.delayed),
            Wait::InFlight => Some(&mut self.in_flight),
        }
    }

    fn order_of(&mut self, held: Held) -> &mut DenseMap<Due, ()> {
        match held.fair_group() {
            Some(_) => &mut self.apart,
            None => &mut self.by_time,
        }
    }

    /// Counts the deadlines that passed up to `now`.
    pub fn settle(&mut self, now: u64) {
        (self.in_flight, self.delayed) = self.waiting_at(now);
        self.settled_at = self.settled_at.max(now);
    }

    /// Deadlines in `(settled_at, now]`; those of a standard queue's message groups come last.
    fn passed(&self, now: u64) -> impl Iterator<Item = Due> {
        let from = (self.settled_at + 1, 0);
        let ahead = self.by_time.range_from(from).map(|(due, ())| due);
        let apart = self.apart.range_from(from).map(|(due, ())| due);
        let passed = move |due: &Due| due.0 <= now;
        ahead.take_while(passed).chain(apart.take_while(passed))
    }

    /// When messages became visible in `(settled_at, now]`, and which, as [`Self::passed`] has them.
    pub fn released(&self, now: u64) -> impl Iterator<Item = (u64, PackedName)> {
        self.passed(now).map(|due| (due.0, name(due)))
    }

    /// Messages in flight and delayed at `now`, which may be ahead of the last settling.
    pub fn waiting_at(&self, now: u64) -> (u64, u64) {
        let (mut passed, mut passed_delayed) = (0, 0);
        for (_, name_and_delayed) in self.passed(now) {
            passed += 1;
            passed_delayed += name_and_delayed & 1;
        }
        (
            self.in_flight + passed_delayed - passed,
            self.delayed - passed_delayed,
        )
    }

    /// T of the last settling.
    pub fn settled_at(&self) -> u64 {
        self.settled_at
    }

    /// In flight at the last settling.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The message that has been visible for longest, and since when, of those in no message group.
    pub fn first_visible(&self, now: u64) -> Option<(u64, PackedName)> {
        let (due, ()) = self.by_time.first()?;
        (due.0 <= now).then_some((due.0, name(due)))
    }

    /// Whether any message is visible.
    pub fn has_visible(&self, now: u64) -> bool {
        let visible =
            |order: &DenseMap<Due, ()>| order.first().is_some_and(|(due, ())| due.0 <= now);
        visible(&self.by_time) || visible(&self.apart)
    }

    /// The next deadline after `now`.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        let next = |order: &DenseMap<Due, ()>| {
            let mut ahead = order.range_from((now.saturating_add(1), 0));
            ahead.next().map(|((visible_at, _), ())| visible_at)
        };
        let both = [next(&self.by_time), next(&self.apart)];
        both.into_iter().flatten().min()
    }

    pub fn check(&self) -> Result<(), &'static str> {
        let in_time = |(name, held): (PackedName, Held)| {
            let order = match held.fair_group() {
                Some(_) => &self.apart,
                None => &self.by_time,
            };
            order.get(due(name, held)).is_some()
        };
        let in_order = self.by_time.len() + self.apart.len();
        if self.by_name.len() != in_order || !self.by_name.iter().all(in_time) {
            return Err("every held message is in both orders");
        }
        let ahead = |delayed: bool| {
            let held = self.by_name.iter().map(|(_, held)| held);
            let held = held.filter(|held| held.visible_at > self.settled_at);
            held.filter(|held| held.is_delayed() == delayed).count() as u64
        };
        let counted = self.delayed == ahead(true) && self.in_flight == ahead(false);
        counted
            .then_some(())
            .ok_or("in flight and delayed count the deadlines ahead")
    }

    /// The messages in age's order, with their accounts.
    pub fn iter(&self) -> impl Iterator<Item = (PackedName, Held)> {
        self.by_name.iter()
    }

    /// Writes everything but the groups, which the message groups themselves tell.
    pub fn write(&self, writer: &mut Writer) {
        writer.number(self.settled_at);
        writer.length(self.by_name.len());
        for (name, held) in self.by_name.iter() {
            writer.number(name.bits());
            held.write(writer);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let settled_at = reader.number("settled at")?;
        let mut messages = Self {
            settled_at,
            ..Self::default()
        };
        for (name, held) in reader.list("held messages", read_held)? {
            if messages.by_name.get(name).is_some() {
                return Err(DecodeError::Impossible("a message held twice"));
            }
            messages.insert(name, held);
        }
        Ok(messages)
    }

    /// Tells a message of a standard queue, just read, the slot of its message group.
    pub fn set_fair_group(&mut self, name: PackedName, slot: u32) -> Result<Held, DecodeError> {
        let held = self.get(name).filter(|held| held.fair_group().is_none());
        let held = held.ok_or(DecodeError::Impossible("a fair group's message"))?;
        let held = held.in_fair_group(slot);
        self.remove(name);
        self.insert(name, held);
        Ok(held)
    }

    /// Tells a message, just read, the slot of its group.
    pub fn set_group(&mut self, name: PackedName, group: u32) -> Result<(), DecodeError> {
        let held = self
            .by_name
            .get_mut(name)
            .ok_or(DecodeError::Impossible("a group's message"))?;
        held.group = group;
        Ok(())
    }
}

fn due(name: PackedName, held: Held) -> Due {
    (
        held.visible_at,
        name.bits() << 1 | u64::from(held.is_delayed()),
    )
}

fn name((_, name_and_delayed): Due) -> PackedName {
    PackedName::from_bits(name_and_delayed >> 1).expect("made from a name by `due`")
}

fn read_held(reader: &mut Reader<'_>) -> Result<(PackedName, Held), DecodeError> {
    let name = PackedName::from_bits(reader.number("held name")?)
        .ok_or(DecodeError::Impossible("held name"))?;
    Ok((name, Held::read(reader)?))
}
