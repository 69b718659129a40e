//! Access policies: who may do what to a queue.
//!
//! A policy is the JSON document that the attribute `Policy` holds. [`permission`] adds a statement to
//! it and takes one out, as `AddPermission` and `RemovePermission` do.

pub mod permission;
mod wire;
