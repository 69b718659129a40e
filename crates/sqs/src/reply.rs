//! What goes back over HTTP: status, headers, body.
//!
//! A reply names its headers itself, so that the server only copies them. `Content-Length` and
//! `Date` are the server's.

use serde::Serialize;

use crate::action::Action;
use crate::error::{ErrorCode, Fault, SqsError};
use crate::hex::HexText;
use crate::query::{to_tree, to_xml};

/// The content type of the JSON dialect, in both directions.
pub const JSON_CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The id of a request, as `x-amzn-RequestId` carries it.
#[must_use]
pub fn request_id(random: [u8; 16]) -> String {
    HexText::uuid(&random).to_string()
}

/// What an operation answers: a struct with the members that JSON gives it.
pub trait Answer: Serialize {}

impl<T: Serialize> Answer for T {}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The JSON dialect.
    Json,
    /// The Query dialect: XML.
    Xml,
    /// The Query dialect, for a client that accepts JSON.
    Tree,
}

impl Dialect {
    /// Writes what an action answers.
    #[must_use]
    pub fn answer(self, action: Action, answer: &impl Answer) -> Vec<u8> {
        match self {
            Self::Json => to_json(answer),
            Self::Xml => {
                let mut result = Vec::new();
                to_xml(action, answer, &mut result);
                result
            }
            Self::Tree => to_json(&to_tree(action, answer)),
        }
    }
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Headers, names in the case that AWS sends.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for operations without output.
    pub body: Vec<u8>,
}

#[derive(Serialize)]
struct WireError<'a> {
    #[serde(rename = "__type")]
    qualified_name: String,
    message: &'a str,
}

impl Reply {
    /// A success: what [`Dialect::answer`] wrote, or nothing for operations without output.
    #[must_use]
    pub fn success(dialect: Dialect, request_id: &str, action: Action, answer: Vec<u8>) -> Self {
        match dialect {
            Dialect::Json => Self::json(request_id, answer),
            Dialect::Xml => Self::xml(request_id, action, &answer),
            Dialect::Tree => Self::tree(request_id, action, &answer),
        }
    }

    /// A refusal.
    #[must_use]
    pub fn error(dialect: Dialect, request_id: &str, error: &SqsError) -> Self {
        match dialect {
            Dialect::Json => Self::json_error(request_id, error),
            Dialect::Xml => Self::xml_error(request_id, error),
            Dialect::Tree => Self::tree_error(request_id, error),
        }
    }

    /// A success in the JSON dialect; an empty body for operations without output.
    #[must_use]
    pub fn json(request_id: &str, body: Vec<u8>) -> Self {
        Self {
            status: 200,
            headers: json_headers(request_id),
            body,
        }
    }

    /// A refusal in the JSON dialect.
    #[must_use]
    pub fn json_error(request_id: &str, error: &SqsError) -> Self {
        let shape = error.code.shape();
        let fault = match shape.fault {
            Fault::Sender => "Sender",
            Fault::Receiver => "Receiver",
        };
        let mut headers = json_headers(request_id);
        headers.push((
            "x-amzn-query-error",
            format!("{};{fault}", shape.query_code),
        ));
        let body = to_json(&WireError {
            qualified_name: format!("{}#{}", shape.namespace, shape.name),
            message: &error.message,
        });
        Self {
            status: shape.status,
            headers,
            body,
        }
    }

    /// The answer to a GET without an action: XML, whatever was asked for.
    #[must_use]
    pub fn unknown_operation(request_id: &str) -> Self {
        Self {
            status: ErrorCode::UnknownOperation.shape().status,
            headers: vec![
                ("x-amzn-RequestId", request_id.to_owned()),
                ("Content-Type", "text/xml".to_owned()),
            ],
            body: b"<UnknownOperationException/>\n".to_vec(),
        }
    }
}

fn json_headers(request_id: &str) -> Vec<(&'static str, String)> {
    vec![
        ("x-amzn-RequestId", request_id.to_owned()),
        ("Content-Type", JSON_CONTENT_TYPE.to_owned()),
    ]
}

/// Writes one of our own answer structs.
pub(crate) fn to_json<T: Serialize>(answer: &T) -> Vec<u8> {
    serde_json::to_vec(answer).expect("answers have string keys and a Vec takes every byte")
}

#[cfg(test)]
mod tests {
    use super::Reply;
    use crate::error::SqsError;

    #[test]
    fn a_modelled_error_carries_both_names() {
        let reply = Reply::json_error("id-1", &SqsError::queue_does_not_exist());
        assert_eq!(reply.status, 400);
        assert_eq!(
            String::from_utf8(reply.body).unwrap(),
            r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}"#
        );
        let headers = [
            ("x-amzn-RequestId", "id-1".to_owned()),
            ("Content-Type", "application/x-amz-json-1.0".to_owned()),
            (
                "x-amzn-query-error",
                "AWS.SimpleQueueService.NonExistentQueue;Sender".to_owned(),
            ),
        ];
        assert_eq!(reply.headers, headers);
    }

    #[test]
    fn a_generic_error_has_the_frameworks_namespace() {
        let reply = Reply::json_error("id-1", &SqsError::missing_parameter("QueueUrl"));
        assert_eq!(
            String::from_utf8(reply.body).unwrap(),
            r#"{"__type":"com.amazon.coral.service#MissingRequiredParameterException","message":"The request must contain the parameter QueueUrl."}"#
        );
        assert_eq!(reply.headers[2].1, "MissingParameter;Sender");
    }
}
