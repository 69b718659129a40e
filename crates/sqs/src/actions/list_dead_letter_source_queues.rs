//! `ListDeadLetterSourceQueues`: the URLs of the queues whose redrive policy names this one, by name,
//! in pages.

use serde::{Deserialize, Serialize};

use super::list_queues::{name_of_token, token_of_name};
use crate::error::SqsError;
use crate::quantities::{MAX_PAGE, MaxResults};
use crate::queue_name::QueueName;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Integer, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireListDeadLetterSourceQueues<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    max_results: Option<Integer>,
    #[serde(borrow)]
    next_token: Option<Text<'a>>,
}

/// The request, checked: nothing more about it depends on the queue.
#[derive(Debug)]
pub struct ListDeadLetterSourceQueues {
    /// The dead-letter queue.
    pub queue: QueueRef,
    /// How many to list on this page; without it the first 1000, and no token for more.
    pub max_results: Option<MaxResults>,
    /// The last name of the page before; this page begins after it.
    pub after: Option<QueueName>,
}

impl ListDeadLetterSourceQueues {
    pub(crate) fn from_wire(
        wire: &WireListDeadLetterSourceQueues<'_>,
        envelope: Envelope<'_>,
    ) -> Result<Self, SqsError> {
        let token = wire.next_token.as_deref().filter(|token| !token.is_empty());
        Ok(Self {
            queue: QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?,
            max_results: wire.max_results.map(MaxResults::parse).transpose()?,
            after: token.map(name_of_token).transpose()?,
        })
    }

    /// How many queues this page has at most.
    #[must_use]
    pub fn page(&self) -> u32 {
        self.max_results.map_or(MAX_PAGE, MaxResults::get)
    }

    /// The token for the page after this one, whose last queue has this name.
    #[must_use]
    pub fn next_token(&self, last: &QueueName) -> Option<String> {
        self.max_results.map(|_| token_of_name(last))
    }
}

/// The answer; a member without content is left out, whatever the model says (SQS-CONTRACT section 1).
#[derive(Debug, Serialize)]
pub struct ListDeadLetterSourceQueuesResponse {
    /// The URLs of the sources.
    #[serde(rename = "queueUrls", skip_serializing_if = "Vec::is_empty")]
    pub queue_urls: Vec<String>,
    /// The token for the next page, if there is one.
    #[serde(rename = "NextToken", skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}
