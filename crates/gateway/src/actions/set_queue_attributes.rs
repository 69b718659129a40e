//! `SetQueueAttributes`: some attributes of a queue change, all or none.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{SetAttributes, SetAttributesError};
use hikyaku_sqs::actions::set_queue_attributes::SetQueueAttributes;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::{attributes, dead_letters, failure};

pub(super) async fn run(
    request: SetQueueAttributes<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.read_queue(&request.queue).await?;
    let changes = request.changes()?;
    attributes::of_record(&queue).with(&changes)?;
    dead_letters::check_target(call, &request.queue.name, &changes).await?;
    let change = SetAttributes {
        queue: queue.descriptor.id,
        attributes: attributes::to_metadata(&changes),
    };
    match call.node.set_attributes(change).await {
        Ok(()) => Ok(NO_OUTPUT),
        Err(ControlError::Refused(SetAttributesError::NoSuchQueue(_))) => {
            Err(SqsError::queue_does_not_exist())
        }
        Err(ControlError::Refused(SetAttributesError::Attributes(error))) => {
            Err(attributes::refusal(error))
        }
        Err(ControlError::Unavailable(unavailable)) => Err(failure::of_control(unavailable)),
    }
}
