//! `ListQueues`: the URLs of the caller's queues, as of now.

use hikyaku_sqs::actions::list_queues::{ListQueues, ListQueuesResponse};
use hikyaku_sqs::error::SqsError;

use crate::call::{Call, name_of};
use crate::failure;

pub(super) async fn run(request: ListQueues, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let page = usize::try_from(request.page()).expect("a page has at most 1000 queues");
    let after = request.after.as_ref().map(|name| name.as_str());
    // One more than fits tells whether there is another page.
    let listing = call
        .node
        .list_queues(call.tenant.id, &request.prefix, after, page + 1);
    let mut queues = listing.await.map_err(failure::of_control)?;
    let more = queues.len() > page;
    queues.truncate(page);
    let next_token = match queues.last() {
        Some(last) if more => request.next_token(&name_of(last)),
        Some(_) | None => None,
    };
    let response = ListQueuesResponse {
        queue_urls: queues
            .iter()
            .map(|queue| call.queue_url(&name_of(queue)))
            .collect(),
        next_token,
    };
    Ok(call.answer(&response))
}
