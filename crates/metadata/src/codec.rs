//! How this crate's values become bytes: little-endian numbers, lengths before texts, one byte of
//! version before what stands alone.
//!
//! What is written here is kept on disk and sent between nodes. Numbers of kinds are never reused,
//! and a reader takes every byte or none.

use crate::record::FifoThroughputLimit;
use crate::tenant::TenantId;
use hikyaku_queue::{DeduplicationScope, Descriptor, PartitionId, QueueId};
use std::collections::BTreeMap;

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end in the middle of a value.
    #[error("the bytes end {0} short of a value")]
    Truncated(usize),
    /// A newer release wrote these bytes.
    #[error("format version {0} is unknown")]
    UnknownVersion(u8),
    /// A number that stands for nothing.
    #[error("{value} is no {what}")]
    Unknown {
        /// What the number should have named.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A descriptor inside cannot be read.
    #[error("a descriptor cannot be read: {0}")]
    Descriptor(#[from] hikyaku_queue::DecodeError),
    /// What should be there once is there twice.
    #[error("a {0} is there twice")]
    Repeated(&'static str),
    /// The values contradict what is believed of them.
    #[error("it does not hold that {0}")]
    Impossible(&'static str),
    /// Something follows the last value.
    #[error("{0} bytes follow the last value")]
    TrailingBytes(usize),
}

/// Appends values to bytes.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn versioned(version: u8) -> Self {
        Self(vec![version])
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// How many values of a list follow.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("lists are bounded far below four thousand million"));
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn texts(&mut self, texts: &BTreeMap<String, String>) {
        self.count(texts.len());
        for (key, value) in texts {
            self.text(key);
            self.text(value);
        }
    }

    pub(crate) fn optional_u64(&mut self, value: Option<u64>) {
        self.flag(value.is_some());
        if let Some(value) = value {
            self.u64(value);
        }
    }

    pub(crate) fn optional_text(&mut self, text: Option<&str>) {
        self.flag(text.is_some());
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(crate) fn queue(&mut self, queue: QueueId) {
        self.u64(queue.0);
    }

    pub(crate) fn partition(&mut self, partition: PartitionId) {
        self.u32(partition.0);
    }

    pub(crate) fn descriptor(&mut self, descriptor: &Descriptor) {
        self.bytes(&descriptor.encode());
    }

    pub(crate) fn deduplication_scope(&mut self, scope: DeduplicationScope) {
        self.u8(match scope {
            DeduplicationScope::Queue => 1,
            DeduplicationScope::MessageGroup => 2,
        });
    }

    pub(crate) fn fifo_throughput_limit(&mut self, limit: FifoThroughputLimit) {
        self.u8(match limit {
            FifoThroughputLimit::PerQueue => 1,
            FifoThroughputLimit::PerMessageGroupId => 2,
        });
    }
}

/// Takes values off the front of bytes.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts behind the version byte, which must be `version`.
    pub(crate) fn versioned(bytes: &'a [u8], version: u8) -> Result<Self, DecodeError> {
        let mut reader = Self(bytes);
        match reader.u8()? {
            found if found == version => Ok(reader),
            found => Err(DecodeError::UnknownVersion(found)),
        }
    }

    /// Starts behind the version byte, which must be from 1 to `newest`, and tells it.
    pub(crate) fn up_to(bytes: &'a [u8], newest: u8) -> Result<(Self, u8), DecodeError> {
        let mut reader = Self(bytes);
        match reader.u8()? {
            found if (1..=newest).contains(&found) => Ok((reader, found)),
            found => Err(DecodeError::UnknownVersion(found)),
        }
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(DecodeError::TrailingBytes(left)),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(DecodeError::Truncated(length - self.0.len()));
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], DecodeError> {
        let taken = self.take(LENGTH)?;
        Ok(taken
            .try_into()
            .expect("as many bytes as were asked for were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(unknown("flag", value)),
        }
    }

    pub(crate) fn count(&mut self) -> Result<u32, DecodeError> {
        self.u32()
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.count()?;
        self.take(length as usize)
    }

    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)?;
        Ok(text.to_owned())
    }

    /// A count, then as many values.
    pub(crate) fn list<T, C: FromIterator<T>>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<C, DecodeError> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    pub(crate) fn texts(&mut self) -> Result<BTreeMap<String, String>, DecodeError> {
        self.list(|reader| Ok((reader.text()?, reader.text()?)))
    }

    pub(crate) fn optional_u64(&mut self) -> Result<Option<u64>, DecodeError> {
        Ok(if self.flag()? {
            Some(self.u64()?)
        } else {
            None
        })
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, DecodeError> {
        Ok(if self.flag()? {
            Some(self.text()?)
        } else {
            None
        })
    }

    pub(crate) fn queue(&mut self) -> Result<QueueId, DecodeError> {
        Ok(QueueId(self.u64()?))
    }

    pub(crate) fn partition(&mut self) -> Result<PartitionId, DecodeError> {
        Ok(PartitionId(self.u32()?))
    }

    pub(crate) fn tenant(&mut self) -> Result<TenantId, DecodeError> {
        let number = self.u64()?;
        TenantId::from_number(number).ok_or(DecodeError::Unknown {
            what: "tenant",
            value: number,
        })
    }

    pub(crate) fn descriptor(&mut self) -> Result<Descriptor, DecodeError> {
        let bytes = self.bytes()?;
        Ok(Descriptor::decode(bytes)?)
    }

    pub(crate) fn deduplication_scope(&mut self) -> Result<DeduplicationScope, DecodeError> {
        match self.u8()? {
            1 => Ok(DeduplicationScope::Queue),
            2 => Ok(DeduplicationScope::MessageGroup),
            value => Err(unknown("deduplication scope", value)),
        }
    }

    pub(crate) fn fifo_throughput_limit(&mut self) -> Result<FifoThroughputLimit, DecodeError> {
        match self.u8()? {
            1 => Ok(FifoThroughputLimit::PerQueue),
            2 => Ok(FifoThroughputLimit::PerMessageGroupId),
            value => Err(unknown("FIFO throughput limit", value)),
        }
    }
}

pub(crate) fn unknown(what: &'static str, value: u8) -> DecodeError {
    DecodeError::Unknown {
        what,
        value: u64::from(value),
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Reader, Writer};

    #[test]
    fn takes_every_byte_or_none() {
        let mut writer = Writer::versioned(1);
        writer.text("flag");
        let mut bytes = writer.finish();

        let mut reader = Reader::versioned(&bytes[..bytes.len() - 1], 1).unwrap();
        assert_eq!(reader.text(), Err(DecodeError::Truncated(1)));

        bytes.push(7);
        let mut reader = Reader::versioned(&bytes, 1).unwrap();
        assert_eq!(reader.text().unwrap(), "flag");
        assert_eq!(reader.finish(), Err(DecodeError::TrailingBytes(1)));
    }

    #[test]
    fn refuses_a_newer_version() {
        let bytes = Writer::versioned(2).finish();
        assert_eq!(
            Reader::versioned(&bytes, 1).unwrap_err(),
            DecodeError::UnknownVersion(2)
        );
    }
}
