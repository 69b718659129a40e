//! What the crash tests, the simulation and the measuring tools share.
//!
//! Nothing of this is part of the product.

pub mod ledger;
