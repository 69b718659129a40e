//! What a waiting message costs in memory, by the partition's own estimate.
//!
//! The estimate was held against a counting allocator when it was made: it was within a fifth.

use hikyaku_queue::{Command, Operation, Partition, QueueKind, SendMessage, encode_head};

use crate::support::{FIFO, HOUR, QUEUE, Queue, descriptor, grouped, message};

/// Sends `entries` entries, `step` indexes apart, and returns the bytes per message once everything
/// but the messages is forgotten.
fn bytes_per_message(
    kind: QueueKind,
    entries: u64,
    step: u64,
    messages: impl Fn(u64) -> Vec<SendMessage>,
) -> f64 {
    let mut queue = Queue::new(descriptor(QUEUE, kind));
    let empty = queue.partition.state_bytes();
    let mut sent = 0;
    for nth in 1..=entries {
        let messages = messages(nth);
        sent += messages.len();
        let send = queue.command(Operation::Send { messages });
        apply(
            &mut queue.partition,
            nth * step + 1,
            nth,
            Command {
                not_after: nth,
                ..send
            },
        );
    }
    // After the deduplication window, and well before the end of retention.
    let index = entries * step + 2;
    for round in 0..sent as u64 / 5_000 + 1 {
        let housekeep = queue.command(Operation::Housekeep);
        apply(&mut queue.partition, index + round, HOUR, housekeep);
    }
    (queue.partition.state_bytes() - empty) as f64 / sent as f64
}

fn apply(partition: &mut Partition, index: u64, now: u64, command: Command) {
    partition
        .apply_entry(index, &encode_head(now, &[command]))
        .unwrap();
}

#[test]
fn a_steady_backlog_costs_a_fraction_of_a_byte() {
    let ten = |_| (0..10).map(|_| message("m")).collect();
    let bytes = bytes_per_message(QueueKind::Standard, 2_000, 1, ten);
    assert!(bytes < 0.1, "{bytes}");
    let bytes = bytes_per_message(QueueKind::Standard, 2_000, 1, |_| vec![message("m")]);
    assert!(bytes < 0.2, "{bytes}");
}

#[test]
fn the_worst_shape_costs_less_than_32_bytes() {
    let bytes = bytes_per_message(QueueKind::Standard, 2_000, 2, |_| vec![message("m")]);
    assert!(bytes < 32.0, "{bytes}");
}

#[test]
fn a_delayed_message_costs_64_bytes() {
    let delayed = |_| {
        vec![SendMessage {
            delay_ms: Some(HOUR),
            ..message("m")
        }]
    };
    let bytes = bytes_per_message(QueueKind::Standard, 2_000, 2, delayed);
    assert!(bytes <= 64.0, "{bytes}");
}

#[test]
fn a_fair_groups_backlog_costs_as_much_as_runs_do() {
    let flood = |_| (0..10).map(|_| grouped("noisy", "m")).collect();
    let bytes = bytes_per_message(QueueKind::Standard, 2_000, 1, flood);
    assert!(bytes < 0.2, "{bytes}");
    let two_groups = |nth: u64| {
        let odd = |place: u64| (nth + place).is_multiple_of(2);
        let group = |place| if odd(place) { "odd" } else { "even" };
        (0..10).map(|place| grouped(group(place), "m")).collect()
    };
    let bytes = bytes_per_message(QueueKind::Standard, 2_000, 1, two_groups);
    assert!(bytes < 24.0, "{bytes}");
}

#[test]
fn a_fair_group_makes_a_held_message_16_bytes_dearer() {
    let delayed = |group: Option<&'static str>| {
        move |_| {
            vec![SendMessage {
                delay_ms: Some(HOUR),
                message_group: group.map(str::to_owned),
                ..message("m")
            }]
        }
    };
    let alone = bytes_per_message(QueueKind::Standard, 2_000, 2, delayed(None));
    let grouped = bytes_per_message(QueueKind::Standard, 2_000, 2, delayed(Some("g")));
    assert!(
        grouped < alone + 16.0 * 8.0 / 7.0 + 1.0,
        "{grouped}, {alone} alone"
    );
}

#[test]
fn a_fair_group_costs_about_half_a_kilobyte() {
    let many_groups = |nth: u64| vec![grouped(&format!("group {nth}"), "m")];
    let bytes = bytes_per_message(QueueKind::Standard, 1_000, 1, many_groups);
    assert!(bytes < 600.0, "{bytes}");
}

#[test]
fn a_message_of_a_long_group_costs_less_than_24_bytes() {
    let one_group = |nth: u64| vec![grouped("group", &nth.to_string())];
    let bytes = bytes_per_message(FIFO, 2_000, 1, one_group);
    assert!(bytes < 24.0, "{bytes}");
}

#[test]
fn a_message_group_costs_about_half_a_kilobyte() {
    let many_groups = |nth: u64| vec![grouped(&format!("group {nth}"), &nth.to_string())];
    let bytes = bytes_per_message(FIFO, 1_000, 1, many_groups);
    assert!(bytes < 550.0, "{bytes}");
}

#[test]
fn the_answer_to_a_send_on_a_standard_queue_is_not_kept_with_the_request() {
    let mut queue = Queue::new(descriptor(QUEUE, QueueKind::Standard));
    let before = queue.partition.state_bytes();
    for index in 2..1_002 {
        let messages = (0..10).map(|_| message("m")).collect();
        let send = queue.command(Operation::Send { messages });
        apply(&mut queue.partition, index, 1, send);
    }
    let bytes = (queue.partition.state_bytes() - before) as f64 / 1_000.0;
    assert!(bytes < 128.0, "{bytes} for a request of ten messages");
}
