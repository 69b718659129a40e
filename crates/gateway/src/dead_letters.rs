//! What a redrive policy must be checked against: the dead-letter queue it names.

use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::queue_attributes::changes::{AttributeChanges, Change};
use hikyaku_sqs::queue_name::QueueName;
use hikyaku_sqs::queue_url::QueueRef;

use crate::attributes;
use crate::call::Call;

/// Refuses a redrive policy whose target does not exist, is of the other kind of queue, or does not
/// allow this source.
pub(crate) async fn check_target(
    call: &Call<'_>,
    source: &QueueName,
    changes: &AttributeChanges,
) -> Result<(), SqsError> {
    let Some(Change::Set(policy)) = &changes.redrive_policy else {
        return Ok(());
    };
    let target = policy.target();
    let target = QueueRef {
        account: Some(target.account.clone()),
        name: target.name.clone(),
    };
    let Ok(record) = call.read_queue(&target).await else {
        return Err(SqsError::dead_letter_target_does_not_exist(policy.as_str()));
    };
    let refuse = |reason: &str| {
        Err(SqsError::invalid_parameter(
            "RedrivePolicy",
            policy.as_str(),
            reason,
        ))
    };
    if record.is_fifo() != source.is_fifo() {
        return refuse("Dead-letter queue must be same type of queue as the source.");
    }
    match attributes::of_record(&record).redrive_allow_policy {
        Some(allow) if !allow.allows(&call.arn(source)) => {
            refuse("The dead-letter queue does not allow this queue as a source.")
        }
        Some(_) | None => Ok(()),
    }
}
