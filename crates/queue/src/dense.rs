//! An ordered map for millions of small entries.
//!
//! A `BTreeMap` node holds eleven entries and is typically little more than half full, which for
//! entries of 16 to 40 bytes costs as much again as the entries. Here they lie in sorted chunks of
//! up to 64, which fill completely when keys arrive in order, as names and deadlines mostly do.
//!
//! Invariants: no chunk is empty; chunks and the entries in them are in order; a chunk stands under
//! a key that is not above its first and above all keys of the chunk before.

use std::collections::BTreeMap;

/// Entries in a chunk: an insert moves half of them on average, a kilobyte.
const CHUNK: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct DenseMap<K, V> {
    chunks: BTreeMap<K, Vec<(K, V)>>,
    len: usize,
}

impl<K: Ord + Copy, V: Copy> DenseMap<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, key: K) -> Option<V> {
        let (_, chunk) = self.chunks.range(..=key).next_back()?;
        let at = position(chunk, key).ok()?;
        Some(chunk[at].1)
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (_, chunk) = self.chunks.range_mut(..=key).next_back()?;
        let at = position(chunk, key).ok()?;
        Some(&mut chunk[at].1)
    }

    pub fn first(&self) -> Option<(K, V)> {
        let (_, chunk) = self.chunks.first_key_value()?;
        chunk.first().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.chunks.values().flatten().copied()
    }

    /// The entries from `key` on.
    pub fn range_from(&self, key: K) -> impl Iterator<Item = (K, V)> {
        let chunk = self.chunks.range(..=key).next_back();
        let rest = chunk.map_or(&[][..], |(_, chunk)| {
            &chunk[position(chunk, key).unwrap_or_else(|at| at)..]
        });
        let bounds = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
        rest.iter()
            .chain(self.chunks.range(bounds).flat_map(|(_, chunk)| chunk))
            .copied()
    }

    /// Sets an entry and returns the value it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(chunk) = self.chunk_for(key) else {
            self.chunks.insert(key, vec![(key, value)]);
            self.len += 1;
            return None;
        };
        match position(chunk, key) {
            Ok(at) => return Some(std::mem::replace(&mut chunk[at].1, value)),
            // In-order arrival fills chunks to the last entry.
            Err(CHUNK) => {
                self.chunks.insert(key, vec![(key, value)]);
            }
            Err(at) if chunk.len() < CHUNK => chunk.insert(at, (key, value)),
            Err(at) => {
                let mut upper = chunk.split_off(CHUNK / 2);
                match at.checked_sub(CHUNK / 2) {
                    Some(at) => upper.insert(at, (key, value)),
                    None => chunk.insert(at, (key, value)),
                }
                self.chunks.insert(upper[0].0, upper);
            }
        }
        self.len += 1;
        None
    }

    /// The chunk that `key` belongs to; the first one is moved down for a key before all others.
    fn chunk_for(&mut self, key: K) -> Option<&mut Vec<(K, V)>> {
        if self.chunks.range(..=key).next_back().is_none() {
            let (_, chunk) = self.chunks.pop_first()?;
            self.chunks.insert(key, chunk);
        }
        self.chunks
            .range_mut(..=key)
            .next_back()
            .map(|(_, chunk)| chunk)
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let (bound, chunk) = self.chunks.range_mut(..=key).next_back()?;
        let at = position(chunk, key).ok()?;
        let (_, value) = chunk.remove(at);
        self.len -= 1;
        let bound = *bound;
        if chunk.is_empty() {
            self.chunks.remove(&bound);
        } else if chunk.len() < chunk.capacity() / 4 {
            // The few left of many must not keep the memory of all.
            chunk.shrink_to(chunk.capacity() / 2);
        }
        Some(value)
    }
}

fn position<K: Ord + Copy, V>(chunk: &[(K, V)], key: K) -> Result<usize, usize> {
    chunk.binary_search_by_key(&key, |(key, _)| *key)
}

impl<K, V> Default for DenseMap<K, V> {
    fn default() -> Self {
        Self {
            chunks: BTreeMap::new(),
            len: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::DenseMap;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn check(map: &DenseMap<u16, u8>, expected: &BTreeMap<u16, u8>) {
        assert!(map.chunks.values().all(|chunk| !chunk.is_empty()));
        assert_eq!(map.len(), expected.len());
        let pairs = |(key, value): (&u16, &u8)| (*key, *value);
        assert!(map.iter().eq(expected.iter().map(pairs)));
        assert_eq!(map.first(), expected.first_key_value().map(pairs));
        for key in (0..=1_000).step_by(37) {
            assert_eq!(map.get(key), expected.get(&key).copied());
            assert!(map.range_from(key).eq(expected.range(key..).map(pairs)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn behaves_as_a_btree_map(
            steps in vec((prop::bool::weighted(0.6), 0u16..1_000, any::<u8>()), 0..1_500),
            in_order: bool,
        ) {
            let (mut map, mut expected) = (DenseMap::default(), BTreeMap::new());
            for (nth, (insert, key, value)) in (0u16..).zip(steps) {
                let key = if in_order && insert { nth % 1_000 } else { key };
                if insert {
                    prop_assert_eq!(map.insert(key, value), expected.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(key), expected.remove(&key));
                }
                if let Some(value) = map.get_mut(key) {
                    *value ^= 1;
                    expected.entry(key).and_modify(|value| *value ^= 1);
                }
            }
            check(&map, &expected);
        }
    }

    #[test]
    fn in_order_arrival_fills_chunks() {
        let mut map = DenseMap::default();
        (0..640u32).for_each(|key| assert_eq!(map.insert(key, ()), None));
        assert_eq!(map.chunks.len(), 10);
    }

    #[test]
    fn a_few_left_of_many_keep_little_memory() {
        let mut map = DenseMap::default();
        (0..640u32).for_each(|key| assert_eq!(map.insert(key, ()), None));
        (0..640)
            .filter(|key| key % 64 != 7)
            .for_each(|key| assert_eq!(map.remove(key), Some(())));
        assert!(map.chunks.values().all(|chunk| chunk.capacity() <= 8));
    }
}
