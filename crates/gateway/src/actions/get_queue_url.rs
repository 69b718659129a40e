//! `GetQueueUrl`: the URL of the queue that has a name.

use hikyaku_sqs::actions::get_queue_url::{GetQueueUrl, GetQueueUrlResponse};
use hikyaku_sqs::error::SqsError;

use crate::call::Call;

pub(super) async fn run(request: GetQueueUrl, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.read_queue(&request.queue).await?;
    let queue_url = call.url_of(&queue);
    Ok(call.answer(&GetQueueUrlResponse { queue_url }))
}
