//! Access policies: who may do what.
//!
//! A [`QueuePolicy`] is what the attribute `Policy` of a queue holds, an [`IdentityPolicy`] what an
//! operator gives to an access key. Both are read once, whole: an element, action, operator or key of a
//! condition that is not known here refuses the document, since what is skipped might be what forbids.
//! [`Asked`] is a request, and decides by both. [`permission`] adds a statement to a queue's policy and
//! takes one out, as `AddPermission` and `RemovePermission` do.
//!
//! Never here: which queue it is, or what a client is told of a refusal.

mod condition;
mod context;
mod decide;
mod document;
mod fault;
mod pattern;
pub mod permission;
mod permitted;
mod principal;
mod wire;

pub use context::Surroundings;
pub use decide::{Asked, Decision, Where};
pub use document::{IdentityPolicy, QueuePolicy};
pub use fault::PolicyFault;
pub use principal::Principal;
