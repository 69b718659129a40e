//! How many files the process may have open, of which every connection is one.
//!
//! Whoever runs out of them can neither accept a client nor open a segment of the log, and the log
//! is what must not fail: connections get what the rest does not need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is not a client's connection: segments, checkpoints, the catalogue's copy, other nodes.
const RESERVED: usize = 1_024;

/// Asks for as many open files as the machine allows; how many that is.
pub(crate) fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, all) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the number of open files");
            limit.current
        }
    };
    // None is without limit.
    allowed.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    })
}

/// How many of the wanted connections so many open files leave room for.
pub(crate) fn connections(wanted: usize, open_files: usize) -> usize {
    let reserved = RESERVED.min(open_files / 2);
    wanted.min(open_files - reserved)
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn connections_leave_room_for_the_log() {
        for (wanted, open_files, expected) in [
            (20_000, usize::MAX, 20_000),
            (20_000, 1 << 20, 20_000),
            (20_000, 20_000, 18_976),
            (20_000, 1_024, 512),
            (100, 1_024, 100),
        ] {
            assert_eq!(connections(wanted, open_files), expected, "{open_files}");
        }
    }
}
