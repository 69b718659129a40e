//! The body of a message: text of the characters that XML can carry.

use crate::error::{ErrorCode, SqsError};

/// A valid body: at least one character, each of them allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageBody<'a>(&'a str);

impl<'a> MessageBody<'a> {
    /// Parses a body; an empty one is a missing one.
    pub(crate) fn parse(body: Option<&'a str>) -> Result<Self, SqsError> {
        let Some(body) = body.filter(|body| !body.is_empty()) else {
            return Err(SqsError::missing_parameter("MessageBody"));
        };
        match first_forbidden(body) {
            None => Ok(Self(body)),
            Some(found) => {
                let message = format!(
                    "Invalid binary character '#x{:X}' was found in the message body, the set of \
                     allowed characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | \
                     [#x10000-#x10FFFF]",
                    u32::from(found)
                );
                Err(SqsError::new(ErrorCode::InvalidMessageContents, message))
            }
        }
    }

    /// The text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// The first character that XML 1.0 cannot carry.
pub(crate) fn first_forbidden(text: &str) -> Option<char> {
    // Almost every text has none, and bytes are quicker to look at than characters: only control
    // characters and those that begin with 0xEF (where U+FFFE and U+FFFF are) need a closer look.
    if !text.bytes().any(|byte| byte < 0x20 || byte == 0xEF) {
        return None;
    }
    text.chars().find(|c| !is_allowed(*c))
}

const fn is_allowed(c: char) -> bool {
    matches!(c,
        '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::MessageBody;
    use crate::error::ErrorCode;

    #[test]
    fn an_empty_body_is_a_missing_one() {
        for body in [None, Some("")] {
            let error = MessageBody::parse(body).unwrap_err();
            assert_eq!(error.code, ErrorCode::MissingParameter);
            assert_eq!(
                error.message,
                "The request must contain the parameter MessageBody."
            );
        }
    }

    #[test]
    fn takes_every_character_of_xml() {
        let body = "\t\n\r ~\u{7f}\u{85}\u{d7ff}\u{e000}\u{fffd}\u{feff}\u{10000}\u{10ffff}";
        assert_eq!(MessageBody::parse(Some(body)).unwrap().as_str(), body);
    }

    #[test]
    fn refuses_every_other_character() {
        for c in ['\0', '\u{1}', '\u{b}', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
            let error = MessageBody::parse(Some(&format!("a{c}"))).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidMessageContents, "{c:?}");
        }
    }
}
