//! Q18: batches.

use crate::black_box::index::Index;
use crate::black_box::{Rule, Verdict};
use crate::history::{Action, Mentions};

/// Q18, each entry of a batch is judged alone, and the answer names it once: not as ok and failed,
/// not twice, not never. (That what is named ok was done is for the other rules.)
pub(in crate::black_box) fn answers(index: &Index<'_>, verdict: &mut Verdict) {
    for (place, operation) in index.history.operations.iter().enumerate() {
        let mentions: Vec<Option<Mentions>> = match &operation.action {
            Action::Send { entries } => entries.iter().map(|entry| entry.mentions).collect(),
            Action::Delete { entries } => entries.iter().map(|entry| entry.mentions).collect(),
            Action::ChangeVisibility { entries } => {
                entries.iter().map(|entry| entry.mentions).collect()
            }
            _ => continue,
        };
        for (entry, mentions) in mentions.iter().enumerate() {
            let Some(Mentions { successful, failed }) = mentions else {
                continue;
            };
            verdict.exercise(Rule::Batch);
            if successful + failed != 1 {
                let text = format!("entry {entry} is {successful} times ok, {failed} times failed");
                verdict.find(Rule::Batch, text, &[place]);
            }
        }
    }
}
