//! Somebody with a key, and requests signed with it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use hikyaku_cluster::Clock;
use hikyaku_gateway::Access;
use hikyaku_metadata::TenantId;
use hikyaku_sqs::sigv4::key::AccessKey;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::harness::{Answer, Client, Front, Setup};

/// The moment at which all requests arrive, seconds since the epoch.
pub const NOW_S: u64 = 1_796_068_800;

pub const HOST: &str = "queues.example:9324";

/// A clock that stands.
pub struct Standing;

impl Clock for Standing {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_ms(&self) -> u64 {
        NOW_S * 1000
    }
}

/// Somebody with a key.
#[derive(Clone, Copy)]
pub struct Signer {
    pub tenant: &'static str,
    pub id: &'static str,
    pub secret: &'static str,
    pub token: Option<&'static str>,
}

pub const ALICE: Signer = Signer {
    tenant: "000000000000",
    id: "AKIAALICE",
    secret: "c2VjcmV0LW9mLWFsaWNlLXBsYW50ZWQtaGVyZQ",
    token: None,
};

pub const BOB: Signer = Signer {
    tenant: "123456789012",
    id: "AKIABOB",
    secret: "c2VjcmV0LW9mLWJvYi1wbGFudGVkLWhlcmUtdG9v",
    token: Some("dG9rZW4tb2YtYm9iLXBsYW50ZWQtaGVyZQ"),
};

impl Signer {
    pub fn key(self) -> (TenantId, AccessKey) {
        let secret = Zeroizing::new(self.secret.to_owned());
        let key = AccessKey::new(self.id, secret).unwrap();
        let key = match self.token {
            Some(token) => key.of_session(Zeroizing::new(token.to_owned())),
            None => key,
        };
        (TenantId::parse(self.tenant).unwrap(), key)
    }

    /// Signs for a service, at a moment.
    pub fn sign(self, service: &str, time: SystemTime, request: &mut http::Request<String>) {
        let token = self.token.map(str::to_owned);
        let identity = Credentials::new(self.id, self.secret, token, None, "tests").into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region("eu-north-1")
            .name(service)
            .time(time)
            .settings(SigningSettings::default())
            .build()
            .unwrap();
        let headers = request.headers().iter();
        let signable = SignableRequest::new(
            request.method().as_str(),
            format!("http://{HOST}{}", request.uri()),
            headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap())),
            SignableBody::Bytes(request.body().as_bytes()),
        );
        let signed = sign(signable.unwrap(), &parameters.into()).unwrap();
        signed.into_parts().0.apply_to_request_http1x(request);
    }
}

pub async fn guarded() -> Front {
    let access = Access::of_keys([ALICE.key(), BOB.key()], None, Arc::new(Standing));
    Front::start_as(Setup {
        access,
        ..Setup::default()
    })
    .await
}

pub fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW_S)
}

pub fn json_request(action: &str, members: &Value) -> http::Request<String> {
    http::Request::post("/")
        .header("Host", HOST)
        .header("Content-Type", "application/x-amz-json-1.0")
        .header("X-Amz-Target", format!("AmazonSQS.{action}"))
        .body(members.to_string())
        .unwrap()
}

pub fn form_request(form: &str) -> http::Request<String> {
    http::Request::post("/")
        .header("Host", HOST)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form.to_owned())
        .unwrap()
}

pub async fn send(client: &mut Client, request: http::Request<String>) -> Answer {
    let (parts, body) = request.into_parts();
    let mut builder = http::Request::builder().method(parts.method).uri(parts.uri);
    for (name, value) in &parts.headers {
        builder = builder.header(name, value);
    }
    client.send(builder, body).await
}

pub async fn ask(client: &mut Client, signer: Signer, action: &str, members: Value) -> Answer {
    let mut request = json_request(action, &members);
    signer.sign("sqs", now(), &mut request);
    send(client, request).await
}

/// Status and code of a refusal in JSON.
pub fn code(answer: &Answer) -> (u16, &str) {
    let code = answer.headers["x-amzn-query-error"].to_str().unwrap();
    (answer.status, code.split(';').next().unwrap())
}
