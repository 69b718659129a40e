//! What a request says of its own body.
//!
//! The body's hash is always computed from the body; a declared one may only agree with it. Every
//! other thing that `x-amz-content-sha256` may say is a mode in which the body is not, or not whole,
//! under the signature. S3 has such modes, SQS has none, and a handler that let an unlisted one through
//! was MinIO's GHSA-9c4q-hq6p-c237: so the modes are an enum, and the match has no other arm.

use super::head::RequestHead;
use super::query::Query;
use super::refusal::Refusal;
use crate::hex;

const HEADER: &str = "x-amz-content-sha256";

/// Headers of streamed bodies, whatever else is said.
const STREAMING_HEADERS: [&str; 2] = ["x-amz-trailer", "x-amz-decoded-content-length"];

/// What a request declares its body's hash to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclaredHash {
    /// Nothing: it is what it is.
    Absent,
    /// This.
    Hash([u8; 32]),
}

impl DeclaredHash {
    /// Whether a body of this hash is the one that was declared.
    pub(super) fn allows(self, hash: &[u8; 32]) -> bool {
        match self {
            Self::Absent => true,
            Self::Hash(declared) => declared == *hash,
        }
    }
}

/// The ways in which a body can be under a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// By its hash.
    Hashed([u8; 32]),
    /// Not at all.
    Unsigned,
    /// Not at all, with a trailer.
    UnsignedTrailer,
    /// Chunk by chunk.
    Streaming,
    /// Chunk by chunk, with a trailer.
    StreamingTrailer,
    /// In a way that has no name yet.
    Unknown,
}

impl PayloadMode {
    fn of(text: &str) -> Self {
        if let Some(hash) = hex::parse_32(text) {
            return Self::Hashed(hash);
        }
        match text {
            "UNSIGNED-PAYLOAD" => Self::Unsigned,
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Self::UnsignedTrailer,
            _ if !text.starts_with("STREAMING-") => Self::Unknown,
            _ if text.ends_with("-TRAILER") => Self::StreamingTrailer,
            _ => Self::Streaming,
        }
    }
}

/// Reads what a request declares, in its headers or in its query.
pub(super) fn declared(head: &RequestHead<'_>, query: &Query<'_>) -> Result<DeclaredHash, Refusal> {
    if STREAMING_HEADERS.iter().any(|name| head.has(name)) {
        return Err(Refusal::Payload(PayloadMode::StreamingTrailer));
    }
    let in_header = head.only_text(HEADER)?.map(str::to_owned);
    let in_query = query.value("X-Amz-Content-Sha256")?;
    let text = match (in_header, in_query) {
        (None, None) => return Ok(DeclaredHash::Absent),
        (Some(text), None) | (None, Some(text)) => text,
        (Some(_), Some(_)) => return Err(Refusal::TwoForms),
    };
    let mode = PayloadMode::of(text.trim_matches(' '));
    match mode {
        PayloadMode::Hashed(hash) => Ok(DeclaredHash::Hash(hash)),
        PayloadMode::Unsigned
        | PayloadMode::UnsignedTrailer
        | PayloadMode::Streaming
        | PayloadMode::StreamingTrailer
        | PayloadMode::Unknown => Err(Refusal::Payload(mode)),
    }
}

#[cfg(test)]
mod tests {
    use super::PayloadMode;

    #[test]
    fn knows_every_mode_by_name() {
        let modes = [
            ("UNSIGNED-PAYLOAD", PayloadMode::Unsigned),
            (
                "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                PayloadMode::UnsignedTrailer,
            ),
            ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", PayloadMode::Streaming),
            ("STREAMING-AWS4-HMAC-SHA256-EVENTS", PayloadMode::Streaming),
            (
                "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
                PayloadMode::StreamingTrailer,
            ),
            (
                "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
                PayloadMode::Streaming,
            ),
            ("", PayloadMode::Unknown),
            ("unsigned-payload", PayloadMode::Unknown),
        ];
        for (text, mode) in modes {
            assert_eq!(PayloadMode::of(text), mode, "{text}");
        }
        assert_eq!(
            PayloadMode::of(&"0a".repeat(32)),
            PayloadMode::Hashed([10; 32])
        );
        assert_eq!(PayloadMode::of(&"0A".repeat(32)), PayloadMode::Unknown);
    }
}
