//! The Query dialect: forms in, XML out.

mod answers;
mod names;
mod requests;
mod robustness;
