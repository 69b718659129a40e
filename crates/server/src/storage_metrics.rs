//! The log's numbers on the metrics page.

use hikyaku_storage::{Grade, LogStats};
use std::fmt::Write;

/// Writes the page's part in Prometheus's text format.
pub fn write(stats: &LogStats, page: &mut String) {
    let counters: [(&str, &str, u64); 9] = [
        (
            "rounds",
            "Rounds written: one write and one fdatasync each.",
            stats.rounds,
        ),
        ("syncs", "Calls of fdatasync.", stats.syncs),
        (
            "operations",
            "Entries, votes and markers submitted.",
            stats.operations,
        ),
        (
            "appended_bytes",
            "Bytes written for entries, votes and markers.",
            stats.bytes_appended,
        ),
        (
            "compacted_bytes",
            "Bytes copied by compaction.",
            stats.bytes_compacted,
        ),
        (
            "segments_freed",
            "Segments freed for reuse.",
            stats.segments_freed,
        ),
        (
            "cache_hits",
            "Reads answered from memory.",
            stats.cache_hits,
        ),
        (
            "cache_misses",
            "Reads that went to the disk.",
            stats.cache_misses,
        ),
        ("checkpoints", "Checkpoints written.", stats.checkpoints),
    ];
    for (name, help, value) in counters {
        metric(
            page,
            &format!("hikyaku_log_{name}_total"),
            "counter",
            help,
            value,
        );
    }
    damage(stats, page);
    let gauges: [(&str, &str, u64); 6] = [
        (
            "segments_hot",
            "Segments with unpurged entries or fresh bodies.",
            stats.segments_hot,
        ),
        (
            "segments_cold",
            "Segments of survivors copied by compaction.",
            stats.segments_cold,
        ),
        (
            "segments_spare",
            "Preallocated segments waiting for use.",
            stats.segments_spare,
        ),
        (
            "disk_bytes",
            "Bytes that the log takes on the disk.",
            stats.disk_bytes,
        ),
        (
            "unpurged_bytes",
            "Bytes of entries not purged yet.",
            stats.unpurged_bytes,
        ),
        (
            "cache_bytes",
            "Bytes held by the hot tail cache.",
            stats.cache_bytes,
        ),
    ];
    for (name, help, value) in gauges {
        metric(page, &format!("hikyaku_log_{name}"), "gauge", help, value);
    }
}

/// What rots on the disk, and what becomes of it.
fn damage(stats: &LogStats, page: &mut String) {
    let name = "hikyaku_damage_total";
    let help = "Places on the disk found damaged, by what they cost: derived (nothing), body (another \
                replica has it), log (the replica), checkpoint (the older one takes its place).";
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
    for (grade, found) in Grade::ALL.iter().zip(stats.damage.found) {
        let _ = writeln!(page, "{name}{{grade=\"{grade}\"}} {found}");
    }
    metric(
        page,
        "hikyaku_damage_healed_total",
        "counter",
        "Damaged bodies, checkpoints, footers and replicas that are whole again.",
        stats.damage.healed,
    );
    metric(
        page,
        "hikyaku_damage_open",
        "gauge",
        "Damaged bodies, checkpoints and replicas that wait to be mended.",
        stats.damage.open,
    );
    metric(
        page,
        "hikyaku_scrub_bytes_total",
        "counter",
        "Bytes read to find damage before somebody needs what is damaged.",
        stats.scrubbed_bytes,
    );
}

fn metric(page: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
    );
}
