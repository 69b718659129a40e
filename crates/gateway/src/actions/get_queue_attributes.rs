//! `GetQueueAttributes`: a queue as it is now, and how much is in it.

use hikyaku_sqs::actions::get_queue_attributes::{GetQueueAttributes, GetQueueAttributesResponse};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::queue_attributes::description::{MessageCounts, QueueDescription};

use crate::call::Call;
use crate::{attributes, failure};

pub(super) async fn run(
    request: GetQueueAttributes<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.read_queue(&request.queue).await?;
    let selection = request.check()?;
    let counts = if selection.wants_counts() {
        let counts = call.node.counts(&queue).await.map_err(failure::of_call)?;
        MessageCounts {
            visible: counts.visible,
            not_visible: counts.in_flight,
            delayed: counts.delayed,
        }
    } else {
        MessageCounts::default()
    };
    let description = QueueDescription {
        attributes: &attributes::of_record(&queue),
        arn: &call.arn_of(&queue),
        created_seconds: queue.created_at_ms / 1_000,
        last_modified_seconds: queue.modified_at_ms / 1_000,
        counts,
    };
    let attributes = selection.of(&description);
    Ok(call.answer(&GetQueueAttributesResponse { attributes }))
}
