//! Changes of a queue's policy that depend on what it says already.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{QueueRecord, ReplacePolicy, ReplacePolicyError};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::queue_url::QueueRef;

use crate::call::Call;
use crate::failure;

/// How often a change is tried before its client is told to try again later. Each attempt that fails
/// means that somebody else's change was made, and a policy has room for twenty statements.
const ATTEMPTS: usize = 32;

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
