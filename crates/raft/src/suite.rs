//! openraft's own storage suite against our log and state machine.

use std::sync::Arc;

use hikyaku_storage::{GroupId, LiveRun, Log, LogConfig, SimDisk, Work};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};

use crate::log_store::LogStore;
use crate::machine::{Machine, MachineError};
use crate::state_machine::{AnyMachine, Hosted, StateMachine};
use crate::types::TypeConfig;

/// Counts the entries it was given.
#[derive(Default)]
struct Counter(u64);

impl Machine for Counter {
    type Reply = u64;

    fn apply(&mut self, _index: u64, _head: &[u8]) -> Result<u64, MachineError> {
        self.0 += 1;
        Ok(self.0)
    }

    fn live_runs(&self) -> Vec<LiveRun> {
        Vec::new()
    }

    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError> {
        let bytes = state
            .try_into()
            .map_err(|_| MachineError("not a counter".to_owned()))?;
        self.0 = u64::from_be_bytes(bytes);
        Ok(())
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, Log> for Builder {
    async fn build(&self) -> Result<(Log, LogStore, StateMachine), StorageError<TypeConfig>> {
        let disk = Arc::new(SimDisk::new(1));
        let log = Log::open(disk, LogConfig::small(), Work::Thread).expect("an empty disk opens");
        let group = log.group(GroupId(1));
        let machine: Arc<dyn AnyMachine> = Arc::new(Hosted::new(Box::new(Counter::default)));
        let store = LogStore::new(group.clone(), Work::Thread, 1 << 20, None);
        let generation = machine.reset(None).expect("an empty machine");
        Ok((
            log,
            store,
            StateMachine {
                machine,
                generation,
                log: group,
                work: Work::Thread,
            },
        ))
    }
}

#[tokio::test]
async fn the_storage_suite_passes() {
    Suite::test_all(Builder).await.expect("every case passes");
}

/// A core that died may leave applies behind; they must not reach the machine that was opened again.
#[test]
fn a_superseded_core_cannot_change_the_machine() {
    let hosted = Hosted::new(Box::new(Counter::default));
    let before = hosted.reset(None).expect("empty");
    let entry = |index| crate::types::Entry {
        log_id: crate::types::LogId::new(crate::types::CommittedLeaderId::new(1), index),
        payload: openraft::EntryPayload::Blank,
    };
    hosted.apply(before, &entry(0)).expect("in its generation");
    let after = hosted.reset(None).expect("empty");
    assert!(hosted.apply(before, &entry(1)).is_err());
    assert!(hosted.install(before, None).is_err());
    let mut written = false;
    let late = hosted.in_turn(before, &mut || {
        written = true;
        Ok(())
    });
    assert!(late.is_err() && !written);
    assert!(
        hosted.applied_state().0.is_none(),
        "nothing of the old core came through"
    );
    hosted.apply(after, &entry(0)).expect("in its generation");
}
