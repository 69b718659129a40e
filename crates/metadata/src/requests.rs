//! Answers given, kept so that a retry of the same request gets the same one.
//!
//! An answer is kept until its request's own `not_after`: from then on a retry is late and has no
//! effect, so nothing more need be remembered.
//!
//! Invariant: `answers` and `by_deadline` name the same requests.

use crate::codec::{DecodeError, Reader, Writer};
use crate::reply::Reply;
use crate::validate::holds;
use hikyaku_queue::RequestId;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    answers: BTreeMap<RequestId, Answer>,
    by_deadline: BTreeSet<(u64, RequestId)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    not_after: u64,
    reply: Reply,
}

impl Requests {
    pub(crate) fn answer(&self, request: RequestId) -> Option<Reply> {
        self.answers.get(&request).map(|answer| answer.reply)
    }

    pub(crate) fn keep(&mut self, request: RequestId, not_after: u64, reply: Reply) {
        let replaced = self.answers.insert(request, Answer { not_after, reply });
        assert!(replaced.is_none(), "a request is answered once");
        self.by_deadline.insert((not_after, request));
    }

    pub(crate) fn due(&self, now: u64) -> bool {
        self.by_deadline
            .first()
            .is_some_and(|(not_after, _)| *not_after < now)
    }

    pub(crate) fn drop_outlived(&mut self, now: u64, limit: usize) {
        for _ in 0..limit {
            if !self.due(now) {
                return;
            }
            let (_, request) = self.by_deadline.pop_first().expect("one is due");
            self.answers.remove(&request);
        }
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        holds(
            self.answers.len() == self.by_deadline.len(),
            "each answer has one deadline",
        )?;
        let mut answers = self.answers.iter();
        holds(
            answers
                .all(|(request, answer)| self.by_deadline.contains(&(answer.not_after, *request))),
            "and it is the answer's own",
        )
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count(self.answers.len());
        for (request, answer) in &self.answers {
            writer.u128(request.0);
            writer.u64(answer.not_after);
            answer.reply.write(writer);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut requests = Self::default();
        for _ in 0..reader.count()? {
            let request = RequestId(reader.u128()?);
            let not_after = reader.u64()?;
            let reply = Reply::read(reader)?;
            if requests
                .answers
                .insert(request, Answer { not_after, reply })
                .is_some()
            {
                return Err(DecodeError::Repeated("request"));
            }
            requests.by_deadline.insert((not_after, request));
        }
        Ok(requests)
    }
}
