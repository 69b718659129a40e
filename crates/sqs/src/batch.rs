//! What the three batch operations have in common: the checks of a whole batch, and its answer.
//!
//! A batch is refused as a whole for what is wrong with the batch: no entries, too many, ids that are
//! malformed or repeated. What is wrong with one entry fails that entry alone, and the answer is still
//! a success.

use serde::Serialize;

use crate::error::{ErrorCode, Fault, SqsError};
use crate::reply;
use crate::wire::Text;

/// The most entries of a batch.
pub const MAX_ENTRIES: usize = 10;

/// The longest id of an entry, in characters.
const MAX_ENTRY_ID: usize = 80;

/// The id that a client gave to an entry, unique within its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BatchEntryId<'a>(&'a str);

impl<'a> BatchEntryId<'a> {
    fn parse(id: Option<&'a Text<'a>>) -> Result<Self, SqsError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let id = id.map_or("", |id| &id.0);
        if (1..=MAX_ENTRY_ID).contains(&id.len()) && id.bytes().all(allowed) {
            return Ok(Self(id));
        }
        let text = "A batch entry id can only contain alphanumeric characters, hyphens and \
                    underscores. It can be at most 80 letters long.";
        Err(SqsError::new(ErrorCode::InvalidBatchEntryId, text))
    }

    /// The id as text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// An entry of a batch: its id, and what became of it in this step.
#[derive(Clone, Debug)]
pub struct BatchEntry<'a, T> {
    /// The client's id.
    pub id: BatchEntryId<'a>,
    /// The entry checked, or why it fails.
    pub checked: Result<T, SqsError>,
}

/// Checks the ids and the number of a batch's entries, in the order of AWS.
pub(crate) fn check_ids<'a>(
    entry_type: &str,
    ids: impl ExactSizeIterator<Item = Option<&'a Text<'a>>>,
) -> Result<Vec<BatchEntryId<'a>>, SqsError> {
    let sent = ids.len();
    if sent == 0 {
        let message = format!("There should be at least one {entry_type} in the request.");
        return Err(SqsError::new(ErrorCode::EmptyBatchRequest, message));
    }
    let ids = ids
        .map(BatchEntryId::parse)
        .collect::<Result<Vec<_>, _>>()?;
    let repeated = (1..ids.len()).find(|later| ids[..*later].contains(&ids[*later]));
    if let Some(repeated) = repeated {
        let message = format!("Id {} repeated.", ids[repeated].as_str());
        return Err(SqsError::new(ErrorCode::BatchEntryIdsNotDistinct, message));
    }
    if sent > MAX_ENTRIES {
        let message = format!(
            "Maximum number of entries per request are {MAX_ENTRIES}. You have sent {sent}."
        );
        return Err(SqsError::new(
            ErrorCode::TooManyEntriesInBatchRequest,
            message,
        ));
    }
    Ok(ids)
}

/// Why one entry of a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BatchFailure<'a> {
    /// The entry's id.
    pub id: BatchEntryId<'a>,
    /// Whether the client is at fault.
    pub sender_fault: bool,
    /// The query code of the error, in both dialects.
    pub code: &'static str,
    /// The error's text.
    pub message: String,
}

impl<'a> BatchFailure<'a> {
    /// The failure of an entry by this error.
    #[must_use]
    pub fn new(id: BatchEntryId<'a>, error: SqsError) -> Self {
        let shape = error.code.shape();
        Self {
            id,
            sender_fault: shape.fault == Fault::Sender,
            code: shape.query_code,
            message: error.message.into_owned(),
        }
    }
}

/// The answer to a batch; a list without entries is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BatchResponse<'a, S: Serialize> {
    /// The entries that took effect, in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub successful: Vec<S>,
    /// The entries that did not, in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<BatchFailure<'a>>,
}

/// A success that tells nothing but the entry's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BatchSuccess<'a> {
    /// The entry's id.
    pub id: BatchEntryId<'a>,
}

impl<S: Serialize> Default for BatchResponse<'_, S> {
    fn default() -> Self {
        Self {
            successful: Vec::new(),
            failed: Vec::new(),
        }
    }
}

impl<'a, S: Serialize> BatchResponse<'a, S> {
    /// Adds what became of the next entry.
    pub fn push(&mut self, id: BatchEntryId<'a>, outcome: Result<S, SqsError>) {
        match outcome {
            Ok(success) => self.successful.push(success),
            Err(error) => self.failed.push(BatchFailure::new(id, error)),
        }
    }

    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchResponse, BatchSuccess, SqsError, Text, check_ids};
    use crate::error::ErrorCode;

    fn refusal(ids: &[&str]) -> SqsError {
        let texts: Vec<_> = ids.iter().map(|id| Text((*id).into())).collect();
        check_ids("SendMessageBatchRequestEntry", texts.iter().map(Some)).unwrap_err()
    }

    #[test]
    fn an_empty_batch_is_refused() {
        let error = refusal(&[]);
        assert_eq!(error.code, ErrorCode::EmptyBatchRequest);
        assert_eq!(
            error.message,
            "There should be at least one SendMessageBatchRequestEntry in the request."
        );
    }

    #[test]
    fn more_than_ten_entries_are_refused() {
        let ids: Vec<_> = (0..20).map(|n| n.to_string()).collect();
        let error = refusal(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(error.code, ErrorCode::TooManyEntriesInBatchRequest);
        assert_eq!(
            error.message,
            "Maximum number of entries per request are 10. You have sent 20."
        );
    }

    #[test]
    fn malformed_ids_are_refused() {
        let too_long = "x".repeat(81);
        for id in ["", "a b", "a.b", "é", &too_long] {
            let error = refusal(&["fine", id]);
            assert_eq!(error.code, ErrorCode::InvalidBatchEntryId, "{id}");
            assert_eq!(
                error.message,
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
            );
        }
    }

    #[test]
    fn the_first_repeated_id_is_named() {
        let error = refusal(&["id_1", "id_2", "id_2", "id_1"]);
        assert_eq!(error.code, ErrorCode::BatchEntryIdsNotDistinct);
        assert_eq!(error.message, "Id id_2 repeated.");
    }

    #[test]
    fn empty_lists_are_left_out_of_the_answer() {
        let texts = [Text("a".into()), Text("b".into())];
        let ids = check_ids("DeleteMessageBatchRequestEntry", texts.iter().map(Some)).unwrap();
        let mut response = BatchResponse::default();
        response.push(ids[0], Ok(BatchSuccess { id: ids[0] }));
        assert_eq!(response.to_json(), br#"{"Successful":[{"Id":"a"}]}"#);
        response.push(ids[1], Err(SqsError::receipt_handle_is_invalid("x")));
        let json = String::from_utf8(response.to_json()).unwrap();
        assert_eq!(
            json,
            r#"{"Successful":[{"Id":"a"}],"Failed":[{"Id":"b","SenderFault":true,"Code":"ReceiptHandleIsInvalid","Message":"The input receipt handle \"x\" is not a valid receipt handle."}]}"#
        );
        response.successful.clear();
        assert!(response.to_json().starts_with(br#"{"Failed":"#));
    }

    #[test]
    fn our_own_failures_are_not_the_senders_fault() {
        let text = Text("a".into());
        let ids = check_ids("DeleteMessageBatchRequestEntry", [Some(&text)].into_iter()).unwrap();
        let failure = super::BatchFailure::new(ids[0], SqsError::internal());
        assert_eq!(
            (failure.sender_fault, failure.code),
            (false, "InternalError")
        );
    }
}
