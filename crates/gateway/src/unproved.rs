//! Memory for what arrives before it is known to be from somebody who may ask.
//!
//! A request's bytes are counted as they are read, over all connections together, until its
//! signature has been proved or it has been answered. When the sum is reached, what would exceed it
//! is not read and its connection is given up, so that strangers cost the process a fixed amount
//! however many they are.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit stands for.
const UNIT_BYTES: usize = 1 << 10;

/// What a request takes from its first byte on: the buffer that HTTP is read into.
const FIRST_BYTES: usize = 8 << 10;

/// The memory of all together.
#[derive(Clone)]
pub(crate) struct Unproved(Arc<Semaphore>);

/// The part of it that one connection holds.
pub(crate) struct Share {
    of: Unproved,
    held: Option<OwnedSemaphorePermit>,
    /// Bytes that were counted and are covered by what is held.
    counted: usize,
}

/// There is no memory for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much is being read from clients who have proved nothing yet")]
pub(crate) struct Crowded;

impl Unproved {
    /// So many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT_BYTES)))
    }

    /// Holds nothing yet.
    pub(crate) fn share(&self) -> Share {
        Share {
            of: self.clone(),
            held: None,
            counted: 0,
        }
    }
}

impl Share {
    /// Counts bytes that were read.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Crowded> {
        self.counted = self.counted.saturating_add(bytes);
        let held = self.held.as_ref().map_or(0, |held| held.num_permits());
        let needed = self.counted.max(FIRST_BYTES).div_ceil(UNIT_BYTES);
        if needed <= held {
            return Ok(());
        }
        let more = u32::try_from(needed - held).map_err(|_| Crowded)?;
        let more = Arc::clone(&self.of.0).try_acquire_many_owned(more);
        let more = more.map_err(|_| Crowded)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Gives everything back.
    pub(crate) fn release(&mut self) {
        self.held = None;
        self.counted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Crowded, Unproved};

    #[test]
    fn the_sum_over_all_is_bounded() {
        let unproved = Unproved::new(32 << 10);
        let (mut one, mut other) = (unproved.share(), unproved.share());
        one.count(1).unwrap();
        other.count(24 << 10).unwrap();
        one.count(8 << 10).unwrap_err();
        other.release();
        one.count(8 << 10).unwrap();
        assert_eq!(other.count(24 << 10), Err(Crowded));
        drop(one);
        assert_eq!(other.count(1), Ok(()));
    }

    #[test]
    fn small_pieces_are_counted_once() {
        let unproved = Unproved::new(16 << 10);
        let mut share = unproved.share();
        for _ in 0..16 << 10 {
            share.count(1).unwrap();
        }
        assert_eq!(share.count(1), Err(Crowded));
    }
}
