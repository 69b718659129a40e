//! A run whose flags make sense together, and who sends and receives what in it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use zeroize::Zeroizing;

use crate::connection::Client;
use crate::endpoint::{Endpoint, EndpointError};
use crate::options::{Options, Phase};
use crate::signer::Credentials;
use crate::stamp::{RUN_LIMIT, STAMP_BYTES, STREAM_LIMIT};
use crate::wire::BATCH_LIMIT;

/// Message groups of a FIFO queue, if nothing else is said.
const DEFAULT_GROUPS: u32 = 100;

/// AWS's limit of a message, and of all bodies of a call, in bytes.
const CALL_BYTES_LIMIT: u32 = 1_048_576;

/// Connections of one kind: what one process can reasonably drive.
const CONNECTIONS_LIMIT: u32 = 10_000;

/// A day: latencies and stamps have room for more.
const SECONDS_LIMIT: u64 = 86_400;

/// AWS's limit of a visibility timeout, in seconds.
const VISIBILITY_TIMEOUT_LIMIT: u64 = 43_200;

/// The key that signs when none is given: `hikyaku dev` and the emulators take any.
const ANY_KEY: &str = "any";

/// Why flags make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The endpoint is none.
    #[error("--endpoint: {0}")]
    Endpoint(#[from] EndpointError),
    /// A number is out of its range.
    #[error("--{flag} is from {least} to {most}, unlike {given}")]
    Range {
        /// The flag's name.
        flag: &'static str,
        /// What was given.
        given: u64,
        /// The least that makes sense.
        least: u64,
        /// The most.
        most: u64,
    },
    /// No messages a second.
    #[error("--rate is a number of messages a second above 0, unlike {0}")]
    Rate(String),
    /// Too short for its stamp.
    #[error("--body-bytes {given}: a body has a stamp of {STAMP_BYTES} bytes to be checked by")]
    BodyTooShort {
        /// What was given.
        given: u32,
    },
    /// More than AWS takes in one call.
    #[error(
        "--batch {batch} × --body-bytes {body_bytes} is over the {CALL_BYTES_LIMIT} bytes of a call"
    )]
    CallTooLong {
        /// Messages of a call.
        batch: u32,
        /// Bytes of each.
        body_bytes: u32,
    },
    /// Two flags that exclude each other, or one that needs another.
    #[error("{0}")]
    Together(&'static str),
    /// Each message group has one producer.
    #[error(
        "--groups {groups} is fewer than the {producers} producers of a queue: a message group has \
         one producer, so that its order is known"
    )]
    TooFewGroups {
        /// Groups of a queue.
        groups: u32,
        /// Producers of that queue.
        producers: u32,
    },
    /// More streams than can be told apart.
    #[error("{0} message groups in all are more than {STREAM_LIMIT}")]
    TooManyStreams(u64),
    /// A credential that cannot be in a header; it is not shown.
    #[error("--{0} has characters that cannot be in a request")]
    Credential(&'static str),
}

/// A run.
pub(crate) struct Plan {
    pub(crate) options: Options,
    pub(crate) run: u64,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) groups: u32,
    pub(crate) patience: Duration,
    /// The queue of each stream.
    pub(crate) stream_queues: Vec<u32>,
    /// For each producer, the streams that are its own, by queue.
    pub(crate) producers: Vec<Vec<Share>>,
    /// For each consumer, the queues it receives from.
    pub(crate) consumers: Vec<Vec<u32>>,
}

/// One producer's part of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) queue: u32,
    /// On a FIFO queue, stream number modulo groups is the message group.
    pub(crate) streams: Vec<u32>,
}

impl Plan {
    /// Checks all flags. `random` makes the run's number.
    pub(crate) fn new(options: Options, random: u64) -> Result<Self, PlanError> {
        check_ranges(&options)?;
        check_body(&options)?;
        check_together(&options)?;
        let credentials = credentials(&options)?;
        let endpoint = Endpoint::parse(&options.endpoint, options.ca.as_deref())?;
        let groups = match options.fifo {
            true => options.groups.unwrap_or(DEFAULT_GROUPS),
            false => 0,
        };
        let (producers, stream_queues) = shares(options.queues, options.producers, groups)?;
        let consumers = (0..options.consumers)
            .map(|consumer| queues_of(consumer, options.consumers, options.queues).collect())
            .collect();
        Ok(Self {
            run: random % RUN_LIMIT,
            endpoint: Arc::new(endpoint),
            credentials: Arc::new(credentials),
            groups,
            patience: Duration::from_secs(options.timeout),
            stream_queues,
            producers,
            consumers,
            options,
        })
    }

    /// The name of a queue.
    pub(crate) fn queue_name(&self, number: u32) -> String {
        let suffix = if self.options.fifo { ".fifo" } else { "" };
        format!("hikyaku-bench-{:012x}-{number}{suffix}", self.run)
    }

    /// A client with a connection of its own.
    pub(crate) fn client(&self) -> Client {
        let (endpoint, credentials) = (Arc::clone(&self.endpoint), Arc::clone(&self.credentials));
        Client::new(endpoint, credentials, self.patience)
    }

    /// How many messages the preload sends a call: as many as go.
    pub(crate) fn preload_batch(&self) -> usize {
        let fit = (CALL_BYTES_LIMIT / self.options.body_bytes) as usize;
        fit.clamp(1, BATCH_LIMIT)
    }
}

fn check_ranges(options: &Options) -> Result<(), PlanError> {
    let batch_limit = BATCH_LIMIT as u64;
    let groups = options.groups.map_or(1, u64::from);
    let ranges = [
        ("queues", options.queues.into(), 1, 10_000),
        ("groups", groups, 1, u64::from(STREAM_LIMIT)),
        ("batch", options.batch.into(), 1, batch_limit),
        (
            "body-bytes",
            options.body_bytes.into(),
            1,
            CALL_BYTES_LIMIT.into(),
        ),
        (
            "producers",
            options.producers.into(),
            1,
            CONNECTIONS_LIMIT.into(),
        ),
        (
            "consumers",
            options.consumers.into(),
            1,
            CONNECTIONS_LIMIT.into(),
        ),
        ("seconds", options.seconds, 1, SECONDS_LIMIT),
        ("warm-up", options.warm_up, 0, SECONDS_LIMIT),
        (
            "visibility-timeout",
            options.visibility_timeout,
            1,
            VISIBILITY_TIMEOUT_LIMIT,
        ),
        // Long polls last a second.
        ("timeout", options.timeout, 2, SECONDS_LIMIT),
    ];
    for (flag, given, least, most) in ranges {
        if !(least..=most).contains(&given) {
            return Err(PlanError::Range {
                flag,
                given,
                least,
                most,
            });
        }
    }
    match options.rate {
        Some(rate) if !rate.is_finite() || rate <= 0.0 => Err(PlanError::Rate(rate.to_string())),
        _ => Ok(()),
    }
}

fn check_body(options: &Options) -> Result<(), PlanError> {
    let (batch, body_bytes) = (options.batch, options.body_bytes);
    if (body_bytes as usize) < STAMP_BYTES {
        return Err(PlanError::BodyTooShort { given: body_bytes });
    }
    if u64::from(batch) * u64::from(body_bytes) > u64::from(CALL_BYTES_LIMIT) {
        return Err(PlanError::CallTooLong { batch, body_bytes });
    }
    Ok(())
}

fn check_together(options: &Options) -> Result<(), PlanError> {
    let receives = options.phase == Phase::Receives;
    let rules = [
        (
            !options.fifo && (options.groups.is_some() || options.high_throughput),
            "--groups and --high-throughput are of FIFO queues: add --fifo",
        ),
        (
            receives && options.preload == 0,
            "--phase receives needs messages to receive: add --preload",
        ),
        (
            receives && options.rate.is_some(),
            "--phase receives sends nothing that --rate could be of",
        ),
        (
            options.keep_depth && options.phase != Phase::Lives,
            "--keep-depth sends what is deleted: it is of --phase lives",
        ),
        (
            options.keep_depth && options.preload == 0,
            "--keep-depth keeps a backlog: add --preload",
        ),
        (
            options.keep_depth && options.rate.is_some(),
            "--keep-depth sends as many as are deleted, not at a --rate",
        ),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, words)) => Err(PlanError::Together(words)),
        None => Ok(()),
    }
}

fn credentials(options: &Options) -> Result<Credentials, PlanError> {
    let (id, secret) = match (&options.access_key_id, &options.secret_access_key) {
        (Some(id), Some(secret)) => (id.clone(), secret.0.clone()),
        (None, None) => (ANY_KEY.to_owned(), Zeroizing::new(ANY_KEY.to_owned())),
        (Some(_), None) | (None, Some(_)) => {
            return Err(PlanError::Together(
                "an access key id and its secret go together: give both, or neither",
            ));
        }
    };
    let session_token = options.session_token.as_ref().map(|token| token.0.clone());
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(word);
    if !is_word(&id) {
        return Err(PlanError::Credential("access-key-id"));
    }
    if !is_word(&options.region) {
        return Err(PlanError::Credential("region"));
    }
    let is_header = |token: &Zeroizing<String>| HeaderValue::from_str(token).is_ok();
    if !session_token.as_ref().is_none_or(is_header) {
        return Err(PlanError::Credential("session-token"));
    }
    Ok(Credentials {
        access_key_id: id,
        secret,
        session_token,
        region: options.region.clone(),
    })
}

/// The queues of one of so many clients: one of its own where there are enough clients, otherwise its
/// part of them.
fn queues_of(client: u32, clients: u32, queues: u32) -> impl Iterator<Item = u32> {
    let first = client % queues;
    let step = clients.min(queues);
    // Of more clients than queues, several have one; the step then leads out of the range.
    (first..queues).step_by(step as usize)
}

/// Each producer's shares, and each stream's queue. A standard queue has a stream for each of its
/// producers, a FIFO queue one for each group, dealt to its producers.
fn shares(
    queues: u32,
    producers: u32,
    groups: u32,
) -> Result<(Vec<Vec<Share>>, Vec<u32>), PlanError> {
    let all = u64::from(queues) * u64::from(groups);
    if all > u64::from(STREAM_LIMIT) {
        return Err(PlanError::TooManyStreams(all));
    }
    let producers_of_first = producers.div_ceil(queues);
    if groups > 0 && groups < producers_of_first {
        return Err(PlanError::TooFewGroups {
            groups,
            producers: producers_of_first,
        });
    }
    let mut stream_queues = Vec::new();
    let mut shares: Vec<Vec<Share>> = vec![Vec::new(); producers as usize];
    for queue in 0..queues {
        let its_producers: Vec<u32> = (0..producers)
            .filter(|producer| queues_of(*producer, producers, queues).any(|q| q == queue))
            .collect();
        let count = u32::try_from(its_producers.len()).expect("a part of a u32");
        let streams = if groups > 0 { groups } else { count };
        let first = u32::try_from(stream_queues.len()).expect("below the limit");
        for (place, producer) in (0..).zip(its_producers) {
            shares[producer as usize].push(Share {
                queue,
                streams: (first + place..first + streams)
                    .step_by(count as usize)
                    .collect(),
            });
        }
        stream_queues.extend((0..streams).map(|_| queue));
    }
    Ok((shares, stream_queues))
}

#[cfg(test)]
mod tests;
