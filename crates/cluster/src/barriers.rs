//! Read barriers of one node, joined: however many reads there are, one round trip at a time asks the
//! metadata leader what is committed.
//!
//! A read may only go by a round that began after the read did. So while a round is under way, all
//! that come share the next one, which begins when this one has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

/// What a round comes to: the committed index, if the leader told it.
pub type Round = Shared<BoxFuture<'static, Option<u64>>>;

/// The rounds of one node.
#[derive(Default)]
pub struct Barriers(Mutex<Option<Latest>>);

/// The latest round, and whether it began.
struct Latest {
    began: Arc<AtomicBool>,
    round: Round,
}

impl Barriers {
    /// Joins the first round that begins after this call. `ask` is one round, which does nothing
    /// until it is polled. Whoever waits for a round drives it, so it ends whoever goes.
    pub fn join(&self, ask: BoxFuture<'static, Option<u64>>) -> Round {
        let mut latest = self.0.lock().expect("no panic under this lock");
        if let Some(next) = &*latest
            && !next.began.load(Ordering::SeqCst)
        {
            return next.round.clone();
        }
        let before = latest.take().map(|under_way| under_way.round);
        let began = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&began);
        let round = async move {
            if let Some(before) = before {
                before.await;
            }
            begins.store(true, Ordering::SeqCst);
            ask.await
        };
        let round = round.boxed().shared();
        *latest = Some(Latest {
            began,
            round: round.clone(),
        });
        round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::task::Poll;
    use tokio::sync::oneshot;

    /// A round that ends when it is told what to answer.
    fn asked() -> (oneshot::Sender<u64>, BoxFuture<'static, Option<u64>>) {
        let (answer, asked) = oneshot::channel();
        (answer, async move { asked.await.ok() }.boxed())
    }

    #[tokio::test]
    async fn reads_that_come_during_a_round_share_the_next() {
        let barriers = Barriers::default();
        let (first_answer, first) = asked();
        let mut first = barriers.join(first);
        assert_eq!(poll!(&mut first), Poll::Pending);

        let (second_answer, second) = asked();
        let mut second = barriers.join(second);
        let mut third = barriers.join(asked().1);
        assert_eq!(poll!(&mut third), Poll::Pending);
        first_answer.send(1).expect("it is asked");
        assert_eq!(
            poll!(&mut second),
            Poll::Pending,
            "the first round is over, theirs is not"
        );
        second_answer.send(2).expect("it is asked");
        assert_eq!(third.await, Some(2));
        assert_eq!((first.await, second.await), (Some(1), Some(2)));
    }

    #[tokio::test]
    async fn a_round_goes_on_when_the_one_who_began_it_goes() {
        let barriers = Barriers::default();
        let (answer, first) = asked();
        let mut first = barriers.join(first);
        assert_eq!(poll!(&mut first), Poll::Pending);
        drop(first);
        let (next_answer, next) = asked();
        let next = barriers.join(next);
        answer.send(1).expect("it is still asked");
        next_answer.send(2).expect("and so is the next");
        assert_eq!(next.await, Some(2));
    }

    #[tokio::test]
    async fn a_failed_round_is_not_the_next_one() {
        let barriers = Barriers::default();
        let (gone, first) = asked();
        let first = barriers.join(first);
        drop(gone);
        assert_eq!(first.await, None);
        let (answer, next) = asked();
        let next = barriers.join(next);
        answer.send(2).expect("it is asked");
        assert_eq!(next.await, Some(2));
    }
}
