//! A hosted partition: the leader's side of one Raft group.
//!
//! One task per partition owns everything here. It gathers waiting commands into entries, keeps a
//! few entries under way, answers callers from what apply returns, fetches descriptors the slice
//! lacks, and grants long polls in the order they arrived. On a follower it only says who leads.
//!
//! Invariants: a command is answered once; a long poll proposes nothing until its queue has a
//! candidate; a delivery whose client has gone is handed back uncounted; a receive that was given up
//! hands nothing out.

mod batch;
mod given_up;
mod handle;
mod host;
mod parking;
mod traffic;
mod unseen;

pub use handle::{Delivered, PartitionHandle};
pub use host::{
    DescriptorSource, HEAR_VOTERS_INTERVAL, HEAR_VOTERS_LIMIT, Host, HostLimits, HostParts,
    MetadataUnreachable,
};
pub use traffic::{BUSY_WAITING, Busy};
pub use unseen::Unseen;

use bytes::Bytes;
use hikyaku_queue::{Command, Operation, Reply};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A command on its way through the leader.
pub struct Call {
    /// What to do.
    pub command: Command,
    /// One per message of a send.
    pub bodies: Vec<Bytes>,
    /// A receive that finds nothing waits until then.
    pub wait_until: Option<Instant>,
    /// Whether this is a parked poll under grant.
    pub granted: bool,
    /// Where the answer goes; `None` for a call of the leader's own.
    pub answer: Option<oneshot::Sender<Result<Answered, SubmitError>>>,
}

impl Call {
    /// Whether its caller has gone. A call of the leader's own has none that could.
    fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// Whether it only wants to know when its queue has something to hand out. Such a receive asks for no
    /// message and repeats no attempt; it is answered, always without messages, and never proposed.
    fn looks(&self) -> bool {
        is_look(&self.command.operation)
    }

    fn finish(self, result: Result<Answered, SubmitError>) {
        if let Some(answer) = self.answer {
            // A caller that has gone needs no answer; deliveries dropped here are handed back.
            drop(answer.send(result));
        }
    }
}

/// Whether a receive only looks for what there is.
pub fn is_look(operation: &Operation) -> bool {
    let Operation::Receive {
        max: 0, attempt_id, ..
    } = operation
    else {
        return false;
    };
    attempt_id.is_none()
}

/// What the machine answered, and its T then.
pub struct Answered {
    /// The answer. A receive's deliveries are in `unseen` instead.
    pub reply: Reply,
    /// What a receive handed out.
    pub unseen: Option<Unseen>,
    /// T when the command was applied, or when an empty receive was found to be empty; milliseconds.
    pub now_ms: u64,
}

/// A call of the leader's own: nobody waits for its answer.
fn own_call(command: Command) -> Call {
    Call {
        command,
        bodies: Vec::new(),
        wait_until: None,
        granted: false,
        answer: None,
    }
}

/// Why a command was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Ask the leader.
    #[error("not the leader; the leader's node is {leader_node:?}")]
    NotLeader {
        /// The leader's node, when known.
        leader_node: Option<u64>,
        /// Whether this attempt certainly had no effect.
        no_effect: bool,
    },
    /// More waits than this leader can take, or its memory budget is used up. No effect.
    #[error("the partition is overloaded")]
    Overloaded,
    /// No room for new bodies. No effect.
    #[error("the disk is full")]
    DiskFull,
}
