//! The judge on clean histories: no false alarm, no rule left out, and a cost that grows as n log n.

use super::model::clean_history;
use super::{RULES, Rule, Verdict, judge};
use crate::history::History;

/// Enough for every kind of operation to meet every other.
const OPERATIONS: u32 = 400;

const CLEAN_HISTORIES: u64 = 300;

#[test]
fn clean_histories_pass() {
    for seed in 0..CLEAN_HISTORIES {
        let verdict = judge(&clean_history(seed, OPERATIONS));
        assert_eq!(verdict.violations, [], "seed {seed}");
    }
}

/// Histories in which a rule met nothing would show nothing about it.
#[test]
fn clean_histories_exercise_every_rule() {
    let verdicts: Vec<Verdict> = (0..20)
        .map(|seed| judge(&clean_history(seed, OPERATIONS)))
        .collect();
    for rule in RULES {
        let exercised = verdicts
            .iter()
            .filter(|verdict| verdict.exercised(rule) > 0)
            .count();
        assert!(exercised > 0, "no history exercised {rule}");
    }
}

#[test]
fn a_digest_tells_histories_apart() {
    let digest = |seed| clean_history(seed, OPERATIONS).digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn an_empty_history_breaks_nothing_and_shows_nothing() {
    let verdict = judge(&History::default());
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.not_exercised(), RULES);
}

#[test]
fn a_verdict_says_what_it_says_nothing_about() {
    let text = judge(&History::default()).to_string();
    assert!(
        text.contains("Q1 AcknowledgedSend: not exercised"),
        "{text}"
    );
    assert!(text.contains("Q20 Counts: not exercised"), "{text}");
    assert_eq!(Rule::Counts as usize, RULES.len() - 1);
}

/// Twice the operations are a little more than twice the comparisons.
#[test]
fn the_cost_grows_as_n_log_n() {
    let (small, large) = (clean_history(1, 10_000), clean_history(1, 80_000));
    let ratio = large.operations.len() as f64 / small.operations.len() as f64;
    let (few, many) = (judge(&small), judge(&large));
    assert_eq!((few.violations, many.violations), (Vec::new(), Vec::new()));
    let (few, many) = (few.looked, many.looked);
    let growth = many as f64 / few as f64;
    assert!(
        growth < 1.5 * ratio,
        "{few} to {many} comparisons, {ratio} times the operations"
    );
}
