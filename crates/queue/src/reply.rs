//! What a partition answers.
//!
//! Failures are typed and carry no text: the gateway words them as AWS does.

use crate::codec::{DecodeError, Reader, Writer};
use crate::handle::ReceiptHandle;
use crate::ids::{MessageId, Name, QueueId};
use std::sync::Arc;

const VERSION: u8 = 1;

/// A command's reply and what the leader should do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The answer for whoever asked.
    pub reply: Reply,
    /// What the leader alone does after apply.
    pub effects: Effects,
}

/// What a command set in motion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Queues in which a receive may find something now: wake their long polls.
    pub receivable: Vec<QueueId>,
    /// Queues whose next deadline may have changed: ask [`crate::Partition::next_deadline`] again.
    pub deadline_changed: Vec<QueueId>,
}

impl Effects {
    /// Adds what one more thing set in motion.
    pub(crate) fn add(&mut self, more: Effects) {
        let add = |to: &mut Vec<QueueId>, from: Vec<QueueId>| {
            for queue in from {
                if !to.contains(&queue) {
                    to.push(queue);
                }
            }
        };
        add(&mut self.receivable, more.receivable);
        add(&mut self.deadline_changed, more.deadline_changed);
    }
}

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// One result per message, in the order sent.
    Sent(Vec<Result<Sent, SendError>>),
    /// The messages handed out; empty when nothing was visible, which leaves no trace in the state.
    Received(Vec<Delivery>),
    /// One result per handle.
    Deleted(Vec<Result<(), DeleteError>>),
    /// One result per change.
    VisibilityChanged(Vec<Result<(), ChangeVisibilityError>>),
    /// What could be taken back was.
    Returned,
    /// The slice's descriptor is at least as new as the one brought.
    DescriptorPut,
    /// A round of housekeeping is done; see [`crate::Partition::housekeeping_due`] for another.
    Housekept,
    /// `not_after` has passed: no effect.
    Late,
    /// The queue was deleted: no effect.
    QueueGone,
    /// The slice is missing, or older than the command: no effect. Put the descriptor, then retry.
    DescriptorNeeded {
        /// The version held, if any.
        have: Option<u64>,
    },
    /// A standard slice has as many messages in flight as it may: no effect.
    OverInFlightLimit,
    /// The partition is not, or no longer, in the queue's spread: no effect. Send elsewhere.
    TakesNoSends,
    /// Whether the slice holds no message.
    Emptiness {
        /// It holds none.
        empty: bool,
    },
    /// Nothing is known here of the queue's dead-letter queue: no effect. Put its descriptor, then
    /// retry.
    TargetNeeded {
        /// The dead-letter queue.
        target: QueueId,
    },
    /// How far a move task is here, this command included.
    MovedBack {
        /// How many messages this command moved.
        now: u8,
        /// How many the task moved here in all.
        total: u64,
        /// Whether nothing is left to move, or the task has been halted.
        done: bool,
    },
    /// The first message that would move has no place to go to: no effect.
    MoveBlocked(MoveObstacle),
    /// The slice has no such move task, or another one by now: no effect.
    NoMoveTask,
}

/// Why a dead letter cannot move back yet, or ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveObstacle {
    /// The queue to move it to is gone, is not known here by its name, or takes no messages in this
    /// partition.
    NoPlace {
        /// The name of the queue whose dead letter it is; `None` for the task's destination.
        source: Option<Arc<str>>,
    },
    /// It is nobody's dead letter: it was sent to the dead-letter queue, or moved there by a task.
    NoSource,
}

/// A message accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The message's id; for a duplicate, the first one's.
    pub id: MessageId,
    /// `SequenceNumber`, on FIFO queues; for a duplicate, the first one's.
    pub sequence: Option<u64>,
    /// Whether the message was dropped as a duplicate.
    pub duplicate: bool,
}

/// A message handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Which message.
    pub name: Name,
    /// `ApproximateReceiveCount`, this receive included.
    pub receive_count: u32,
    /// `ApproximateFirstReceiveTimestamp`: T of the first receive.
    pub first_received_at: u64,
    /// T at which the message becomes visible again.
    pub deadline: u64,
    /// `SequenceNumber`, on FIFO queues.
    pub sequence: Option<u64>,
    /// The handle to seal for the client.
    pub receipt: ReceiptHandle,
    /// For a message that came from another queue: what differs from one that was sent here.
    pub origin: Option<Box<Origin>>,
}

/// Where a message came from that was not sent to its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The name under which its body lies.
    pub body: Name,
    /// `SentTimestamp`, where it is not the one beside the body.
    pub sent_at: Option<u64>,
    /// The name of the queue whose dead letter it is, if it is one.
    pub source: Option<Arc<str>>,
    /// The name that the latest redrive gave it, in this queue or before; it tells the message's id, see
    /// [`MessageId::redriven`].
    pub redriven: Option<Name>,
}

impl Delivery {
    /// The name under which the message's body lies.
    pub fn body(&self) -> Name {
        self.origin.as_ref().map_or(self.name, |origin| origin.body)
    }
}

/// Why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// A FIFO queue needs a message group.
    #[error("no message group")]
    NoMessageGroup,
    /// A FIFO queue needs a deduplication id.
    #[error("no deduplication id")]
    NoDeduplicationId,
    /// A FIFO queue knows only its own delay.
    #[error("delay of a single message on a FIFO queue")]
    DelayOnFifo,
}

/// Why a message was not deleted. Deleting what is gone already succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// The handle belongs to another queue or partition.
    #[error("receipt handle of another queue")]
    ForeignHandle,
    /// On FIFO: the visibility timeout has passed, or the message was received again.
    #[error("receipt handle has expired")]
    HandleExpired,
}

/// Why a visibility timeout was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeVisibilityError {
    /// The handle belongs to another queue or partition.
    #[error("receipt handle of another queue")]
    ForeignHandle,
    /// On FIFO: the visibility timeout has passed, or the message was received again.
    #[error("receipt handle has expired")]
    HandleExpired,
    /// The message was deleted, has expired, or is not held by a receive.
    #[error("message is gone or not available")]
    NotAvailable,
    /// The message would be invisible for more than 12 hours since it was received.
    #[error("total visibility timeout is beyond 12 hours")]
    TotalTimeoutTooLong,
}

impl Reply {
    /// The form in which nodes forward a reply and the request table keeps it, version 1.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`Reply::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, VERSION)?;
        let reply = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(reply)
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Sent(results) => {
                writer.byte(1);
                write_results(writer, results, write_sent, send_error_number);
            }
            Self::Received(deliveries) if deliveries.iter().any(|it| it.origin.is_some()) => {
                let origins = deliveries.iter().filter_map(|it| it.origin.as_ref());
                let all_letters = origins.into_iter().all(|it| it.is_plain_letter());
                writer.byte(if all_letters { 14 } else { 19 });
                writer.length(deliveries.len());
                for delivery in deliveries {
                    delivery.write(writer);
                    writer.flag(delivery.origin.is_some());
                    match &delivery.origin {
                        Some(origin) if all_letters => origin.write_letter(writer),
                        Some(origin) => origin.write(writer),
                        None => (),
                    }
                }
            }
            Self::Received(deliveries) => {
                writer.byte(2);
                writer.length(deliveries.len());
                deliveries
                    .iter()
                    .for_each(|delivery| delivery.write(writer));
            }
            Self::Deleted(results) => {
                writer.byte(3);
                write_results(writer, results, |_, ()| (), delete_error_number);
            }
            Self::VisibilityChanged(results) => {
                writer.byte(4);
                write_results(writer, results, |_, ()| (), change_error_number);
            }
            Self::Returned => writer.byte(5),
            Self::DescriptorPut => writer.byte(6),
            Self::Housekept => writer.byte(7),
            Self::Late => writer.byte(8),
            Self::QueueGone => writer.byte(9),
            Self::DescriptorNeeded { have } => {
                writer.byte(10);
                writer.optional_number(*have);
            }
            Self::OverInFlightLimit => writer.byte(11),
            Self::TakesNoSends => writer.byte(12),
            Self::Emptiness { empty } => {
                writer.byte(13);
                writer.flag(*empty);
            }
            Self::TargetNeeded { target } => {
                writer.byte(15);
                writer.queue(*target);
            }
            Self::MovedBack { now, total, done } => {
                writer.byte(16);
                writer.byte(*now);
                writer.number(*total);
                writer.flag(*done);
            }
            Self::MoveBlocked(MoveObstacle::NoPlace { source }) => {
                writer.byte(17);
                writer.optional_text(source.as_deref());
            }
            Self::MoveBlocked(MoveObstacle::NoSource) => writer.byte(18),
            Self::NoMoveTask => writer.byte(20),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.byte("reply")? {
            1 => Self::Sent(read_results(reader, read_sent, send_error)?),
            2 => Self::Received(reader.list("deliveries", Delivery::read)?),
            3 => Self::Deleted(read_results(reader, |_| Ok(()), delete_error)?),
            4 => Self::VisibilityChanged(read_results(reader, |_| Ok(()), change_error)?),
            5 => Self::Returned,
            6 => Self::DescriptorPut,
            7 => Self::Housekept,
            8 => Self::Late,
            9 => Self::QueueGone,
            10 => Self::DescriptorNeeded {
                have: reader.optional_number("version held")?,
            },
            11 => Self::OverInFlightLimit,
            12 => Self::TakesNoSends,
            13 => Self::Emptiness {
                empty: reader.flag("empty")?,
            },
            14 => Self::Received(reader.list("deliveries", |reader| {
                read_delivery(reader, Origin::read_letter)
            })?),
            15 => Self::TargetNeeded {
                target: reader.queue()?,
            },
            16 => Self::MovedBack {
                now: reader.byte("moved now")?,
                total: reader.number("moved in all")?,
                done: reader.flag("moved all")?,
            },
            17 => Self::MoveBlocked(MoveObstacle::NoPlace {
                source: reader.optional_text("source")?.map(Arc::from),
            }),
            18 => Self::MoveBlocked(MoveObstacle::NoSource),
            19 => Self::Received(
                reader.list("deliveries", |reader| read_delivery(reader, Origin::read))?,
            ),
            20 => Self::NoMoveTask,
            other => return Err(DecodeError::UnknownTag("reply", other)),
        })
    }
}

fn read_delivery<'a>(
    reader: &mut Reader<'a>,
    origin: impl FnOnce(&mut Reader<'a>) -> Result<Origin, DecodeError>,
) -> Result<Delivery, DecodeError> {
    let mut delivery = Delivery::read(reader)?;
    if reader.flag("origin")? {
        delivery.origin = Some(Box::new(origin(reader)?));
    }
    Ok(delivery)
}

impl Origin {
    /// Whether it is as releases know it that redrive nothing.
    fn is_plain_letter(&self) -> bool {
        self.source.is_some() && self.redriven.is_none()
    }

    fn write_letter(&self, writer: &mut Writer) {
        writer.name(self.body);
        writer.optional_number(self.sent_at);
        writer.text(self.source.as_deref().unwrap_or_default());
    }

    fn read_letter(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            body: reader.name()?,
            sent_at: reader.optional_number("sent at")?,
            source: Some(reader.text("source")?.into()),
            redriven: None,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.name(self.body);
        writer.optional_number(self.sent_at);
        writer.optional_text(self.source.as_deref());
        writer.flag(self.redriven.is_some());
        if let Some(name) = self.redriven {
            writer.name(name);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            body: reader.name()?,
            sent_at: reader.optional_number("sent at")?,
            source: reader.optional_text("source")?.map(Arc::from),
            redriven: match reader.flag("redriven")? {
                true => Some(reader.name()?),
                false => None,
            },
        })
    }
}

/// Without the origin.
impl Delivery {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.name(self.name);
        writer.number(u64::from(self.receive_count));
        writer.number(self.first_received_at);
        writer.number(self.deadline);
        writer.optional_number(self.sequence);
        self.receipt.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: reader.name()?,
            receive_count: reader.small("receive count")?,
            first_received_at: reader.number("first received at")?,
            deadline: reader.number("deadline")?,
            sequence: reader.optional_number("sequence")?,
            receipt: ReceiptHandle::read(reader)?,
            origin: None,
        })
    }
}

fn write_results<T: Copy, E: Copy>(
    writer: &mut Writer,
    results: &[Result<T, E>],
    write_ok: impl Fn(&mut Writer, T),
    error_number: impl Fn(E) -> u8,
) {
    writer.length(results.len());
    for result in results {
        match *result {
            Ok(value) => {
                writer.byte(0);
                write_ok(writer, value);
            }
            Err(error) => writer.byte(error_number(error)),
        }
    }
}

fn read_results<T, E>(
    reader: &mut Reader<'_>,
    read_ok: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
    error: impl Fn(u8) -> Result<E, DecodeError>,
) -> Result<Vec<Result<T, E>>, DecodeError> {
    reader.list("results", |reader| match reader.byte("result")? {
        0 => Ok(Ok(read_ok(reader)?)),
        number => Ok(Err(error(number)?)),
    })
}

fn write_sent(writer: &mut Writer, sent: Sent) {
    writer.message_id(sent.id);
    writer.optional_number(sent.sequence);
    writer.flag(sent.duplicate);
}

fn read_sent(reader: &mut Reader<'_>) -> Result<Sent, DecodeError> {
    Ok(Sent {
        id: reader.message_id()?,
        sequence: reader.optional_number("sequence")?,
        duplicate: reader.flag("duplicate")?,
    })
}

fn send_error_number(error: SendError) -> u8 {
    match error {
        SendError::NoMessageGroup => 1,
        SendError::NoDeduplicationId => 2,
        SendError::DelayOnFifo => 3,
    }
}

fn send_error(number: u8) -> Result<SendError, DecodeError> {
    Ok(match number {
        1 => SendError::NoMessageGroup,
        2 => SendError::NoDeduplicationId,
        3 => SendError::DelayOnFifo,
        other => return Err(DecodeError::UnknownTag("send error", other)),
    })
}

fn delete_error_number(error: DeleteError) -> u8 {
    match error {
        DeleteError::ForeignHandle => 1,
        DeleteError::HandleExpired => 2,
    }
}

fn delete_error(number: u8) -> Result<DeleteError, DecodeError> {
    Ok(match number {
        1 => DeleteError::ForeignHandle,
        2 => DeleteError::HandleExpired,
        other => return Err(DecodeError::UnknownTag("delete error", other)),
    })
}

fn change_error_number(error: ChangeVisibilityError) -> u8 {
    match error {
        ChangeVisibilityError::ForeignHandle => 1,
        ChangeVisibilityError::HandleExpired => 2,
        ChangeVisibilityError::NotAvailable => 3,
        ChangeVisibilityError::TotalTimeoutTooLong => 4,
    }
}

fn change_error(number: u8) -> Result<ChangeVisibilityError, DecodeError> {
    Ok(match number {
        1 => ChangeVisibilityError::ForeignHandle,
        2 => ChangeVisibilityError::HandleExpired,
        3 => ChangeVisibilityError::NotAvailable,
        4 => ChangeVisibilityError::TotalTimeoutTooLong,
        other => return Err(DecodeError::UnknownTag("change visibility error", other)),
    })
}
