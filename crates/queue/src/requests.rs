//! The answers already given, so that a retry gets the same one.
//!
//! A request is kept until its own `not_after`; a command later than that has no effect at all, so
//! nothing can be applied twice. Answers that changed nothing are not kept: a retry may do better.
//!
//! The answer to a send on a standard queue says nothing that its command does not: the ids that the
//! router drew. It is not kept, but made again from the retry, which is the same command.
//!
//! An answer given out a second time is marked: nobody can tell any more which of the two copies was
//! read, so what a receive handed out is not taken back then.

use std::collections::BTreeMap;

use crate::codec::{DecodeError, Reader, Writer};
use crate::command::{Command, Operation, SendMessage};
use crate::ids::RequestId;
use crate::reply::{Delivery, Reply, Sent};

#[derive(Debug)]
struct Answered {
    not_after: u64,
    /// Whether the answer, or what it handed out, was given to somebody else too.
    given_again: bool,
    /// The encoded reply: a fraction of the value's size. Empty when the command says it all.
    reply: Box<[u8]>,
}

impl Answered {
    /// `None` when the command says it all.
    fn decode(&self) -> Option<Reply> {
        let kept = (!self.reply.is_empty()).then_some(&self.reply)?;
        Some(Reply::decode(kept).expect("we encoded it, or checked it on reading"))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    by_id: BTreeMap<RequestId, Answered>,
    /// The requests that end at each time. Their order within it has no meaning.
    by_end: BTreeMap<u64, Vec<RequestId>>,
    reply_bytes: usize,
}

/// The bytes one request costs beside its reply: 48 and 16 in the two orders at two thirds, and 16
/// for the reply's allocation.
const REQUEST_BYTES: usize = (48 + 16) * 3 / 2 + 16;

/// What a standard queue answers to a send: each message under the id that it came with. Nothing when
/// the command is no send.
fn sent_as_asked(command: &Command) -> impl Iterator<Item = Sent> {
    let messages: &[SendMessage] = match &command.operation {
        Operation::Send { messages } => messages,
        _ => &[],
    };
    messages.iter().map(|message| Sent {
        id: message.id,
        sequence: None,
        duplicate: false,
    })
}

/// Whether the answer can be made again from the command alone.
fn says_it_all(command: &Command, reply: &Reply) -> bool {
    match reply {
        Reply::Sent(results) => {
            let sent = results.iter().map(|result| result.ok());
            sent.eq(sent_as_asked(command).map(Some))
        }
        _ => false,
    }
}

impl Requests {
    /// The answer for a retry.
    pub fn answer_again(&mut self, retry: &Command) -> Option<Reply> {
        let answered = self.by_id.get_mut(&retry.request_id)?;
        answered.given_again = true;
        let kept = answered.decode();
        Some(kept.unwrap_or_else(|| Reply::Sent(sent_as_asked(retry).map(Ok).collect())))
    }

    /// Records that what a receive handed out was handed out again under another request id.
    pub fn mark_given_again(&mut self, id: RequestId) {
        if let Some(answered) = self.by_id.get_mut(&id) {
            answered.given_again = true;
        }
    }

    /// What the receive `id` handed out, if that went to nobody else. Once a retry would be late
    /// there is nothing to tell: the mark may be forgotten already.
    pub fn given_once(&self, id: RequestId, now: u64) -> Option<Vec<Delivery>> {
        let answered = self.by_id.get(&id)?;
        if answered.given_again || answered.not_after < now {
            return None;
        }
        match answered.decode() {
            Some(Reply::Received(deliveries)) => Some(deliveries),
            Some(_) | None => None,
        }
    }

    pub fn contains(&self, id: RequestId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Keeps the answer for retries of the command.
    pub fn remember(&mut self, command: &Command, reply: &Reply) {
        let reply = match says_it_all(command, reply) {
            true => Box::default(),
            false => reply.encode().into(),
        };
        self.insert(
            command.request_id,
            Answered {
                not_after: command.not_after,
                given_again: false,
                reply,
            },
        );
    }

    fn insert(&mut self, id: RequestId, answered: Answered) {
        self.reply_bytes += answered.reply.len();
        self.by_end.entry(answered.not_after).or_default().push(id);
        let before = self.by_id.insert(id, answered);
        assert!(before.is_none(), "a request is answered once");
    }

    /// Forgets one answer, so that a retry is applied anew.
    pub fn forget(&mut self, id: RequestId) {
        let Some(answered) = self.by_id.remove(&id) else {
            return;
        };
        self.reply_bytes -= answered.reply.len();
        if let Some(ids) = self.by_end.get_mut(&answered.not_after) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_end.remove(&answered.not_after);
            }
        }
    }

    /// Forgets requests whose `not_after` has passed, as far as `budget` goes.
    pub fn settle(&mut self, now: u64, budget: &mut usize) {
        while *budget > 0
            && let Some(mut ended) = self.by_end.first_entry()
            && *ended.key() < now
        {
            // Which ones go when the budget ends must be the same on every replica.
            let ids = ended.get_mut();
            ids.sort_unstable_by(|one, other| other.cmp(one));
            let kept = ids.len().saturating_sub(*budget);
            for id in ids.drain(kept..) {
                if let Some(answered) = self.by_id.remove(&id) {
                    self.reply_bytes -= answered.reply.len();
                }
                *budget -= 1;
            }
            if ids.is_empty() {
                ended.remove();
            }
        }
    }

    /// T from which the oldest request can be forgotten.
    pub fn next_end(&self) -> Option<u64> {
        let (first, _) = self.by_end.first_key_value()?;
        Some(first.saturating_add(1))
    }

    pub fn bytes(&self) -> usize {
        self.by_id.len() * REQUEST_BYTES + self.reply_bytes
    }

    pub fn check(&self) -> Result<(), &'static str> {
        let mut ends: Vec<(RequestId, u64)> = self
            .by_end
            .iter()
            .flat_map(|(end, ids)| ids.iter().map(|id| (*id, *end)))
            .collect();
        ends.sort_unstable();
        let answers = self
            .by_id
            .iter()
            .map(|(id, answer)| (*id, answer.not_after));
        let both = answers.eq(ends) && self.by_end.values().all(|ids| !ids.is_empty());
        both.then_some(()).ok_or("every request is in both orders")
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.length(self.by_id.len());
        for (id, answered) in &self.by_id {
            writer.request_id(*id);
            writer.number(answered.not_after);
            writer.flag(answered.given_again);
            writer.blob(&answered.reply);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut requests = Self::default();
        for _ in 0..reader.length("requests")? {
            let id = reader.request_id()?;
            let not_after = reader.number("not after")?;
            let given_again = reader.flag("given again")?;
            let reply: Box<[u8]> = reader.blob("reply")?.into();
            if !reply.is_empty() {
                Reply::decode(&reply)?;
            }
            if requests.by_id.contains_key(&id) {
                return Err(DecodeError::Impossible("request answered twice"));
            }
            requests.insert(
                id,
                Answered {
                    not_after,
                    given_again,
                    reply,
                },
            );
        }
        Ok(requests)
    }
}
