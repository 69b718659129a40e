//! `TagQueue`: a queue gets tags, over those of the same keys.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{self as metadata, TagQueueError};
use hikyaku_sqs::actions::tag_queue::TagQueue;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: TagQueue<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let change = metadata::TagQueue {
        queue: queue.descriptor.id,
        tags: request.check()?.into_map(),
    };
    match call.node.tag_queue(change).await {
        Ok(()) => Ok(NO_OUTPUT),
        Err(ControlError::Refused(TagQueueError::NoSuchQueue(_))) => {
            Err(SqsError::queue_does_not_exist())
        }
        Err(ControlError::Refused(TagQueueError::TooManyTags(_))) => {
            Err(SqsError::too_many_tags(&queue.name))
        }
        Err(ControlError::Unavailable(unavailable)) => Err(failure::of_control(unavailable)),
    }
}
