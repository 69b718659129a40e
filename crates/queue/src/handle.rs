//! Receipt handles: the proof that a client received a message.
//!
//! A handle is sealed with AES-SIV, which is deterministic (a retry seals the same text) and
//! authenticated (nobody forges or alters one). The first bytes are in the clear: two of form and
//! the key's number, so that during a rotation both keys open handles and the newer one seals.

use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{Name, PartitionId, QueueId};

/// Form of a sealed handle; with key 1 the text begins `AQEB`, as AWS's does.
const FORM: [u8; 2] = [1, 1];
const CLEAR_BYTES: usize = 3;
const PLAIN_BYTES: usize = 44;
const TAG_BYTES: usize = 16;

/// One receive of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptHandle {
    /// The partition that handed the message out.
    pub partition: PartitionId,
    /// The queue.
    pub queue: QueueId,
    /// The message.
    pub name: Name,
    /// Which receive of the message this was, counted from one; those taken back count here.
    pub receive_number: u32,
    /// T of the receive: the 12 hours of total visibility timeout count from here.
    pub received_at: u64,
    /// T at which the visibility timeout given by the receive ends. Changes do not alter it.
    pub deadline: u64,
}

/// A sealing key and the number that names it in the clear.
#[derive(Clone)]
pub struct HandleKey {
    /// The key's number; keys in use at one time have different ones.
    pub id: u8,
    /// AES-256-SIV takes two 256-bit keys.
    pub secret: [u8; 64],
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandleKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A text is not a receipt handle that one of our keys sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a receipt handle")]
pub struct InvalidHandle;

/// Turns handles into the text clients hold, and back.
#[derive(Debug, Clone)]
pub struct HandleSealer {
    current: HandleKey,
    previous: Option<HandleKey>,
}

impl HandleSealer {
    /// Seals with `current`; opens with either.
    pub fn new(current: HandleKey, previous: Option<HandleKey>) -> Self {
        Self { current, previous }
    }

    /// The text for a client; the same handle gives the same text.
    pub fn seal(&self, handle: &ReceiptHandle) -> String {
        let clear = [FORM[0], FORM[1], self.current.id];
        let mut cipher = Aes256Siv::new(&self.current.secret.into());
        let sealed = cipher
            .encrypt([clear], &handle.to_bytes())
            .expect("one header and 44 bytes are within AES-SIV's limits");
        STANDARD.encode([&clear[..], &sealed].concat())
    }

    /// Opens a client's text.
    pub fn open(&self, text: &str) -> Result<ReceiptHandle, InvalidHandle> {
        if text.len() != (CLEAR_BYTES + TAG_BYTES + PLAIN_BYTES).div_ceil(3) * 4 {
            return Err(InvalidHandle);
        }
        let bytes = STANDARD.decode(text).map_err(|_| InvalidHandle)?;
        let (clear, sealed) = bytes.split_at_checked(CLEAR_BYTES).ok_or(InvalidHandle)?;
        if clear[..2] != FORM {
            return Err(InvalidHandle);
        }
        let key = self.key(clear[2]).ok_or(InvalidHandle)?;
        let mut cipher = Aes256Siv::new(&key.secret.into());
        let plain = cipher.decrypt([clear], sealed).map_err(|_| InvalidHandle)?;
        ReceiptHandle::from_bytes(&plain).ok_or(InvalidHandle)
    }

    fn key(&self, id: u8) -> Option<&HandleKey> {
        std::iter::once(&self.current)
            .chain(&self.previous)
            .find(|key| key.id == id)
    }
}

impl ReceiptHandle {
    fn to_bytes(self) -> [u8; PLAIN_BYTES] {
        let mut bytes = [0; PLAIN_BYTES];
        bytes[0..4].copy_from_slice(&self.partition.0.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.queue.0.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.name.index.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.name.ordinal.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.receive_number.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.received_at.to_be_bytes());
        bytes[36..44].copy_from_slice(&self.deadline.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != PLAIN_BYTES {
            return None;
        }
        let long = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let short = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(Self {
            partition: PartitionId(short(0)?),
            queue: QueueId(long(4)?),
            name: Name {
                index: long(12)?,
                ordinal: short(20)?,
            },
            receive_number: short(24)?,
            received_at: long(28)?,
            deadline: long(36)?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.partition(self.partition);
        writer.queue(self.queue);
        writer.name(self.name);
        writer.number(u64::from(self.receive_number));
        writer.number(self.received_at);
        writer.number(self.deadline);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            partition: reader.partition()?,
            queue: reader.queue()?,
            name: reader.name()?,
            receive_number: reader.small("receive number")?,
            received_at: reader.number("received at")?,
            deadline: reader.number("deadline")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{HandleKey, HandleSealer, InvalidHandle, ReceiptHandle};
    use crate::ids::{Name, PartitionId, QueueId};
    use proptest::prelude::*;

    fn key(id: u8) -> HandleKey {
        HandleKey {
            id,
            secret: [id; 64],
        }
    }

    prop_compose! {
        fn handles()(
            partition: u32, queue: u64, index: u64, ordinal: u32, receive_number: u32,
            received_at: u64, deadline: u64,
        ) -> ReceiptHandle {
            ReceiptHandle {
                partition: PartitionId(partition),
                queue: QueueId(queue),
                name: Name { index, ordinal },
                receive_number,
                received_at,
                deadline,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn opens_what_it_sealed_and_seals_it_the_same(handle in handles()) {
            let sealer = HandleSealer::new(key(1), None);
            let text = sealer.seal(&handle);
            prop_assert!(text.starts_with("AQEB"));
            prop_assert_eq!(sealer.open(&text), Ok(handle));
            prop_assert_eq!(sealer.seal(&handle), text);
        }

        #[test]
        fn refuses_any_altered_character(handle in handles(), at in 0usize..84, to in "[A-Za-z0-9+/]") {
            let sealer = HandleSealer::new(key(1), None);
            let text = sealer.seal(&handle);
            let mut altered = text.clone();
            altered.replace_range(at..at + 1, &to);
            prop_assume!(altered != text);
            prop_assert_eq!(sealer.open(&altered), Err(InvalidHandle));
        }

        #[test]
        fn refuses_garbage(text in ".{0,100}") {
            prop_assert_eq!(HandleSealer::new(key(1), None).open(&text), Err(InvalidHandle));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn opens_with_both_keys_during_a_rotation(handle in handles()) {
            let old = HandleSealer::new(key(1), None);
            let rotated = HandleSealer::new(key(2), Some(key(1)));
            let after = HandleSealer::new(key(3), Some(key(2)));
            let text = old.seal(&handle);
            prop_assert_eq!(rotated.open(&text), Ok(handle));
            prop_assert_eq!(after.open(&text), Err(InvalidHandle));
        }
    }

    #[test]
    fn keys_do_not_print() {
        assert_eq!(format!("{:?}", key(9)), "HandleKey { id: 9, .. }");
    }
}
