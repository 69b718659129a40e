//! A model of what a log must remember, and a scripted history that is played against both.
//!
//! Operations are submitted in bursts. The shared log keeps their order, so after a crash the log
//! must be as after the first `k` of them, for one `k` that is the same for all groups and not less
//! than the number acknowledged.

use super::{Sim, entry, id, outcome};
use bytes::Bytes;
use hikyaku_storage::{Checkpoint, Entry, GroupId, LiveRun, LogId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelGroup {
    pub vote: Option<Bytes>,
    pub purged: Option<LogId>,
    pub last: Option<LogId>,
    pub owner: Option<u64>,
    pub entries: BTreeMap<u64, Entry>,
}

pub type ModelState = BTreeMap<GroupId, ModelGroup>;

/// A replica's machine, as far as bodies go.
#[derive(Default)]
struct Machine {
    term: u64,
    live: BTreeSet<(u64, u32)>,
    leaders: Vec<(u64, hikyaku_storage::LeaderId)>,
    /// Checkpoints in the order written, with what they name.
    checkpoints: Vec<(LogId, BTreeSet<(u64, u32)>)>,
    sizes: BTreeMap<(u64, u32), usize>,
}

/// A body that can only be the one of this name in this replica.
fn body_of(owner: Option<u64>, index: u64, ordinal: u32, size: usize) -> Bytes {
    super::body(index + 1_000 * owner.unwrap_or(0), ordinal, size)
}

/// A history as it is played.
pub struct History {
    random: Random,
    groups: Vec<GroupId>,
    /// By group and owner: those of dropped replicas are kept, for a drop may be undone by a crash.
    machines: BTreeMap<Replica, Machine>,
    /// Whether replicas are dropped at all.
    drops: bool,
    /// The state after each submitted operation; the first is the empty one.
    pub states: Vec<ModelState>,
    /// Which state an outcome acknowledges.
    waiting: Vec<(usize, mpsc::Receiver<std::io::Result<()>>)>,
    /// The last state that was acknowledged.
    pub acknowledged: usize,
    /// Checkpoints known to be written, per group and owner.
    pub written: BTreeMap<Replica, usize>,
}

type Replica = (GroupId, Option<u64>);

impl History {
    pub fn new(seed: u64) -> History {
        let groups = vec![GroupId(1), GroupId(2), GroupId(3)];
        History {
            random: Random(seed),
            machines: BTreeMap::new(),
            groups,
            drops: false,
            states: vec![ModelState::new()],
            waiting: Vec::new(),
            acknowledged: 0,
            written: BTreeMap::new(),
        }
    }

    /// A history in which replicas are dropped and others follow, with the same indexes and terms.
    pub fn with_drops(seed: u64) -> History {
        History {
            drops: true,
            ..History::new(seed)
        }
    }

    fn now(&self) -> ModelState {
        self.states.last().unwrap().clone()
    }

    fn pick(&mut self) -> GroupId {
        // The third group is nearly idle.
        let at = [0, 0, 0, 0, 0, 1, 1, 1, 1, 2][self.random.below(10) as usize];
        self.groups[at]
    }

    /// Plays some steps; ends early when the disk is off.
    pub fn play(&mut self, sim: &Sim, steps: usize) {
        if self.drops {
            for group in self.groups.clone() {
                self.open(sim, group);
            }
        }
        for _ in 0..steps {
            if sim.disk.is_dead() {
                break;
            }
            if self.drops && self.random.below(5) == 0 {
                self.replace(sim);
                continue;
            }
            match self.random.below(12) {
                0..7 => self.burst(sim),
                7..10 => self.checkpoint(sim),
                10 => self.purge(sim),
                _ => sim.log.reclaim(),
            }
        }
        self.settle(sim);
    }

    fn burst(&mut self, sim: &Sim) {
        for _ in 0..1 + self.random.below(4) {
            let group = self.pick();
            match self.random.below(10) {
                0 => self.vote(sim, group),
                1 => self.truncate(sim, group),
                _ => self.append(sim, group),
            }
        }
        self.settle(sim);
    }

    /// Counts what was acknowledged.
    fn settle(&mut self, sim: &Sim) {
        for (state, receiver) in std::mem::take(&mut self.waiting) {
            match sim.wait(&receiver) {
                Some(Ok(())) => self.acknowledged = state,
                _ => return,
            }
        }
    }

    fn submitted(&mut self, state: ModelState, receiver: mpsc::Receiver<std::io::Result<()>>) {
        self.states.push(state);
        self.waiting.push((self.states.len() - 1, receiver));
    }

    fn append(&mut self, sim: &Sim, group: GroupId) {
        let mut entries = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let mut state = self.now();
            let model = state.entry(group).or_default();
            let entry = self.next_entry(model, group);
            entries.push(entry);
            // A long append may be there in part: every entry is a state of its own.
            self.states.push(state);
        }
        let (done, receiver) = outcome();
        sim.log.group(group).append(entries, done);
        self.waiting.push((self.states.len() - 1, receiver));
    }

    fn next_entry(&mut self, model: &mut ModelGroup, group: GroupId) -> Entry {
        let machine = self.machines.entry((group, model.owner)).or_default();
        let index = model.last.map_or(0, |last| last.index + 1);
        let term = machine
            .term
            .max(model.last.map_or(1, |last| last.leader.term));
        let sizes: Vec<usize> = (0..self.random.below(5))
            .map(|_| [3, 90, 700, 2500][self.random.below(4) as usize])
            .collect();
        for (ordinal, size) in sizes.iter().enumerate() {
            machine.live.insert((index, ordinal as u32));
            machine.sizes.insert((index, ordinal as u32), *size);
        }
        if machine
            .leaders
            .last()
            .is_none_or(|(_, leader)| *leader != id(term, 0).leader)
        {
            machine.leaders.push((index, id(term, 0).leader));
        }
        let mut entry = entry(term, index, &sizes);
        for (body, ordinal) in entry.bodies.iter_mut().zip(0..) {
            *body = body_of(model.owner, index, ordinal, body.len());
        }
        model.last = Some(entry.id);
        model.entries.insert(index, entry.clone());
        entry
    }

    fn owner(&self, group: GroupId) -> Option<u64> {
        self.states.last().unwrap().get(&group)?.owner
    }

    /// Drops a group's replica and opens the next one.
    fn replace(&mut self, sim: &Sim) {
        let group = self.pick();
        let mut state = self.now();
        state.remove(&group);
        self.states.push(state);
        self.done(sim.log.group(group).forget().is_ok());
        if self.random.below(2) == 0 {
            sim.log.reclaim();
        }
        self.open(sim, group);
    }

    fn open(&mut self, sim: &Sim, group: GroupId) {
        if sim.disk.is_dead() {
            return;
        }
        let replica = self.states.len() as u64;
        let mut state = self.now();
        state.entry(group).or_default().owner = Some(replica);
        self.states.push(state);
        self.done(sim.log.open_replica(group, replica).is_ok());
    }

    /// What was asked for last is answered.
    fn done(&mut self, acknowledged: bool) {
        if acknowledged {
            self.acknowledged = self.states.len() - 1;
        }
    }

    fn vote(&mut self, sim: &Sim, group: GroupId) {
        let mut state = self.now();
        let owner = self.owner(group);
        let machine = self.machines.entry((group, owner)).or_default();
        // Terms only rise: no leader writes an index twice.
        machine.term += 1;
        let vote = Bytes::from(format!("vote {}", self.states.len()));
        state.entry(group).or_default().vote = Some(vote.clone());
        let (done, receiver) = outcome();
        sim.log.group(group).save_vote(vote, done);
        self.submitted(state, receiver);
    }

    fn truncate(&mut self, sim: &Sim, group: GroupId) {
        let mut state = self.now();
        let model = state.entry(group).or_default();
        let machine = self.machines.entry((group, model.owner)).or_default();
        let floor = machine.checkpoints.last().map_or(0, |(at, _)| at.index);
        let Some(last) = model.last.filter(|last| last.index > floor) else {
            return;
        };
        let keep = floor + self.random.below(last.index - floor);
        let Some(kept) = model.entries.get(&keep).map(|entry| entry.id) else {
            return;
        };
        model.entries.retain(|index, _| *index <= keep);
        model.last = Some(kept);
        machine.live.retain(|(index, _)| *index <= keep);
        machine.leaders.retain(|(first, _)| *first <= keep);
        machine.term = machine.term.max(last.leader.term) + 1;
        let (done, receiver) = outcome();
        sim.log.group(group).truncate_after(Some(kept), done);
        self.submitted(state, receiver);
    }

    /// Deletes most of what is live and writes a checkpoint, at the end of the log or before it.
    fn checkpoint(&mut self, sim: &Sim) {
        let group = self.pick();
        if self.random.below(3) == 0 {
            // Applied, because it is on a quorum, but not durable here yet.
            self.append(sim, group);
        }
        let Some(last) = self.now().get(&group).and_then(|model| model.last) else {
            return;
        };
        let replica = (group, self.owner(group));
        let random = &mut self.random;
        let machine = self.machines.entry(replica).or_default();
        let floor = machine.checkpoints.last().map_or(0, |(at, _)| at.index);
        let back = random.below(2) * random.below(last.index - floor + 1);
        let index = last.index - back;
        let leader = machine
            .leaders
            .iter()
            .rfind(|(first, _)| *first <= index)
            .unwrap()
            .1;
        let at = LogId { leader, index };
        machine
            .live
            .retain(|(of, _)| *of > index || random.below(4) == 0);
        let live: BTreeSet<(u64, u32)> = machine
            .live
            .iter()
            .filter(|(of, _)| *of <= index)
            .copied()
            .collect();
        let checkpoint = checkpoint_of(at, &live, machine.leaders.clone());
        machine.checkpoints.push((at, live));
        if sim.log.group(group).write_checkpoint(checkpoint).is_ok() {
            self.written.insert(replica, machine.checkpoints.len());
        }
    }

    fn purge(&mut self, sim: &Sim) {
        let group = self.pick();
        let Some(upto) = sim.log.group(group).checkpoint_ids().first().copied() else {
            return;
        };
        let mut state = self.now();
        let model = state.entry(group).or_default();
        model.purged = Some(upto);
        model.entries.retain(|index, _| *index > upto.index);
        let (done, receiver) = outcome();
        sim.log.group(group).purge(upto, done);
        self.submitted(state, receiver);
    }

    /// What the log remembers, as a model state.
    pub fn recovered(&self, sim: &Sim) -> ModelState {
        let mut state = ModelState::new();
        for group in &self.groups {
            let remembered = sim.log.group(*group).state();
            let entries = sim
                .entries(*group)
                .into_iter()
                .map(|entry| (entry.id.index, entry))
                .collect();
            let model = ModelGroup {
                vote: remembered.vote,
                purged: remembered.last_purged,
                last: remembered.last,
                owner: remembered.owner,
                entries,
            };
            if model != ModelGroup::default() {
                state.insert(*group, model);
            }
        }
        state
    }

    /// Checks a log that was opened after a crash, and returns which state it has.
    pub fn check(&self, sim: &Sim) -> usize {
        let recovered = self.recovered(sim);
        let strip = |state: &ModelState| -> ModelState {
            let kept = state
                .iter()
                .filter(|(_, model)| **model != ModelGroup::default());
            kept.map(|(group, model)| (*group, model.clone())).collect()
        };
        let k = (self.acknowledged..self.states.len())
            .find(|k| strip(&self.states[*k]) == recovered)
            .unwrap_or_else(|| {
                panic!(
                    "no state from {} on explains what was recovered: {:?}\nacknowledged: {:?}",
                    self.acknowledged,
                    brief(&recovered),
                    brief(&self.states[self.acknowledged]),
                )
            });
        for group in &self.groups {
            self.check_bodies(sim, *group);
        }
        k
    }

    /// Purges every group as far as it may be, and returns the marks.
    pub fn purge_all(&self, sim: &Sim) -> BTreeMap<GroupId, LogId> {
        let mut purged = BTreeMap::new();
        for group in &self.groups {
            if let Some(upto) = sim.log.group(*group).checkpoint_ids().first() {
                assert!(sim.purge(*group, *upto));
                purged.insert(*group, *upto);
            }
        }
        purged
    }

    /// After a purge the checkpoint is all there is: it must be there, and what it names.
    pub fn check_purged(&self, sim: &Sim, purged: &BTreeMap<GroupId, LogId>) {
        for (id, upto) in purged {
            let group = sim.log.group(*id);
            assert_eq!(group.state().last_purged, Some(*upto));
            let newest = group.load_checkpoint().unwrap().unwrap();
            assert!(newest.id.index >= upto.index);
            self.check_bodies(sim, *id);
        }
    }

    /// Every kept checkpoint must be one that was written, whole, and all that it names readable.
    fn check_bodies(&self, sim: &Sim, id: GroupId) {
        let group = sim.log.group(id);
        let owner = group.state().owner;
        let kept = group.checkpoint_ids();
        let Some(machine) = self.machines.get(&(id, owner)) else {
            assert!(kept.is_empty(), "{kept:?} of nobody");
            return;
        };
        let must = self
            .written
            .get(&(id, owner))
            .map(|count| machine.checkpoints[count - 1].0);
        assert!(
            kept.last().map(|id| id.index) >= must.map(|id| id.index),
            "{kept:?} {must:?}"
        );
        for at in kept {
            // The same log id may have been checkpointed twice; the later one names less.
            let (_, live) = machine
                .checkpoints
                .iter()
                .rev()
                .find(|(id, _)| *id == at)
                .unwrap();
            for (index, ordinal) in live {
                let leader = machine
                    .leaders
                    .iter()
                    .rfind(|(first, _)| first <= index)
                    .unwrap()
                    .1;
                let name = LogId {
                    leader,
                    index: *index,
                };
                let read = group.read_body(name, *ordinal).unwrap_or_else(|error| {
                    panic!("group {id}: checkpoint {at} names a body that is lost: {error}")
                });
                let size = machine.sizes[&(*index, *ordinal)];
                assert_eq!(read, body_of(owner, *index, *ordinal, size));
            }
        }
    }
}

fn brief(state: &ModelState) -> Vec<String> {
    let line = |(group, model): (&GroupId, &ModelGroup)| {
        let ModelGroup {
            vote,
            purged,
            last,
            owner,
            entries,
        } = model;
        format!(
            "{group} of {owner:?} {vote:?} purged {purged:?} last {last:?} {:?}",
            entries.keys()
        )
    };
    state.iter().map(line).collect()
}

fn checkpoint_of(
    at: LogId,
    live: &BTreeSet<(u64, u32)>,
    leaders: Vec<(u64, hikyaku_storage::LeaderId)>,
) -> Checkpoint {
    let run = |(index, ordinal): &(u64, u32)| LiveRun {
        first_index: *index,
        entries: 1,
        ordinal: *ordinal,
        count: 1,
    };
    let state = Bytes::from(format!("state at {}", at.index));
    Checkpoint {
        id: at,
        meta: Bytes::new(),
        leaders,
        live: live.iter().map(run).collect(),
        state,
    }
}
