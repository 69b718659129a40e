//! `SendMessage`: one message joins a queue.

use hikyaku_cluster::{Outgoing, SendFailure};
use hikyaku_queue::{self as queue, SendError};
use hikyaku_sqs::actions::send_message::{SendMessage, SendMessageResponse};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::CheckedMessage;
use hikyaku_sqs::message::stored::MessageId;

use crate::attributes::{facts_of, to_ms};
use crate::call::Call;
use crate::failure;
use crate::ids::draw_uuid;

pub(super) async fn run(request: SendMessage<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let message = request.check(facts_of(&queue))?;
    let id = draw_uuid(call.node.entropy());
    let messages = vec![outgoing(&message, id, call)];
    let mut sent = call.node.send(&queue, messages).await;
    match sent.pop().expect("one result per message") {
        Ok(sent) => {
            let messages = &call.metrics.messages;
            messages.sent(&queue, size_bytes(&message), &sent);
            // Of a duplicate both are those of the first send. No source shows which sequence number AWS
            // answers then (SQS-CONTRACT section 12); this one names the message that there is.
            let id = MessageId(sent.id.0);
            let response = SendMessageResponse::new(id, message.digests(), sent.sequence);
            Ok(call.answer(&response))
        }
        Err(SendFailure::Refused(error)) => Err(refusal(&message, error)),
        Err(SendFailure::Call(error)) => Err(failure::of_call(error)),
    }
}

/// The message as the cluster takes it.
pub(super) fn outgoing(message: &CheckedMessage<'_>, id: [u8; 16], call: &Call<'_>) -> Outgoing {
    let sender_id = call.tenant.account.as_str();
    let message_group = message.message_group.as_ref();
    let deduplication_id = message.deduplication_id.as_ref();
    Outgoing {
        id: queue::MessageId(id),
        body: message.to_stored(MessageId(id), sender_id).encode().into(),
        delay_ms: message.delay.map(|delay| to_ms(delay.seconds())),
        message_group: message_group.map(|group| group.as_str().to_owned()),
        deduplication_id: deduplication_id.map(|id| id.as_str().to_owned()),
    }
}

/// The bytes of a message that count towards its size.
pub(super) fn size_bytes(message: &CheckedMessage<'_>) -> usize {
    message.body.as_str().len() + message.attributes.size_bytes()
}

/// Why the machine did not take one message. It was checked here by the same rules, but a partition
/// obeys its own copy of the queue's descriptor.
pub(super) fn refusal(message: &CheckedMessage<'_>, error: SendError) -> SqsError {
    match error {
        SendError::NoMessageGroup => SqsError::missing_parameter("MessageGroupId"),
        SendError::NoDeduplicationId => SqsError::missing_deduplication_id(),
        SendError::DelayOnFifo => {
            SqsError::delay_on_fifo(message.delay.map_or(0, |delay| delay.seconds()))
        }
    }
}
