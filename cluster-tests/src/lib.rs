//! What the crash tests, the simulation and the measuring tools share.
//!
//! Nothing of this is part of the product.

pub mod black_box;
pub mod client;
pub mod history;
pub mod links;
pub mod measure;
pub mod memory;
pub mod operator;
pub mod process;
pub mod recorder;
pub mod workload;
