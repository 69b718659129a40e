//! What is known to be damaged on this node's disk, until it is whole again.
//!
//! A ledger, not a stream of events: whoever mends looks at what is left to do, does it, and looks
//! again. So nothing is lost when mending is interrupted, and what is met a hundred times is mended
//! once. It is kept in memory only: what is still damaged after a restart is met again, by a reader
//! or by the scrub.

use crate::error::ReadError;
use crate::stats::Counter;
use crate::types::{GroupId, LogId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Places of which it is remembered that they were logged; with more, some are logged again.
const LOGGED_MAX: usize = 4_096;

/// Bodies that wait to be mended; the scrub finds the others again when these are done.
const BODIES_MAX: usize = 65_536;

/// What damage costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Nothing but the work of making it anew from what is here: a footer, a segment's header, a
    /// record that nobody needs any longer.
    Derived,
    /// The body of a message: another replica has it.
    Body,
    /// An entry that is not purged, a vote, a marker, or framing: the replica is lost.
    Log,
    /// A checkpoint: the older one and the log take its place, or else the replica is lost.
    Checkpoint,
}

impl Grade {
    /// All grades, in order.
    pub const ALL: [Grade; 4] = [Grade::Derived, Grade::Body, Grade::Log, Grade::Checkpoint];

    /// Its name in metrics and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Derived => "derived",
            Grade::Body => "body",
            Grade::Log => "log",
            Grade::Checkpoint => "checkpoint",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message body, by the entry that holds it and its place there.
pub type BodyName = (LogId, u32);

/// What is to be mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages {
    /// Bodies to be fetched from other replicas (`GroupLog::mend`).
    pub bodies: BTreeMap<GroupId, BTreeSet<BodyName>>,
    /// Groups that need a new checkpoint, because one that was kept is damaged.
    pub checkpoints: BTreeSet<GroupId>,
    /// Groups whose replica here is lost, and what was found. They must neither vote nor lead, and
    /// be replaced under another replica id.
    pub lost: BTreeMap<GroupId, String>,
}

/// Where damage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A segment and the offset in it; the segment is 0 when none holds what should be there.
    Segment(u64, u64),
    /// The footer of a segment.
    Footer(u64),
    /// A checkpoint.
    Checkpoint(GroupId, LogId),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Segment(segment, offset) => write!(f, "segment {segment:016x} at {offset}"),
            Place::Footer(segment) => write!(f, "footer of segment {segment:016x}"),
            Place::Checkpoint(group, id) => write!(f, "checkpoint {id} of group {group}"),
        }
    }
}

/// Something damaged that recovery met, for the ledger of the log that it opens.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    Derived(Place, &'static str),
    Bodies(GroupId, Place, Vec<BodyName>),
    Checkpoint(GroupId, LogId),
}

/// The ledger of a log.
pub(crate) struct Ledger {
    known: Mutex<Known>,
    changed: watch::Sender<u64>,
    found: [Counter; Grade::ALL.len()],
    healed: Counter,
}

#[derive(Default)]
struct Known {
    open: Damages,
    logged: BTreeSet<(Grade, Place)>,
    /// Sealed segments to be written anew, because something in them is damaged.
    suspect: BTreeSet<u64>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            known: Mutex::default(),
            changed: watch::Sender::new(0),
            found: Default::default(),
            healed: Counter::default(),
        }
    }
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Sets of names, each changed in one step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts and logs a place the first time that it is met; whether it was.
    fn meet(&self, known: &mut Known, grade: Grade, place: Place, what: &str) -> bool {
        if known.logged.len() >= LOGGED_MAX {
            known.logged.clear();
        }
        if !known.logged.insert((grade, place)) {
            return false;
        }
        self.found[grade as usize].add(1);
        tracing::error!(%grade, %place, what, "damage on the disk");
        true
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Takes in what recovery met.
    pub(crate) fn take_in(&self, findings: Vec<Finding>) {
        for finding in findings {
            match finding {
                Finding::Derived(place, what) => {
                    self.derived(place, what);
                    self.made_anew(1);
                }
                Finding::Bodies(group, place, names) => self.bodies(group, place, names),
                Finding::Checkpoint(group, id) => self.checkpoint(group, id),
            }
        }
    }

    /// Something that is made anew from what is here.
    pub(crate) fn derived(&self, place: Place, what: &str) {
        self.meet(&mut self.lock(), Grade::Derived, place, what);
    }

    /// Bodies that other replicas have.
    pub(crate) fn bodies(
        &self,
        group: GroupId,
        place: Place,
        names: impl IntoIterator<Item = BodyName>,
    ) {
        let mut known = self.lock();
        self.meet(&mut known, Grade::Body, place, "a message body is wrong");
        let open: usize = known.open.bodies.values().map(BTreeSet::len).sum();
        let room = BODIES_MAX.saturating_sub(open);
        let of_group = known.open.bodies.entry(group).or_default();
        let before = of_group.len();
        of_group.extend(names.into_iter().take(room));
        let more = of_group.len() > before;
        known.open.bodies.retain(|_, names| !names.is_empty());
        if let Place::Segment(segment, _) = place {
            known.suspect.insert(segment);
        }
        drop(known);
        if more {
            self.tell();
        }
    }

    /// What the replica of a group promised may be gone.
    pub(crate) fn lost(&self, group: GroupId, grade: Grade, place: Place, what: &str) {
        let mut known = self.lock();
        self.meet(&mut known, grade, place, what);
        let new = !known.open.lost.contains_key(&group);
        let story = || format!("{place}: {what}");
        known.open.lost.entry(group).or_insert_with(story);
        drop(known);
        if new {
            tracing::error!(%group, %place, what, "the replica is lost; it is to be replaced");
            self.tell();
        }
    }

    /// A kept checkpoint is damaged; another one is to be written.
    pub(crate) fn checkpoint(&self, group: GroupId, id: LogId) {
        let mut known = self.lock();
        let place = Place::Checkpoint(group, id);
        self.meet(
            &mut known,
            Grade::Checkpoint,
            place,
            "a checkpoint is wrong",
        );
        known.open.checkpoints.insert(group);
        drop(known);
        self.tell();
    }

    /// A sealed segment is to be written anew.
    pub(crate) fn suspect(&self, segment: u64) {
        self.lock().suspect.insert(segment);
    }

    pub(crate) fn is_suspect(&self, segment: u64) -> bool {
        self.lock().suspect.contains(&segment)
    }

    /// Forgets the segments that are gone.
    pub(crate) fn keep_suspects(&self, is_there: impl Fn(u64) -> bool) {
        self.lock().suspect.retain(|segment| is_there(*segment));
    }

    /// Things were made anew from what is here.
    pub(crate) fn made_anew(&self, count: u64) {
        self.healed.add(count);
    }

    /// Bodies are whole again, or nobody needs them any longer.
    pub(crate) fn settled(&self, group: GroupId, names: &[BodyName], healed: bool) {
        let mut known = self.lock();
        let Some(open) = known.open.bodies.get_mut(&group) else {
            return;
        };
        let gone = names.iter().filter(|name| open.remove(name)).count() as u64;
        known.open.bodies.retain(|_, names| !names.is_empty());
        drop(known);
        if healed {
            self.healed.add(gone);
        }
    }

    /// A new checkpoint of the group is durable.
    pub(crate) fn checkpointed(&self, group: GroupId) {
        if self.lock().open.checkpoints.remove(&group) {
            self.healed.add(1);
        }
    }

    /// The replica is dropped, and with it whatever of it was damaged.
    pub(crate) fn forget(&self, group: GroupId) {
        let mut known = self.lock();
        known.open.bodies.remove(&group);
        known.open.checkpoints.remove(&group);
        let was_lost = known.open.lost.remove(&group).is_some();
        drop(known);
        if was_lost {
            self.healed.add(1);
        }
        self.tell();
    }

    pub(crate) fn is_lost(&self, group: GroupId) -> bool {
        self.lock().open.lost.contains_key(&group)
    }

    pub(crate) fn open(&self) -> Damages {
        self.lock().open.clone()
    }

    pub(crate) fn open_count(&self) -> u64 {
        let known = self.lock();
        let bodies: usize = known.open.bodies.values().map(BTreeSet::len).sum();
        (bodies + known.open.checkpoints.len() + known.open.lost.len()) as u64
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn found_of(&self, grade: Grade) -> u64 {
        self.found[grade as usize].get()
    }

    pub(crate) fn healed(&self) -> u64 {
        self.healed.get()
    }
}

/// Damage of a record, as a reader says it.
pub(crate) fn damaged(
    group: GroupId,
    index: u64,
    segment: u64,
    offset: u64,
    what: &'static str,
) -> ReadError {
    ReadError::Damaged {
        group,
        index,
        segment,
        offset,
        what,
    }
}
