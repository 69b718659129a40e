//! Who may connect: so many at one time in all, and so many from one address.
//!
//! A connection beyond either number is closed as soon as it is accepted, which costs less than
//! saying why. An address that takes all it may leaves room for others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::GatewayLimits;

/// The part of an IPv6 address that one client has for itself: the rest is its own to choose.
const IPV6_NETWORK_BITS: u32 = 64;

/// The open connections.
pub(crate) struct Connections {
    most: usize,
    most_from_one: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    all: usize,
    /// None of them zero.
    from: HashMap<Origin, usize>,
}

/// Where a connection is from, as far as one client can be told from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin(IpAddr);

/// The limit that a connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// That of all connections.
    InAll,
    /// That of one address.
    FromOne,
}

/// An open connection, counted as long as this lives.
pub(crate) struct Admitted {
    connections: Arc<Connections>,
    origin: Origin,
}

impl Connections {
    /// None is open yet.
    pub(crate) fn new(limits: &GatewayLimits) -> Self {
        Self {
            most: limits.connections,
            most_from_one: limits.connections_per_address,
            open: Mutex::default(),
        }
    }

    /// Counts one more, if there is room for it.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Admitted, TooMany> {
        let origin = Origin::of(address);
        let mut open = self.open();
        if open.all >= self.most {
            return Err(TooMany::InAll);
        }
        let from = open.from.get(&origin).copied().unwrap_or_default();
        if from >= self.most_from_one {
            return Err(TooMany::FromOne);
        }
        open.from.insert(origin, from + 1);
        open.all += 1;
        Ok(Admitted {
            connections: Arc::clone(self),
            origin,
        })
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open().all
    }

    // The counts are whole at any time, whoever panicked.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.all -= 1;
        let from = open.from.get_mut(&self.origin);
        let from = from.expect("an open connection is counted");
        *from -= 1;
        if *from == 0 {
            open.from.remove(&self.origin);
        }
    }
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << (128 - IPV6_NETWORK_BITS));
                Self(Ipv6Addr::from_bits(network).into())
            }
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Connections, TooMany};
    use crate::config::GatewayLimits;

    fn connections(most: usize, most_from_one: usize) -> Arc<Connections> {
        Arc::new(Connections::new(&GatewayLimits {
            connections: most,
            connections_per_address: most_from_one,
            ..GatewayLimits::default()
        }))
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let connections = connections(3, 2);
        let admit = |address: &str| connections.admit(address.parse().unwrap());
        let first = admit("10.0.0.1").ok().unwrap();
        let _second = admit("10.0.0.1").ok().unwrap();
        assert_eq!(admit("10.0.0.1").err(), Some(TooMany::FromOne));
        let _other = admit("10.0.0.2").ok().unwrap();
        assert_eq!(admit("10.0.0.3").err(), Some(TooMany::InAll));
        assert_eq!(connections.count(), 3);
        drop(first);
        assert!(admit("10.0.0.1").is_ok());
    }

    #[test]
    fn one_client_is_one_however_its_address_is_written() {
        for (one, same, other) in [
            ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"),
            (
                "2001:db8::1",
                "2001:db8::ffff:ffff:ffff:ffff",
                "2001:db8:0:1::1",
            ),
        ] {
            let connections = connections(9, 1);
            let admit = |address: &str| connections.admit(address.parse().unwrap());
            let _one = admit(one).ok().unwrap();
            assert_eq!(admit(same).err(), Some(TooMany::FromOne), "{same}");
            let other = admit(other);
            assert!(other.is_ok());
        }
    }

    #[test]
    fn nothing_is_remembered_of_those_who_left() {
        let connections = connections(9, 9);
        for last in 0..9 {
            let address = std::net::Ipv4Addr::new(10, 0, 0, last);
            drop(connections.admit(address.into()));
        }
        let open = connections.open();
        assert!(open.all == 0 && open.from.is_empty());
    }
}
