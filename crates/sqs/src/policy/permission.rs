//! What `AddPermission` and `RemovePermission` do to a policy: a statement for each label.
//!
//! The policy stays the client's document: statements that others wrote keep their meaning, and may be
//! removed by their `Sid` as well. Recorded answers of AWS show the form of the statement, section 5 of
//! the contract; what is marked unproven there is decided here, beside each text.

use serde_json::json;

use super::document::{MAX_ACTIONS, MAX_PRINCIPALS, QueuePolicy, limit};
use super::fault::PolicyFault;
use super::wire::{WireDocument, WireStatement, written};
use crate::action::Action;
use crate::arn::QueueArn;
use crate::error::SqsError;
use crate::queue_name::AccountId;

/// The longest label, in characters.
const MAX_LABEL: usize = 80;

/// What is said of a name that permits nothing; that of a batch is one.
const NO_ACTION: &str = "Please refer to the appropriate WSDL for a list of valid actions.";

/// The version that AWS gives a policy of its own making.
const VERSION: &str = "2008-10-17";

/// The name of a statement: 1 to 80 alphanumerics, hyphens and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(String);

/// A permission to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    label: Label,
    accounts: Vec<AccountId>,
    /// As a policy names them.
    actions: Vec<String>,
}

impl Label {
    /// The label, if it is valid.
    pub fn parse(label: &str) -> Result<Self, SqsError> {
        if label.is_empty() {
            return Err(SqsError::missing_parameter("Label"));
        }
        let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if label.len() > MAX_LABEL || !label.bytes().all(word) {
            // Unproven on AWS: worded as for a queue's name, which has the same letters.
            let reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 \
                          in length";
            return Err(SqsError::invalid_parameter("Label", label, reason));
        }
        Ok(Self(label.to_owned()))
    }

    /// The policy without the statements of this label; nothing when none is left.
    pub fn remove_from(&self, policy: Option<&str>) -> Result<Option<String>, SqsError> {
        let mut document = read(policy)?;
        let before = document.statement.len();
        document
            .statement
            .retain(|statement| !self.names(statement));
        if document.statement.len() == before {
            return Err(self.refusal("can't find label."));
        }
        match document.statement.is_empty() {
            true => Ok(None),
            false => write(&document).map(Some),
        }
    }

    fn names(&self, statement: &WireStatement) -> bool {
        statement.sid.as_deref() == Some(&*self.0)
    }

    fn refusal(&self, reason: &str) -> SqsError {
        SqsError::invalid_parameter("Label", &self.0, reason)
    }
}

impl Permission {
    /// A permission for these accounts to do these actions.
    pub fn parse<'a>(
        label: &str,
        accounts: impl IntoIterator<Item = &'a str>,
        actions: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SqsError> {
        let label = Label::parse(label)?;
        let accounts: Vec<&str> = accounts.into_iter().collect();
        let actions: Vec<&str> = actions.into_iter().collect();
        Ok(Self {
            label,
            accounts: parse_accounts(&accounts)?,
            actions: parse_actions(&actions)?,
        })
    }

    /// The policy of this queue with a statement for the permission.
    pub fn add_to(&self, policy: Option<&str>, queue: &QueueArn) -> Result<String, SqsError> {
        let mut document = match policy {
            Some(_) => read(policy)?,
            None => WireDocument {
                version: Some(VERSION.to_owned()),
                id: Some(format!("{queue}/SQSDefaultPolicy")),
                statement: Vec::new(),
            },
        };
        if document.statement.iter().any(|it| self.label.names(it)) {
            return Err(self.label.refusal("Already exists."));
        }
        document.statement.push(self.statement(queue));
        write(&document)
    }

    fn statement(&self, queue: &QueueArn) -> WireStatement {
        let root = |account: &AccountId| format!("arn:aws:iam::{account}:root");
        let principals = self.accounts.iter().map(root).collect();
        WireStatement {
            sid: Some(self.label.0.clone()),
            effect: "Allow".to_owned(),
            principal: Some(json!({ "AWS": written(principals) })),
            not_principal: None,
            action: Some(written(self.actions.clone())),
            not_action: None,
            resource: Some(queue.to_string().into()),
            not_resource: None,
            condition: None,
        }
    }
}

fn parse_accounts(accounts: &[&str]) -> Result<Vec<AccountId>, SqsError> {
    limit("Principals", accounts.len(), MAX_PRINCIPALS).map_err(|fault| fault.to_error())?;
    let parsed = accounts.iter().map(|account| AccountId::try_new(account));
    let parsed = parsed.collect::<Option<Vec<_>>>();
    // Accounts are digits: neither `*` nor an ARN is one, though a policy that is set may have them.
    parsed.filter(|all| !all.is_empty()).ok_or_else(|| {
        let value = format!("[{}]", accounts.join(", "));
        SqsError::invalid_parameter("PrincipalId", value, "Unable to verify.")
    })
}

fn parse_actions(actions: &[&str]) -> Result<Vec<String>, SqsError> {
    if actions.is_empty() {
        return Err(SqsError::missing_parameter("Actions"));
    }
    limit("Actions", actions.len(), MAX_ACTIONS).map_err(|fault| fault.to_error())?;
    actions.iter().map(|action| parse_action(action)).collect()
}

fn parse_action(name: &str) -> Result<String, SqsError> {
    let in_policy = format!("SQS:{name}");
    let refuse = |reason| SqsError::invalid_parameter("ActionName", &in_policy, reason);
    match Action::from_name(name) {
        Some(action) if action.permission() != action.name() => Err(refuse(NO_ACTION)),
        Some(action) if action.is_grantable() => Ok(in_policy),
        Some(_) => Err(refuse(
            "Only the queue owner is allowed to invoke this action.",
        )),
        None if name == "*" => Ok(in_policy),
        None => Err(refuse(NO_ACTION)),
    }
}

/// Reads a policy to change it. One from before policies were read may be none that can be changed so.
fn read(policy: Option<&str>) -> Result<WireDocument, SqsError> {
    let text = policy.unwrap_or(r#"{"Statement":[]}"#);
    let document = serde_json::from_str(text);
    document.map_err(|error| PolicyFault::Form(error.to_string()).to_error())
}

/// Writes a policy that may stand on a queue: the limits hold for the whole of it.
fn write(document: &WireDocument) -> Result<String, SqsError> {
    let text = serde_json::to_string(document).expect("texts and JSON values are written");
    QueuePolicy::parse(&text).map_err(|fault| fault.to_error())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{Label, Permission};
    use crate::arn::QueueArn;
    use crate::error::{ErrorCode, SqsError};

    const ONE: &str = "111111111111";
    const TWO: &str = "222222222222";

    fn arn() -> QueueArn {
        QueueArn::try_parse("arn:aws:sqs:eu-north-1:000000000000:orders").unwrap()
    }

    fn permission(label: &str, accounts: &[&str], actions: &[&str]) -> Permission {
        let (accounts, actions) = (accounts.iter().copied(), actions.iter().copied());
        Permission::parse(label, accounts, actions).unwrap()
    }

    fn refusal(label: &str, accounts: &[&str], actions: &[&str]) -> SqsError {
        let (accounts, actions) = (accounts.iter().copied(), actions.iter().copied());
        Permission::parse(label, accounts, actions).unwrap_err()
    }

    #[test]
    fn writes_the_policy_that_aws_writes() {
        let read = permission("read", &[ONE], &["ReceiveMessage"]);
        let policy = read.add_to(None, &arn()).unwrap();
        assert_eq!(
            policy,
            "{\"Version\":\"2008-10-17\",\
             \"Id\":\"arn:aws:sqs:eu-north-1:000000000000:orders/SQSDefaultPolicy\",\
             \"Statement\":[{\"Sid\":\"read\",\"Effect\":\"Allow\",\
             \"Principal\":{\"AWS\":\"arn:aws:iam::111111111111:root\"},\
             \"Action\":\"SQS:ReceiveMessage\",\
             \"Resource\":\"arn:aws:sqs:eu-north-1:000000000000:orders\"}]}"
        );
        let both = permission("both", &[ONE, TWO], &["SendMessage", "*"]);
        let policy = both.add_to(Some(&policy), &arn()).unwrap();
        assert!(policy.contains(
            "{\"Sid\":\"both\",\"Effect\":\"Allow\",\
             \"Principal\":{\"AWS\":[\"arn:aws:iam::111111111111:root\",\
             \"arn:aws:iam::222222222222:root\"]},\
             \"Action\":[\"SQS:SendMessage\",\"SQS:*\"],"
        ));
    }

    #[test]
    fn a_label_is_added_once_and_removed_once() {
        let read = permission("read", &[ONE], &["ReceiveMessage"]);
        let send = permission("send", &[ONE], &["SendMessage"]);
        let one = read.add_to(None, &arn()).unwrap();
        assert_eq!(
            read.add_to(Some(&one), &arn()).unwrap_err().message,
            "Value read for parameter Label is invalid. Reason: Already exists."
        );
        let two = send.add_to(Some(&one), &arn()).unwrap();
        let label = |text| Label::parse(text).unwrap();
        assert_eq!(label("send").remove_from(Some(&two)), Ok(Some(one.clone())));
        for policy in [Some(&*one), None] {
            let error = label("send").remove_from(policy).unwrap_err();
            assert_eq!(
                error.message,
                "Value send for parameter Label is invalid. Reason: can't find label."
            );
        }
        assert_eq!(label("read").remove_from(Some(&one)), Ok(None));
    }

    #[test]
    fn a_policy_of_another_hand_keeps_its_statements() {
        let written = "{\"Statement\":{\"Effect\":\"Deny\",\"Sid\":\"theirs\",\"Principal\":\"*\",\
                       \"Action\":\"sqs:*\",\"Resource\":\"*\",\
                       \"Condition\":{\"Bool\":{\"aws:SecureTransport\":\"false\"}}}}";
        let read = permission("read", &[ONE], &["ReceiveMessage"]);
        let policy = read.add_to(Some(written), &arn()).unwrap();
        assert!(policy.starts_with(
            "{\"Statement\":[{\"Sid\":\"theirs\",\"Effect\":\"Deny\",\"Principal\":\"*\",\
             \"Action\":\"sqs:*\",\"Resource\":\"*\",\
             \"Condition\":{\"Bool\":{\"aws:SecureTransport\":\"false\"}}},{\"Sid\":\"read\","
        ));
        let theirs = Label::parse("theirs").unwrap();
        let left = theirs.remove_from(Some(&policy)).unwrap().unwrap();
        assert!(!left.contains("Deny") && left.contains("\"read\""));
    }

    #[test]
    fn a_policy_has_its_limits() {
        let mut policy = None;
        for number in 0..20 {
            let label = format!("l{number}");
            let added = permission(&label, &[ONE], &["SendMessage"]);
            policy = Some(added.add_to(policy.as_deref(), &arn()).unwrap());
        }
        let one_more = permission("l20", &[ONE], &["SendMessage"]);
        let error = one_more.add_to(policy.as_deref(), &arn()).unwrap_err();
        assert_eq!(error.code, ErrorCode::OverLimit);
        assert_eq!(
            error.message,
            "21 Statements were found, maximum allowed is 20."
        );

        let many = |label| permission(label, &[ONE; 30], &["SendMessage"]);
        let policy = many("a").add_to(None, &arn()).unwrap();
        let error = many("b").add_to(Some(&policy), &arn()).unwrap_err();
        assert_eq!(error.code, ErrorCode::OverLimit);
        assert_eq!(
            error.message,
            "60 Principals were found, maximum allowed is 50."
        );

        let id = "x".repeat(8_100);
        let policy = format!("{{\"Id\":\"{id}\",\"Statement\":[]}}");
        let error = many("a").add_to(Some(&policy), &arn()).unwrap_err();
        assert_eq!(error.code, ErrorCode::OverLimit);
        assert!(
            error
                .message
                .ends_with("Bytes were found, maximum allowed is 8192.")
        );
    }

    #[test]
    fn a_permission_has_its_limits() {
        let message = |error: SqsError| error.message.into_owned();
        let eight = ["SendMessage"; 8];
        let error = refusal("l", &[ONE], &eight);
        assert_eq!(error.code, ErrorCode::OverLimit);
        assert_eq!(error.message, "8 Actions were found, maximum allowed is 7.");
        assert_eq!(permission("l", &[ONE], &eight[1..]).actions.len(), 7);
        let error = refusal("l", &[ONE; 51], &["SendMessage"]);
        assert_eq!(error.code, ErrorCode::OverLimit);
        for (accounts, shown) in [(&[][..], "[]"), (&[ONE, "*"], "[111111111111, *]")] {
            assert_eq!(
                message(refusal("l", accounts, &["SendMessage"])),
                format!(
                    "Value {shown} for parameter PrincipalId is invalid. Reason: Unable to verify."
                )
            );
        }
        assert_eq!(
            refusal("l", &[ONE], &[]),
            SqsError::missing_parameter("Actions")
        );
        for (action, reason) in [
            (
                "DeleteQueue",
                "Only the queue owner is allowed to invoke this action.",
            ),
            (
                "SendMessageBatch",
                "Please refer to the appropriate WSDL for a list of valid actions.",
            ),
            (
                "sendmessage",
                "Please refer to the appropriate WSDL for a list of valid actions.",
            ),
        ] {
            assert_eq!(
                message(refusal("l", &[ONE], &[action])),
                format!("Value SQS:{action} for parameter ActionName is invalid. Reason: {reason}")
            );
        }
    }

    #[test]
    fn a_label_is_a_word_of_up_to_80() {
        let longest = "a".repeat(80);
        for label in ["a", "A-b_9", &longest] {
            assert_eq!(Label::parse(label), Ok(Label(label.to_owned())));
        }
        assert_eq!(Label::parse(""), Err(SqsError::missing_parameter("Label")));
        for label in ["a b", "é", "a.b", &"a".repeat(81)] {
            let error = Label::parse(label).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameterValue, "{label}");
        }
    }
}
