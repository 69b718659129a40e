//! The operator's credential: a secret that nobody guesses, compared without telling how much of it was
//! right.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The shortest token, in bytes: what 256 random bits need at the least, as for access keys.
pub const TOKEN_MIN_BYTES: usize = 32;

/// The longest, in bytes: more would not fit a header comfortably.
const TOKEN_MAX_BYTES: usize = 1_024;

/// A bearer token. Never shown.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

/// A text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {TOKEN_MIN_BYTES} to {TOKEN_MAX_BYTES} visible ASCII characters, and random ones"
)]
pub struct InvalidToken;

impl Token {
    /// Takes a text as the token, if it is one that nobody guesses, as far as its form tells.
    ///
    /// # Errors
    /// When it is too short, too long or does not fit a header.
    pub fn new(text: Zeroizing<String>) -> Result<Self, InvalidToken> {
        let fits = (TOKEN_MIN_BYTES..=TOKEN_MAX_BYTES).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text))
        } else {
            Err(InvalidToken)
        }
    }

    /// Whether this is what was presented. Takes as long for any presented text of one length.
    pub(crate) fn is(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cGxhbnRlZC10b2tlbi1vZi10aGUtdGVzdHM";

    fn token(text: &str) -> Result<Token, InvalidToken> {
        Token::new(Zeroizing::new(text.to_owned()))
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = token(TEXT).expect("long enough");
        assert!(token.is(TEXT));
        let other_end = format!("{}A", &TEXT[..TEXT.len() - 1]);
        for other in ["", &TEXT[1..], &TEXT[..TEXT.len() - 1], &other_end] {
            assert!(!token.is(other), "{other:?}");
        }
    }

    #[test]
    fn a_text_that_can_be_guessed_or_not_be_sent_is_none() {
        let long = "x".repeat(TOKEN_MAX_BYTES + 1);
        for text in ["", "secret", &format!("{TEXT} {TEXT}"), &long] {
            assert!(token(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn it_is_not_shown() {
        assert!(!format!("{:?}", token(TEXT)).contains(TEXT));
    }
}
