//! `ListDeadLetterSourceQueues`: the URLs of the queues that send their dead letters to this one, as
//! of now.

use hikyaku_sqs::actions::list_dead_letter_source_queues::{
    ListDeadLetterSourceQueues, ListDeadLetterSourceQueuesResponse,
};
use hikyaku_sqs::error::SqsError;

use crate::call::{Call, name_of};

pub(super) async fn run(
    request: ListDeadLetterSourceQueues,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.read_queue(&request.queue).await?;
    let page = usize::try_from(request.page()).expect("a page has at most 1000 queues");
    let after = request.after.as_ref().map(|name| name.as_str());
    let catalogue = call.node.catalogue();
    // One more than fits tells whether there is another page.
    let mut sources = catalogue.dead_letter_sources(&queue, after, page + 1);
    let more = sources.len() > page;
    sources.truncate(page);
    let next_token = match sources.last() {
        Some(last) if more => request.next_token(&name_of(last)),
        Some(_) | None => None,
    };
    let sources = sources.iter();
    let response = ListDeadLetterSourceQueuesResponse {
        queue_urls: sources.map(|it| call.url_of(it)).collect(),
        next_token,
    };
    Ok(call.answer(&response))
}
