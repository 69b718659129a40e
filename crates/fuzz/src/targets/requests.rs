//! Requests of all actions in both dialects, from their bytes to what the gateway acts upon, and every
//! answer that repeats something of them.
//!
//! The first byte of an input is the action, the second says where the request was posted and what
//! kind of queue it is about; the rest is the request. In the Query dialect the action is in the
//! request, and what stands before a line feed is the URL's query, the rest the body.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::create_queue::CreateQueueResponse;
use hikyaku_sqs::actions::list_dead_letter_source_queues::ListDeadLetterSourceQueuesResponse;
use hikyaku_sqs::actions::list_message_move_tasks::{
    ListMessageMoveTasksResponse, ListedMoveTask, MoveTaskStatus,
};
use hikyaku_sqs::actions::list_queues::ListQueuesResponse;
use hikyaku_sqs::actions::receive_message::{Delivery, ReceiveMessageResponse};
use hikyaku_sqs::actions::send_message::SendMessageResponse;
use hikyaku_sqs::actions::send_message_batch::{SendMessageBatchResponse, SendMessageBatchSuccess};
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::batch::{BatchEntry, BatchResponse, BatchSuccess};
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};
use hikyaku_sqs::message::{CheckedMessage, QueueFacts};
use hikyaku_sqs::move_task::{MoveRate, TaskHandle};
use hikyaku_sqs::query::Form;
use hikyaku_sqs::queue_attributes::QueueAttributes;
use hikyaku_sqs::queue_name::QueueName;
use hikyaku_sqs::reply::{Answer, Dialect, Reply};
use hikyaku_sqs::request::{Envelope, Request};

use super::{Seen, Target, answers, corpus, magnitude};
use crate::memory::Bound;

/// Lists are bounded to a thousand entries and forms to two thousand parameters, each of which is a
/// struct of some hundred bytes, whatever the few bytes that ask for it.
const MEMORY: Bound = Bound {
    fixed: 1 << 20,
    per_byte: 64,
};

pub const JSON: Target = Target {
    name: "sqs_json",
    seeds: corpus::json,
    words: corpus::WORDS,
    memory: MEMORY,
    judge: || {
        Box::new(|input| {
            let [action, place, body @ ..] = input else {
                return Seen::refused("no request");
            };
            let action = Action::ALL[usize::from(*action) % Action::ALL.len()];
            let place = Place::of(*place);
            let request = Request::from_json(action, body, place.envelope);
            let kind = request.and_then(|request| act(action, &request, place.facts));
            seen(action, kind)
        })
    },
};

pub const QUERY: Target = Target {
    name: "sqs_query",
    seeds: corpus::query,
    words: corpus::WORDS,
    memory: MEMORY,
    judge: || {
        Box::new(|input| {
            let [_, place, text @ ..] = input else {
                return Seen::refused("no request");
            };
            let place = Place::of(*place);
            let end = text.iter().position(|byte| *byte == b'\n');
            let (query, body) = match end.and_then(|end| text.split_at_checked(end)) {
                Some((query, body)) => (std::str::from_utf8(query), &body[1..]),
                None => (Ok(""), text),
            };
            let Ok(query) = query else {
                return Seen::refused("not a URL");
            };
            let form = match Form::parse(query, body) {
                Ok(form) => form,
                Err(error) => return refused(&error),
            };
            match form.action(place.envelope.path) {
                Ok(action) => {
                    let request = Request::from_query(action, &form, place.envelope);
                    let kind = request.and_then(|request| act(action, &request, place.facts));
                    seen(action, kind)
                }
                Err(error) => refused(&error),
            }
        })
    },
};

/// Where a request came from and what its queue is.
struct Place {
    envelope: Envelope<'static>,
    facts: QueueFacts,
}

impl Place {
    fn of(byte: u8) -> Self {
        let facts = QueueFacts {
            maximum_message_size: if byte & 4 == 0 { 1_048_576 } else { 1_024 },
            fifo: byte & 1 != 0,
            content_based_deduplication: byte & 3 == 3,
        };
        let envelope = Envelope {
            path: if byte & 8 == 0 {
                "/"
            } else {
                "/000000000000/orders"
            },
            trace_header: (byte & 16 != 0).then_some("Root=1-2-3"),
        };
        Self { envelope, facts }
    }
}

fn seen(action: Action, kind: Result<u32, SqsError>) -> Seen {
    match kind {
        Ok(kind) => Seen::accepted((action, kind)),
        Err(error) => refused(&error),
    }
}

/// Writes what a client is told, in every dialect.
fn refused(error: &SqsError) -> Seen {
    for dialect in [Dialect::Json, Dialect::Xml, Dialect::Tree] {
        let reply = Reply::error(dialect, "id-1", error);
        assert!((400..600).contains(&reply.status));
        answers::assert_sound(&reply);
    }
    // What a parser says tells where it was; most other texts repeat the request.
    let message = &error.message;
    match error.code {
        ErrorCode::Serialization => Seen::refused(message),
        code => Seen::refused(&format!("{code:?} {}", magnitude(message.len()))),
    }
}

/// Writes what a client is answered, in every dialect.
fn answered(action: Action, answer: &impl Answer) {
    for dialect in [Dialect::Json, Dialect::Xml, Dialect::Tree] {
        let body = dialect.answer(action, answer);
        let reply = Reply::success(dialect, "id-1", action, body);
        answers::assert_sound(&reply);
    }
}

/// Does with a request what the gateway does, as far as no queue is needed for it.
fn act(action: Action, request: &Request<'_>, facts: QueueFacts) -> Result<u32, SqsError> {
    Ok(match request {
        Request::AddPermission(request) => {
            let arn = "arn:aws:sqs:local:000000000000:orders";
            let arn = QueueArn::try_parse(arn).expect("an ARN of a queue");
            let policy = request.check()?.add_to(None, &arn)?;
            magnitude(policy.len())
        }
        Request::ChangeMessageVisibility(request) => request.check()?.timeout.seconds(),
        Request::ChangeMessageVisibilityBatch(request) => batch(action, request.check()?),
        Request::CreateQueue(request) => {
            let url = format!("http://h/000000000000/{}", request.name);
            answered(action, &CreateQueueResponse { queue_url: url });
            created(&request.name, &request.attributes);
            request.check_existing(&request.attributes)?;
            magnitude(request.tags.as_map().len())
        }
        Request::DeleteMessage(request) => magnitude(request.check()?.len()),
        Request::DeleteMessageBatch(request) => batch(action, request.check()?),
        Request::GetQueueAttributes(request) => u32::from(request.check()?.wants_counts()),
        Request::ListQueues(request) => {
            let after = request.after.as_ref();
            let answer = ListQueuesResponse {
                queue_urls: vec![request.prefix.clone()],
                next_token: after.and_then(|name| request.next_token(name)),
            };
            answered(action, &answer);
            magnitude(request.page() as usize)
        }
        Request::ListDeadLetterSourceQueues(request) => {
            let after = request.after.as_ref();
            let answer = ListDeadLetterSourceQueuesResponse {
                queue_urls: vec![request.queue.name.to_string()],
                next_token: after.and_then(|name| request.next_token(name)),
            };
            answered(action, &answer);
            magnitude(request.page() as usize)
        }
        Request::ReceiveMessage(request) => {
            let checked = request.check(facts)?;
            let stored = corpus::stored_message();
            let messages = vec![checked.present(Delivery {
                receipt_handle: "AQEB".to_owned(),
                stored: StoredMessage::decode(&stored).expect("a message as it was written"),
                sent_ms: 1_700_000_000_000,
                receive_count: 1,
                first_received_ms: 1_700_000_000_000,
                sequence_number: facts.fifo.then_some(7),
                dead_letter_source: None,
            })];
            answered(action, &ReceiveMessageResponse { messages });
            u32::from(checked.max_number_of_messages.get())
        }
        Request::RemovePermission(request) => {
            u32::from(request.check()?.remove_from(None).is_err())
        }
        Request::SendMessage(request) => {
            let message = request.check(facts)?;
            answered(action, &sent(&message, facts));
            magnitude(message.attributes.len())
        }
        Request::SendMessageBatch(request) => {
            let entries = request.check(facts)?;
            let count = magnitude(entries.len());
            let mut answer = SendMessageBatchResponse::default();
            for BatchEntry { id, checked } in entries {
                let success = checked.map(|message| {
                    sent(&message, facts);
                    SendMessageBatchSuccess::new(id, ID, message.digests(), Some(1))
                });
                answer.push(id, success);
            }
            answered(action, &answer);
            count
        }
        Request::SetQueueAttributes(request) => {
            let name = if facts.fifo { "orders.fifo" } else { "orders" };
            let name = QueueName::parse(name)?;
            let current = QueueAttributes::create(&name, &Default::default());
            // A FIFO queue must be said to be one when it is created.
            let current =
                current.or_else(|_| QueueAttributes::from_pairs(&name, [("FifoQueue", "true")]))?;
            let changed = request.check(&current)?;
            created(&name, &changed);
            magnitude(changed.to_pairs().len())
        }
        Request::TagQueue(request) => magnitude(request.check()?.into_map().len()),
        Request::UntagQueue(request) => magnitude(request.check()?.len()),
        Request::CancelMessageMoveTask(request) => u32::from(request.task[0]),
        Request::ListMessageMoveTasks(request) => {
            let task_handle = TaskHandle {
                task: [7; 16],
                source: QueueArn::try_parse("arn:aws:sqs:local:000000000000:dead")
                    .expect("an ARN of a queue"),
            };
            let task_handle = task_handle.to_text();
            assert!(TaskHandle::try_parse(&task_handle).is_some());
            let listed = ListedMoveTask {
                task_handle: Some(task_handle),
                status: MoveTaskStatus::Running,
                source_arn: request.source.name.to_string(),
                destination_arn: None,
                max_number_of_messages_per_second: Some(5),
                approximate_number_of_messages_moved: 1,
                approximate_number_of_messages_to_move: 2,
                failure_reason: None,
                started_timestamp: 3,
            };
            let results = vec![listed];
            answered(action, &ListMessageMoveTasksResponse { results });
            u32::from(request.max_results.get())
        }
        Request::StartMessageMoveTask(request) => u32::from(request.rate.map_or(0, MoveRate::get)),
        Request::DeleteQueue(_)
        | Request::GetQueueUrl(_)
        | Request::ListQueueTags(_)
        | Request::PurgeQueue(_) => 0,
    })
}

const ID: MessageId = MessageId([7; 16]);

/// The answer to a message that is stored; what is stored of it is what comes back.
fn sent(message: &CheckedMessage<'_>, facts: QueueFacts) -> SendMessageResponse {
    let limit = facts.maximum_message_size as usize;
    assert!(
        message.size_bytes() <= limit,
        "a message is within its queue's limit"
    );
    assert_eq!(message.deduplication_id.is_some(), facts.fifo);
    let stored = message.to_stored(ID, "000000000000");
    let bytes = stored.encode();
    assert_eq!(StoredMessage::decode(&bytes).as_ref(), Ok(&stored));
    SendMessageResponse::new(ID, message.digests(), facts.fifo.then_some(1))
}

/// Attributes of a queue come back as they were stored.
fn created(name: &QueueName, attributes: &QueueAttributes) {
    let pairs = attributes.to_pairs();
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let again = QueueAttributes::from_pairs(name, pairs);
    assert_eq!(
        again.as_ref(),
        Ok(attributes),
        "attributes that were stored"
    );
}

fn batch<T>(action: Action, entries: Vec<BatchEntry<'_, T>>) -> u32 {
    let count = magnitude(entries.len());
    let mut answer = BatchResponse::default();
    for BatchEntry { id, checked } in entries {
        answer.push(id, checked.map(|_| BatchSuccess { id }));
    }
    answered(action, &answer);
    count
}
