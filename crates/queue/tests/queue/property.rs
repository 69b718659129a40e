//! Random scripts against the model, and against a twin that is written and read after each entry.

use hikyaku_queue::{Command, Name, Operation, Outcome, Partition, QueueId, Reply, encode_head};
use proptest::prelude::*;

use crate::model::{Model, PARTITION};
use crate::script::{Entry, QUEUES, Script, fair_scripts, scripts};
use crate::support::{MINUTE, SECOND};

struct Run {
    partition: Partition,
    /// Restored from a checkpoint at every index; must never be told apart.
    twin: Partition,
    model: Model,
    script: Script,
    index: u64,
    now: u64,
}

impl Run {
    fn new() -> Self {
        Self {
            partition: Partition::new(PARTITION),
            twin: Partition::new(PARTITION),
            model: Model::default(),
            script: Script::new(),
            index: 0,
            now: 1_000 * MINUTE,
        }
    }

    fn entry(&mut self, entry: &Entry) {
        self.now += entry.advance;
        let commands: Vec<Command> = entry
            .acts
            .iter()
            .filter_map(|act| self.script.command(self.now, act))
            .collect();
        let replies = self.apply(&commands);
        for (command, reply) in commands.iter().zip(replies) {
            let needed = match reply {
                Reply::DescriptorNeeded { .. } => command.queue,
                Reply::TargetNeeded { target } => target,
                _ => continue,
            };
            let put = self.script.put(needed);
            self.apply(&[put, command.clone()]);
        }
    }

    fn apply(&mut self, commands: &[Command]) -> Vec<Reply> {
        self.index += 1;
        let asked = self.ask_before(commands);
        let is_retry = commands
            .iter()
            .any(|command| self.model.has_answered(command.request_id));
        let head = encode_head(self.now, commands);
        let outcomes = self.partition.apply_entry(self.index, &head).unwrap();
        let replies: Vec<Reply> = outcomes
            .iter()
            .map(|outcome| outcome.reply.clone())
            .collect();
        let expected = self.model.apply_entry(self.index, self.now, commands);
        assert_eq!(replies, expected, "replies to {commands:#?}");
        self.partition.validate();
        if let (Some((candidate, repeatable)), [Reply::Received(found)]) = (asked, &replies[..]) {
            let answered = found.is_empty() || candidate || repeatable;
            assert!(answered, "the leader would not have proposed {commands:?}");
        }
        if !is_retry {
            self.check_wake_up(commands, &outcomes);
        }
        self.check_against_model(commands);
        self.check_twin(&head, &outcomes);
        for (command, reply) in commands.iter().zip(&replies) {
            self.script.note(command.request_id, reply);
        }
        replies
    }

    /// What the leader would find out before proposing a lone receive that is not a retry.
    fn ask_before(&self, commands: &[Command]) -> Option<(bool, bool)> {
        let [
            Command {
                queue,
                operation: Operation::Receive { attempt_id, .. },
                ..
            },
        ] = commands
        else {
            return None;
        };
        let candidate = self.partition.has_candidate(*queue, self.now);
        let repeatable = attempt_id
            .as_ref()
            .is_some_and(|id| self.partition.is_repeatable(*queue, id, self.now));
        let retried = commands
            .iter()
            .any(|command| self.model.has_answered(command.request_id));
        (!retried).then_some((candidate, repeatable))
    }

    /// After commands that took effect, whoever waits must hear of what can be received.
    fn check_wake_up(&self, commands: &[Command], outcomes: &[Outcome]) {
        let woken = |queue| {
            outcomes
                .iter()
                .any(|o| o.effects.receivable.contains(&queue))
        };
        for queue in &self.model.arrived {
            if self.partition.has_candidate(*queue, self.now) {
                assert!(woken(*queue), "arrivals by {commands:#?}");
            }
        }
        for (command, outcome) in commands.iter().zip(outcomes) {
            let took_effect = matches!(
                outcome.reply,
                Reply::Sent(_) | Reply::Deleted(_) | Reply::VisibilityChanged(_) | Reply::Returned
            );
            if took_effect && self.partition.has_candidate(command.queue, self.now) {
                assert!(woken(command.queue), "effects of {commands:#?}");
            }
        }
    }

    fn check_against_model(&self, commands: &[Command]) {
        for command in commands {
            let counts = self.partition.counts(command.queue, self.partition.now());
            let expected = self
                .model
                .queue(command.queue)
                .map(|q| q.counts(self.model.now));
            assert_eq!(counts, expected, "counts after {commands:#?}");
        }
        for id in QUEUES {
            let held = self.partition.descriptor(id);
            assert_eq!(held, self.model.queue(id).map(|queue| &queue.descriptor));
            self.check_next_deadline(id);
        }
        let live = self.partition.live_runs().into_iter().flat_map(|run| {
            (0..run.entries).flat_map(move |entry| {
                (0..run.count).map(move |nth| Name {
                    index: run.first_index + entry,
                    ordinal: run.ordinal + nth,
                })
            })
        });
        let mut expected: Vec<Name> = self.model.queues.iter().flat_map(|q| q.bodies()).collect();
        expected.sort();
        // Runs over several entries may interleave.
        let mut live: Vec<Name> = live.collect();
        live.sort();
        assert_eq!(live, expected);
    }

    /// Nothing becomes receivable by time alone before the deadline the leader waits for.
    fn check_next_deadline(&self, queue: QueueId) {
        if self.partition.has_candidate(queue, self.now) {
            return;
        }
        let next = self.partition.next_deadline(queue, self.now);
        let before = next.unwrap_or(self.now + 60 * MINUTE) - 1;
        assert!(
            !self.partition.has_candidate(queue, before),
            "{queue} before {next:?}"
        );
        assert!(
            !self
                .partition
                .has_candidate(queue, before.min(self.now + SECOND))
        );
    }

    fn check_twin(&mut self, head: &[u8], outcomes: &[Outcome]) {
        assert_eq!(self.twin.apply_entry(self.index, head).unwrap(), outcomes);
        let state = self.partition.encode();
        assert_eq!(self.twin.encode(), state);
        self.twin = Partition::decode(&state).unwrap();
        assert_eq!(self.twin.encode(), state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model_and_with_its_restored_self(script in scripts()) {
        let mut run = Run::new();
        script.iter().for_each(|entry| run.entry(entry));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model_about_noisy_groups(script in fair_scripts()) {
        let mut run = Run::new();
        script.iter().for_each(|entry| run.entry(entry));
    }
}
