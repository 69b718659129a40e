//! Bytes as lower-case hex digits, without the formatting machinery: a batch has twenty such texts.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// At most 36 characters of ASCII: a digest, or an id with its hyphens.
pub(crate) struct HexText {
    characters: [u8; 36],
    length: usize,
}

impl HexText {
    /// The 32 digits of 16 bytes.
    pub(crate) fn plain(bytes: &[u8; 16]) -> Self {
        Self::written(bytes, |_| false)
    }

    /// The form of a UUID.
    pub(crate) fn uuid(bytes: &[u8; 16]) -> Self {
        Self::written(bytes, |position| matches!(position, 4 | 6 | 8 | 10))
    }

    fn written(bytes: &[u8; 16], hyphen_before: impl Fn(usize) -> bool) -> Self {
        let mut characters = [0; 36];
        let mut length = 0;
        for (position, byte) in bytes.iter().enumerate() {
            if hyphen_before(position) {
                characters[length] = b'-';
                length += 1;
            }
            characters[length] = DIGITS[usize::from(byte >> 4)];
            characters[length + 1] = DIGITS[usize::from(byte & 0xf)];
            length += 2;
        }
        Self { characters, length }
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.characters[..self.length]).expect("digits and hyphens are ASCII")
    }
}

impl fmt::Display for HexText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The 64 digits of a SHA-256.
pub(crate) fn digits(hash: &[u8; 32]) -> [u8; 64] {
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    digits
}

/// The two upper-case digits of a byte, as percent-encoding writes them.
pub(crate) fn upper_digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|half| DIGITS[usize::from(half)].to_ascii_uppercase())
}

/// Reads the 64 digits of a SHA-256, lower-case only.
pub(crate) fn parse_32(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    let value = |digit: &u8| DIGITS.iter().position(|known| known == digit);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(value(&pair[0])? << 4 | value(&pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{HexText, digits, parse_32, upper_digits};

    #[test]
    fn reads_the_digits_that_it_writes_and_no_others() {
        let hash = std::array::from_fn(|position| u8::try_from(position * 7).unwrap());
        let text = String::from_utf8(digits(&hash).to_vec()).unwrap();
        assert_eq!(parse_32(&text), Some(hash));
        assert_eq!(parse_32(&text.to_uppercase()), None);
        assert_eq!(parse_32(&text[1..]), None);
        assert_eq!(parse_32(&"é".repeat(32)), None);
        assert_eq!(&upper_digits(0xaf), b"AF");
    }

    #[test]
    fn writes_digits_and_the_hyphens_of_a_uuid() {
        let bytes = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x00\x10\xff\x7f\x80\x0a\xa0\x42";
        let plain = HexText::plain(&bytes).to_string();
        assert_eq!(plain, "0123456789abcdef0010ff7f800aa042");
        let uuid = HexText::uuid(&bytes).to_string();
        assert_eq!(uuid, "01234567-89ab-cdef-0010-ff7f800aa042");
    }
}
