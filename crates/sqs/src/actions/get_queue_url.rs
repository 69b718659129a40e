//! `GetQueueUrl`: finds a queue's URL by its name.

use serde::{Deserialize, Serialize};

use crate::error::SqsError;
use crate::queue_name::{AccountId, QueueName};
use crate::queue_url::QueueRef;
use crate::reply;
use crate::wire::Text;

#[derive(Debug, Deserialize)]
pub(crate) struct WireGetQueueUrl<'a> {
    #[serde(borrow, rename = "QueueName")]
    queue_name: Option<Text<'a>>,
    #[serde(borrow, rename = "QueueOwnerAWSAccountId")]
    owner: Option<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct GetQueueUrl {
    /// The queue asked for; its account is the owner given, if one was.
    pub queue: QueueRef,
}

impl GetQueueUrl {
    pub(crate) fn from_wire(wire: &WireGetQueueUrl<'_>) -> Result<Self, SqsError> {
        let name = wire.queue_name.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| SqsError::missing_parameter("QueueName"))?;
        let account = match wire.owner.as_deref().filter(|owner| !owner.is_empty()) {
            Some(owner) => {
                Some(AccountId::try_new(owner).ok_or_else(SqsError::queue_does_not_exist)?)
            }
            None => None,
        };
        // A name that no queue can have is one of a queue that does not exist.
        let name = QueueName::try_new(name).ok_or_else(SqsError::queue_does_not_exist)?;
        Ok(Self {
            queue: QueueRef { account, name },
        })
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GetQueueUrlResponse {
    /// The URL of the queue.
    pub queue_url: String,
}

impl GetQueueUrlResponse {
    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}
