//! The deduplication ids a FIFO slice has seen in the last five minutes.
//!
//! The window counts from the first send and nothing extends it; it outlives the message's receive
//! and delete. All entries have the same life, so they end in the order in which they began.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::descriptor::DeduplicationScope;
use crate::ids::{MessageId, PackedName};

/// How long an id is remembered.
const WINDOW_MS: u64 = 5 * 60 * 1_000;

/// The first message sent under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub sent_at: u64,
    pub id: MessageId,
    pub name: PackedName,
}

/// Ids whose place in the order is not worth giving back after a burst: 1 KiB.
const SHRINK_ABOVE: usize = 64;

/// What ids are compared by: the id, within its scope.
pub(crate) fn key(scope: DeduplicationScope, message_group: &str, id: &str) -> Arc<str> {
    match scope {
        DeduplicationScope::Queue => id.into(),
        // The length keeps ("a", "bc") and ("ab", "c") apart.
        DeduplicationScope::MessageGroup => {
            format!("{}:{message_group}{id}", message_group.len()).into()
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Deduplication {
    by_key: BTreeMap<Arc<str>, First>,
    in_order: VecDeque<Arc<str>>,
    key_bytes: usize,
}

/// The bytes one remembered id costs beside its text: 16 + 32 in the map at two thirds, 16 in the
/// order at three quarters, 24 for the shared text's header and rounding.
const ENTRY_BYTES: usize = 48 * 3 / 2 + 22 + 24;

impl Deduplication {
    pub fn first(&self, key: &str) -> Option<First> {
        self.by_key.get(key).copied()
    }

    pub fn remember(&mut self, key: Arc<str>, first: First) {
        self.key_bytes += key.len();
        self.in_order.push_back(Arc::clone(&key));
        let before = self.by_key.insert(key, first);
        assert!(
            before.is_none(),
            "only the first message of an id is remembered"
        );
    }

    /// When the oldest entry ends.
    pub fn next_end(&self) -> Option<u64> {
        let oldest = self.by_key.get(self.in_order.front()?)?;
        Some(oldest.sent_at.saturating_add(WINDOW_MS))
    }

    /// Forgets what has ended, as far as `budget` goes.
    pub fn settle(&mut self, now: u64, budget: &mut usize) {
        while *budget > 0 && self.next_end().is_some_and(|end| end <= now) {
            if let Some(key) = self.in_order.pop_front() {
                self.key_bytes -= key.len();
                self.by_key.remove(&key);
            }
            *budget -= 1;
        }
        let capacity = self.in_order.capacity();
        if capacity > SHRINK_ABOVE && self.in_order.len() < capacity / 4 {
            self.in_order.shrink_to(capacity / 2);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.in_order.len() * ENTRY_BYTES + self.key_bytes
    }

    pub fn check(&self) -> Result<(), &'static str> {
        let stamps: Option<Vec<u64>> = self
            .in_order
            .iter()
            .map(|key| Some(self.by_key.get(key)?.sent_at))
            .collect();
        let ordered = self.by_key.len() == self.in_order.len()
            && stamps.is_some_and(|stamps| stamps.is_sorted());
        ordered
            .then_some(())
            .ok_or("deduplication ids are remembered in the order of their sends")
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.length(self.in_order.len());
        for key in &self.in_order {
            let first = &self.by_key[key];
            writer.text(key);
            writer.number(first.sent_at);
            writer.message_id(first.id);
            writer.number(first.name.bits());
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut memory = Self::default();
        for (key, first) in reader.list("deduplication ids", read_entry)? {
            if memory.by_key.contains_key(&key) {
                return Err(DecodeError::Impossible("deduplication id remembered twice"));
            }
            memory.remember(key, first);
        }
        Ok(memory)
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Result<(Arc<str>, First), DecodeError> {
    let key = reader.text("deduplication id")?.into();
    let first = First {
        sent_at: reader.number("sent at")?,
        id: reader.message_id()?,
        name: PackedName::from_bits(reader.number("first message")?)
            .ok_or(DecodeError::Impossible("first message"))?,
    };
    Ok((key, first))
}
