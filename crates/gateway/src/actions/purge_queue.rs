//! `PurgeQueue`: all messages of a queue go.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::PurgeQueueError;
use hikyaku_sqs::actions::purge_queue::PurgeQueue;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: PurgeQueue, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    match call.node.purge_queue(queue.descriptor.id).await {
        Ok(()) => Ok(NO_OUTPUT),
        Err(ControlError::Refused(PurgeQueueError::NoSuchQueue(_))) => {
            Err(SqsError::queue_does_not_exist())
        }
        Err(ControlError::Refused(PurgeQueueError::InProgress { wait_ms: _ })) => {
            Err(SqsError::purge_queue_in_progress(&queue.name))
        }
        Err(ControlError::Unavailable(unavailable)) => Err(failure::of_control(unavailable)),
    }
}
