//! How values become bytes and come back.
//!
//! Whole numbers are LEB128 varints, byte strings carry their length first, choices are one byte
//! whose numbers are written out beside each type and never used again for something else. The
//! reader trusts nothing: a length is compared with what is left before anything is allocated.

use crate::ids::{MessageId, MoveTaskId, Name, PartitionId, QueueId, RequestId};

/// Why bytes are not an encoding of the expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("bytes end inside {0}")]
    UnexpectedEnd(&'static str),
    /// The encoding was written by a version this program does not know.
    #[error("encoding version {0} is not known")]
    UnknownVersion(u8),
    /// A choice byte has no meaning.
    #[error("{1} is not a known {0}")]
    UnknownTag(&'static str, u8),
    /// A value was read whole but cannot be right.
    #[error("impossible value: {0}")]
    Impossible(&'static str),
    /// Bytes are left over after the value.
    #[error("{0} bytes left over")]
    LeftOver(usize),
}

/// Appends values to a growing buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn versioned(version: u8) -> Self {
        Self {
            bytes: vec![version],
        }
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn flag(&mut self, value: bool) {
        self.byte(u8::from(value));
    }

    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub fn length(&mut self, value: usize) {
        self.number(value as u64);
    }

    pub fn optional_number(&mut self, value: Option<u64>) {
        self.flag(value.is_some());
        if let Some(value) = value {
            self.number(value);
        }
    }

    pub fn blob(&mut self, value: &[u8]) {
        self.length(value.len());
        self.bytes.extend_from_slice(value);
    }

    pub fn text(&mut self, value: &str) {
        self.blob(value.as_bytes());
    }

    pub fn optional_text(&mut self, value: Option<&str>) {
        self.flag(value.is_some());
        if let Some(value) = value {
            self.text(value);
        }
    }

    pub fn queue(&mut self, value: QueueId) {
        self.number(value.0);
    }

    pub fn partition(&mut self, value: PartitionId) {
        self.number(u64::from(value.0));
    }

    pub fn request_id(&mut self, value: RequestId) {
        self.bytes.extend_from_slice(&value.0.to_be_bytes());
    }

    pub fn move_task(&mut self, value: MoveTaskId) {
        self.bytes.extend_from_slice(&value.0.to_be_bytes());
    }

    pub fn message_id(&mut self, value: MessageId) {
        self.bytes.extend_from_slice(&value.0);
    }

    pub fn name(&mut self, value: Name) {
        self.number(value.index);
        self.number(u64::from(value.ordinal));
    }
}

/// Takes values off the front of a byte string.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Opens an encoding whose first byte must be `version`.
    pub fn versioned(bytes: &'a [u8], version: u8) -> Result<Self, DecodeError> {
        let mut reader = Self { rest: bytes };
        match reader.byte("version")? {
            found if found == version => Ok(reader),
            found => Err(DecodeError::UnknownVersion(found)),
        }
    }

    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::LeftOver(left)),
        }
    }

    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeError::UnexpectedEnd(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N, what)?;
        taken
            .try_into()
            .map_err(|_| DecodeError::UnexpectedEnd(what))
    }

    pub fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::UnknownTag(what, other)),
        }
    }

    pub fn number(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Impossible(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Impossible(what))
    }

    pub fn small<T: TryFrom<u64>>(&mut self, what: &'static str) -> Result<T, DecodeError> {
        T::try_from(self.number(what)?).map_err(|_| DecodeError::Impossible(what))
    }

    /// The length of a list whose items take at least one byte each: never more than is left, so a
    /// damaged length cannot ask for memory.
    pub fn length(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        let length: usize = self.small(what)?;
        if length > self.rest.len() {
            return Err(DecodeError::UnexpectedEnd(what));
        }
        Ok(length)
    }

    pub fn list<T>(
        &mut self,
        what: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let length = self.length(what)?;
        (0..length).map(|_| item(self)).collect()
    }

    pub fn optional_number(&mut self, what: &'static str) -> Result<Option<u64>, DecodeError> {
        Ok(if self.flag(what)? {
            Some(self.number(what)?)
        } else {
            None
        })
    }

    pub fn blob(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = self.length(what)?;
        self.take(length, what)
    }

    pub fn text(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.blob(what)?).map_err(|_| DecodeError::Impossible(what))
    }

    pub fn optional_text(&mut self, what: &'static str) -> Result<Option<String>, DecodeError> {
        Ok(if self.flag(what)? {
            Some(self.text(what)?.to_owned())
        } else {
            None
        })
    }

    pub fn queue(&mut self) -> Result<QueueId, DecodeError> {
        Ok(QueueId(self.number("queue id")?))
    }

    pub fn partition(&mut self) -> Result<PartitionId, DecodeError> {
        Ok(PartitionId(self.small("partition id")?))
    }

    pub fn request_id(&mut self) -> Result<RequestId, DecodeError> {
        Ok(RequestId(u128::from_be_bytes(self.array("request id")?)))
    }

    pub fn move_task(&mut self) -> Result<MoveTaskId, DecodeError> {
        Ok(MoveTaskId(u128::from_be_bytes(self.array("move task")?)))
    }

    pub fn message_id(&mut self) -> Result<MessageId, DecodeError> {
        Ok(MessageId(self.array("message id")?))
    }

    pub fn name(&mut self) -> Result<Name, DecodeError> {
        let index = self.number("name's index")?;
        let ordinal = self.small("name's ordinal")?;
        Ok(Name { index, ordinal })
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Reader, Writer};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64) {
            let mut writer = Writer::versioned(7);
            writer.number(value);
            let bytes = writer.finish();
            let mut reader = Reader::versioned(&bytes, 7).unwrap();
            prop_assert_eq!(reader.number("value"), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn refuses_a_number_longer_than_64_bits() {
        let mut bytes = vec![1];
        bytes.extend([0xff; 9]);
        bytes.push(0x02);
        let mut reader = Reader::versioned(&bytes, 1).unwrap();
        assert_eq!(
            reader.number("value"),
            Err(DecodeError::Impossible("value"))
        );
    }

    #[test]
    fn refuses_a_length_beyond_the_bytes() {
        let bytes = [1, 0xff, 0xff, 0xff, 0x7f];
        let mut reader = Reader::versioned(&bytes, 1).unwrap();
        assert_eq!(reader.blob("blob"), Err(DecodeError::UnexpectedEnd("blob")));
    }
}
