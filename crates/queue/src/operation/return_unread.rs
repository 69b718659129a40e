//! Return unread: takes back what a receive handed out to a client that had gone before it could see
//! it.
//!
//! The receive is not counted and its messages are visible again. Its answer is forgotten with that:
//! kept, it would give a retry what somebody else may hold by then. A retry that came first has the
//! same messages, and so has a repeated receive attempt; then nothing is taken back, and the messages
//! return after their visibility timeout.
//!
//! A router that gave up on a receive before its answer came does not know what was handed out; it
//! names no deliveries, and all of them are taken back.
//!
//! Each delivery goes by its receive number, which no later one shares. With the answer gone, a
//! second return finds nothing. The receive attempt stays, but its messages are not held as it left
//! them, so it is never repeated.

use super::Site;
use crate::held::Held;
use crate::ids::{Name, PackedName, RequestId};
use crate::reply::{Delivery, Reply};
use crate::requests::Requests;
use crate::slice::{Messages, Slice};

pub(super) fn apply(
    slice: &mut Slice,
    requests: &mut Requests,
    site: &Site,
    receive: RequestId,
    deliveries: &[(Name, u32)],
) -> Reply {
    let now = site.applied.now;
    let given = requests.given_once(receive, now).unwrap_or_default();
    let unread: Vec<Delivery> = given
        .into_iter()
        .filter(|given| site.name(&given.receipt).is_some())
        .filter(|given| {
            deliveries.is_empty()
                || deliveries.contains(&(given.name, given.receipt.receive_number))
        })
        .collect();
    if unread.is_empty() {
        return Reply::Returned;
    }
    requests.forget(receive);
    for delivery in unread {
        take_back(slice, site, &delivery);
    }
    Reply::Returned
}

fn take_back(slice: &mut Slice, site: &Site, delivery: &Delivery) {
    let now = site.applied.now;
    let Some((name, held)) = latest(slice, site, delivery) else {
        return;
    };
    // Another time was set by the holder of an older handle, who counts on it.
    let visible_at = match held.visible_at == delivery.deadline {
        true => held.visible_at.min(now),
        false => held.visible_at,
    };
    let returned = held.returned_unread(visible_at);
    match &mut slice.messages {
        Messages::Standard(standard) => standard.replace(name, returned, now),
        Messages::Fifo(fifo) => fifo.replace(name, returned, now),
    }
}

/// The message, if it still exists and was not received again.
fn latest(slice: &Slice, site: &Site, delivery: &Delivery) -> Option<(PackedName, Held)> {
    let name = site.name(&delivery.receipt)?;
    let held = slice.held().get(name)?;
    (held.receive_number() == delivery.receipt.receive_number).then_some((name, held))
}
