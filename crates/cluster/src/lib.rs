//! This node's part in the cluster: router, hosted partitions, control plane, clock.
//!
//! A request enters through [`Node`]: `queues` for queues themselves, `messages` for their messages.
//! The router finds the partition's leader, here or one hop away; the partition's task proposes
//! commands and answers from what apply returns.
//!
//! What it promises: a command keeps its request id and partition on every attempt; an answer means
//! that a quorum has the command on disk and it was applied; a long poll costs no log entry while
//! there is nothing to receive.
//!
//! What is absent: the SQS protocol (gateway), consensus (raft), files (storage, behind raft).

mod barriers;
mod calls;
mod catalogue;
mod clock;
mod control;
mod driver;
mod founding;
mod growth;
mod handing_over;
mod hosting;
mod machines;
mod memory;
mod messages;
mod node;
mod partition;
mod placing;
mod ports;
mod queues;
mod redriving;
mod router;
mod seats;
mod survey;
mod tenants;
mod watch;
mod wishes;

pub use catalogue::{Catalogue, CatalogueCopy, CopyUpdate, MemoryCopy, Pairs};
pub use control::{ControlPlane, ControlUnavailable};
pub use founding::{
    AlreadyFounded, Founded, Founding, FoundingSettings, FoundingVolume, Stage, find_cluster,
};
pub use handing_over::HandedOver;
pub use messages::{
    HandleError, Outgoing, ReceiveError, ReceiveRequest, Received, Redriven, SendFailure,
};
pub use node::{Node, NodeParts, NodeSettings, StartError};
pub use partition::{HostLimits, PartitionHandle};
pub use ports::{Clock, Entropy, SystemClock, SystemEntropy, ToldClock};
pub use queues::ControlError;
pub use router::{CallError, Router};
pub use survey::Survey;
