//! `DeleteQueue`: a queue goes, with what is in it.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::DeleteQueueError;
use hikyaku_sqs::actions::delete_queue::DeleteQueue;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: DeleteQueue, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    match call.node.delete_queue(queue.descriptor.id).await {
        Ok(()) => Ok(NO_OUTPUT),
        Err(ControlError::Refused(DeleteQueueError::NoSuchQueue(_))) => {
            Err(SqsError::queue_does_not_exist())
        }
        Err(ControlError::Unavailable(unavailable)) => Err(failure::of_control(unavailable)),
    }
}
