//! Receives that wait: long polls parked at the leader.
//!
//! Parking costs no log entry. A queue's polls are granted in the order they arrived, at first one
//! at a time; while grants find messages the window doubles, and it closes when one finds none, so
//! that many polls on a slow queue do not fill the log with empty receives.
//!
//! Polls that only look (of a queue on several partitions) are parked too. They are told that there is
//! something instead of being granted it, and are no part of the window.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hikyaku_queue::QueueId;
use tokio::time::Instant;

use super::Call;

/// Most grants of one queue under way at once.
const WINDOW_MAX: usize = 256;

/// All parked polls of a partition.
#[derive(Default)]
pub struct Parking {
    queues: BTreeMap<QueueId, Parked>,
    /// When each poll's wait ends.
    ends: BTreeSet<(Instant, QueueId, u64)>,
    /// T at which a queue may have something, for queues with parked polls.
    deadlines: BTreeSet<(u64, QueueId)>,
    next_ticket: u64,
}

struct Parked {
    polls: VecDeque<(u64, Call)>,
    granting: usize,
    window: usize,
    /// T at which it may next have something.
    deadline: Option<u64>,
    /// T at which what it has may not have been taken by those who were told.
    again: Option<u64>,
    /// The earlier of the two: when it is looked at.
    looked_at: Option<u64>,
}

impl Default for Parked {
    fn default() -> Self {
        Self {
            polls: VecDeque::new(),
            granting: 0,
            window: 1,
            deadline: None,
            again: None,
            looked_at: None,
        }
    }
}

impl Parking {
    /// Parks a poll behind those of its queue; one whose grant found nothing goes before them: it
    /// came first.
    pub fn park(&mut self, mut call: Call, until: Instant) {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let queue = call.command.queue;
        self.ends.insert((until, queue, ticket));
        let polls = &mut self.queues.entry(queue).or_default().polls;
        if std::mem::take(&mut call.granted) {
            polls.push_front((ticket, call));
        } else {
            polls.push_back((ticket, call));
        }
    }

    /// Whether polls of this queue wait or are being granted.
    pub fn knows(&self, queue: QueueId) -> bool {
        self.queues.contains_key(&queue)
    }

    /// How many polls wait.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The next poll of a queue to grant, if its window is open. Polls whose client has gone are
    /// dropped on the way.
    pub fn grant(&mut self, queue: QueueId) -> Option<Call> {
        let parked = self.queues.get_mut(&queue)?;
        if parked.granting >= parked.window {
            return None;
        }
        while let Some((ticket, mut call)) = parked.polls.pop_front() {
            let until = call
                .wait_until
                .expect("a parked poll waits until some time");
            self.ends.remove(&(until, queue, ticket));
            if !call.is_abandoned() {
                parked.granting += 1;
                call.granted = true;
                return Some(call);
            }
        }
        None
    }

    /// A grant of this queue was applied, or failed.
    pub fn granted(&mut self, queue: QueueId, found: bool) {
        let Some(parked) = self.queues.get_mut(&queue) else {
            return;
        };
        parked.granting = parked.granting.saturating_sub(1);
        parked.window = if found {
            (parked.window * 2).min(WINDOW_MAX)
        } else {
            1
        };
    }

    /// A granted poll only wanted to know.
    pub fn told(&mut self, queue: QueueId) {
        if let Some(parked) = self.queues.get_mut(&queue) {
            parked.granting = parked.granting.saturating_sub(1);
        }
    }

    /// Looks at the queue again at this T, whatever deadlines it has.
    pub fn tell_again(&mut self, queue: QueueId, at_ms: u64) {
        if let Some(parked) = self.queues.get_mut(&queue) {
            parked.again = Some(at_ms);
            let deadline = parked.deadline;
            self.set_deadline(queue, deadline);
        }
    }

    /// Notes when the queue may next have something.
    pub fn set_deadline(&mut self, queue: QueueId, deadline: Option<u64>) {
        let Some(parked) = self.queues.get_mut(&queue) else {
            return;
        };
        if let Some(before) = parked.looked_at.take() {
            self.deadlines.remove(&(before, queue));
        }
        parked.deadline = deadline;
        parked.looked_at = parked.again.into_iter().chain(deadline).min();
        if let Some(at) = parked.looked_at {
            self.deadlines.insert((at, queue));
        }
    }

    fn forget_deadlines(&mut self, queue: QueueId) {
        if let Some(parked) = self.queues.get_mut(&queue) {
            parked.again = None;
        }
        self.set_deadline(queue, None);
    }

    /// The earliest T at which some queue may have something.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Queues whose deadline has come.
    pub fn due(&mut self, now_ms: u64) -> Vec<QueueId> {
        let mut due = Vec::new();
        while let Some((deadline, queue)) = self.deadlines.first().copied() {
            if deadline > now_ms {
                break;
            }
            self.forget_deadlines(queue);
            due.push(queue);
        }
        due
    }

    /// When the next poll's wait ends.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(end, _, _)| *end)
    }

    /// Takes out the polls whose wait is over.
    pub fn ended(&mut self, now: Instant) -> Vec<Call> {
        let mut ended = Vec::new();
        while let Some((end, queue, ticket)) = self.ends.first().copied() {
            if end > now {
                break;
            }
            self.ends.pop_first();
            ended.extend(self.take(queue, ticket));
        }
        ended
    }

    fn take(&mut self, queue: QueueId, ticket: u64) -> Option<Call> {
        let parked = self.queues.get_mut(&queue)?;
        // Waits are of similar length, so the ended one is nearly always at the front.
        let position = parked
            .polls
            .iter()
            .position(|(candidate, _)| *candidate == ticket)?;
        parked.polls.remove(position).map(|(_, call)| call)
    }

    /// Takes out all polls of a queue.
    pub fn take_all(&mut self, queue: QueueId) -> Vec<Call> {
        self.forget_deadlines(queue);
        let Some(parked) = self.queues.get_mut(&queue) else {
            return Vec::new();
        };
        let polls = std::mem::take(&mut parked.polls);
        for (ticket, call) in &polls {
            let until = call
                .wait_until
                .expect("a parked poll waits until some time");
            self.ends.remove(&(until, queue, *ticket));
        }
        polls.into_iter().map(|(_, call)| call).collect()
    }

    /// Forgets polls whose client has gone, and queues without polls.
    pub fn tidy(&mut self) {
        for (queue, parked) in &mut self.queues {
            parked.polls.retain(|(ticket, call)| {
                let until = call
                    .wait_until
                    .expect("a parked poll waits until some time");
                let kept = !call.is_abandoned();
                if !kept {
                    self.ends.remove(&(until, *queue, *ticket));
                }
                kept
            });
        }
        let idle: Vec<QueueId> = self
            .queues
            .iter()
            .filter(|(_, parked)| parked.polls.is_empty() && parked.granting == 0)
            .map(|(queue, _)| *queue)
            .collect();
        for queue in idle {
            self.forget_deadlines(queue);
            self.queues.remove(&queue);
        }
    }

    /// Empties the car park: leadership was lost, and with it all credits.
    pub fn drain(&mut self) -> Vec<Call> {
        let queues = std::mem::take(&mut self.queues);
        self.ends.clear();
        self.deadlines.clear();
        queues
            .into_values()
            .flat_map(|parked| parked.polls)
            .map(|(_, call)| call)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answered, SubmitError};
    use super::*;
    use hikyaku_queue::{Command, Operation, RequestId};
    use std::time::Duration;
    use tokio::sync::oneshot;

    const QUEUE: QueueId = QueueId(1);

    fn poll(
        number: u128,
        until: Instant,
    ) -> (Call, oneshot::Receiver<Result<Answered, SubmitError>>) {
        let (answer, waiting) = oneshot::channel();
        let command = Command {
            request_id: RequestId(number),
            not_after: 1,
            queue: QUEUE,
            descriptor_version: 1,
            operation: Operation::Housekeep,
        };
        (
            Call {
                command,
                bodies: Vec::new(),
                wait_until: Some(until),
                granted: false,
                answer: Some(answer),
            },
            waiting,
        )
    }

    #[tokio::test]
    async fn grants_in_order_of_arrival_through_a_window_that_doubles() {
        let until = Instant::now() + Duration::from_secs(20);
        let mut parking = Parking::default();
        let mut clients = Vec::new();
        for number in 0..8 {
            let (call, client) = poll(number, until);
            parking.park(call, until);
            clients.push(client);
        }
        let first = parking.grant(QUEUE).expect("one grant is open");
        assert_eq!(first.command.request_id, RequestId(0));
        assert!(parking.grant(QUEUE).is_none());
        parking.granted(QUEUE, true);
        let numbers: Vec<u128> = std::iter::from_fn(|| parking.grant(QUEUE))
            .map(|call| call.command.request_id.0)
            .collect();
        assert_eq!(numbers, [1, 2]);
        parking.granted(QUEUE, false);
        parking.granted(QUEUE, false);
        assert!(parking.grant(QUEUE).is_some());
        assert!(parking.grant(QUEUE).is_none());
    }

    #[tokio::test]
    async fn skips_polls_whose_client_has_gone() {
        let until = Instant::now() + Duration::from_secs(20);
        let mut parking = Parking::default();
        let (call, client) = poll(1, until);
        parking.park(call, until);
        drop(client);
        assert!(parking.grant(QUEUE).is_none());
        parking.tidy();
        assert!(!parking.knows(QUEUE));
    }

    #[tokio::test]
    async fn forgets_polls_whose_client_has_gone() {
        let until = Instant::now() + Duration::from_secs(20);
        let mut parking = Parking::default();
        let ((gone, client), (waiting, _client)) = (poll(1, until), poll(2, until));
        parking.park(gone, until);
        parking.park(waiting, until);
        drop(client);
        parking.tidy();
        assert_eq!(parking.len(), 1);
        let granted = parking.grant(QUEUE).expect("one still waits");
        assert_eq!(granted.command.request_id, RequestId(2));
    }

    #[tokio::test]
    async fn what_was_told_is_told_again_whatever_the_deadline() {
        let until = Instant::now() + Duration::from_secs(20);
        let mut parking = Parking::default();
        let (call, _client) = poll(1, until);
        parking.park(call, until);
        parking.tell_again(QUEUE, 120);
        parking.set_deadline(QUEUE, None);
        assert_eq!(parking.next_deadline(), Some(120));
        parking.set_deadline(QUEUE, Some(50));
        assert_eq!(parking.due(119), [QUEUE], "the deadline came first");
        parking.tell_again(QUEUE, 120);
        assert_eq!(parking.due(119), []);
        assert_eq!(parking.due(120), [QUEUE]);
        assert_eq!(parking.next_deadline(), None);
    }

    #[tokio::test]
    async fn a_wait_ends_once() {
        let until = Instant::now();
        let mut parking = Parking::default();
        let (call, _client) = poll(1, until);
        parking.park(call, until);
        assert_eq!(parking.ended(until).len(), 1);
        assert_eq!(parking.ended(until).len(), 0);
        assert_eq!(parking.len(), 0);
    }
}
