//! Messages between nodes, and those of an operator: the `.proto` files and the code generated from them.
//!
//! The generated code is committed so that a build needs no `protoc`; the test `generated` makes it
//! anew and fails when it differs. To regenerate: `HIKYAKU_REGENERATE=1 cargo test -p hikyaku-proto`.
//!
//! What is sent is a promise: field numbers are never reused and meanings never change.

#[expect(missing_docs, reason = "generated; the .proto files carry the documentation")]
#[expect(clippy::allow_attributes_without_reason, reason = "generated")]
#[rustfmt::skip]
pub mod admin;

#[expect(missing_docs, reason = "generated; the .proto files carry the documentation")]
#[expect(clippy::allow_attributes_without_reason, reason = "generated")]
#[rustfmt::skip]
pub mod founding;

#[expect(missing_docs, reason = "generated; the .proto files carry the documentation")]
#[expect(clippy::allow_attributes_without_reason, reason = "generated")]
#[rustfmt::skip]
pub mod node;
