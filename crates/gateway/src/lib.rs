//! The SQS front: HTTP in, actions on the cluster, HTTP out.
//!
//! A request goes through [`Gateway`]: its route is read from method, path and headers, who
//! signed it is determined ([`Access`]), only then its body is read, parsed (`hikyaku-sqs`) and run by one file per action
//! under `actions`, which asks the cluster and says what every failure is to the client.
//!
//! What it promises: an acknowledged send is acknowledged by the cluster; a client that does not keep
//! to the limits is refused without harm to others; an orderly stop finishes what is under way.
//!
//! What is absent: the form of requests and answers (`hikyaku-sqs`), queues and messages
//! (`hikyaku-cluster`), and any state but counters.

mod access;
mod actions;
mod attributes;
mod authorisation;
mod call;
mod config;
mod connection;
mod connections;
mod dead_letters;
mod failure;
mod gateway;
mod ids;
mod listener;
mod metrics;
mod policies;
mod rates;
mod route;
mod stall;
mod tenant;
mod tls;
mod unproved;

pub use access::Access;
pub use config::{GatewayConfig, GatewayLimits, ShownQueue};
pub use gateway::Gateway;
pub use listener::{Listener, TcpFront, listen_tcp};
pub use metrics::MetricsSource;
