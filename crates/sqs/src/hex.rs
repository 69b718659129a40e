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

#[cfg(test)]
mod tests {
    use super::HexText;

    #[test]
    fn writes_digits_and_the_hyphens_of_a_uuid() {
        let bytes = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x00\x10\xff\x7f\x80\x0a\xa0\x42";
        let plain = HexText::plain(&bytes).to_string();
        assert_eq!(plain, "0123456789abcdef0010ff7f800aa042");
        let uuid = HexText::uuid(&bytes).to_string();
        assert_eq!(uuid, "01234567-89ab-cdef-0010-ff7f800aa042");
    }
}
