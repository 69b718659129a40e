//! The MD5 digests by which clients check that a message arrived as it was sent.
//!
//! Not for security. Attributes are digested sorted by name: for each a length and the name, a length
//! and the data type with its suffix, one byte for the kind of value, a length and the value.

use std::fmt;

use md5::{Digest, Md5};
use serde::{Serialize, Serializer};

use super::attributes::{AttributeValue, MessageAttribute};
use crate::hex::HexText;

/// The kind of value of types `String` and `Number`.
const TEXT_KIND: u8 = 1;
/// The kind of value of type `Binary`.
const BINARY_KIND: u8 = 2;

/// A digest, shown as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md5Hex([u8; 16]);

impl fmt::Display for Md5Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HexText::plain(&self.0).as_str())
    }
}

impl Serialize for Md5Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HexText::plain(&self.0).as_str())
    }
}

/// The digest of a body.
#[must_use]
pub fn md5_of_body(body: &str) -> Md5Hex {
    Md5Hex(Md5::digest(body.as_bytes()).into())
}

/// The digest of attributes that come sorted by name; none of no attributes.
#[must_use]
pub fn md5_of_attributes<'m, 'a: 'm>(
    attributes: impl IntoIterator<Item = &'m MessageAttribute<'a>>,
) -> Option<Md5Hex> {
    let mut digest = Md5::new();
    let mut any = false;
    for attribute in attributes {
        any = true;
        update_counted(&mut digest, attribute.name.as_bytes());
        update_counted(&mut digest, attribute.data_type.as_bytes());
        match &attribute.value {
            AttributeValue::Text(text) => {
                digest.update([TEXT_KIND]);
                update_counted(&mut digest, text.as_bytes());
            }
            AttributeValue::Binary(bytes) => {
                digest.update([BINARY_KIND]);
                update_counted(&mut digest, bytes);
            }
        }
    }
    any.then(|| Md5Hex(digest.finalize().into()))
}

fn update_counted(digest: &mut Md5, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a request is far smaller than 4 GiB");
    digest.update(length.to_be_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::{AttributeValue, MessageAttribute, md5_of_attributes, md5_of_body};

    fn text<'a>(name: &'a str, data_type: &'a str, value: &'a str) -> MessageAttribute<'a> {
        let value = AttributeValue::Text(value.into());
        MessageAttribute {
            name: name.into(),
            data_type: data_type.into(),
            value,
        }
    }

    #[test]
    fn digests_are_those_recorded_from_aws() {
        let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        for (attributes, digest) in [
            (
                vec![text("timestamp", "Number", "1493147359900")],
                "235c5c510d26fb653d073faed50ae77c",
            ),
            (
                vec![text("AWSTraceHeader", "String", trace)],
                "5ae4d5d7636402d80f4eb6d213245a88",
            ),
            (
                vec![text("k", "String", "x")],
                "a45daa70926828a2f0a1db3418e6feb4",
            ),
            (
                vec![
                    text("test-key", "String", "test-value"),
                    text("test-key-alt", "String", "test-value-alt"),
                ],
                "2256c3b617e2b4b3ae4f2d455dcf54d0",
            ),
            (
                vec![text("test-key", "String", "test-value")],
                "befa18540a897f7d022bf07057754a03",
            ),
        ] {
            assert_eq!(md5_of_attributes(&attributes).unwrap().to_string(), digest);
        }
    }

    #[test]
    fn a_binary_value_and_a_suffix_change_the_digest() {
        let digest = |attribute: MessageAttribute<'_>| md5_of_attributes([&attribute]);
        let binary = MessageAttribute {
            name: "k".into(),
            data_type: "String".into(),
            value: AttributeValue::Binary(b"x".as_slice().into()),
        };
        let plain = digest(text("k", "String", "x"));
        assert_ne!(digest(binary), plain);
        assert_ne!(digest(text("k", "String.custom", "x")), plain);
    }

    #[test]
    fn no_attributes_have_no_digest() {
        assert_eq!(md5_of_attributes([]), None);
    }

    #[test]
    fn digests_a_body() {
        assert_eq!(
            md5_of_body("hello").to_string(),
            "5d41402abc4b2a76b9719d911017c592"
        );
    }
}
