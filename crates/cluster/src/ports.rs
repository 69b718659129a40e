//! The edges through which this node sees time and chance, each with a simulated twin.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hikyaku_raft::WallClock;
use rand::Rng;
use tokio::time::Instant;

/// The clocks of this machine.
pub trait Clock: Send + Sync + 'static {
    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Duration;

    /// The wall clock, milliseconds since the epoch; may jump.
    fn wall_ms(&self) -> u64;
}

/// A machine's clocks, as other nodes are told of them.
pub struct ToldClock(pub Arc<dyn Clock>);

impl WallClock for ToldClock {
    fn wall_clock_ms(&self) -> u64 {
        self.0.wall_ms()
    }
}

/// Where identities are drawn from.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A fresh 128-bit number.
    fn draw_u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_be_bytes(bytes)
    }

    /// A fresh 64-bit number other than zero.
    fn draw_nonzero_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_be_bytes(bytes).max(1)
    }
}

/// The real clocks. The monotonic one is tokio's, which a simulated runtime drives.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts counting now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_ms(&self) -> u64 {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The operating system's randomness.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}
