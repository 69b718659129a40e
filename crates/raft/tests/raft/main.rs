//! Groups as the rest of the product sees them: one node, and three over a network that misbehaves.

mod group;
mod healing;
mod membership;
mod placement;
mod replication;
mod snapshots;
mod support;
mod tls;
mod wires;
