//! The query of a request's target, in the one form in which it can be signed.
//!
//! SigV4 signs names and values percent-encoded in one way. A query that is encoded in another way
//! (`+` for a space, `%2f`, `%41`), that has a name without `=`, an empty name or one name twice has
//! the same signature as another query; so all of these are refused.

use super::refusal::Refusal;

/// Names and values as they came, in the order in which they came; every name once.
pub(super) struct Query<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Query<'a> {
    pub(super) fn read(raw: Option<&'a str>) -> Result<Self, Refusal> {
        let Some(raw) = raw else {
            return Ok(Self(Vec::new()));
        };
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for part in raw.split('&') {
            let (name, value) = part.split_once('=').ok_or(Refusal::QueryForm)?;
            if name.is_empty() || !is_encoded(name) || !is_encoded(value) {
                return Err(Refusal::QueryForm);
            }
            pairs.push((name, value));
        }
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        if names.windows(2).any(|two| two[0] == two[1]) {
            return Err(Refusal::QueryForm);
        }
        Ok(Self(pairs))
    }

    /// Whether there is this name, in any case.
    pub(super) fn resembles(&self, name: &str) -> bool {
        let mut names = self.0.iter().map(|(name, _)| name);
        names.any(|other| other.eq_ignore_ascii_case(name))
    }

    /// The decoded value of this name.
    pub(super) fn value(&self, name: &'static str) -> Result<Option<String>, Refusal> {
        let found = self.0.iter().find(|(other, _)| *other == name);
        found
            .map(|(_, value)| decode(value).ok_or(Refusal::Malformed(name)))
            .transpose()
    }

    /// Appends the canonical form, without the one parameter that cannot be signed.
    pub(super) fn write_canonical(&self, out: &mut Vec<u8>, without: &str) {
        let mut pairs: Vec<_> = self.0.iter().filter(|(name, _)| *name != without).collect();
        pairs.sort_unstable();
        for (position, (name, value)) in pairs.into_iter().enumerate() {
            if position > 0 {
                out.push(b'&');
            }
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            out.extend_from_slice(value.as_bytes());
        }
    }
}

/// The characters that are never encoded (RFC 3986).
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a text is encoded as SigV4 does it: unreserved characters plainly, every other byte as `%`
/// and two upper-case digits.
fn is_encoded(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, after @ ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) if !is_unreserved(high << 4 | low) => after,
                (_, _) => return false,
            },
            [byte, after @ ..] if is_unreserved(*byte) => after,
            [..] => return false,
        };
    }
}

fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return String::from_utf8(decoded).ok(),
            [b'%', high, low, after @ ..] => {
                decoded.push(digit(*high)? << 4 | digit(*low)?);
                after
            }
            [byte, after @ ..] => {
                decoded.push(*byte);
                after
            }
        };
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Query, Refusal};

    fn canonical(raw: &str) -> Result<String, Refusal> {
        let mut out = Vec::new();
        Query::read(Some(raw))?.write_canonical(&mut out, "X-Amz-Signature");
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn sorts_and_leaves_the_signature_out() {
        let raw = "b=1&X-Amz-Signature=00&a-b=3&a=%2F&%E1%88%B4=";
        assert_eq!(canonical(raw).unwrap(), "%E1%88%B4=&a=%2F&a-b=3&b=1");
        assert_eq!(Query::read(None).unwrap().0, []);
    }

    #[test]
    fn decodes_what_it_reads() {
        let query = Query::read(Some("a=x%2Fy%20%C3%A9&b=%FF")).unwrap();
        assert_eq!(query.value("a").unwrap().as_deref(), Some("x/y é"));
        assert_eq!(query.value("b"), Err(Refusal::Malformed("b")));
        assert_eq!(query.value("c"), Ok(None));
    }

    #[test]
    fn refuses_every_other_writing_of_the_same_query() {
        for raw in [
            "", "a", "=1", "a=1&", "&a=1", "a=1&&b=2", "a=b+c", "a=b c", "a=%2f", "a=%41", "a=%",
            "a=%2", "a=/", "a=b=c", "a=1&a=1", "a=1&a=2", "a=ሴ", "a=%zz",
        ] {
            assert_eq!(canonical(raw), Err(Refusal::QueryForm), "{raw:?}");
        }
    }
}
