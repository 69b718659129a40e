//! Receive: hands out visible messages until their visibility timeout. Those that were received too
//! often leave instead.

use super::Site;
use crate::fifo::Fifo;
use crate::handle::ReceiptHandle;
use crate::held::Held;
use crate::ids::{PackedName, RequestId};
use crate::parting::Parting;
use crate::reply::{Delivery, Reply};
use crate::slice::{Messages, Slice};

/// AWS's limit for one receive.
const MAX_MESSAGES: u8 = 10;

pub(super) fn apply(
    slice: &mut Slice,
    parting: &mut Parting,
    site: &Site,
    max: u8,
    visibility_timeout_ms: Option<u64>,
    attempt_id: Option<&str>,
) -> Reply {
    let now = site.applied.now;
    let timeout_ms = visibility_timeout_ms.unwrap_or(slice.descriptor.visibility_timeout_ms);
    let visible_at = now.saturating_add(timeout_ms);
    let limit = u64::from(slice.descriptor.in_flight_limit);
    let room = limit.saturating_sub(slice.held().in_flight());
    let max = usize::from(max.min(MAX_MESSAGES)).min(usize::try_from(room).unwrap_or(usize::MAX));
    let taken = match &mut slice.messages {
        // AWS refuses on a standard queue and answers nothing on a FIFO queue.
        Messages::Standard(_) if room == 0 => return Reply::OverInFlightLimit,
        Messages::Standard(standard) => standard.receive(max, now, visible_at, parting),
        Messages::Fifo(fifo) => {
            if let Some(id) = attempt_id
                && repeat(fifo, id, now, visible_at)
            {
                return Reply::Received(repeated(slice, id));
            }
            fifo.receive(max, now, visible_at, parting)
        }
    };
    let deliveries: Vec<Delivery> = taken
        .into_iter()
        .map(|(name, held)| delivery(slice, site, name, held))
        .collect();
    if let Messages::Fifo(fifo) = &mut slice.messages
        && let Some(id) = attempt_id
        && !deliveries.is_empty()
    {
        fifo.attempts.remember(id, now, site.request, &deliveries);
    }
    Reply::Received(deliveries)
}

/// Holds again, under the same handles, what the attempt `id` did, if it can be repeated.
fn repeat(fifo: &mut Fifo, id: &str, now: u64, visible_at: u64) -> bool {
    let Some(held) = still_held(fifo, id, now) else {
        return false;
    };
    for (name, held) in held {
        fifo.replace(name, held.visible_from(visible_at), now);
    }
    fifo.attempts.renew(id, visible_at);
    true
}

/// What the attempt `id` hands out again.
fn repeated(slice: &Slice, id: &str) -> Vec<Delivery> {
    let Messages::Fifo(fifo) = &slice.messages else {
        return Vec::new();
    };
    let remembered = fifo.attempts.deliveries(id).unwrap_or_default();
    let with_origin = |delivery: &Delivery| Delivery {
        origin: PackedName::from_name(delivery.name).and_then(|name| slice.moved().origin(name)),
        ..delivery.clone()
    };
    remembered.iter().map(with_origin).collect()
}

/// The receive whose deliveries one with the attempt id `id` would hand out again, if it would.
pub(crate) fn repeated_receive(slice: &Slice, id: &str, now: u64) -> Option<RequestId> {
    match &slice.messages {
        Messages::Standard(_) => None,
        Messages::Fifo(fifo) => {
            still_held(fifo, id, now)?;
            fifo.attempts.receive(id)
        }
    }
}

/// The messages of the attempt `id`, if all of them are in flight as the attempt left them.
fn still_held(fifo: &Fifo, id: &str, now: u64) -> Option<Vec<(PackedName, Held)>> {
    let deliveries = fifo.attempts.deliveries(id)?;
    let still_held = |delivery: &Delivery| {
        let name = PackedName::from_name(delivery.name)?;
        let held = fifo.held().get(name)?;
        let unchanged =
            held.is_held_by(&delivery.receipt, now) && held.visible_at == delivery.deadline;
        unchanged.then_some((name, held))
    };
    deliveries.iter().map(still_held).collect()
}

fn delivery(slice: &Slice, site: &Site, name: PackedName, held: Held) -> Delivery {
    let fifo = matches!(slice.messages, Messages::Fifo(_));
    Delivery {
        name: name.name(),
        receive_count: held.receive_count,
        first_received_at: slice.first_received_at(name, held),
        deadline: held.visible_at,
        sequence: fifo.then(|| name.sequence(site.epoch)),
        receipt: ReceiptHandle {
            partition: site.partition,
            queue: site.queue,
            name: name.name(),
            receive_number: held.receive_number(),
            received_at: site.applied.now,
            deadline: held.visible_at,
        },
        origin: slice.moved().origin(name),
    }
}
