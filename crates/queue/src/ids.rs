//! The identities the machine deals in.

use std::fmt;

/// A partition: one Raft group, hosting slices of many queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// One incarnation of a queue; never reused, so a queue created again under its name is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

/// One request of one client, made by the router before its first attempt and kept on every retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u128);

/// What a client calls a message; drawn by the gateway and printed as a lower-case UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; 16]);

/// A message's identity inside its partition: the entry that carried it and its place among all
/// messages of that entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Log index of the entry.
    pub index: u64,
    /// Position among all messages of the entry, whatever their queue.
    pub ordinal: u32,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.ordinal)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Log indexes stay below 2^40: 34 years at a thousand entries a second. A `SequenceNumber` has
/// room for no more.
pub(crate) const INDEX_LIMIT: u64 = 1 << 40;

/// Messages in one entry: an ordinal has 16 bits.
pub(crate) const ORDINAL_LIMIT: u32 = 1 << 16;

/// The first epoch of a partition's sequence numbers: the least whose numbers all have 20 digits.
pub(crate) const FIRST_EPOCH: u8 = 139;

/// A name in eight bytes, ordered as names are; the form in which messages are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackedName(u64);

impl PackedName {
    pub fn new(index: u64, ordinal: u32) -> Self {
        assert!(index < INDEX_LIMIT, "log indexes have 40 bits");
        assert!(ordinal < ORDINAL_LIMIT, "ordinals have 16 bits");
        Self(index << 16 | u64::from(ordinal))
    }

    /// Packs a name that came from outside; nothing is held under one that does not fit.
    pub fn from_name(name: Name) -> Option<Self> {
        let fits = name.index < INDEX_LIMIT && name.ordinal < ORDINAL_LIMIT;
        fits.then(|| Self::new(name.index, name.ordinal))
    }

    pub fn from_bits(bits: u64) -> Option<Self> {
        (bits >> 16 < INDEX_LIMIT).then_some(Self(bits))
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn index(self) -> u64 {
        self.0 >> 16
    }

    pub fn ordinal(self) -> u32 {
        (self.0 & 0xffff) as u32
    }

    pub fn name(self) -> Name {
        Name {
            index: self.index(),
            ordinal: self.ordinal(),
        }
    }

    /// The message's `SequenceNumber`: 8 bits of epoch, 40 of index, 16 of ordinal.
    pub fn sequence(self, epoch: u8) -> u64 {
        u64::from(epoch) << 56 | self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_EPOCH, MessageId, PackedName};

    #[test]
    fn message_ids_print_as_uuids() {
        let id = MessageId(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef");
        assert_eq!(id.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
    }

    #[test]
    fn sequence_numbers_have_twenty_digits_from_the_first() {
        let first = PackedName::new(0, 0).sequence(FIRST_EPOCH).to_string();
        let last = PackedName::new((1 << 40) - 1, 65_535)
            .sequence(u8::MAX)
            .to_string();
        assert_eq!((first.len(), last.len()), (20, 20));
    }
}
