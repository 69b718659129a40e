//! AWS Signature Version 4 in the `Authorization` header, for requests of one shape.
//!
//! Every request is a POST to `/` with the same headers, so that what can be prepared is: the day's
//! key, the second's date, and the canonical request up to its date.

use std::fmt::{self, Write};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::wire::{Action, CONTENT_TYPE};

const SECONDS_OF_DAY: u64 = 86_400;

/// Who signs, and for which region. Never shown.
pub(crate) struct Credentials {
    pub(crate) access_key_id: String,
    pub(crate) secret: Zeroizing<String>,
    pub(crate) session_token: Option<Zeroizing<String>>,
    pub(crate) region: String,
}

/// The secret and the token are nobody's to read.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// The headers that a signature adds, besides the session token.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub(crate) date: HeaderValue,
    pub(crate) authorization: HeaderValue,
}

/// Signs one connection's requests.
#[derive(Debug)]
pub(crate) struct Signer {
    credentials: Arc<Credentials>,
    host: String,
    moment: Option<Moment>,
    /// Holds one text after the other.
    scratch: String,
}

/// What is the same for all requests of a second.
struct Moment {
    second: u64,
    /// `YYYYMMDDTHHMMSSZ`.
    date: HeaderValue,
    /// `YYYYMMDD/region/sqs/aws4_request`.
    scope: String,
    key: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment")
            .field("date", &self.date)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// `host` is the requests' `Host` header.
    pub(crate) fn new(credentials: Arc<Credentials>, host: String) -> Self {
        Self {
            credentials,
            host,
            moment: None,
            scratch: String::new(),
        }
    }

    /// Signs a request of this second since the epoch.
    pub(crate) fn sign(&mut self, action: Action, body: &[u8], second: u64) -> Signed {
        if self.moment.as_ref().is_none_or(|m| m.second != second) {
            self.moment = Some(Moment::new(&self.credentials, second, self.moment.as_ref()));
        }
        let moment = self.moment.as_ref().expect("it was just made");
        let date = moment.date.to_str().expect("digits and two letters");
        let token = self.credentials.session_token.as_deref();
        let signed_headers = match token {
            Some(_) => "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
            None => "content-type;host;x-amz-date;x-amz-target",
        };

        let text = &mut self.scratch;
        text.clear();
        let host = &self.host;
        write_to(
            text,
            format_args!(
                "POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{host}\nx-amz-date:{date}\n"
            ),
        );
        if let Some(token) = token {
            write_to(
                text,
                format_args!("x-amz-security-token:{}\n", token.as_str()),
            );
        }
        let target = action.target();
        let body_hash = digits(&Sha256::digest(body).into());
        write_to(
            text,
            format_args!(
                "x-amz-target:{target}\n\n{signed_headers}\n{}",
                ascii(&body_hash)
            ),
        );
        let request_hash = digits(&Sha256::digest(text.as_bytes()).into());

        text.clear();
        let (scope, hash) = (&moment.scope, ascii(&request_hash));
        write_to(
            text,
            format_args!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}"),
        );
        let signature = digits(&mac(&*moment.key, text.as_bytes()));

        text.clear();
        let id = &self.credentials.access_key_id;
        let signature = ascii(&signature);
        write_to(
            text,
            format_args!(
                "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={signed_headers}, \
                 Signature={signature}"
            ),
        );
        Signed {
            date: moment.date.clone(),
            authorization: HeaderValue::from_str(text).expect("the plan checked id and region"),
        }
    }
}

impl Moment {
    fn new(credentials: &Credentials, second: u64, before: Option<&Self>) -> Self {
        let (year, month, day) = date_of(second / SECONDS_OF_DAY);
        let rest = second % SECONDS_OF_DAY;
        let (hour, minute, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
        let date = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{seconds:02}Z");
        let region = &credentials.region;
        let scope = format!("{}/{region}/sqs/aws4_request", &date[..8]);
        let key = match before.filter(|before| before.scope == scope) {
            Some(before) => before.key.clone(),
            None => day_key(credentials, &date[..8]),
        };
        let date = HeaderValue::from_str(&date).expect("digits and two letters");
        Self {
            second,
            date,
            scope,
            key,
        }
    }
}

fn day_key(credentials: &Credentials, day: &str) -> Zeroizing<[u8; 32]> {
    let initial = Zeroizing::new([b"AWS4", credentials.secret.as_bytes()].concat());
    let mut key = Zeroizing::new(mac(&initial, day.as_bytes()));
    for part in [credentials.region.as_str(), "sqs", "aws4_request"] {
        key = Zeroizing::new(mac(&*key, part.as_bytes()));
    }
    key
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let keyed = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    keyed.chain_update(text).finalize().into_bytes().into()
}

fn write_to(text: &mut String, words: fmt::Arguments<'_>) {
    text.write_fmt(words).expect("a string takes everything");
}

fn digits(hash: &[u8; 32]) -> [u8; 64] {
    let mut digits = [0; 64];
    hex::encode_to_slice(hash, &mut digits).expect("two digits a byte");
    digits
}

fn ascii(digits: &[u8; 64]) -> &str {
    std::str::from_utf8(digits).expect("hex digits are ASCII")
}

/// Year, month and day of this many days since the epoch (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms"): years begin in March, so that the leap day is the last one.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
    use aws_sigv4::sign::v4::SigningParams;
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "AKIAIOSFODNN7EXAMPLE";
    const SECRET: &str = "c2lnbmVkIHdpdGggYSBrZXkgb2YgdGhlIHRlc3Rz";
    const HOST: &str = "queues.example:9324";

    fn signer(token: Option<&str>) -> Signer {
        let credentials = Credentials {
            access_key_id: ID.to_owned(),
            secret: Zeroizing::new(SECRET.to_owned()),
            session_token: token.map(|token| Zeroizing::new(token.to_owned())),
            region: "eu-north-1".to_owned(),
        };
        Signer::new(Arc::new(credentials), HOST.to_owned())
    }

    /// What AWS's own signer gives the same request.
    fn of_aws(action: Action, token: Option<&str>, body: &[u8], second: u64) -> [String; 2] {
        let token = token.map(str::to_owned);
        let identity = aws_credential_types::Credentials::new(ID, SECRET, token, None, "tests");
        let identity = identity.into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region("eu-north-1")
            .name("sqs")
            .time(UNIX_EPOCH + Duration::from_secs(second))
            .settings(SigningSettings::default())
            .build()
            .unwrap();
        let headers = [
            ("host", HOST),
            ("content-type", CONTENT_TYPE),
            ("x-amz-target", action.target()),
        ];
        let uri = format!("http://{HOST}/");
        let body = SignableBody::Bytes(body);
        let request = SignableRequest::new("POST", uri, headers.into_iter(), body).unwrap();
        let signed = sign(request, &parameters.into()).unwrap();
        let header = |name| {
            let mut headers = signed.output().headers();
            headers
                .find(|header| header.0 == name)
                .unwrap()
                .1
                .to_owned()
        };
        ["x-amz-date", "authorization"].map(header)
    }

    proptest! {
        #[test]
        fn signs_as_the_aws_signer_does(
            body in proptest::collection::vec(any::<u8>(), 0..100),
            token in proptest::option::of("[A-Za-z0-9+/=]{1,40}"),
            // Twice with one signer: on the same day, the next, and any other.
            seconds in (0..4_000_000_000_u64, prop_oneof![0..3_u64, Just(SECONDS_OF_DAY), 0..1_u64 << 31]),
        ) {
            let mut signer = signer(token.as_deref());
            for second in [seconds.0, seconds.0 + seconds.1] {
                let signed = signer.sign(Action::SendMessageBatch, &body, second);
                let ours = [&signed.date, &signed.authorization].map(|v| v.to_str().unwrap());
                let theirs = of_aws(Action::SendMessageBatch, token.as_deref(), &body, second);
                prop_assert_eq!(ours, [theirs[0].as_str(), theirs[1].as_str()]);
            }
        }
    }

    #[test]
    fn shows_no_secrets() {
        let mut signer = signer(Some("the-token"));
        signer.sign(Action::SendMessage, b"{}", 1);
        let shown = format!("{signer:?}");
        assert!(shown.contains(ID), "{shown}");
        assert!(!shown.contains(SECRET), "{shown}");
        // What is signed has the token in it; the header that is written over it does not.
        assert!(!shown.contains("the-token"), "{shown}");
    }
}
