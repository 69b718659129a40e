//! What has to be under a signature, and in which form.
//!
//! Whatever decides what a request means must be signed: an unsigned `X-Amz-Target` would let whoever
//! sees a request turn a receive into a purge.

use super::head::RequestHead;
use super::refusal::Refusal;
use crate::reply::JSON_CONTENT_TYPE;

/// A signed header: its name in lower case, and its value.
pub(super) type SignedHeader<'a> = (&'a str, &'a [u8]);

/// Content types of the Query dialect that a client need not sign.
const FORM_CONTENT_TYPES: [&str; 2] = [
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=utf-8",
];

/// The signed headers with their values, in the order in which they are signed; `names` is the list
/// that the signature names.
pub(super) fn signed_headers<'a>(
    head: &RequestHead<'a>,
    names: &'a str,
) -> Result<Vec<SignedHeader<'a>>, Refusal> {
    let names: Vec<&str> = names.split(';').collect();
    let ordered = names.windows(2).all(|two| two[0] < two[1]);
    let is_name = |name: &&str| !name.is_empty() && !name.bytes().any(|b| b.is_ascii_uppercase());
    if !ordered || !names.iter().all(is_name) {
        return Err(Refusal::Malformed("SignedHeaders"));
    }
    check_unsigned(head, &names)?;
    if !names.contains(&"host") {
        return Err(Refusal::UnsignedHeader("host".to_owned()));
    }
    let value_of = |name: &'a str| {
        let value = head.only(name)?;
        let value = value.ok_or_else(|| Refusal::AbsentHeader(name.to_owned()))?;
        Ok((name, value))
    };
    names.into_iter().map(value_of).collect()
}

/// Checks that nothing which must be signed is not.
fn check_unsigned(head: &RequestHead<'_>, signed: &[&str]) -> Result<(), Refusal> {
    for (name, _) in head.headers {
        let name = name.to_ascii_lowercase();
        if signed.binary_search(&name.as_str()).is_ok() {
            continue;
        }
        let may_be_unsigned = match name.as_str() {
            "host" | "date" => false,
            "content-type" => is_implied_content_type(head)?,
            _ => !name.starts_with("x-amz-"),
        };
        if !may_be_unsigned {
            return Err(Refusal::UnsignedHeader(name));
        }
    }
    Ok(())
}

/// Whether the content type is the one that signed parts of the request imply.
///
/// The PHP SDK never signs it. That does no harm as long as nobody can choose it: where there is a
/// target (signed, as every `x-amz-*`) it must be JSON's, and elsewhere a form's.
fn is_implied_content_type(head: &RequestHead<'_>) -> Result<bool, Refusal> {
    let value = head.only("content-type")?.unwrap_or_default();
    Ok(if head.has("x-amz-target") {
        value == JSON_CONTENT_TYPE.as_bytes()
    } else {
        FORM_CONTENT_TYPES
            .iter()
            .any(|form| value == form.as_bytes())
    })
}

/// Checks that the path is in the form that it is signed in: SigV4 signs `/a/../b` and `//b` as `/b`,
/// so that a signature for one would be one for all.
pub(super) fn check_path(path: &str) -> Result<(), Refusal> {
    let segments = path.strip_prefix('/').ok_or(Refusal::PathForm)?;
    let last = segments.split('/').count() - 1;
    let plain = |(position, segment): (usize, &str)| match segment {
        "" => position == last,
        "." | ".." => false,
        _ => true,
    };
    let normal = segments.split('/').enumerate().all(plain);
    normal.then_some(()).ok_or(Refusal::PathForm)
}

#[cfg(test)]
mod tests {
    use super::check_path;

    #[test]
    fn a_path_has_one_form() {
        for path in ["/", "/000000000000/orders", "/a/", "/a/.b/c..", "/..."] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in [
            "", "a", "//", "/a//b", "/a//", "/.", "/./a", "/a/..", "/a/../b", "*",
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
