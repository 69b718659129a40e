//! What all clients of a run have in common.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use crate::check::Check;
use crate::connection::Client;
use crate::endpoint::Endpoint;
use crate::meter::{Clock, Meter, locked};
use crate::options::Options;
use crate::plan::Plan;
use crate::signer::Credentials;
use crate::stamp::Bodies;
use crate::wire;

/// How long a receive waits for messages, in seconds: few calls while there are none, and an end in
/// time.
const WAIT_SECONDS: u32 = 1;

/// One run, for all of its clients.
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// Message groups of each FIFO queue; 0 on standard queues.
    pub(crate) groups: u32,
    /// Messages of a preload's call.
    pub(crate) preload_batch: usize,
    pub(crate) clock: Clock,
    pub(crate) bodies: Bodies,
    pub(crate) meter: Meter,
    pub(crate) queues: Vec<Queue>,
    endpoint: Arc<Endpoint>,
    credentials: Arc<Credentials>,
    patience: Duration,
    check: Mutex<Check>,
}

/// A queue that was created.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) url: String,
    /// The same as JSON.
    pub(crate) url_json: String,
    /// `ReceiveMessage` that waits a while.
    pub(crate) patient_receive: Bytes,
    /// `ReceiveMessage` that does not.
    pub(crate) quick_receive: Bytes,
}

impl Queue {
    pub(crate) fn new(url: String, batch: u32) -> Self {
        Self {
            url_json: serde_json::Value::from(url.as_str()).to_string(),
            patient_receive: wire::receive(&url, batch, WAIT_SECONDS).into(),
            quick_receive: wire::receive(&url, batch, 0).into(),
            url,
        }
    }
}

impl Shared {
    pub(crate) fn new(plan: Plan, clock: Clock, queues: Vec<Queue>) -> Self {
        let preload_batch = plan.preload_batch();
        let options = plan.options;
        let visibility_timeout = options.visibility_timeout * 1_000_000_000;
        let consumers = options.consumers as usize;
        let check = Check::new(
            plan.stream_queues,
            options.fifo,
            visibility_timeout,
            consumers,
        );
        Self {
            groups: plan.groups,
            preload_batch,
            clock,
            bodies: Bodies::new(plan.run, options.body_bytes as usize),
            meter: Meter::new(),
            queues,
            endpoint: plan.endpoint,
            credentials: plan.credentials,
            patience: plan.patience,
            check: Mutex::new(check),
            options,
        }
    }

    /// The books. Never held while waiting.
    pub(crate) fn check(&self) -> MutexGuard<'_, Check> {
        locked(&self.check)
    }

    /// A client with a connection of its own.
    pub(crate) fn client(&self) -> Client {
        let (endpoint, credentials) = (Arc::clone(&self.endpoint), Arc::clone(&self.credentials));
        Client::new(endpoint, credentials, self.patience)
    }
}
