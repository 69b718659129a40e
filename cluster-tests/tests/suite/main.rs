//! Everything that is tested across crates, in one binary: the architecture, crashes of the real
//! process, and the clients people use.

mod architecture;
mod bench;
mod chaos;
mod cluster;
mod damage;
mod ends;
mod kill;
mod operator;
mod peer_tls;
mod power;
mod sdk;
mod sled;
mod tenants;
