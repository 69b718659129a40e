//! Whether a request may do what it asks: decided once its caller is known and before its action runs.
//!
//! What may be done to a caller's own queues, and is not, is refused as AWS refuses it. What may not be
//! done to somebody else's is answered as if there were no such queue, and in no other time: another
//! account's queue is looked for in this node's copy alone, whether it is there or not.

use std::net::IpAddr;

use hikyaku_metadata::{QueueRecord, TenantId};
use hikyaku_sqs::action::Action;
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::policy::{Asked, Decision, QueuePolicy, Surroundings};
use hikyaku_sqs::queue_name::{AccountId, QueueName};
use hikyaku_sqs::queue_url::QueueRef;
use hikyaku_sqs::request::Request;

use crate::call::{Call, account_of};
use crate::failure;

/// Where a request came from and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The address at the other end of the connection.
    pub(crate) source: IpAddr,
    /// Whether the connection is encrypted.
    pub(crate) encrypted: bool,
}

/// Somebody else's queue that a request may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The owner, as the metadata knows it.
    pub(crate) tenant: TenantId,
    /// The owner, as URLs and ARNs carry it.
    pub(crate) account: AccountId,
    /// The queue's name.
    pub(crate) name: QueueName,
}

/// What a request is about.
enum Subject<'r> {
    /// A queue that exists, or so the client says.
    Queue(&'r QueueRef),
    /// A queue by its ARN, which is spoken of otherwise when it does not exist.
    Resource(&'r QueueRef, SqsError),
    /// A queue of the caller's that may not exist yet.
    Name(&'r QueueName),
    /// All queues of the caller's.
    All,
}

impl<'r> Subject<'r> {
    fn of(request: &'r Request<'_>) -> Self {
        match request {
            Request::AddPermission(request) => Self::Queue(&request.queue),
            Request::CancelMessageMoveTask(request) => {
                Self::Resource(&request.source, SqsError::task_does_not_exist())
            }
            Request::ChangeMessageVisibility(request) => Self::Queue(&request.queue),
            Request::ChangeMessageVisibilityBatch(request) => Self::Queue(&request.queue),
            Request::CreateQueue(request) => Self::Name(&request.name),
            Request::DeleteMessage(request) => Self::Queue(&request.queue),
            Request::DeleteMessageBatch(request) => Self::Queue(&request.queue),
            Request::DeleteQueue(request) => Self::Queue(&request.queue),
            Request::GetQueueAttributes(request) => Self::Queue(&request.queue),
            Request::GetQueueUrl(request) => Self::Queue(&request.queue),
            Request::ListDeadLetterSourceQueues(request) => Self::Queue(&request.queue),
            Request::ListMessageMoveTasks(request) => {
                let none = SqsError::resource_does_not_exist("SourceArn");
                Self::Resource(&request.source, none)
            }
            Request::ListQueueTags(request) => Self::Queue(&request.queue),
            Request::ListQueues(_) => Self::All,
            Request::PurgeQueue(request) => Self::Queue(&request.queue),
            Request::ReceiveMessage(request) => Self::Queue(&request.queue),
            Request::RemovePermission(request) => Self::Queue(&request.queue),
            Request::SendMessage(request) => Self::Queue(&request.queue),
            Request::SendMessageBatch(request) => Self::Queue(&request.queue),
            Request::SetQueueAttributes(request) => Self::Queue(&request.queue),
            Request::StartMessageMoveTask(request) => {
                let none = SqsError::resource_does_not_exist("SourceArn");
                Self::Resource(&request.source, none)
            }
            Request::TagQueue(request) => Self::Queue(&request.queue),
            Request::UntagQueue(request) => Self::Queue(&request.queue),
        }
    }
}

/// Refuses a request that may not be made; says whose queue it may use, if not the caller's own.
pub(crate) async fn authorise(
    request: &Request<'_>,
    call: &Call<'_>,
) -> Result<Option<Granted>, SqsError> {
    match Subject::of(request) {
        Subject::Queue(queue) => existing(call, queue).await,
        Subject::Resource(queue, none) => {
            let found = existing(call, queue).await;
            found.map_err(|error| match error.code {
                ErrorCode::QueueDoesNotExist => none,
                _ => error,
            })
        }
        Subject::Name(name) => without_queue(call, name.as_str()).map(|()| None),
        Subject::All => without_queue(call, "").map(|()| None),
    }
}

/// Refuses to have messages moved to a queue of the caller's own that it may not send to.
pub(crate) fn authorise_destination(call: &Call<'_>, record: &QueueRecord) -> Result<(), SqsError> {
    let (account, name) = (account_of(record), record.name.as_str());
    let policy = call.policies.of(record);
    match decide_on(call, Action::SendMessage, &account, name, policy.as_deref()) {
        Decision::Allowed => Ok(()),
        refused => {
            let resource = resource(call, &account, name);
            let principal = &call.tenant.principal;
            let action = Action::SendMessage;
            Err(SqsError::not_authorised(
                principal, action, &resource, refused,
            ))
        }
    }
}

/// A queue that exists, or so the client says.
async fn existing(call: &Call<'_>, queue: &QueueRef) -> Result<Option<Granted>, SqsError> {
    match &queue.account {
        Some(account) if *account != call.tenant.account => {
            foreign(call, account, &queue.name).map(Some)
        }
        Some(_) | None => own(call, &queue.name).await.map(|()| None),
    }
}

/// A queue of the caller's own account.
async fn own(call: &Call<'_>, name: &QueueName) -> Result<(), SqsError> {
    let found = call.node.find_queue(call.tenant.id, name.as_str()).await;
    let record = found.map_err(failure::of_control)?;
    let policy = record
        .as_deref()
        .and_then(|record| call.policies.of(record));
    let account = &call.tenant.account;
    let decision = decide(call, account, name.as_str(), policy.as_deref());
    match (decision, record) {
        (Decision::Allowed, Some(_)) => Ok(()),
        (Decision::Allowed, None) => Err(SqsError::queue_does_not_exist()),
        (refused, _) => Err(refusal(call, name.as_str(), refused)),
    }
}

/// A queue of another account.
fn foreign(call: &Call<'_>, account: &AccountId, name: &QueueName) -> Result<Granted, SqsError> {
    let none = SqsError::queue_does_not_exist;
    let tenant = TenantId::parse(account.as_str()).map_err(|_| none())?;
    let record = call.node.catalogue().find(tenant, name.as_str());
    let policy = record.and_then(|record| call.policies.of(&record));
    match decide(call, account, name.as_str(), policy.as_deref()) {
        Decision::Allowed => Ok(Granted {
            tenant,
            account: account.clone(),
            name: name.clone(),
        }),
        Decision::Denied(_) | Decision::NotAllowed => Err(none()),
    }
}

/// Where no queue's policy has a say: what is about no queue in particular, or about a new one.
fn without_queue(call: &Call<'_>, name: &str) -> Result<(), SqsError> {
    match decide(call, &call.tenant.account, name, None) {
        Decision::Allowed => Ok(()),
        refused => Err(refusal(call, name, refused)),
    }
}

fn decide(
    call: &Call<'_>,
    owner: &AccountId,
    name: &str,
    policy: Option<&QueuePolicy>,
) -> Decision {
    decide_on(call, call.action, owner, name, policy)
}

fn decide_on(
    call: &Call<'_>,
    action: Action,
    owner: &AccountId,
    name: &str,
    policy: Option<&QueuePolicy>,
) -> Decision {
    // Most requests: an account's root at its own queue, and no policy that could say otherwise.
    if policy.is_none() && call.tenant.policy.is_none() && *owner == call.tenant.account {
        return Decision::Allowed;
    }
    let around = Surroundings {
        source: Some(call.origin.source),
        encrypted: call.origin.encrypted,
        now_ms: call.node.clock().wall_ms(),
        user_agent: call.user_agent,
    };
    let asked = Asked {
        principal: &call.tenant.principal,
        action,
        owner,
        resource: &resource(call, owner, name),
        around: &around,
    };
    asked.decide(policy, call.tenant.policy.as_ref())
}

/// The ARN of a queue as policies see it, known or not.
fn resource(call: &Call<'_>, owner: &AccountId, name: &str) -> String {
    format!("arn:aws:sqs:{}:{owner}:{name}", call.region)
}

fn refusal(call: &Call<'_>, name: &str, decision: Decision) -> SqsError {
    let resource = resource(call, &call.tenant.account, name);
    SqsError::not_authorised(&call.tenant.principal, call.action, &resource, decision)
}
