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

/// One message move task: dead letters on their way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoveTaskId(pub u128);

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

impl fmt::Display for MoveTaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        MessageId(self.0.to_be_bytes()).fmt(f)
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

impl MessageId {
    /// The id of the same message after it was moved back out of a dead-letter queue of `partition`,
    /// under the name that it got then: a message that is redriven counts as new (SQS-CONTRACT section
    /// 9). Nobody need keep the id, since everybody finds the same.
    ///
    /// Both halves are mixed with what no two redrives have in common, by the finalizer of SplitMix64.
    #[must_use]
    pub fn redriven(self, partition: PartitionId, name: Name) -> Self {
        let place = mix(u64::from(partition.0)) ^ name.index << 16 ^ u64::from(name.ordinal);
        let bits = u128::from_be_bytes(self.0);
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        let (high, low) = (mix(high ^ mix(place)), mix(low ^ mix(!place)));
        let mut id = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        // Version 4, variant 1 (RFC 9562), as those that are drawn.
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        Self(id)
    }
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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
    use super::{FIRST_EPOCH, MessageId, Name, PackedName, PartitionId};
    use std::collections::BTreeSet;

    #[test]
    fn each_redrive_gives_another_id_and_everybody_finds_the_same() {
        let ids = [MessageId([7; 16]), MessageId([8; 16])];
        let mut found = BTreeSet::from(ids);
        for partition in (0..4).map(PartitionId) {
            for (index, ordinal) in [(1, 0), (1, 1), (2, 0), (65_536, 0)] {
                let name = Name { index, ordinal };
                found.extend(ids.map(|id| id.redriven(partition, name)));
            }
        }
        assert_eq!(found.len(), 2 + 2 * 4 * 4);
        let name = Name {
            index: 5,
            ordinal: 2,
        };
        let again = ids[0].redriven(PartitionId(3), name);
        assert_eq!(again.to_string(), "1c9ad2ee-d43e-4a26-8045-8718e1a44705");
    }

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
