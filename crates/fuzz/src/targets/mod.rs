//! What is tried: each reader of bytes from outside, the front door first.

mod answers;
mod corpus;
mod door;
mod metadata;
mod names;
mod policies;
mod queue;
mod requests;
mod signer;
mod sigv4;
mod wire;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::memory::Bound;

/// A reader of bytes.
pub struct Target {
    pub name: &'static str,
    /// Inputs that it must accept as they are.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Pieces of which inputs are made.
    pub words: &'static [&'static str],
    /// What an input may cost.
    pub memory: Bound,
    /// Makes what reads an input, and panics when the input breaks a promise.
    pub judge: fn() -> Judge,
}

/// Reads one input after the other.
pub type Judge = Box<dyn FnMut(&[u8]) -> Seen>;

/// What became of an input.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub accepted: bool,
    /// Differs where the reader took another way, as far as that shows.
    pub kind: u64,
}

impl Seen {
    /// It was read to its end.
    pub fn accepted(kind: impl Hash) -> Self {
        Self {
            accepted: true,
            kind: hash(kind),
        }
    }

    /// It was refused with this text, which may repeat parts of it.
    pub fn refused(text: &str) -> Self {
        // The words that the reader chose begin the text and end it.
        let letters: Vec<u8> = text.bytes().filter(u8::is_ascii_alphabetic).collect();
        let (begin, end) = (letters.len().min(12), letters.len().saturating_sub(16));
        Self {
            accepted: false,
            kind: hash((&letters[..begin], &letters[end..])),
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The order of magnitude of a number.
fn magnitude(number: usize) -> u32 {
    number.checked_ilog2().map_or(0, |log| log + 1)
}

/// All of them.
pub const TARGETS: &[Target] = &[
    requests::JSON,
    requests::QUERY,
    sigv4::HEADER,
    sigv4::PRESIGNED,
    names::NAMES,
    policies::POLICIES,
    door::RECEIPT_HANDLES,
    door::STORED_MESSAGES,
    queue::CHECKPOINTS,
    queue::ENTRIES,
    queue::VALUES,
    metadata::CHECKPOINTS,
    metadata::ENTRIES,
    metadata::VALUES,
    wire::MESSAGES,
];
