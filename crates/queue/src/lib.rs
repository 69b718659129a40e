//! The data plane's state machine: what a partition does with the messages of its queues.
//!
//! A [`Partition`] is the replicated state of one Raft group. It applies log entries of commands
//! and answers them; every replica that applies the same entries has the same state and gives the
//! same answers. It is pure and synchronous: no clock (time is T, which entries carry), no
//! randomness, no hash order, no floating point, no I/O. It never sees a message body: it says
//! *which* message to deliver, by [`Name`], and others read the body.
//!
//! Start with [`Partition::apply_entry`]. `slice.rs` has the state of one queue, `standard.rs` and
//! `fifo.rs` the two kinds, `operation/` one file per operation.

mod attempts;
mod codec;
mod command;
mod deduplication;
mod dense;
mod descriptor;
mod fair;
mod fifo;
mod handle;
mod held;
mod ids;
mod moved;
mod operation;
mod parting;
mod partition;
mod reply;
mod requests;
mod runs;
mod slice;
mod standard;

pub use codec::DecodeError;
pub use command::{
    Command, LATEST_T, Operation, SendMessage, VisibilityChange, decode_head, encode_head,
};
pub use descriptor::{DeduplicationScope, Descriptor, MoveOrder, QueueKind, QueueState, Redrive};
pub use handle::{HandleKey, HandleSealer, InvalidHandle, ReceiptHandle};
pub use ids::{MessageId, MoveTaskId, Name, PartitionId, QueueId, RequestId};
pub use partition::{Applied, Counts, LiveRun, Partition, QuietCounts};
pub use reply::{
    ChangeVisibilityError, DeleteError, Delivery, Effects, MoveObstacle, Origin, Outcome, Reply,
    SendError, Sent,
};
