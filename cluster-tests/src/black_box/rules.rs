//! The rules, each a function that opens with its text of RELIABILITY section 2.

use super::Verdict;
use super::index::Index;

mod batches;
mod counting;
mod dead_letters;
mod existence;
mod groups;
mod leases;
mod lifetimes;
mod maxima;
mod queues;
mod repeats;
mod uncertain;

/// A function may judge two rules that look at the same things.
pub(super) const ALL: &[fn(&Index<'_>, &mut Verdict)] = &[
    existence::acknowledged_sends,
    existence::phantoms,
    existence::deletes,
    leases::visibility,
    leases::stale_handles,
    leases::total_hold,
    groups::order,
    groups::sequence_numbers,
    groups::unique_ids,
    repeats::deduplication,
    repeats::receive_attempts,
    counting::receive_counts,
    counting::quiescent_counts,
    dead_letters::dead_letters,
    lifetimes::delay,
    lifetimes::retention,
    queues::purges,
    queues::deletions,
    queues::attributes,
    queues::listings,
    queues::tenants,
    batches::answers,
    uncertain::late_sends,
    uncertain::late_deletes,
    uncertain::late_receives,
];
