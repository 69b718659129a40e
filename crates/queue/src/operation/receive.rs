//! Receive: hands out visible messages until their visibility timeout.

use super::Site;
use crate::fifo::Fifo;
use crate::handle::ReceiptHandle;
use crate::held::Held;
use crate::ids::{PackedName, RequestId};
use crate::reply::{Delivery, Reply};
use crate::slice::{Messages, Slice};

/// AWS's limit for one receive.
const MAX_MESSAGES: u8 = 10;

pub(super) fn apply(
    slice: &mut Slice,
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
    match &mut slice.messages {
        // AWS refuses on a standard queue and answers nothing on a FIFO queue.
        Messages::Standard(_) if room == 0 => Reply::OverInFlightLimit,
        Messages::Standard(standard) => {
            let taken = standard.receive(max, now, visible_at);
            let delivery = |(name, held)| delivery(site, name, held, None);
            Reply::Received(taken.into_iter().map(delivery).collect())
        }
        Messages::Fifo(fifo) => {
            Reply::Received(receive_fifo(fifo, site, max, visible_at, attempt_id))
        }
    }
}

fn receive_fifo(
    fifo: &mut Fifo,
    site: &Site,
    max: usize,
    visible_at: u64,
    attempt_id: Option<&str>,
) -> Vec<Delivery> {
    if let Some(id) = attempt_id
        && let Some(again) = repeat(fifo, site, id, visible_at)
    {
        return again;
    }
    let taken = fifo.receive(max, site.applied.now, visible_at);
    let deliveries: Vec<Delivery> = taken
        .into_iter()
        .map(|(name, held)| delivery(site, name, held, Some(name.sequence(site.epoch))))
        .collect();
    if let Some(id) = attempt_id
        && !deliveries.is_empty()
    {
        fifo.attempts
            .remember(id, site.applied.now, site.request, deliveries.clone());
    }
    deliveries
}

/// Hands out what the attempt `id` did, under the same handles.
fn repeat(fifo: &mut Fifo, site: &Site, id: &str, visible_at: u64) -> Option<Vec<Delivery>> {
    let now = site.applied.now;
    for (name, held) in still_held(fifo, id, now)? {
        fifo.replace(name, held.visible_from(visible_at), now);
    }
    fifo.attempts.renew(id, visible_at);
    fifo.attempts.deliveries(id).map(<[Delivery]>::to_vec)
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

fn delivery(site: &Site, name: PackedName, held: Held, sequence: Option<u64>) -> Delivery {
    Delivery {
        name: name.name(),
        receive_count: held.receive_count,
        first_received_at: held.first_received_at(),
        deadline: held.visible_at,
        sequence,
        receipt: ReceiptHandle {
            partition: site.partition,
            queue: site.queue,
            name: name.name(),
            receive_number: held.receive_number(),
            received_at: site.applied.now,
            deadline: held.visible_at,
        },
    }
}
