//! Send: adds messages in order, each judged alone.
//!
//! A partition outside the queue's spread takes none: receives may have stopped visiting it, and what
//! it took would never be seen.

use super::Site;
use crate::command::SendMessage;
use crate::deduplication::{self, First};
use crate::fifo::Fifo;
use crate::ids::PackedName;
use crate::reply::{Reply, SendError, Sent};
use crate::slice::{Messages, Slice};

pub(super) fn apply(slice: &mut Slice, site: &Site, messages: &[SendMessage]) -> Reply {
    if !slice.descriptor.spread.contains(&site.partition) {
        return Reply::TakesNoSends;
    }
    let queue_delay_ms = slice.descriptor.delay_ms;
    let results = (site.first_ordinal..)
        .zip(messages)
        .map(|(ordinal, message)| {
            let name = PackedName::new(site.applied.index, ordinal);
            match &mut slice.messages {
                Messages::Standard(standard) => {
                    let delay_ms = message.delay_ms.unwrap_or(queue_delay_ms);
                    standard.send(
                        name,
                        site.applied.now,
                        delay_ms,
                        message.message_group.as_deref(),
                    );
                    Ok(Sent {
                        id: message.id,
                        sequence: None,
                        duplicate: false,
                    })
                }
                Messages::Fifo(fifo) => send_fifo(fifo, site, name, message),
            }
        });
    Reply::Sent(results.collect())
}

fn send_fifo(
    fifo: &mut Fifo,
    site: &Site,
    name: PackedName,
    message: &SendMessage,
) -> Result<Sent, SendError> {
    let message_group = message
        .message_group
        .as_deref()
        .ok_or(SendError::NoMessageGroup)?;
    let id = message
        .deduplication_id
        .as_deref()
        .ok_or(SendError::NoDeduplicationId)?;
    // An explicit zero is accepted by AWS and means the queue's delay.
    if message.delay_ms.is_some_and(|delay_ms| delay_ms > 0) {
        return Err(SendError::DelayOnFifo);
    }
    let key = deduplication::key(fifo.scope, message_group, id);
    if let Some(first) = fifo.deduplication.first(&key) {
        let sequence = Some(first.name.sequence(site.epoch));
        return Ok(Sent {
            id: first.id,
            sequence,
            duplicate: true,
        });
    }
    let now = site.applied.now;
    fifo.deduplication.remember(
        key,
        First {
            sent_at: now,
            id: message.id,
            name,
        },
    );
    fifo.send(name, now, message_group);
    Ok(Sent {
        id: message.id,
        sequence: Some(name.sequence(site.epoch)),
        duplicate: false,
    })
}
