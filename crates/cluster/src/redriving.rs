//! The metadata leader's part in message move tasks: it has partitions move dead letters back, a few at
//! a time and no faster than each task allows, tells the metadata how far they are, and has places made
//! for what has none (SQS-CONTRACT section 9).
//!
//! One place paces a task, so that its rate holds over all partitions. What was moved is counted by
//! each partition with the move itself, so a new leader just goes on; it may not know how much was moved
//! in the last moment, and begins its pace anew. Everything here may be repeated without harm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use hikyaku_metadata::{
    Command, Envelope, MOVE_TASK_LIFE_MS, Metadata, MoveProgress, MoveStatus, MoveTaskBlocked,
    MoveTaskReported,
};
use hikyaku_queue::{MoveTaskId, Operation, PartitionId, QueueId, Reply, RequestId};
use hikyaku_raft::Group;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::control::ControlPlane;
use crate::machines::MetadataMachine;
use crate::ports::Entropy;
use crate::router::{CallError, Request, Router};

/// How often tasks with a rate have their turn; others have it again as soon as they got on.
const TICK: Duration = Duration::from_millis(100);

/// How often it is looked for tasks when nothing calls for it.
const INTERVAL: Duration = Duration::from_secs(1);

/// Tasks that have their turn at once.
const TASKS_AT_ONCE: usize = 16;

/// Messages moved by one command: what a partition moves within one entry at most.
const STEP: u8 = 100;

/// Commands in a row for one partition in one turn.
const STEPS_IN_A_TURN: usize = 10;

/// What a task may catch up on, as a time at its rate.
const BURST_MS: u64 = 1_000;

/// How often a task's progress is told to the metadata.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long one command may hold up a turn: a partition without a leader must not keep others waiting.
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// First pause of a partition that has nothing to move just now, and the last: what is in flight comes
/// back after seconds or hours, and each look costs an entry of the log.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(10);

/// How long the commands to the metadata may stay on their way, in T.
const BUDGET_MS: u64 = 20_000;

/// The duty. Runs where a replica of the metadata is, acts only where the leader is.
pub struct Redriver {
    /// The metadata.
    pub group: Group<MetadataMachine>,
    /// Who leads them, and how they are told.
    pub control: Arc<ControlPlane>,
    /// The way to partitions.
    pub router: Arc<Router>,
    /// Where request ids come from.
    pub entropy: Arc<dyn Entropy>,
}

/// An active task, as the metadata have it.
struct Task {
    queue: QueueId,
    /// The version of the descriptor that orders the moves.
    version: u64,
    id: MoveTaskId,
    rate: Option<u16>,
    runs: bool,
    ends_at_ms: u64,
    /// Partitions that are not done, with what they moved.
    partitions: Vec<(PartitionId, u64)>,
}

/// What is remembered of a task from turn to turn.
struct Pace {
    turn_at: Instant,
    /// Thousandths of messages that the rate allows by now.
    credit: u64,
    /// Partitions that rest, until when and for how long.
    resting: BTreeMap<PartitionId, (Instant, Duration)>,
    /// What partitions said since the last report.
    said: BTreeMap<PartitionId, MoveProgress>,
    reported_at: Instant,
    turns: usize,
}

/// What one command to a partition came to.
enum Step {
    Moved { messages: u8, done: bool },
    Nothing,
}

impl Redriver {
    /// Runs until `stop` is true, or the replica is gone.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut applied = self.group.watch_applied();
        let mut paces: BTreeMap<MoveTaskId, Pace> = BTreeMap::new();
        loop {
            applied.borrow_and_update();
            let tasks = self.tasks();
            paces.retain(|id, _| tasks.iter().any(|task| task.id == *id));
            let idle = tasks.is_empty();
            // A turn that is cut off is found again in the replicated state.
            let got_on = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                got_on = self.turn(tasks, &mut paces) => got_on,
            };
            if applied.has_changed().is_err() {
                return;
            }
            if got_on {
                tokio::task::yield_now().await;
                continue;
            }
            let pause = if idle { INTERVAL } else { TICK };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                changed = applied.changed(), if idle => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The active tasks, if this node leads the metadata.
    fn tasks(&self) -> Vec<Task> {
        match self.control.leads() {
            Some(_) => self.group.with_machine(|machine| active(&machine.0)),
            None => Vec::new(),
        }
    }

    /// Gives every task its turn; says whether one has more to do at once.
    async fn turn(&self, tasks: Vec<Task>, paces: &mut BTreeMap<MoveTaskId, Pace>) -> bool {
        let turns = tasks.into_iter().map(|task| {
            let pace = paces.remove(&task.id).unwrap_or_else(Pace::new);
            self.task_turn(task, pace)
        });
        let turns: Vec<_> = turns.collect();
        let mut turns = futures_util::stream::iter(turns).buffer_unordered(TASKS_AT_ONCE);
        let mut got_on = false;
        while let Some((id, pace, more)) = turns.next().await {
            got_on |= more;
            paces.insert(id, pace);
        }
        got_on
    }

    async fn task_turn(&self, task: Task, mut pace: Pace) -> (MoveTaskId, Pace, bool) {
        let now = Instant::now();
        if let Some(rate) = task.rate.filter(|_| task.runs) {
            if now < pace.turn_at + TICK {
                return (task.id, pace, false);
            }
            pace.earn(u64::from(rate), now);
        }
        let places = task.partitions.len().max(1);
        pace.turns = (pace.turns + 1) % places;
        let mut got_on = false;
        let (front, back) = task
            .partitions
            .split_at(pace.turns.min(task.partitions.len()));
        for (partition, _) in back.iter().chain(front) {
            got_on |= self.partition_turn(&task, &mut pace, *partition).await;
        }
        self.report(&task, &mut pace).await;
        let more = got_on && task.rate.is_none() && task.runs;
        (task.id, pace, more)
    }

    /// Has one partition move what it may; says whether it moved something.
    async fn partition_turn(&self, task: &Task, pace: &mut Pace, at: PartitionId) -> bool {
        let rests = |(until, _): &(Instant, Duration)| Instant::now() < *until;
        if pace.resting.get(&at).is_some_and(rests) {
            return false;
        }
        let mut moved_some = false;
        for _ in 0..STEPS_IN_A_TURN {
            let max = pace.allowance(task);
            if max == 0 && task.runs {
                break;
            }
            match self.step(task, pace, at, max).await {
                Step::Moved { messages, done } => {
                    pace.resting.remove(&at);
                    moved_some |= messages > 0;
                    if done {
                        break;
                    }
                }
                Step::Nothing => {
                    pace.rest(at);
                    break;
                }
            }
        }
        moved_some
    }

    async fn step(&self, task: &Task, pace: &mut Pace, at: PartitionId, max: u8) -> Step {
        let request = Request {
            partition: at,
            queue: task.queue,
            descriptor_version: task.version,
            operation: Operation::MoveBack { task: task.id, max },
            bodies: Vec::new(),
            wait: Duration::ZERO,
        };
        let called = tokio::time::timeout(STEP_LIMIT, self.router.call(&request)).await;
        let called = called.unwrap_or(Err(CallError::Unavailable { no_effect: false }));
        match called.map(|routed| routed.reply) {
            Ok(Reply::MovedBack { now, total, done }) => {
                pace.spend(task, now);
                let progress = MoveProgress { moved: total, done };
                pace.said.insert(at, progress);
                match now == 0 && !done {
                    true => Step::Nothing,
                    false => Step::Moved {
                        messages: now,
                        done,
                    },
                }
            }
            Ok(Reply::MoveBlocked(obstacle)) => {
                let blocked = MoveTaskBlocked {
                    queue: task.queue,
                    task: task.id,
                    partition: at,
                    obstacle,
                };
                self.execute(Command::MoveTaskBlocked(blocked)).await;
                Step::Nothing
            }
            // The task or the queue has another state by now.
            Ok(_) | Err(CallError::QueueGone) => Step::Nothing,
            Err(error) => {
                tracing::warn!(queue = ?task.queue, partition = at.0, %error, "messages not moved yet");
                Step::Nothing
            }
        }
    }

    /// Tells the metadata what partitions said, at once when one is done and else now and then.
    async fn report(&self, task: &Task, pace: &mut Pace) {
        let known = |(at, said): (&PartitionId, &MoveProgress)| {
            let before = task
                .partitions
                .iter()
                .find(|(partition, _)| partition == at);
            !said.done && before.is_some_and(|(_, moved)| *moved == said.moved)
        };
        let done = pace.said.values().any(|said| said.done);
        let late = self
            .control
            .now_ms()
            .is_some_and(|now| now >= task.ends_at_ms);
        let due = Instant::now() >= pace.reported_at + REPORT_INTERVAL;
        let news = !pace.said.iter().all(known) || (late && task.runs);
        if done || (due && news) {
            pace.reported_at = Instant::now();
            let said = std::mem::take(&mut pace.said);
            let reported = MoveTaskReported {
                queue: task.queue,
                task: task.id,
                progress: said.into_iter().collect(),
            };
            self.execute(Command::MoveTaskReported(reported)).await;
        }
    }

    /// If this fails, another leader does the duty.
    async fn execute(&self, command: Command) {
        let Some(now_ms) = self.control.now_ms() else {
            return;
        };
        let envelope = Envelope {
            request_id: RequestId(self.entropy.draw_u128()),
            not_after: now_ms + BUDGET_MS,
            command,
        };
        if self.control.execute_here(&envelope).await.is_err() {
            tracing::debug!("no longer leads the metadata in the midst of a move task");
        }
    }
}

fn active(metadata: &Metadata) -> Vec<Task> {
    let tasks = metadata.moving().filter_map(|record| {
        let task = record.active_move()?;
        let progress = |at| task.progress.get(&at).copied().unwrap_or_default();
        let partitions = record.descriptor.visited();
        let partitions = partitions.map(|at| (at, progress(at)));
        let partitions = partitions.filter(|(_, progress)| !progress.done);
        Some(Task {
            queue: record.descriptor.id,
            version: record.descriptor.version,
            id: task.id,
            rate: task.rate,
            runs: task.status == MoveStatus::Running,
            ends_at_ms: task.started_at_ms.saturating_add(MOVE_TASK_LIFE_MS),
            partitions: partitions.map(|(at, it)| (at, it.moved)).collect(),
        })
    });
    tasks.collect()
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            turn_at: now,
            credit: 0,
            resting: BTreeMap::new(),
            said: BTreeMap::new(),
            reported_at: now,
            turns: 0,
        }
    }

    /// Adds what the rate allows since the last turn.
    fn earn(&mut self, rate: u64, now: Instant) {
        let since = now.saturating_duration_since(self.turn_at);
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(BURST_MS);
        self.turn_at = now;
        self.credit += since_ms.min(BURST_MS) * rate;
        // Never less than one message, or a slow task would not move at all.
        self.credit = self.credit.min(rate * BURST_MS);
    }

    fn allowance(&self, task: &Task) -> u8 {
        match task.rate {
            _ if !task.runs => 0,
            None => STEP,
            Some(_) => u8::try_from(self.credit / 1_000)
                .unwrap_or(u8::MAX)
                .min(STEP),
        }
    }

    fn spend(&mut self, task: &Task, messages: u8) {
        if task.rate.is_some() {
            self.credit = self.credit.saturating_sub(u64::from(messages) * 1_000);
        }
    }

    fn rest(&mut self, at: PartitionId) {
        let before = self.resting.get(&at);
        let pause = before.map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(LAST_PAUSE));
        self.resting.insert(at, (Instant::now() + pause, pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(rate: Option<u16>) -> Task {
        Task {
            queue: QueueId(1),
            version: 1,
            id: MoveTaskId(1),
            rate,
            runs: true,
            ends_at_ms: 0,
            partitions: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_earned_with_time_and_not_hoarded() {
        let (task, mut pace) = (task(Some(3)), Pace::new());
        let mut moved = 0;
        for _ in 0..100 {
            tokio::time::advance(TICK).await;
            pace.earn(3, Instant::now());
            let may = pace.allowance(&task);
            pace.spend(&task, may);
            moved += u32::from(may);
        }
        assert_eq!(moved, 30, "three a second for ten seconds");
        tokio::time::advance(Duration::from_secs(3_600)).await;
        pace.earn(3, Instant::now());
        assert_eq!(pace.allowance(&task), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_without_a_rate_moves_a_step_at_a_time_and_a_halted_one_nothing() {
        let mut task = task(None);
        assert_eq!(Pace::new().allowance(&task), STEP);
        task.runs = false;
        assert_eq!(Pace::new().allowance(&task), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_with_nothing_to_move_is_asked_more_and_more_seldom() {
        let (at, mut pace) = (PartitionId(1), Pace::new());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pace.rest(at);
            pauses.push(pace.resting[&at].1);
        }
        assert!(pauses.is_sorted());
        assert_eq!((pauses[0], pauses[7]), (FIRST_PAUSE, LAST_PAUSE));
    }
}
