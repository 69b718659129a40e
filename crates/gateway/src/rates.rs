//! How many requests each tenant may make of this node, so that none slows another.
//!
//! A tenant's requests are spaced evenly in the mind: each moves the moment on by which the tenant
//! would be in time, and one that would put it more than a second ahead is refused. So a tenant that
//! was quiet may make a second's worth at once, and nothing counts down while nobody asks.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hikyaku_metadata::TenantId;
use tokio::time::Instant;

/// How far ahead of its time a tenant may be: what it may ask at once.
const BURST: Duration = Duration::from_secs(1);

/// The rates of all tenants. There are as many entries as tenants that keys were given to.
pub(crate) struct Rates {
    /// The time that one request stands for; none if there is no limit.
    spacing: Option<Duration>,
    /// By when the requests so far would be in time.
    in_time: Mutex<HashMap<TenantId, Instant>>,
}

/// A tenant makes more requests than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Rates {
    /// Rates of so many requests a second for each tenant.
    pub(crate) fn new(per_second: Option<NonZeroU32>) -> Self {
        let spacing = per_second.map(|number| Duration::from_secs(1) / number.get());
        Self {
            spacing,
            in_time: Mutex::default(),
        }
    }

    /// Counts a request of a tenant; one too many is not counted.
    pub(crate) fn count(&self, tenant: TenantId, now: Instant) -> Result<(), TooMany> {
        let Some(spacing) = self.spacing else {
            return Ok(());
        };
        let mut all = self.in_time.lock().unwrap_or_else(PoisonError::into_inner);
        let in_time = all.entry(tenant).or_insert(now);
        let next = (*in_time).max(now) + spacing;
        if next > now + BURST {
            return Err(TooMany);
        }
        *in_time = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, NonZeroU32, Rates, TenantId, TooMany};

    fn tenant(digit: u8) -> TenantId {
        TenantId::parse(&format!("{digit:012}")).unwrap()
    }

    #[test]
    fn a_second_is_ahead_and_then_one_by_one() {
        let rates = Rates::new(NonZeroU32::new(10));
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(rates.count(tenant(1), start), Ok(()));
        }
        assert_eq!(rates.count(tenant(1), start), Err(TooMany));
        assert_eq!(rates.count(tenant(2), start), Ok(()));
        let later = start + Duration::from_millis(100);
        assert_eq!(rates.count(tenant(1), later), Ok(()));
        assert_eq!(rates.count(tenant(1), later), Err(TooMany));
    }

    #[test]
    fn ten_times_the_rate_gets_the_rate() {
        let rates = Rates::new(NonZeroU32::new(50));
        let start = Instant::now();
        let at = |step: u32| start + Duration::from_millis(2) * step;
        let taken = (0..5_000).filter(|step| rates.count(tenant(1), at(*step)).is_ok());
        // Ten seconds, and the second ahead.
        assert!((545..=551).contains(&taken.count()));
    }

    #[test]
    fn without_a_limit_nothing_is_refused() {
        let rates = Rates::new(None);
        let now = Instant::now();
        assert!((0..10_000).all(|_| rates.count(tenant(1), now).is_ok()));
    }
}
