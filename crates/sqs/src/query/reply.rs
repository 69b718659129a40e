//! Answers in the Query dialect: the element around an answer, and errors.

use serde_json::{Value, json};

use super::write::{close, open, text_element};
use crate::action::Action;
use crate::error::{ErrorCode, Fault, SqsError};
use crate::reply::Reply;

const XML_CONTENT_TYPE: &str = "text/xml";
const TREE_CONTENT_TYPE: &str = "application/json";

/// What every document begins with.
const DECLARATION: &str = "<?xml version=\"1.0\"?>";
/// The attribute of every root element.
const NAMESPACE: &str = " xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"";

impl Reply {
    /// A success in XML around what `Dialect::answer` wrote; nothing for operations without output.
    #[must_use]
    pub fn xml(request_id: &str, action: Action, result: &[u8]) -> Self {
        let root = format!("{}Response", action.name());
        let body = document(&root, |body| {
            body.extend_from_slice(result);
            let begun = open("ResponseMetadata", body);
            text_element("RequestId", request_id, body);
            close("ResponseMetadata", begun, body);
        });
        Self::with_content(200, request_id, XML_CONTENT_TYPE, body)
    }

    /// The same as a tree in JSON.
    #[must_use]
    pub fn tree(request_id: &str, action: Action, result: &[u8]) -> Self {
        let name = action.name();
        let mut response = json!({ "ResponseMetadata": { "RequestId": request_id } });
        if !result.is_empty() {
            let result: Value = serde_json::from_slice(result).expect("it was written as JSON");
            response[format!("{name}Result")] = result;
        }
        let body = json!({ format!("{name}Response"): response });
        Self::with_content(200, request_id, TREE_CONTENT_TYPE, body.to_string().into())
    }

    /// A refusal in XML.
    #[must_use]
    pub fn xml_error(request_id: &str, error: &SqsError) -> Self {
        if error.code == ErrorCode::UnknownOperation {
            return Self::unknown_operation(request_id);
        }
        let shape = error.code.shape();
        let body = document("ErrorResponse", |body| {
            let begun = open("Error", body);
            text_element("Type", fault_name(shape.fault), body);
            text_element("Code", shape.query_code, body);
            text_element("Message", &message(error), body);
            text_element("Detail", "", body);
            close("Error", begun, body);
            text_element("RequestId", request_id, body);
        });
        Self::with_content(shape.status, request_id, XML_CONTENT_TYPE, body)
    }

    /// The same as a tree in JSON.
    #[must_use]
    pub fn tree_error(request_id: &str, error: &SqsError) -> Self {
        if error.code == ErrorCode::UnknownOperation {
            return Self::unknown_operation(request_id);
        }
        let shape = error.code.shape();
        let body = json!({
            "Error": {
                "Type": fault_name(shape.fault),
                "Code": shape.query_code,
                "Message": message(error),
                "Detail": null,
            },
            "RequestId": request_id,
        });
        let body = body.to_string().into();
        Self::with_content(shape.status, request_id, TREE_CONTENT_TYPE, body)
    }

    fn with_content(status: u16, request_id: &str, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![
                ("x-amzn-RequestId", request_id.to_owned()),
                ("Content-Type", content_type.to_owned()),
            ],
            body,
        }
    }
}

fn document(root: &str, content: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = format!("{DECLARATION}<{root}{NAMESPACE}>").into_bytes();
    let begun = body.len();
    content(&mut body);
    close(root, begun, &mut body);
    body
}

fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Sender => "Sender",
        Fault::Receiver => "Receiver",
    }
}

/// The text of an error, which for a missing queue is longer than in JSON.
fn message(error: &SqsError) -> String {
    match error.message.strip_suffix('.') {
        Some(text) if error.code == ErrorCode::QueueDoesNotExist => {
            format!("{text} for this wsdl version.")
        }
        Some(_) | None => error.message.to_string(),
    }
}
