//! The keys that seal the secrets of access keys in the metadata: read from their file once, at the start.
//!
//! The file has one line, or two during a rotation: the first key seals, both open. Each is 64 random
//! bytes in hexadecimal. Every node is given the same file.

use hikyaku_metadata::{SEALING_KEY_BYTES, SealingKey, SealingKeys};
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Why the sealing keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SealingError {
    /// Their file cannot be read.
    #[error("cannot read the sealing keys from {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Their file holds something else.
    #[error(
        "cannot use {} as sealing keys: it needs one line or two, each of {} hexadecimal digits; \
         `openssl rand -hex {SEALING_KEY_BYTES}` makes one",
        path.display(),
        2 * SEALING_KEY_BYTES
    )]
    Unusable {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the keys.
pub(crate) fn read(path: &Path) -> Result<SealingKeys, SealingError> {
    let text = std::fs::read_to_string(path).map_err(|source| SealingError::Read {
        path: path.to_owned(),
        source,
    })?;
    let text = Zeroizing::new(text);
    parse(&text).ok_or_else(|| SealingError::Unusable {
        path: path.to_owned(),
    })
}

fn parse(text: &str) -> Option<SealingKeys> {
    let mut lines = text.lines().map(str::trim_end);
    let current = key(lines.next()?)?;
    let previous = match lines.next() {
        Some(line) => Some(key(line)?),
        None => None,
    };
    lines
        .next()
        .is_none()
        .then(|| SealingKeys::new(current, previous))
}

fn key(line: &str) -> Option<SealingKey> {
    let digits = line.as_bytes();
    if digits.len() != 2 * SEALING_KEY_BYTES {
        return None;
    }
    let mut secret = Zeroizing::new([0; SEALING_KEY_BYTES]);
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    // Sixty-four equal bytes are nobody's random ones.
    let drawn = secret.iter().any(|byte| *byte != secret[0]);
    drawn.then(|| SealingKey::new(secret))
}

#[cfg(test)]
mod tests {
    use super::{SEALING_KEY_BYTES, SealingError, read};

    fn line(start: u8) -> String {
        let bytes = (0..SEALING_KEY_BYTES as u8).map(|at| start.wrapping_add(at));
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn one_line_or_two_are_keys_and_the_first_seals() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let current = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).unwrap().current()
        };
        let (old, new) = (line(1), line(2));
        let number = current(&old);
        for text in [format!("{old}\n"), format!("{old}\r\n"), old.to_uppercase()] {
            assert_eq!(current(&text), number);
        }
        assert_eq!(current(&format!("{old}\n{new}\n")), number);
        assert_eq!(current(&format!("{new}\n{old}\n")), current(&new));
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let key = line(1);
        for text in [
            String::new(),
            "secret".to_owned(),
            "00".repeat(SEALING_KEY_BYTES),
            format!("{key}0"),
            format!("x{}", &key[1..]),
            format!("{key}\n\n"),
            format!("{key}\n{key}\n{key}\n"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let refusal = read(&path).unwrap_err();
            assert!(matches!(refusal, SealingError::Unusable { .. }), "{text}");
            assert!(!format!("{refusal} {refusal:?}").contains(&key));
        }
        let absent = read(&directory.path().join("absent"));
        assert!(matches!(absent, Err(SealingError::Read { .. })));
    }
}
