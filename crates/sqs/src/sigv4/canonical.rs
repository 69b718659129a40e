//! The texts that are hashed and signed, as AWS lays them out.
//!
//! The path is percent-encoded once more than it came (all services but S3 do so), which tells every
//! path from every other; the query is in its canonical form already but for its order.

use sha2::{Digest, Sha256};

use super::Scope;
use super::head::RequestHead;
use super::presented::{ALGORITHM, SIGNATURE_PARAMETER};
use super::query::{Query, is_unreserved};
use super::rules::SignedHeader;
use crate::hex;
use crate::timestamp::Timestamp;

/// The canonical request up to the hash of its body.
pub(super) fn head(
    head: &RequestHead<'_>,
    query: &Query<'_>,
    signed: &[SignedHeader<'_>],
    signed_names: &str,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(head.method.as_bytes());
    out.push(b'\n');
    write_path(&mut out, head.path);
    out.push(b'\n');
    query.write_canonical(&mut out, SIGNATURE_PARAMETER);
    out.push(b'\n');
    for (name, value) in signed {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        write_value(&mut out, value);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.extend_from_slice(signed_names.as_bytes());
    out.push(b'\n');
    out
}

fn write_path(out: &mut Vec<u8>, path: &str) {
    for byte in path.bytes() {
        if is_unreserved(byte) || byte == b'/' {
            out.push(byte);
        } else {
            out.push(b'%');
            out.extend_from_slice(&hex::upper_digits(byte));
        }
    }
}

/// Writes a value without spaces around it, and one space for every run of them.
fn write_value(out: &mut Vec<u8>, value: &[u8]) {
    let words = value
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    for (position, word) in words.enumerate() {
        if position > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

/// What the key signs, given the canonical request as far as it is hashed: whole.
pub(super) fn string_to_sign(timestamp: &Timestamp, scope: &Scope, canonical: Sha256) -> Vec<u8> {
    let Scope {
        day,
        region,
        service,
    } = scope;
    let text = format!("{ALGORITHM}\n{timestamp}\n{day}/{region}/{service}/aws4_request\n");
    let mut out = text.into_bytes();
    out.extend_from_slice(&hex::digits(&canonical.finalize().into()));
    out
}
