//! Signatures as clients make them: AWS's own test suite, AWS's own signer, and everything that is
//! nearly right.

#![expect(clippy::unwrap_used, reason = "a refused unwrap is how a test fails")]

mod mutants;
mod refusals;
mod request;
mod robustness;
mod signer;
mod telling;
mod vectors;
