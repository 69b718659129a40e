//! `CreateQueue`: a new queue, or the equal one that has the name.
//!
//! The metadata compares attributes as texts, and AWS compares policies as JSON. So an existing queue
//! is compared here, and what the metadata finds different is looked at once more.

use std::sync::Arc;

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{self as metadata, CreateQueueError, QueueRecord};
use hikyaku_sqs::actions::create_queue::{CreateQueue, CreateQueueResponse};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::sigv4::refusal::Refusal;

use crate::call::Call;
use crate::{attributes, dead_letters, failure};

pub(super) async fn run(request: CreateQueue, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let (tenant, name) = (call.tenant.id, request.name.as_str());
    // Looked for here first: clients that create their queue at every start cost no log entry.
    let known = call.node.catalogue().find(tenant, name).is_some();
    let existing = if known {
        read(&request, call).await?
    } else {
        None
    };
    match existing {
        Some(existing) => request.check_existing(&attributes::of_record(&existing))?,
        None => create(&request, call).await?,
    }
    let queue_url = call.queue_url(&request.name);
    Ok(call.answer(&CreateQueueResponse { queue_url }))
}

async fn read(
    request: &CreateQueue,
    call: &Call<'_>,
) -> Result<Option<Arc<QueueRecord>>, SqsError> {
    let found = call.node.read_queue(call.tenant.id, request.name.as_str());
    found.await.map_err(failure::of_control)
}

/// Refuses one queue more than the tenant may have, by this node's copy: those who create at the same
/// moment may all still find room.
fn check_room(call: &Call<'_>) -> Result<(), SqsError> {
    let Some(most) = call.limits.tenant_queues else {
        return Ok(());
    };
    let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
    let queues = call.node.catalogue().list(call.tenant.id, "", None, most);
    match queues.len() < most {
        true => Ok(()),
        false => Err(SqsError::too_many_queues(most)),
    }
}

async fn create(request: &CreateQueue, call: &Call<'_>) -> Result<(), SqsError> {
    check_room(call)?;
    dead_letters::check_target(call, &request.name, &request.asked).await?;
    let command = metadata::CreateQueue {
        tenant: call.tenant.id,
        name: request.name.as_str().to_owned(),
        fifo: request.name.is_fifo(),
        attributes: attributes::to_metadata(&request.asked),
        tags: request.tags.as_map().clone(),
    };
    match call.node.create_queue(command).await {
        Ok(_) => Ok(()),
        Err(ControlError::Unavailable(unavailable)) => Err(failure::of_control(unavailable)),
        Err(ControlError::Refused(refused)) => match refused {
            CreateQueueError::ExistsWithDifferent(attribute) => {
                let different = SqsError::queue_name_exists(&attribute.to_string());
                let existing = read(request, call).await?.ok_or(different)?;
                request.check_existing(&attributes::of_record(&existing))
            }
            CreateQueueError::DeletedRecently { wait_ms: _ } => {
                Err(SqsError::queue_deleted_recently())
            }
            CreateQueueError::Attributes(error) => Err(attributes::refusal(error)),
            CreateQueueError::NotFounded => Err(SqsError::service_unavailable()),
            // Its key is about to be refused on this node too.
            CreateQueueError::TenantNotActive => Err(Refusal::InactiveAccessKey.to_error()),
        },
    }
}
