//! Wakes one waiter, which is either a thread or a task.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// A wake-up that is remembered until someone waits.
#[derive(Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    condvar: Condvar,
    notify: Notify,
}

impl Signal {
    pub(crate) fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condvar.notify_one();
        self.notify.notify_one();
    }

    fn take(&self) -> bool {
        std::mem::take(&mut *self.raised.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Blocks until raised (true) or until the time is over (false).
    pub(crate) fn wait_blocking(&self, limit: Duration) -> bool {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut raised, _) = self
            .condvar
            .wait_timeout_while(raised, limit, |raised| !*raised)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *raised)
    }

    /// Waits until raised (true) or until the time is over (false).
    pub(crate) async fn wait(&self, limit: Duration) -> bool {
        if self.take() {
            return true;
        }
        // Losing the branch is safe: `raise` leaves both the flag and a permit behind.
        let _ = tokio::time::timeout(limit, self.notify.notified()).await;
        self.take()
    }
}
