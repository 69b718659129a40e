//! `UntagQueue`: a queue loses tags.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{self as metadata, UntagQueueError};
use hikyaku_sqs::actions::untag_queue::UntagQueue;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: UntagQueue<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let change = metadata::UntagQueue {
        queue: queue.descriptor.id,
        keys: request.check()?,
    };
    match call.node.untag_queue(change).await {
        Ok(()) => Ok(NO_OUTPUT),
        Err(ControlError::Refused(UntagQueueError::NoSuchQueue(_))) => {
            Err(SqsError::queue_does_not_exist())
        }
        Err(ControlError::Unavailable(unavailable)) => Err(failure::of_control(unavailable)),
    }
}
