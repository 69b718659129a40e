//! The judge judged: each kind of fault is found under its own rule and under no other.
//!
//! A fault is a story told twice, once as it should be and once with something wrong. Told right,
//! nothing is found; told wrong, exactly the rule that it breaks. Both are told amid the noise of a
//! clean generated history, and without it.

use std::collections::BTreeSet;

use super::model::clean_history;
use super::story::Story;
use super::{Rule, judge};
use crate::history::{History, Mark};

mod losses;
mod order;
mod queues;
mod timers;

/// Of the noise.
const OPERATIONS: u32 = 300;

/// Tells a story right and wrong; `wrong` breaks this rule alone.
#[track_caller]
fn breaks(rule: Rule, begin: fn() -> Story, tell: fn(&mut Story, wrong: bool)) {
    for noise in [None, Some(1), Some(2)] {
        let told = |wrong: bool| {
            let mut story = begin();
            tell(&mut story, wrong);
            judge(&amid(story.history, noise))
        };
        let right = told(false);
        assert_eq!(right.violations, [], "told right, amid {noise:?}");
        let wrong = told(true);
        assert_eq!(
            wrong.broken(),
            BTreeSet::from([rule]),
            "amid {noise:?}: {wrong}"
        );
        assert!(wrong.exercised(rule) > 0, "{rule} was not exercised");
    }
}

/// The noise begins when the story is long over, so that neither's clocks concern the other.
const NOISE_BEGINS_US: u64 = 100_000 * 1_000_000;

/// The story and the noise of this seed in one history. They share no queue and no message.
fn amid(mut story: History, noise: Option<u64>) -> History {
    let Some(seed) = noise else {
        return story;
    };
    let noise = clean_history(seed, OPERATIONS);
    story.clock_bound_ms = noise.clock_bound_ms;
    story
        .operations
        .extend(noise.operations.into_iter().map(|mut operation| {
            operation.invoked_us += NOISE_BEGINS_US;
            operation.returned_us += NOISE_BEGINS_US;
            operation
        }));
    story.marks.extend(noise.marks.into_iter().map(|mut mark| {
        let (Mark::TimeForgotten { from_us, until_us }
        | Mark::Drained {
            from_us, until_us, ..
        }) = &mut mark;
        *from_us += NOISE_BEGINS_US;
        *until_us += NOISE_BEGINS_US;
        mark
    }));
    story
}
