//! What the machine must know of a queue.
//!
//! The metadata keeps this record inside its own record of the queue and gives every change a higher
//! version; a slice applies commands under the version it holds, never under the caller's.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{MoveTaskId, PartitionId, QueueId};
use std::collections::BTreeMap;

/// What a descriptor without draining partitions is written as; such ones stay readable to releases
/// that know no others.
const VERSION: u8 = 1;

/// With the draining partitions at the end.
const DRAINING_VERSION: u8 = 2;

/// With guests and redrive behind them.
const REDRIVE_VERSION: u8 = 3;

/// With a move order at the end.
const MOVE_VERSION: u8 = 4;

/// One version of the machine's configuration of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The queue.
    pub id: QueueId,
    /// Rises with every change.
    pub version: u64,
    /// Whether the queue still exists.
    pub state: QueueState,
    /// Standard or FIFO; fixed at creation.
    pub kind: QueueKind,
    /// How long a received message stays invisible when the receive does not say, in milliseconds.
    pub visibility_timeout_ms: u64,
    /// How long a sent message stays invisible when the send does not say, in milliseconds.
    pub delay_ms: u64,
    /// How long a message is kept after it was sent, in milliseconds.
    pub retention_ms: u64,
    /// Rises with every purge; a slice drops everything it held under a lower one.
    pub purge_epoch: u64,
    /// How many messages may be in flight per slice at one time.
    pub in_flight_limit: u32,
    /// The partitions the queue uses: each takes sends, and receives visit them all.
    pub spread: Vec<PartitionId>,
    /// Partitions that left the spread and may still hold messages: they take no sends, and receives
    /// visit them until they are empty.
    pub draining: Vec<PartitionId>,
    /// Partitions where sources of this dead-letter queue are, or where dead letters were that came back to
    /// this queue: they take messages that move and no sends, and receives visit them. What came to one of
    /// them is ordered there; a message group that messages move to from several queues is as many as they
    /// have partitions.
    pub guests: Vec<PartitionId>,
    /// Where messages go that were received too often; `None` also while that queue does not exist.
    pub redrive: Option<Redrive>,
    /// What of this dead-letter queue is to move back, while a move task runs.
    pub move_order: Option<MoveOrder>,
}

/// What a move task asks of every partition of a dead-letter queue: to move the messages that were there
/// when the order came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveOrder {
    /// The task; another one begins anew.
    pub task: MoveTaskId,
    /// Nothing moves any more: the task waits to hear how much has.
    pub halted: bool,
    /// Where all messages go. `None`: each to the queue whose dead letter it is.
    pub destination: Option<QueueId>,
    /// Those queues, by the names that their dead letters carry, as far as somebody asked for them.
    pub sources: BTreeMap<String, QueueId>,
}

/// The part of a redrive policy that the machine obeys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The dead-letter queue, of the same kind.
    pub target: QueueId,
    /// How often a message is handed out before the next receive moves it.
    pub max_receive_count: u32,
    /// The name of the queue that has the policy; its dead letters carry it, and outlive it.
    pub source: String,
}

/// Whether a queue exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It does.
    Active,
    /// It did; its slices are dropped and its id is never used again.
    Deleted,
}

/// The two kinds of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Best-effort order, no deduplication.
    Standard,
    /// Ordered message groups and deduplication.
    Fifo {
        /// The scope named at creation. AWS accepts a later change and ignores it.
        dedup_scope: DeduplicationScope,
    },
}

/// Where a deduplication id is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeduplicationScope {
    /// Across the queue.
    Queue,
    /// Within each message group.
    MessageGroup,
}

impl Descriptor {
    /// The descriptor of a queue of which nothing is known any more but that it is gone.
    pub fn of_a_gone_queue(id: QueueId) -> Self {
        Self {
            id,
            version: 1,
            state: QueueState::Deleted,
            kind: QueueKind::Standard,
            visibility_timeout_ms: 0,
            delay_ms: 0,
            retention_ms: 0,
            purge_epoch: 0,
            in_flight_limit: 0,
            spread: Vec::new(),
            draining: Vec::new(),
            guests: Vec::new(),
            redrive: None,
            move_order: None,
        }
    }

    /// Every partition that may hold messages of the queue: the spread, then the draining ones, then
    /// those of its sources.
    pub fn visited(&self) -> impl Iterator<Item = PartitionId> {
        let sent = self.spread.iter().chain(&self.draining);
        sent.chain(&self.guests).copied()
    }

    /// Whether messages of other queues may move to the queue in this partition.
    pub fn takes_moves(&self, partition: PartitionId) -> bool {
        self.spread.contains(&partition) || self.guests.contains(&partition)
    }

    /// Lets messages of other queues move to the queue in this partition from now on.
    pub fn take_guest(&mut self, partition: PartitionId) {
        if !self.takes_moves(partition) {
            self.draining.retain(|it| *it != partition);
            self.guests.push(partition);
        }
    }

    /// The persisted and shipped form: the lowest version that has room for what is there.
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.move_order.is_some() {
            MOVE_VERSION
        } else if self.redrive.is_some() || !self.guests.is_empty() {
            REDRIVE_VERSION
        } else if self.draining.is_empty() {
            VERSION
        } else {
            DRAINING_VERSION
        };
        let mut writer = Writer::versioned(version);
        self.write(&mut writer);
        if version >= DRAINING_VERSION {
            write_partitions(&mut writer, &self.draining);
        }
        if version >= REDRIVE_VERSION {
            write_partitions(&mut writer, &self.guests);
            writer.flag(self.redrive.is_some());
        }
        if let Some(redrive) = &self.redrive {
            writer.queue(redrive.target);
            writer.number(u64::from(redrive.max_receive_count));
            writer.text(&redrive.source);
        }
        if let Some(order) = &self.move_order {
            order.write(&mut writer);
        }
        writer.finish()
    }

    /// Reads what [`Descriptor::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let version = bytes.first().copied().unwrap_or(VERSION);
        let known = version.clamp(VERSION, MOVE_VERSION);
        let mut reader = Reader::versioned(bytes, known)?;
        let mut descriptor = Self::read(&mut reader)?;
        if version >= DRAINING_VERSION {
            descriptor.draining = reader.list("draining", Reader::partition)?;
        }
        if version >= REDRIVE_VERSION {
            descriptor.guests = reader.list("guests", Reader::partition)?;
            if reader.flag("redrive")? {
                descriptor.redrive = Some(Redrive {
                    target: reader.queue()?,
                    max_receive_count: reader.small("maximum of receives")?,
                    source: reader.text("source")?.to_owned(),
                });
            }
        }
        if version >= MOVE_VERSION {
            descriptor.move_order = Some(MoveOrder::read(&mut reader)?);
        }
        reader.finish()?;
        Ok(descriptor)
    }

    fn write(&self, writer: &mut Writer) {
        writer.queue(self.id);
        writer.number(self.version);
        writer.byte(match self.state {
            QueueState::Active => 1,
            QueueState::Deleted => 2,
        });
        writer.byte(match self.kind {
            QueueKind::Standard => 1,
            QueueKind::Fifo {
                dedup_scope: DeduplicationScope::Queue,
            } => 2,
            QueueKind::Fifo {
                dedup_scope: DeduplicationScope::MessageGroup,
            } => 3,
        });
        writer.number(self.visibility_timeout_ms);
        writer.number(self.delay_ms);
        writer.number(self.retention_ms);
        writer.number(self.purge_epoch);
        writer.number(u64::from(self.in_flight_limit));
        write_partitions(writer, &self.spread);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.queue()?,
            version: reader.number("descriptor version")?,
            state: match reader.byte("queue state")? {
                1 => QueueState::Active,
                2 => QueueState::Deleted,
                other => return Err(DecodeError::UnknownTag("queue state", other)),
            },
            kind: match reader.byte("queue kind")? {
                1 => QueueKind::Standard,
                2 => QueueKind::Fifo {
                    dedup_scope: DeduplicationScope::Queue,
                },
                3 => QueueKind::Fifo {
                    dedup_scope: DeduplicationScope::MessageGroup,
                },
                other => return Err(DecodeError::UnknownTag("queue kind", other)),
            },
            visibility_timeout_ms: reader.number("visibility timeout")?,
            delay_ms: reader.number("delay")?,
            retention_ms: reader.number("retention")?,
            purge_epoch: reader.number("purge epoch")?,
            in_flight_limit: reader.small("in-flight limit")?,
            spread: reader.list("spread", Reader::partition)?,
            draining: Vec::new(),
            guests: Vec::new(),
            redrive: None,
            move_order: None,
        })
    }
}

impl MoveOrder {
    fn write(&self, writer: &mut Writer) {
        writer.move_task(self.task);
        writer.flag(self.halted);
        writer.optional_number(self.destination.map(|queue| queue.0));
        writer.length(self.sources.len());
        for (name, queue) in &self.sources {
            writer.text(name);
            writer.queue(*queue);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let task = reader.move_task()?;
        let halted = reader.flag("halted")?;
        let destination = reader.optional_number("destination")?.map(QueueId);
        let mut sources = BTreeMap::new();
        for _ in 0..reader.length("sources of moves")? {
            let name = reader.text("source of moves")?.to_owned();
            if sources.insert(name, reader.queue()?).is_some() {
                return Err(DecodeError::Impossible("a source of moves twice"));
            }
        }
        Ok(Self {
            task,
            halted,
            destination,
            sources,
        })
    }
}

fn write_partitions(writer: &mut Writer, partitions: &[PartitionId]) {
    writer.length(partitions.len());
    for partition in partitions {
        writer.partition(*partition);
    }
}
