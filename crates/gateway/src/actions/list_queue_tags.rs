//! `ListQueueTags`: the tags of a queue as they are now.

use hikyaku_sqs::actions::list_queue_tags::{ListQueueTags, ListQueueTagsResponse};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::tags::Tags;

use crate::call::Call;

pub(super) async fn run(request: ListQueueTags, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.read_queue(&request.queue).await?;
    let tags = Tags::from_stored(queue.tags.clone());
    Ok(call.answer(&ListQueueTagsResponse::new(&tags)))
}
