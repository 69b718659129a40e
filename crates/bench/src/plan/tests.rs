//! What is refused, and who gets which streams.

use std::collections::BTreeSet;

use clap::{Args, FromArgMatches};
use proptest::prelude::*;

use super::*;

/// The environment of the tests may have credentials: these are always given.
fn options(flags: &str) -> Options {
    let given = "bench --access-key-id id --secret-access-key se/cret --region eu-north-1 ";
    let command = clap::Command::new("bench").args_override_self(true);
    let command = Options::augment_args(command);
    let flags = format!("{given}{flags}");
    let matches = command.try_get_matches_from(flags.split_whitespace());
    Options::from_arg_matches(&matches.unwrap()).unwrap()
}

fn refusal(flags: &str) -> String {
    match Plan::new(options(flags), 1) {
        Ok(_) => panic!("{flags} is refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn refuses_each_flag_out_of_its_range_by_name() {
    for (flags, words) in [
        ("--batch 11", "--batch is from 1 to 10, unlike 11"),
        ("--batch 0", "--batch is from 1 to 10, unlike 0"),
        ("--queues 0", "--queues is from 1 to 10000, unlike 0"),
        (
            "--fifo --groups 0",
            "--groups is from 1 to 1048576, unlike 0",
        ),
        ("--producers 0", "--producers is from 1 to 10000, unlike 0"),
        ("--consumers 0", "--consumers is from 1 to 10000, unlike 0"),
        ("--seconds 0", "--seconds is from 1 to 86400, unlike 0"),
        ("--timeout 1", "--timeout is from 2 to 86400, unlike 1"),
        (
            "--visibility-timeout 0",
            "--visibility-timeout is from 1 to 43200, unlike 0",
        ),
        (
            "--rate 0",
            "--rate is a number of messages a second above 0, unlike 0",
        ),
        (
            "--rate=-1",
            "--rate is a number of messages a second above 0, unlike -1",
        ),
        (
            "--rate NaN",
            "--rate is a number of messages a second above 0, unlike NaN",
        ),
        (
            "--body-bytes 20",
            "--body-bytes 20: a body has a stamp of 54 bytes to be checked by",
        ),
        (
            "--body-bytes 104858",
            "--batch 10 × --body-bytes 104858 is over the 1048576 bytes of a call",
        ),
        (
            "--region a/b",
            "--region has characters that cannot be in a request",
        ),
    ] {
        assert_eq!(refusal(flags), words);
    }
}

#[test]
fn refuses_flags_that_do_not_go_together() {
    for (flags, words) in [
        ("--groups 5", "add --fifo"),
        ("--high-throughput", "add --fifo"),
        ("--phase receives", "add --preload"),
        ("--phase receives --preload 1 --rate 5", "sends nothing"),
        ("--keep-depth", "add --preload"),
        (
            "--keep-depth --preload 1 --phase sends",
            "is of --phase lives",
        ),
        ("--keep-depth --preload 1 --rate 1", "not at a --rate"),
        (
            "--fifo --groups 7",
            "--groups 7 is fewer than the 8 producers of a queue",
        ),
        (
            "--fifo --queues 2 --groups 600000",
            "1200000 message groups",
        ),
        ("--endpoint localhost:9324", "is not http://HOST:PORT"),
    ] {
        let refusal = refusal(flags);
        assert!(refusal.contains(words), "{flags}: {refusal}");
    }
}

#[test]
fn an_id_needs_its_secret() {
    let mut half = options("");
    half.secret_access_key = None;
    assert!(matches!(Plan::new(half, 1), Err(PlanError::Together(_))));
}

#[test]
fn options_show_no_secrets() {
    let shown = format!("{:?}", options("--session-token to/ken"));
    assert!(
        !shown.contains("se/cret") && !shown.contains("to/ken"),
        "{shown}"
    );
}

#[test]
fn queues_are_named_after_the_run() {
    let plan = Plan::new(options("--fifo --groups 40 --queues 2"), 0xabc)
        .ok()
        .unwrap();
    assert_eq!(plan.queue_name(1), "hikyaku-bench-000000000abc-1.fifo");
    assert_eq!(plan.stream_queues.len(), 80);
}

#[test]
fn a_preload_fills_its_calls() {
    let batch = |flags| Plan::new(options(flags), 1).ok().unwrap().preload_batch();
    assert_eq!(batch("--batch 1"), 10);
    assert_eq!(batch("--batch 1 --body-bytes 300000"), 3);
    assert_eq!(batch("--batch 1 --body-bytes 1048576"), 1);
}

proptest! {
    #[test]
    fn each_stream_has_one_producer_and_no_client_is_idle(
        queues in 1..20_u32,
        clients in 1..40_u32,
        groups in prop_oneof![Just(0), 40..60_u32],
    ) {
        let (shares, stream_queues) = shares(queues, clients, groups).unwrap();
        let mut seen = BTreeSet::new();
        for share in shares.iter().flatten() {
            prop_assert!(!share.streams.is_empty());
            for stream in &share.streams {
                prop_assert_eq!(stream_queues[*stream as usize], share.queue);
                prop_assert!(seen.insert(*stream));
            }
        }
        prop_assert_eq!(seen.len(), stream_queues.len());
        prop_assert!(shares.iter().all(|shares| !shares.is_empty()));
        let served: BTreeSet<u32> = stream_queues.iter().copied().collect();
        prop_assert_eq!(served.len(), queues as usize);
        if groups > 0 {
            prop_assert_eq!(stream_queues.len(), (queues * groups) as usize);
        }
    }
}
