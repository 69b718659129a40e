//! Numbers that follow from a seed.

use std::hash::{BuildHasher, RandomState};

/// The generator called SplitMix64: small, fast, the same on every machine.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed, other ones for each name.
    pub fn new(seed: u64, name: &str) -> Self {
        let fold = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(seed, fold))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True one time in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// One of these, which are not none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
}

/// A seed that nobody chose.
pub fn drawn() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
