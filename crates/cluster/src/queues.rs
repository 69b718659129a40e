//! Queues themselves, as the front uses them: create, find, list, change, purge, delete.

use std::sync::Arc;

use hikyaku_metadata::{
    CancelMoveTask, CancelMoveTaskError, Command, CreateQueue, CreateQueueError, DeleteQueue,
    DeleteQueueError, PurgeQueue, PurgeQueueError, QueueRecord, ReplacePolicy, ReplacePolicyError,
    Reply, SetAttributes, SetAttributesError, StartMoveTask, StartMoveTaskError, TagQueue,
    TagQueueError, TenantId, UntagQueue, UntagQueueError,
};
use hikyaku_queue::QueueId;

use crate::control::ControlUnavailable;
use crate::node::Node;

/// A control-plane operation that failed: refused by the metadata, or not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError<E: std::error::Error> {
    /// The metadata refused; nothing was changed.
    #[error(transparent)]
    Refused(E),
    /// No answer in time; the change may have been made.
    #[error(transparent)]
    Unavailable(ControlUnavailable),
}

impl<E: std::error::Error> From<ControlUnavailable> for ControlError<E> {
    fn from(unavailable: ControlUnavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

impl Node {
    /// The queue of that name, for a data-plane call: this node's copy first, and only when it has
    /// none the metadata leader is asked.
    pub async fn find_queue(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<Arc<QueueRecord>>, ControlUnavailable> {
        match self.catalogue().find(tenant, name) {
            Some(queue) => Ok(Some(queue)),
            None => self.read_queue(tenant, name).await,
        }
    }

    /// The queue of that name as of now: sees every change answered before.
    pub async fn read_queue(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<Arc<QueueRecord>>, ControlUnavailable> {
        self.control().barrier().await?;
        Ok(self.catalogue().find(tenant, name))
    }

    /// A tenant's queues by name, as of now: those that start with `prefix`, after `after`, at most
    /// `limit`.
    pub async fn list_queues(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<QueueRecord>>, ControlUnavailable> {
        self.control().barrier().await?;
        Ok(self.catalogue().list(tenant, prefix, after, limit))
    }

    /// Creates a queue, or finds the one that has the name and no different attribute.
    pub async fn create_queue(
        &self,
        queue: CreateQueue,
    ) -> Result<QueueId, ControlError<CreateQueueError>> {
        match self
            .control()
            .execute(Command::CreateQueue(queue))
            .await?
            .reply
        {
            Reply::QueueCreated(result) => result
                .map(|created| created.queue)
                .map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Deletes a queue; returns when no partition serves it any more.
    pub async fn delete_queue(&self, queue: QueueId) -> Result<(), ControlError<DeleteQueueError>> {
        match self
            .control()
            .execute(Command::DeleteQueue(DeleteQueue { queue }))
            .await?
            .reply
        {
            Reply::QueueDeleted(result) => {
                let version = result.map_err(ControlError::Refused)?;
                Ok(self.control().wait_delivered(queue, version).await?)
            }
            reply => Err(unexpected(&reply)),
        }
    }

    /// Empties a queue at one moment between call and answer.
    pub async fn purge_queue(&self, queue: QueueId) -> Result<(), ControlError<PurgeQueueError>> {
        match self
            .control()
            .execute(Command::PurgeQueue(PurgeQueue { queue }))
            .await?
            .reply
        {
            Reply::QueuePurged(result) => {
                let version = result.map_err(ControlError::Refused)?;
                Ok(self.control().wait_delivered(queue, version).await?)
            }
            reply => Err(unexpected(&reply)),
        }
    }

    /// Sets attributes; returns when every partition obeys them.
    pub async fn set_attributes(
        &self,
        change: SetAttributes,
    ) -> Result<(), ControlError<SetAttributesError>> {
        let queue = change.queue;
        match self
            .control()
            .execute(Command::SetAttributes(change))
            .await?
            .reply
        {
            Reply::AttributesSet(result) => {
                let version = result.map_err(ControlError::Refused)?;
                Ok(self.control().wait_delivered(queue, version).await?)
            }
            reply => Err(unexpected(&reply)),
        }
    }

    /// Replaces the access policy of a queue whose policy is still the one that was read.
    pub async fn replace_policy(
        &self,
        change: ReplacePolicy,
    ) -> Result<(), ControlError<ReplacePolicyError>> {
        match self
            .control()
            .execute(Command::ReplacePolicy(change))
            .await?
            .reply
        {
            Reply::PolicyReplaced(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Starts to move dead letters back; returns when every partition knows what is to move: what comes
    /// to the queue later is not.
    pub async fn start_move_task(
        &self,
        start: StartMoveTask,
    ) -> Result<(), ControlError<StartMoveTaskError>> {
        let command = Command::StartMoveTask(start);
        match self.control().execute(command).await?.reply {
            Reply::MoveTaskStarted(result) => {
                let version = result.map_err(ControlError::Refused)?;
                Ok(self.control().wait_delivered(start.queue, version).await?)
            }
            reply => Err(unexpected(&reply)),
        }
    }

    /// Cancels a move task; says how many messages had been moved, about.
    pub async fn cancel_move_task(
        &self,
        cancel: CancelMoveTask,
    ) -> Result<u64, ControlError<CancelMoveTaskError>> {
        let command = Command::CancelMoveTask(cancel);
        match self.control().execute(command).await?.reply {
            Reply::MoveTaskCancelled(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Adds tags to a queue.
    pub async fn tag_queue(&self, change: TagQueue) -> Result<(), ControlError<TagQueueError>> {
        match self
            .control()
            .execute(Command::TagQueue(change))
            .await?
            .reply
        {
            Reply::Tagged(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Takes tags off a queue.
    pub async fn untag_queue(
        &self,
        change: UntagQueue,
    ) -> Result<(), ControlError<UntagQueueError>> {
        match self
            .control()
            .execute(Command::UntagQueue(change))
            .await?
            .reply
        {
            Reply::Untagged(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }
}

pub(crate) fn unexpected<E: std::error::Error>(reply: &Reply) -> ControlError<E> {
    tracing::error!(
        ?reply,
        "the metadata answered another question than was asked"
    );
    ControlError::Unavailable(ControlUnavailable)
}
