//! Actions as policies name them.

use super::pattern;
use crate::action::Action;

/// What precedes an action's name in a policy, in any case.
const PREFIX: &str = "sqs:";

impl Action {
    /// The name by which policies permit this action. A batch is permitted by the action on one
    /// message (API reference of `AddPermission`).
    #[must_use]
    pub const fn permission(self) -> &'static str {
        match self {
            Self::ChangeMessageVisibilityBatch => Self::ChangeMessageVisibility.name(),
            Self::DeleteMessageBatch => Self::DeleteMessage.name(),
            Self::SendMessageBatch => Self::SendMessage.name(),
            single => single.name(),
        }
    }

    /// Whether another account can be allowed to do it at all; the rest is for the owner alone (the
    /// same, "Cross-account permissions don't apply to the following actions").
    #[must_use]
    pub const fn is_grantable(self) -> bool {
        match self {
            Self::ChangeMessageVisibility
            | Self::ChangeMessageVisibilityBatch
            | Self::DeleteMessage
            | Self::DeleteMessageBatch
            | Self::GetQueueAttributes
            | Self::GetQueueUrl
            | Self::ListDeadLetterSourceQueues
            | Self::PurgeQueue
            | Self::ReceiveMessage
            | Self::SendMessage
            | Self::SendMessageBatch => true,
            Self::AddPermission
            | Self::CancelMessageMoveTask
            | Self::CreateQueue
            | Self::DeleteQueue
            | Self::ListMessageMoveTasks
            | Self::ListQueueTags
            | Self::ListQueues
            | Self::RemovePermission
            | Self::SetQueueAttributes
            | Self::StartMessageMoveTask
            | Self::TagQueue
            | Self::UntagQueue => false,
        }
    }
}

/// A pattern for actions: `*`, or `sqs:` and a name with or without wildcards, case meaning nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActionPattern(String);

impl ActionPattern {
    /// The pattern, if it describes any action.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let names = match lower.strip_prefix(PREFIX) {
            Some(names) => Self(names.to_owned()),
            None if lower == "*" => Self(lower),
            None => return None,
        };
        let described = Action::ALL.into_iter().any(|action| names.matches(action));
        described.then_some(names)
    }

    pub(super) fn matches(&self, action: Action) -> bool {
        pattern::matches(&self.0, &action.permission().to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, ActionPattern};

    #[test]
    fn a_batch_is_permitted_by_its_single_action() {
        let send = ActionPattern::parse("SQS:sendmessage").unwrap();
        assert!(send.matches(Action::SendMessage) && send.matches(Action::SendMessageBatch));
        assert!(!send.matches(Action::ReceiveMessage));
        for action in Action::ALL {
            assert_eq!(
                action.is_grantable(),
                match Action::from_name(action.permission()) {
                    Some(single) => single.is_grantable(),
                    None => panic!("{action:?} is permitted by no action"),
                }
            );
        }
    }

    #[test]
    fn what_describes_no_action_is_no_pattern() {
        for text in ["*", "sqs:*", "Sqs:Send*", "sqs:?etQueueUrl"] {
            assert!(ActionPattern::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "sqs:",
            "sqs:SendMessageBatch",
            "SendMessage",
            "sns:*",
            "s*",
        ] {
            assert!(ActionPattern::parse(text).is_none(), "{text}");
        }
    }
}
