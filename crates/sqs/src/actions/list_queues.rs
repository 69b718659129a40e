//! `ListQueues`: the URLs of the caller's queues, by name, in pages if asked.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, SqsError};
use crate::quantities::{MAX_PAGE, MaxResults};
use crate::queue_name::QueueName;
use crate::reply;
use crate::wire::{Integer, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireListQueues<'a> {
    #[serde(borrow)]
    queue_name_prefix: Option<Text<'a>>,
    max_results: Option<Integer>,
    #[serde(borrow)]
    next_token: Option<Text<'a>>,
}

/// The request, checked: nothing about it depends on a queue.
#[derive(Debug)]
pub struct ListQueues {
    /// What the names begin with; empty for all.
    pub prefix: String,
    /// How many to list on this page; without it the first 1000, and no token for more.
    pub max_results: Option<MaxResults>,
    /// The last name of the page before; this page begins after it.
    pub after: Option<QueueName>,
}

impl ListQueues {
    pub(crate) fn from_wire(wire: &WireListQueues<'_>) -> Result<Self, SqsError> {
        let token = wire.next_token.as_deref().filter(|token| !token.is_empty());
        Ok(Self {
            prefix: wire
                .queue_name_prefix
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
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
    ///
    /// None without `MaxResults`, as on AWS.
    #[must_use]
    pub fn next_token(&self, last: &QueueName) -> Option<String> {
        self.max_results.map(|_| token_of_name(last))
    }
}

/// The token of a page whose last queue has this name.
pub(super) fn token_of_name(last: &QueueName) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(last.as_str())
}

/// The name in a token.
pub(super) fn name_of_token(token: &str) -> Result<QueueName, SqsError> {
    let name = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    let name = name.and_then(|name| String::from_utf8(name).ok());
    name.and_then(|name| QueueName::try_new(&name))
        .ok_or_else(|| {
            let text = "Invalid or expired next token.";
            SqsError::new(ErrorCode::InvalidParameterValue, text)
        })
}

/// The answer; a member without content is left out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListQueuesResponse {
    /// The URLs of the queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_urls: Vec<String>,
    /// The token for the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

impl ListQueuesResponse {
    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}
