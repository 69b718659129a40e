//! What the log counts about itself, for metrics.

use crate::damage::{Grade, Ledger};
use std::sync::atomic::{AtomicU64, Ordering};

/// A moment's numbers of one node's log. Counters start at zero when the log is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Rounds written by the writer.
    pub rounds: u64,
    /// Syncs of segment files by the writer.
    pub syncs: u64,
    /// Operations (appends, votes, truncations, purges) made durable.
    pub operations: u64,
    /// Bytes written by the writer, framing included.
    pub bytes_appended: u64,
    /// Bytes written by compaction and installs.
    pub bytes_compacted: u64,
    /// Segments freed.
    pub segments_freed: u64,
    /// Hot segments, the active one included.
    pub segments_hot: u64,
    /// Cold segments (survivors of compaction, installed bodies).
    pub segments_cold: u64,
    /// Spare segments ready for use.
    pub segments_spare: u64,
    /// Bytes of all segments on disk, spares included.
    pub disk_bytes: u64,
    /// Bytes of entries that are not purged, estimated.
    pub unpurged_bytes: u64,
    /// Bytes in the hot tail cache.
    pub cache_bytes: u64,
    /// Reads answered from memory: by the hot tail, or by what was read ahead.
    pub cache_hits: u64,
    /// Reads that went to the disk.
    pub cache_misses: u64,
    /// Bytes that the scrub has read.
    pub scrubbed_bytes: u64,
    /// What was found damaged, and how much of it is whole again.
    pub damage: DamageCounts,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Times that a round waited for a full disk.
    pub full_disk_waits: u64,
}

/// Damage since the log was opened, by what it costs; each place counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DamageCounts {
    /// Places of each grade that were found damaged, in the order of `Grade::ALL`.
    pub found: [u64; Grade::ALL.len()],
    /// Things that are whole again: bodies fetched, checkpoints written, replicas dropped, and what
    /// was made anew from what is here.
    pub healed: u64,
    /// Bodies, checkpoints and replicas that wait to be mended.
    pub open: u64,
}

impl DamageCounts {
    pub(crate) fn of(ledger: &Ledger) -> DamageCounts {
        DamageCounts {
            found: Grade::ALL.map(|grade| ledger.found_of(grade)),
            healed: ledger.healed(),
            open: ledger.open_count(),
        }
    }

    /// Places that cost something.
    pub fn costly(&self) -> u64 {
        self.total() - self.found[Grade::Derived as usize]
    }

    /// Places of all grades.
    pub fn total(&self) -> u64 {
        self.found.iter().sum()
    }
}

/// The counters behind `LogStats` that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rounds: Counter,
    pub(crate) syncs: Counter,
    pub(crate) operations: Counter,
    pub(crate) bytes_appended: Counter,
    pub(crate) bytes_compacted: Counter,
    pub(crate) segments_freed: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) cache_misses: Counter,
    pub(crate) scrubbed_bytes: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) full_disk_waits: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
