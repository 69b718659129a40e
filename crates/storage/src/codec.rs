//! Little-endian fixed fields and LEB128 varints: all that the formats on disk are made of.
//!
//! Reading never panics: a `Reader` answers `None` past the end, and the caller names the damage.

/// Where log indexes end: a group that grew by a million entries a second would get there in nine
/// years. So adding to one that was read never overflows.
pub(crate) const INDEX_END: u64 = 1 << 48;

/// Takes fields from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that must fit 32 bits.
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    /// A varint that is the index of a log entry.
    pub(crate) fn index(&mut self) -> Option<u64> {
        self.varint().filter(|index| *index < INDEX_END)
    }

    /// A varint count of things that each take at least one byte, so that damage cannot make us
    /// reserve memory.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(values in proptest::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            for value in &values {
                put_varint(&mut bytes, *value);
            }
            let mut reader = Reader::new(&bytes);
            for value in &values {
                prop_assert_eq!(reader.varint(), Some(*value));
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while reader.varint().is_some() && reader.count().is_some() {}
        }
    }
}
