//! Queue URLs: which queue one names, and the one we give out.
//!
//! Clients keep URLs for years and move them between endpoints, so scheme, host and port mean nothing:
//! the last two path segments are the account and the name. A bare queue name is accepted too. What
//! names no possible queue is a queue that does not exist, never a malformed parameter.

use std::fmt;

use crate::error::SqsError;
use crate::queue_name::{AccountId, QueueName};
use crate::wire::Text;

/// The queue that a request names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueRef {
    /// The owner; absent when a bare name was given, which means the caller's own queue.
    pub account: Option<AccountId>,
    /// The queue's name.
    pub name: QueueName,
}

impl QueueRef {
    /// Parses a `QueueUrl`.
    pub fn parse(url: &str) -> Result<Self, SqsError> {
        Self::try_parse(url).ok_or_else(SqsError::queue_does_not_exist)
    }

    /// Finds the queue of a request: its `QueueUrl`, or else the path it was posted to.
    ///
    /// The explicit URL wins, as on AWS.
    pub(crate) fn of_request(url: Option<&Text<'_>>, path: &str) -> Result<Self, SqsError> {
        match url {
            Some(url) => Self::parse(url),
            None if path.trim_matches('/').is_empty() => {
                Err(SqsError::missing_parameter("QueueUrl"))
            }
            None => Self::parse(path),
        }
    }

    fn try_parse(url: &str) -> Option<Self> {
        if !url.contains('/') {
            return Some(Self {
                account: None,
                name: QueueName::try_new(url)?,
            });
        }
        let path = match url.split_once("://") {
            Some((_scheme, rest)) => rest.split_once('/')?.1,
            None => url,
        };
        let mut segments = path.trim_end_matches('/').rsplit('/');
        let name = QueueName::try_new(segments.next()?)?;
        let account = AccountId::try_new(segments.next()?)?;
        Some(Self {
            account: Some(account),
            name,
        })
    }
}

/// A URL as we give it out: `<base>/<account>/<name>`.
#[derive(Clone, Copy, Debug)]
pub struct QueueUrl<'a> {
    /// Scheme, host and perhaps port, without a slash at the end.
    pub base: &'a str,
    /// The owner.
    pub account: &'a AccountId,
    /// The queue's name.
    pub name: &'a QueueName,
}

impl fmt::Display for QueueUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            self.base.trim_end_matches('/'),
            self.account,
            self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{QueueRef, QueueUrl};
    use crate::error::ErrorCode;
    use crate::wire::Text;

    #[test]
    fn only_the_last_two_segments_decide() {
        let expected = QueueRef::parse("http://localhost:9324/000000000000/orders").unwrap();
        assert_eq!(expected.account.as_ref().unwrap().as_str(), "000000000000");
        assert_eq!(expected.name.as_str(), "orders");
        for url in [
            "https://sqs.eu-north-1.amazonaws.com/000000000000/orders",
            "https://queue.amazonaws.com/000000000000/orders/",
            "https://proxy/some/prefix/000000000000/orders",
            "/000000000000/orders",
            "000000000000/orders",
        ] {
            assert_eq!(QueueRef::parse(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn a_bare_name_is_the_callers_own_queue() {
        let queue = QueueRef::parse("orders.fifo").unwrap();
        assert_eq!((queue.account, queue.name.as_str()), (None, "orders.fifo"));
    }

    #[test]
    fn what_names_no_possible_queue_does_not_exist() {
        for url in [
            "",
            "/",
            "http://localhost:9324",
            "http://localhost:9324/",
            "http://localhost:9324/orders",
            "http://localhost:9324/queue/orders",
            "http://localhost:9324/000000000000/or ders",
            "000000000000/orders?x=1",
        ] {
            let error = QueueRef::parse(url).unwrap_err();
            assert_eq!(error.code, ErrorCode::QueueDoesNotExist, "{url}");
        }
    }

    #[test]
    fn the_explicit_url_wins_over_the_path() {
        let url = Text(Cow::Borrowed("http://h/000000000000/explicit"));
        let path = "/000000000000/path";
        let name = |url| QueueRef::of_request(url, path).unwrap().name;
        assert_eq!(name(Some(&url)).as_str(), "explicit");
        assert_eq!(name(None).as_str(), "path");
        let error = QueueRef::of_request(None, "/").unwrap_err();
        assert_eq!(
            error.message,
            "The request must contain the parameter QueueUrl."
        );
    }

    #[test]
    fn a_url_given_out_names_its_queue() {
        let queue = QueueRef::parse("http://h/123456789012/orders").unwrap();
        let account = queue.account.clone().unwrap();
        let url = QueueUrl {
            base: "https://q.example:8443",
            account: &account,
            name: &queue.name,
        };
        assert_eq!(
            url.to_string(),
            "https://q.example:8443/123456789012/orders"
        );
        assert_eq!(QueueRef::parse(&url.to_string()).unwrap(), queue);
    }
}
