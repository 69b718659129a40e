//! `AddPermission`: a statement joins the queue's policy. No output.

use serde::Deserialize;

use crate::error::SqsError;
use crate::policy::permission::Permission;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireAddPermission<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
    #[serde(borrow, default, rename = "AWSAccountIds")]
    accounts: Items<Text<'a>>,
    #[serde(borrow, default)]
    actions: Items<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct AddPermission<'a> {
    /// The queue.
    pub queue: QueueRef,
    label: Option<Text<'a>>,
    accounts: Items<Text<'a>>,
    actions: Items<Text<'a>>,
}

impl<'a> AddPermission<'a> {
    pub(crate) fn from_wire(
        wire: WireAddPermission<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            label: wire.label,
            accounts: wire.accounts,
            actions: wire.actions,
        })
    }

    /// The permission to add; whether its label is free is for the queue's policy to say.
    pub fn check(&self) -> Result<Permission, SqsError> {
        let label = self.label.as_deref().unwrap_or_default();
        let accounts = self.accounts.0.iter().map(|account| &**account);
        let actions = self.actions.0.iter().map(|action| &**action);
        Permission::parse(label, accounts, actions)
    }
}
