//! Return unread: takes back deliveries whose client had gone before it could see them.
//!
//! The message is visible again and the receive is not counted. A delivery that has changed since is
//! left alone: then somebody did see it.

use super::Site;
use crate::ids::{Name, PackedName};
use crate::reply::Reply;
use crate::slice::{Messages, Slice};

pub(super) fn apply(slice: &mut Slice, site: &Site, deliveries: &[(Name, u32)]) -> Reply {
    let now = site.applied.now;
    for (name, receive_count) in deliveries {
        let Some(name) = PackedName::from_name(*name) else {
            continue;
        };
        let Some(held) = slice.held().get(name) else {
            continue;
        };
        if held.receive_count != *receive_count || *receive_count == 0 || held.visible_at <= now {
            continue;
        }
        let returned = held.returned_unread(now);
        match &mut slice.messages {
            Messages::Standard(standard) => standard.held_mut().replace(name, returned),
            Messages::Fifo(fifo) => fifo.replace(name, returned, now),
        }
    }
    Reply::Returned
}
