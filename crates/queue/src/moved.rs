//! What is known of the messages that came to a slice from another queue, beside what a slice knows
//! of all.
//!
//! Such a message has a new name, so that order, sequence numbers and receipt handles are as if it
//! had been sent; its body stays where the log has it. Where it came from is kept as that queue's
//! name, once for all messages from there; the empty text, which is no queue's name, stands for those
//! that were redriven and are nobody's dead letters any more.
//!
//! Invariants: every account has its source's text; a text is kept as long as an account names it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::dense::DenseMap;
use crate::ids::PackedName;
use crate::partition::LiveRun;
use crate::reply::Origin;
use crate::runs::Run;

/// The account of one message that came from another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Where its body lies.
    pub body: PackedName,
    /// What its retention counts from, as the queue's kind rounds it.
    pub stamp: u64,
    /// T of the send as clients read it; zero when it is the one beside the body.
    pub sent_at: u64,
    /// T of the first receive before it came.
    pub first_received_at: u64,
    /// Receives before it came.
    pub receive_count: u32,
    /// The bits of the name that its latest redrive gave it; zero when there was none, since no entry
    /// has the index 0.
    redriven: u64,
    /// The place of its source's text.
    source: u32,
}

/// The bytes that one account costs: its entry in a map that is 7/8 full.
pub(crate) const MOVED_BYTES: usize = (8 + size_of::<Moved>()) * 8 / 7;

/// A source's text, and how many accounts name it.
#[derive(Debug)]
struct Source {
    text: Arc<str>,
    messages: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MovedMessages {
    by_name: DenseMap<PackedName, Moved>,
    sources: Vec<Option<Source>>,
    places: BTreeMap<Arc<str>, u32>,
}

impl Moved {
    /// A dead letter's account. Its source becomes known with [`MovedMessages::insert`].
    pub fn new(
        body: PackedName,
        stamp: u64,
        sent_at: u64,
        first_received_at: u64,
        receive_count: u32,
    ) -> Self {
        Self {
            body,
            stamp,
            sent_at,
            first_received_at,
            receive_count,
            redriven: 0,
            source: 0,
        }
    }

    /// The account of a message that comes back under this name, and counts as sent at `now`.
    pub fn redriven(body: PackedName, stamp: u64, now: u64, name: PackedName) -> Self {
        Self {
            redriven: name.bits(),
            ..Self::new(body, stamp, now, 0, 0)
        }
    }

    /// The same message, redriven as it was before.
    pub fn as_before(self, before: Option<Self>) -> Self {
        Self {
            redriven: before.map_or(0, |before| before.redriven),
            ..self
        }
    }
}

impl MovedMessages {
    pub fn get(&self, name: PackedName) -> Option<Moved> {
        self.by_name.get(name)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// What a delivery of the message says of where it came from.
    pub fn origin(&self, name: PackedName) -> Option<Box<Origin>> {
        let moved = self.get(name)?;
        let redriven = PackedName::from_bits(moved.redriven).filter(|it| it.bits() > 0);
        Some(Box::new(Origin {
            body: moved.body.name(),
            sent_at: (moved.sent_at > 0).then_some(moved.sent_at),
            source: self.source(name),
            redriven: redriven.map(PackedName::name),
        }))
    }

    /// The queue whose dead letter the message is.
    pub fn source(&self, name: PackedName) -> Option<Arc<str>> {
        let source = self.sources[self.get(name)?.source as usize].as_ref();
        let text = &source.expect("an account has its source").text;
        (!text.is_empty()).then(|| Arc::clone(text))
    }

    pub fn insert(&mut self, name: PackedName, moved: Moved, source: &Arc<str>) {
        let place = self.place(source);
        let before = self.by_name.insert(
            name,
            Moved {
                source: place,
                ..moved
            },
        );
        assert!(before.is_none(), "a message arrives once");
    }

    /// The place of a source's text, with one more message.
    fn place(&mut self, text: &Arc<str>) -> u32 {
        if let Some(place) = self.places.get(text) {
            let source = self.sources[*place as usize].as_mut();
            source.expect("a text is where it is said to be").messages += 1;
            return *place;
        }
        let source = Some(Source {
            text: Arc::clone(text),
            messages: 1,
        });
        let free = self.sources.iter().position(Option::is_none);
        let place = free.unwrap_or(self.sources.len());
        match free {
            Some(place) => self.sources[place] = source,
            None => self.sources.push(source),
        }
        let place = u32::try_from(place).expect("memory ends before 2^32 sources");
        self.places.insert(Arc::clone(text), place);
        place
    }

    pub fn remove(&mut self, name: PackedName) -> Option<Moved> {
        let moved = self.by_name.remove(name)?;
        let place = &mut self.sources[moved.source as usize];
        let source = place.as_mut().expect("an account has its source");
        source.messages -= 1;
        if source.messages == 0 {
            self.places.remove(&source.text);
            *place = None;
        }
        Some(moved)
    }

    /// Forgets the messages of a run that was dropped.
    pub fn remove_run(&mut self, run: Run) {
        for name in self.in_run(run) {
            self.remove(name);
        }
    }

    fn in_run(&self, run: Run) -> Vec<PackedName> {
        if self.by_name.len() == 0 {
            return Vec::new();
        }
        let from = self.by_name.range_from(run.first());
        from.map(|(name, _)| name)
            .take_while(|name| *name <= run.last())
            .filter(|name| run.contains(*name))
            .collect()
    }

    /// Adds the bodies of a run's messages to `live`.
    pub fn collect_run(&self, run: Run, live: &mut Vec<LiveRun>) {
        if self.in_run(run).is_empty() {
            live.push(LiveRun::from(run));
        } else {
            live.extend(run.names().map(|name| LiveRun::from(self.body(name))));
        }
    }

    /// Where a message's body lies, moved or not.
    pub fn body(&self, name: PackedName) -> PackedName {
        self.get(name).map_or(name, |moved| moved.body)
    }

    pub fn names(&self) -> impl Iterator<Item = PackedName> {
        self.by_name.iter().map(|(name, _)| name)
    }

    pub fn bytes(&self) -> usize {
        let texts: usize = self.places.keys().map(|text| text.len() + 96).sum();
        self.by_name.len() * MOVED_BYTES + texts
    }

    pub fn check(&self) -> Result<(), &'static str> {
        let counted = self.sources.iter().flatten().map(|it| it.messages).sum();
        let named = self.places.len() == self.sources.iter().flatten().count();
        (named && self.by_name.len() == counted)
            .then_some(())
            .ok_or("moved messages are counted by their sources")
    }

    /// Whether some message was redriven: releases that redrive nothing cannot read those.
    pub fn has_redriven(&self) -> bool {
        self.by_name.iter().any(|(_, moved)| moved.redriven > 0)
    }

    /// Writes the accounts, and with `redriven` what redrives named.
    pub fn write(&self, writer: &mut Writer, redriven: bool) {
        writer.length(self.places.len());
        self.places.keys().for_each(|text| writer.text(text));
        let order: BTreeMap<u32, u64> = self.places.values().copied().zip(0..).collect();
        writer.length(self.by_name.len());
        for (name, moved) in self.by_name.iter() {
            writer.number(name.bits());
            writer.number(moved.body.bits());
            writer.number(moved.stamp);
            writer.number(moved.sent_at);
            writer.number(moved.first_received_at);
            writer.number(u64::from(moved.receive_count));
            writer.number(order[&moved.source]);
            if redriven {
                writer.number(moved.redriven);
            }
        }
    }

    pub fn read(reader: &mut Reader<'_>, redriven: bool) -> Result<Self, DecodeError> {
        let texts: Vec<Arc<str>> =
            reader.list("sources", |reader| Ok(reader.text("source")?.into()))?;
        let mut moved = Self::default();
        for _ in 0..reader.length("moved messages")? {
            let name = read_name(reader)?;
            let mut account = Moved {
                body: read_name(reader)?,
                stamp: reader.number("stamp")?,
                sent_at: reader.number("sent at")?,
                first_received_at: reader.number("first received at")?,
                receive_count: reader.small("receives before")?,
                redriven: 0,
                source: 0,
            };
            let source: usize = reader.small("source")?;
            let source = texts.get(source).ok_or(DecodeError::Impossible("source"))?;
            if redriven {
                account.redriven = reader.number("redriven")?;
                PackedName::from_bits(account.redriven)
                    .ok_or(DecodeError::Impossible("redriven name"))?;
            }
            if moved.get(name).is_some() {
                return Err(DecodeError::Impossible("a message moved twice"));
            }
            moved.insert(name, account, source);
        }
        Ok(moved)
    }
}

fn read_name(reader: &mut Reader<'_>) -> Result<PackedName, DecodeError> {
    PackedName::from_bits(reader.number("moved name")?).ok_or(DecodeError::Impossible("moved name"))
}
