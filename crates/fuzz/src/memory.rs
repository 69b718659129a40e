//! How much memory a reader takes at once.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What an input may cost: so many bytes, and so many more for each of its own.
///
/// Growing vectors and their copies are in the numbers, so a reader that keeps one word for each byte
/// takes some thirty bytes for it.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub fixed: usize,
    pub per_byte: usize,
}

impl Bound {
    /// The most that an input of this length may cost, in bytes.
    pub fn of(self, length: usize) -> usize {
        self.fixed + self.per_byte * length
    }
}

/// Does something; and how many bytes more than before it had allocated at its height.
///
/// Other threads count too: there is none while a target runs.
pub fn peak_of<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let value = act();
    (value, ALLOCATOR.peak_usage().saturating_sub(before))
}
