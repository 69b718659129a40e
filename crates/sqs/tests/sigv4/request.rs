//! A signed request in pieces that a test may bend, and the question whether it is believed.

use hikyaku_sqs::sigv4::key::AccessKey;
use hikyaku_sqs::sigv4::refusal::Refusal;
use hikyaku_sqs::sigv4::{Claim, Policy, RequestHead, SQS, STS};

/// A request as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&mut self, name: &str) -> &mut Vec<u8> {
        let mut headers = self.headers.iter_mut();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
        &mut found.unwrap().1
    }

    pub fn add(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.into()));
    }

    pub fn remove(&mut self, name: &str) {
        self.headers
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    /// Replaces a part of the `Authorization` header that is there.
    pub fn reword(&mut self, from: &str, to: &str) {
        let value = self.header("authorization");
        let text = String::from_utf8(value.clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        *value = text.replacen(from, to, 1).into();
    }

    /// Whether the request is believed by whoever has this one key.
    pub fn judge(&self, policy: &Policy<'_>, key: &AccessKey) -> Result<(), Refusal> {
        let headers: Vec<(&str, &[u8])> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect();
        let head = RequestHead {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
        };
        let claim = Claim::read(&head, policy)?;
        if claim.access_key_id() != key.id() {
            return Err(Refusal::UnknownAccessKey);
        }
        claim.bind(key)?.verify(&self.body)
    }
}

/// Any region, both services, at this moment.
pub fn at(now_ms: u64) -> Policy<'static> {
    Policy {
        now_ms,
        region: None,
        services: &[SQS, STS],
    }
}
