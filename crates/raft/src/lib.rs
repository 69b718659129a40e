//! Many Raft groups on one node.
//!
//! The only crate that knows openraft. Above it there are groups that take entries ([`Group::submit`]),
//! answer when an entry is applied on this node, and say who leads; below it there is one shared log
//! (`hikyaku-storage`) and a way to reach other nodes ([`Net`]).
//!
//! What it promises:
//! - an entry is answered only after a quorum has it on disk and this node has applied it;
//! - entries submitted one after the other by one caller are appended in that order;
//! - a machine sees every entry once, in order, and never a clock;
//! - a group whose core died is opened again from disk, and its waiting callers learn that the
//!   outcome of their entry is unknown;
//! - a message body that is damaged on this disk is fetched from another replica; a replica whose
//!   votes or entries are damaged stops and is never opened again under its id.
//!
//! What is absent: batching (the caller packs commands into entries), retries (the caller has the
//! request id), and any knowledge of queues.

mod codec;
mod config;
mod directory;
mod group;
mod healing;
mod hosting;
mod leaders;
mod log_store;
mod machine;
mod maintenance;
mod members;
mod network;
mod node;
mod pipeline;
mod pulse;
mod snapshot;
mod state_machine;
#[cfg(test)]
mod suite;
mod transport;
mod types;

pub use config::RaftConfig;
pub use group::{Applied, Barrier, Group, Leadership, ProposeError, Submitted};
/// A run of live bodies, as [`Machine::live_runs`] gives them; and why a body cannot be read.
pub use hikyaku_storage::{LiveRun, ReadError};
pub use hosting::{DropGroupError, GroupSpec, OpenGroupError};
pub use machine::{GroupClock, Machine, MachineError};
pub use members::{Members, MembersError, Replica, TransferError};
pub use node::RaftNode;
pub use transport::calls::{NodeCalls, PeerError};
pub use transport::clocks::WallClock;
pub use transport::founding::{FoundingCalls, FoundingError, FoundingPeers};
pub use transport::identity::{Identity, OtherCluster};
pub use transport::net::{BoxedStream, Net};
pub use transport::peers::Peers;
pub use transport::stats::{LaneStats, TransportStats};
pub use transport::tls::{
    Credentials, CredentialsError, PeerCertificate, SecureNet, certificate_name,
};
