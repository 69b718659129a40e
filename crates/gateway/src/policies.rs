//! Policies of queues: read once for all requests, and changed by what they say already.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{QueueRecord, ReplacePolicy, ReplacePolicyError};
use hikyaku_queue::QueueId;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::policy::QueuePolicy;
use hikyaku_sqs::queue_url::QueueRef;

use crate::call::Call;
use crate::failure;

/// How often a change is tried before its client is told to try again later. Each attempt that fails
/// means that somebody else's change was made, and a policy has room for twenty statements.
const ATTEMPTS: usize = 32;

/// Policies kept as they were read, of so many queues: some 20 KiB each at the largest.
const KEPT: usize = 1_000;

/// The policies of queues as they were read, so that not every request reads its queue's anew.
#[derive(Default)]
pub(crate) struct Policies(Mutex<HashMap<QueueId, Kept>>);

/// A policy as it was read, and the text that it was read from.
struct Kept {
    text: String,
    policy: Arc<QueuePolicy>,
}

impl Policies {
    /// The policy of a queue, if it has one. A text from before policies were read may be none: it says
    /// nothing, and the queue is its owner's alone.
    pub(crate) fn of(&self, record: &QueueRecord) -> Option<Arc<QueuePolicy>> {
        let text = of_record(record)?;
        let queue = record.descriptor.id;
        if let Some(policy) = self.kept(queue, text) {
            return Some(policy);
        }
        let policy = match QueuePolicy::parse(text) {
            Ok(policy) => Arc::new(policy),
            Err(fault) => {
                tracing::warn!(%fault, queue = record.name, "a stored policy says nothing");
                return None;
            }
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            // All are read again, each when it is next asked for: rare, and simpler than ages.
            all.clear();
        }
        let kept = Kept {
            text: text.to_owned(),
            policy: Arc::clone(&policy),
        };
        all.insert(queue, kept);
        Some(policy)
    }

    fn kept(&self, queue: QueueId, text: &str) -> Option<Arc<QueuePolicy>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get(&queue).filter(|kept| kept.text == text)?;
        Some(Arc::clone(&kept.policy))
    }
}

/// Replaces a queue's policy by what `edit` makes of it, an empty text removing it. What others change
/// at the same time is not lost: whoever comes second reads again.
pub(crate) async fn edit(
    call: &Call<'_>,
    queue: &QueueRef,
    edit: impl Fn(&QueueRecord) -> Result<String, SqsError>,
) -> Result<(), SqsError> {
    for _ in 0..ATTEMPTS {
        let record = call.read_queue(queue).await?;
        let change = ReplacePolicy {
            queue: record.descriptor.id,
            current: record.settings.policy.clone(),
            policy: edit(&record)?,
        };
        match call.node.replace_policy(change).await {
            Ok(()) => return Ok(()),
            Err(ControlError::Refused(ReplacePolicyError::Changed)) => {}
            Err(ControlError::Refused(ReplacePolicyError::NoSuchQueue(_))) => {
                return Err(SqsError::queue_does_not_exist());
            }
            Err(ControlError::Unavailable(unavailable)) => {
                return Err(failure::of_control(unavailable));
            }
        }
    }
    Err(SqsError::throttled())
}

/// The policy of a queue, if it has one.
pub(crate) fn of_record(record: &QueueRecord) -> Option<&str> {
    let policy = &*record.settings.policy;
    (!policy.is_empty()).then_some(policy)
}
