//! The log's configuration: sizes, budgets and rates, each with its unit and its reason.

/// A configuration that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A segment could not hold what has to fit into it.
    #[error(
        "segment_bytes {segment_bytes} is less than four times max_entry_bytes {max_entry_bytes}"
    )]
    SegmentTooSmall {
        /// The configured segment size.
        segment_bytes: u64,
        /// The configured largest entry.
        max_entry_bytes: u64,
    },
    /// A segment must be whole pages.
    #[error("segment_bytes {0} is not a multiple of 4096")]
    SegmentNotAligned(u64),
    /// Segment offsets are kept in 32 bits.
    #[error("segment_bytes {0} exceeds 1 GiB")]
    SegmentTooLarge(u64),
    /// A round could not be written into one segment.
    #[error("max_round_bytes {max_round_bytes} exceeds a quarter of segment_bytes {segment_bytes}")]
    RoundTooLarge {
        /// The configured round limit.
        max_round_bytes: u64,
        /// The configured segment size.
        segment_bytes: u64,
    },
    /// The threshold is a share.
    #[error("compact_below_percent {0} is not between 1 and 90")]
    CompactBelow(u32),
    /// A rate of nothing would never finish.
    #[error("compaction_bytes_per_second must not be 0")]
    CompactionRate,
    /// The writer and the compactor each need a spare segment.
    #[error("reserve_segments {0} is less than 2")]
    Reserve(usize),
}

/// The limits of one node's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Size of one preallocated segment, in bytes. Larger ones mean fewer files and coarser reclaim.
    pub segment_bytes: u64,
    /// The largest entry (head and bodies, encoded), in bytes. A larger one is refused.
    pub max_entry_bytes: u64,
    /// At most so many bytes are written before one fdatasync (one operation always fits).
    pub max_round_bytes: u64,
    /// Bytes of entries that may stay unpurged on the node before groups are asked for a
    /// checkpoint; what a follower that was away can still catch up from.
    pub purge_budget_bytes: u64,
    /// Bytes of recent entries kept in memory for replication, apply and receives.
    pub cache_bytes: usize,
    /// Bytes of footer sections kept in memory, to find older bodies without reading footers.
    pub footer_cache_bytes: usize,
    /// Bytes of older entries kept in memory because a receive is about to ask for them.
    pub read_ahead_bytes: usize,
    /// A segment is compacted when less than this share of it is alive, in percent.
    pub compact_below_percent: u32,
    /// The most bytes that compaction copies a second, so that it does not starve the writer.
    pub compaction_bytes_per_second: u64,
    /// The most bytes a second that the scrub reads to find damage before somebody needs what is
    /// damaged; 0: no scrub.
    pub scrub_bytes_per_second: u64,
    /// Milliseconds between the end of a scrub and the start of the next.
    pub scrub_pause_ms: u64,
    /// Preallocated spare segments that only receives and deletes may use when the disk is full;
    /// the last of them belongs to the compactor, which frees space with it.
    pub reserve_segments: usize,
    /// `has_room` is false when the disk has fewer free bytes than this beside the reserve.
    pub min_free_bytes: u64,
    /// Milliseconds without work after which the writer leaves a closing mark.
    pub idle_mark_ms: u64,
    /// Milliseconds between two attempts to get a segment from a full disk.
    pub full_disk_retry_ms: u64,
    /// Milliseconds between two looks of the reclaimer when nobody wakes it.
    pub reclaim_interval_ms: u64,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 64 << 20,
            max_entry_bytes: 16 << 20,
            max_round_bytes: 8 << 20,
            purge_budget_bytes: 1 << 30,
            cache_bytes: 64 << 20,
            footer_cache_bytes: 32 << 20,
            read_ahead_bytes: 8 << 20,
            compact_below_percent: 40,
            compaction_bytes_per_second: 64 << 20,
            scrub_bytes_per_second: 4 << 20,
            scrub_pause_ms: 3_600_000,
            reserve_segments: 3,
            min_free_bytes: 256 << 20,
            idle_mark_ms: 200,
            full_disk_retry_ms: 100,
            reclaim_interval_ms: 1_000,
        }
    }
}

impl LogConfig {
    /// A small log for tests and simulation: segments of 64 KiB, caches to match.
    pub fn small() -> LogConfig {
        LogConfig {
            segment_bytes: 64 << 10,
            max_entry_bytes: 16 << 10,
            max_round_bytes: 16 << 10,
            purge_budget_bytes: 512 << 10,
            cache_bytes: 64 << 10,
            footer_cache_bytes: 64 << 10,
            read_ahead_bytes: 32 << 10,
            min_free_bytes: 0,
            scrub_bytes_per_second: 0,
            reserve_segments: 2,
            ..LogConfig::default()
        }
    }

    /// Checks that the values agree with each other.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !self.segment_bytes.is_multiple_of(4096) {
            return Err(ConfigError::SegmentNotAligned(self.segment_bytes));
        }
        if self.segment_bytes > 1 << 30 {
            return Err(ConfigError::SegmentTooLarge(self.segment_bytes));
        }
        if self.segment_bytes / 4 < self.max_entry_bytes {
            return Err(ConfigError::SegmentTooSmall {
                segment_bytes: self.segment_bytes,
                max_entry_bytes: self.max_entry_bytes,
            });
        }
        if self.segment_bytes / 4 < self.max_round_bytes {
            return Err(ConfigError::RoundTooLarge {
                max_round_bytes: self.max_round_bytes,
                segment_bytes: self.segment_bytes,
            });
        }
        if !(1..=90).contains(&self.compact_below_percent) {
            return Err(ConfigError::CompactBelow(self.compact_below_percent));
        }
        if self.compaction_bytes_per_second == 0 {
            return Err(ConfigError::CompactionRate);
        }
        if self.reserve_segments < 2 {
            return Err(ConfigError::Reserve(self.reserve_segments));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_configurations_are_valid() {
        assert_eq!(LogConfig::default().validate(), Ok(()));
        assert_eq!(LogConfig::small().validate(), Ok(()));
    }

    #[test]
    fn contradictions_name_both_values() {
        let config = LogConfig {
            segment_bytes: 8192,
            ..LogConfig::default()
        };
        let text = config.validate().unwrap_err().to_string();
        assert!(text.contains("8192") && text.contains("16777216"), "{text}");
    }
}
