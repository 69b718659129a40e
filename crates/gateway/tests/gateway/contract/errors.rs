//! Every error of the contract, as both dialects write it.

use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::reply::{Dialect, Reply};

use super::model::model;
use super::said::Said;
use super::{json, query};
use crate::harness::Answer;

/// The errors that the contract has; `UnknownOperation` has a form of its own, in section 2.
const CODES: [ErrorCode; 32] = [
    ErrorCode::QueueDoesNotExist,
    ErrorCode::QueueNameExists,
    ErrorCode::QueueDeletedRecently,
    ErrorCode::PurgeQueueInProgress,
    ErrorCode::EmptyBatchRequest,
    ErrorCode::TooManyEntriesInBatchRequest,
    ErrorCode::BatchEntryIdsNotDistinct,
    ErrorCode::InvalidBatchEntryId,
    ErrorCode::BatchRequestTooLong,
    ErrorCode::MessageNotInflight,
    ErrorCode::UnsupportedOperation,
    ErrorCode::ReceiptHandleIsInvalid,
    ErrorCode::InvalidAddress,
    ErrorCode::ResourceNotFound,
    ErrorCode::OverLimit,
    ErrorCode::RequestThrottled,
    ErrorCode::InvalidSecurity,
    ErrorCode::InvalidAttributeName,
    ErrorCode::InvalidAttributeValue,
    ErrorCode::InvalidMessageContents,
    ErrorCode::InvalidIdFormat,
    ErrorCode::KmsAccessDenied,
    ErrorCode::KmsDisabled,
    ErrorCode::KmsInvalidKeyUsage,
    ErrorCode::KmsInvalidState,
    ErrorCode::KmsNotFound,
    ErrorCode::KmsThrottled,
    ErrorCode::KmsOptInRequired,
    ErrorCode::InvalidParameterValue,
    ErrorCode::MissingParameter,
    ErrorCode::InvalidAction,
    ErrorCode::Serialization,
];

const REQUEST_ID: &str = "b5293cb5-d306-4a17-9048-b263635abe42";

/// Holds every row: `shape query-code status`, in the order of [`CODES`].
pub fn hold(text: &str) {
    let rows = text.lines();
    let rows = rows.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split(' ').collect()).collect();
    assert_eq!(rows.len(), CODES.len());
    assert_eq!(rows.len(), model().errors.len(), "the model has others");
    for (row, code) in rows.iter().zip(CODES) {
        let [shape, query_code, status] = row[..] else {
            panic!("no row: {row:?}");
        };
        let names = model().error(shape);
        assert_eq!(names.query_code, query_code, "{shape}");
        assert_eq!(names.status.to_string(), status, "{shape}");
        let error = SqsError::new(code, "what <is> wrong");
        let in_json = answer(Dialect::Json, &error);
        is_said(json::read("SendMessage", &in_json), shape);
        let in_xml = answer(Dialect::Xml, &error);
        is_said(query::read("SendMessage", &in_xml), shape);
    }
}

fn answer(dialect: Dialect, error: &SqsError) -> Answer {
    let reply = Reply::error(dialect, REQUEST_ID, error);
    let mut headers = http::HeaderMap::new();
    for (name, value) in &reply.headers {
        let name: http::HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    // The server's own.
    headers.insert("content-length", reply.body.len().into());
    Answer {
        status: reply.status,
        headers,
        body: String::from_utf8(reply.body).unwrap(),
    }
}

fn is_said(said: Result<Said, String>, shape: &str) {
    match said {
        Ok(Said::Error {
            shape: found,
            message,
        }) if found == shape && message == "what <is> wrong" => {}
        other => panic!("{shape}: {other:?}"),
    }
}
