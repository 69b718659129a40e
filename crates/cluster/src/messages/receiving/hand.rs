//! What a receive has so far, and what it was told besides.

use crate::messages::ReceiveError;
use crate::partition::Delivered;
use crate::router::{CallError, Claim, Router};

/// What one partition said.
pub enum Said {
    /// It handed these out.
    Messages(Taken),
    /// It has nothing to hand out now.
    Nothing,
    /// As many messages are in flight there as may be.
    Full,
}

/// Messages of one partition, and the claim by which they can be given back.
pub struct Taken {
    pub claim: Claim,
    pub delivered: Vec<Delivered>,
}

/// Messages in hand. What is still there when this is dropped goes back uncounted.
pub struct Hand<'a> {
    router: &'a Router,
    taken: Vec<Taken>,
}

impl<'a> Hand<'a> {
    /// An empty hand.
    pub fn of(router: &'a Router) -> Self {
        let taken = Vec::new();
        Self { router, taken }
    }

    /// Takes messages in hand.
    pub fn put(&mut self, taken: Option<Taken>) {
        self.taken.extend(taken);
    }

    /// How many messages are in hand.
    pub fn len(&self) -> usize {
        self.taken.iter().map(|taken| taken.delivered.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The messages, or what the tally says when there are none.
    pub fn give_or(mut self, tally: Tally) -> Result<Vec<Delivered>, ReceiveError> {
        if self.is_empty() {
            return tally.verdict();
        }
        let taken = std::mem::take(&mut self.taken);
        Ok(taken.into_iter().flat_map(|it| it.delivered).collect())
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        for taken in &self.taken {
            self.router.give_back(taken.claim);
        }
    }
}

/// What partitions said that gave nothing.
#[derive(Default)]
pub struct Tally {
    answered: bool,
    full: bool,
    failure: Option<CallError>,
}

impl Tally {
    /// Notes an answer; messages pass through.
    pub fn note(&mut self, said: Result<Said, CallError>) -> Option<Taken> {
        match said {
            Ok(Said::Messages(taken)) => return Some(taken),
            Ok(Said::Nothing) => self.answered = true,
            Ok(Said::Full) => self.full = true,
            Err(error) if self.is_gone() => {
                tracing::debug!(%error, "a receive of a queue that is gone");
            }
            Err(error) => self.failure = Some(error),
        }
        None
    }

    /// Whether a partition knows that the queue was deleted: the others will hear of it.
    pub fn is_gone(&self) -> bool {
        self.failure == Some(CallError::QueueGone)
    }

    /// The answer of a receive without messages: one partition that has none speaks for those that did
    /// not answer, as a sample of SQS's servers does.
    fn verdict(self) -> Result<Vec<Delivered>, ReceiveError> {
        match self.failure {
            Some(CallError::QueueGone) => Err(CallError::QueueGone.into()),
            _ if self.full => Err(ReceiveError::OverInFlightLimit),
            Some(error) if !self.answered => Err(error.into()),
            Some(_) | None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(said: &[Result<Said, CallError>]) -> Option<ReceiveError> {
        let mut tally = Tally::default();
        for said in said {
            let said = match said {
                Ok(Said::Full) => Ok(Said::Full),
                Ok(_) => Ok(Said::Nothing),
                Err(error) => Err(*error),
            };
            assert!(tally.note(said).is_none());
        }
        tally.verdict().err()
    }

    #[test]
    fn one_empty_answer_is_enough_and_a_deleted_queue_is_gone() {
        let failed = CallError::Unavailable { no_effect: false };
        let gone = CallError::QueueGone;
        assert_eq!(verdict(&[Err(failed), Ok(Said::Nothing)]), None);
        assert_eq!(verdict(&[Err(failed)]), Some(failed.into()));
        let whole = [Err(gone), Err(failed), Ok(Said::Nothing)];
        assert_eq!(verdict(&whole), Some(gone.into()));
        let full = ReceiveError::OverInFlightLimit;
        assert_eq!(verdict(&[Ok(Said::Full), Ok(Said::Nothing)]), Some(full));
        assert_eq!(verdict(&[]), None, "nobody was asked");
    }
}
