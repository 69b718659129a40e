//! What a partition is asked to do.
//!
//! An entry's *head* carries T and the commands; the bodies of the messages sent follow it in the
//! entry and never reach the machine.

use crate::codec::{DecodeError, Reader, Writer};
use crate::descriptor::Descriptor;
use crate::handle::ReceiptHandle;
use crate::ids::{MessageId, MoveTaskId, Name, ORDINAL_LIMIT, QueueId, RequestId};

const COMMAND_VERSION: u8 = 1;
const HEAD_VERSION: u8 = 1;

/// The latest T an entry may carry, in the 25th century: a message's stamp has 44 bits.
pub const LATEST_T: u64 = (1 << 44) - (1 << 40);

/// One client's operation on one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Makes retries exact: a second command with this id is answered as the first was.
    pub request_id: RequestId,
    /// The last T at which the command may take effect.
    pub not_after: u64,
    /// The queue.
    pub queue: QueueId,
    /// The descriptor version the caller knows; an older slice asks for the newer one first.
    pub descriptor_version: u64,
    /// What to do.
    pub operation: Operation,
}

/// The operations of the data plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Adds messages, in order.
    Send {
        /// One to ten messages.
        messages: Vec<SendMessage>,
    },
    /// Hands out visible messages.
    Receive {
        /// How many at most: one to ten. Zero hands out nothing but what the attempt did before.
        max: u8,
        /// Overrides the queue's visibility timeout for these messages, in milliseconds.
        visibility_timeout_ms: Option<u64>,
        /// `ReceiveRequestAttemptId`; standard queues ignore it.
        attempt_id: Option<String>,
    },
    /// Removes messages.
    Delete {
        /// One to ten opened handles.
        handles: Vec<ReceiptHandle>,
    },
    /// Sets new visibility timeouts, counted from now.
    ChangeVisibility {
        /// One to ten changes.
        changes: Vec<VisibilityChange>,
    },
    /// Takes back deliveries whose client has gone before it saw them: visible again and uncounted.
    /// A retry of their receive is applied anew; if one came before, nothing is taken back.
    ReturnUnread {
        /// The request that received them.
        receive: RequestId,
        /// Name and receive number as delivered; a message received again since is left alone.
        /// None: whatever the request handed out, for a caller that never heard what it was.
        deliveries: Vec<(Name, u32)>,
    },
    /// Brings a queue's configuration; an older version than the one held changes nothing.
    PutDescriptor(Descriptor),
    /// Drops a bounded number of things that have outlived their time.
    Housekeep,
    /// Asks whether the slice is empty, with everything applied that was committed before.
    AskEmpty,
    /// Moves messages of a dead-letter queue back, oldest first: visible ones that were there when the
    /// task came here. Only the task that the slice knows moves any.
    MoveBack {
        /// The task.
        task: MoveTaskId,
        /// How many at most; a hundred are moved at once. Zero asks how far the task is.
        max: u8,
    },
}

/// What the machine knows of a message sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendMessage {
    /// What the sender is told the message is called, unless it is a duplicate.
    pub id: MessageId,
    /// Size of the body that travels beside the command.
    pub body_bytes: u32,
    /// Overrides the queue's delay; standard queues only, in milliseconds.
    pub delay_ms: Option<u64>,
    /// `MessageGroupId`; FIFO queues need one, standard queues are fair to those that have one.
    pub message_group: Option<String>,
    /// `MessageDeduplicationId`, or the hash of the content; FIFO queues need one.
    pub deduplication_id: Option<String>,
}

/// One entry of a `ChangeMessageVisibility`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibilityChange {
    /// The delivery to re-time.
    pub handle: ReceiptHandle,
    /// The new visibility timeout, counted from now, in milliseconds.
    pub timeout_ms: u64,
}

impl Command {
    /// The form in which nodes forward a command, version 1.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(COMMAND_VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`Command::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, COMMAND_VERSION)?;
        let command = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(command)
    }

    /// How many bodies travel beside the command.
    pub fn message_count(&self) -> usize {
        match &self.operation {
            Operation::Send { messages } => messages.len(),
            _ => 0,
        }
    }

    fn write(&self, writer: &mut Writer) {
        writer.request_id(self.request_id);
        writer.number(self.not_after);
        writer.queue(self.queue);
        writer.number(self.descriptor_version);
        self.operation.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            request_id: reader.request_id()?,
            not_after: reader.number("not after")?,
            queue: reader.queue()?,
            descriptor_version: reader.number("descriptor version")?,
            operation: Operation::read(reader)?,
        })
    }
}

impl Operation {
    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Send { messages } => {
                writer.byte(1);
                writer.length(messages.len());
                messages.iter().for_each(|message| message.write(writer));
            }
            Self::Receive {
                max,
                visibility_timeout_ms,
                attempt_id,
            } => {
                writer.byte(2);
                writer.byte(*max);
                writer.optional_number(*visibility_timeout_ms);
                writer.optional_text(attempt_id.as_deref());
            }
            Self::Delete { handles } => {
                writer.byte(3);
                writer.length(handles.len());
                handles.iter().for_each(|handle| handle.write(writer));
            }
            Self::ChangeVisibility { changes } => {
                writer.byte(4);
                writer.length(changes.len());
                for change in changes {
                    change.handle.write(writer);
                    writer.number(change.timeout_ms);
                }
            }
            Self::ReturnUnread {
                receive,
                deliveries,
            } => {
                writer.byte(5);
                writer.request_id(*receive);
                writer.length(deliveries.len());
                for (name, receive_number) in deliveries {
                    writer.name(*name);
                    writer.number(u64::from(*receive_number));
                }
            }
            Self::PutDescriptor(descriptor) => {
                writer.byte(6);
                writer.blob(&descriptor.encode());
            }
            Self::Housekeep => writer.byte(7),
            Self::AskEmpty => writer.byte(8),
            Self::MoveBack { task, max } => {
                writer.byte(9);
                writer.move_task(*task);
                writer.byte(*max);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.byte("operation")? {
            1 => Self::Send {
                messages: reader.list("messages", SendMessage::read)?,
            },
            2 => Self::Receive {
                max: reader.byte("receive maximum")?,
                visibility_timeout_ms: reader.optional_number("visibility timeout")?,
                attempt_id: reader.optional_text("attempt id")?,
            },
            3 => Self::Delete {
                handles: reader.list("handles", ReceiptHandle::read)?,
            },
            4 => Self::ChangeVisibility {
                changes: reader.list("changes", read_change)?,
            },
            5 => Self::ReturnUnread {
                receive: reader.request_id()?,
                deliveries: reader.list("deliveries", read_delivery)?,
            },
            6 => Self::PutDescriptor(Descriptor::decode(reader.blob("descriptor")?)?),
            7 => Self::Housekeep,
            8 => Self::AskEmpty,
            9 => Self::MoveBack {
                task: reader.move_task()?,
                max: reader.byte("most to move")?,
            },
            other => return Err(DecodeError::UnknownTag("operation", other)),
        })
    }
}

impl SendMessage {
    fn write(&self, writer: &mut Writer) {
        writer.message_id(self.id);
        writer.number(u64::from(self.body_bytes));
        writer.optional_number(self.delay_ms);
        writer.optional_text(self.message_group.as_deref());
        writer.optional_text(self.deduplication_id.as_deref());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.message_id()?,
            body_bytes: reader.small("body bytes")?,
            delay_ms: reader.optional_number("delay")?,
            message_group: reader.optional_text("message group")?,
            deduplication_id: reader.optional_text("deduplication id")?,
        })
    }
}

fn read_change(reader: &mut Reader<'_>) -> Result<VisibilityChange, DecodeError> {
    let handle = ReceiptHandle::read(reader)?;
    let timeout_ms = reader.number("visibility timeout")?;
    Ok(VisibilityChange { handle, timeout_ms })
}

fn read_delivery(reader: &mut Reader<'_>) -> Result<(Name, u32), DecodeError> {
    Ok((reader.name()?, reader.small("receive number")?))
}

/// Encodes an entry's head: format version, T and the commands. The caller appends the bodies, one
/// per [`SendMessage`], in order.
///
/// # Panics
/// If T is beyond [`LATEST_T`], or the messages are more than an entry can name: once in the log,
/// such a head would be refused by every replica for good.
pub fn encode_head(now: u64, commands: &[Command]) -> Vec<u8> {
    assert!(now <= LATEST_T, "the partition's clock keeps to T's range");
    assert!(
        message_count(commands) <= ORDINAL_LIMIT as usize,
        "a batch ends long before the ordinals do"
    );
    let mut writer = Writer::versioned(HEAD_VERSION);
    writer.number(now);
    writer.length(commands.len());
    commands
        .iter()
        .for_each(|command| command.write(&mut writer));
    writer.finish()
}

/// Reads what [`encode_head`] wrote, without the bodies.
pub fn decode_head(head: &[u8]) -> Result<(u64, Vec<Command>), DecodeError> {
    let mut reader = Reader::versioned(head, HEAD_VERSION)?;
    let now = reader.number("T")?;
    if now > LATEST_T {
        return Err(DecodeError::Impossible("T"));
    }
    let commands = reader.list("commands", Command::read)?;
    reader.finish()?;
    if message_count(&commands) > ORDINAL_LIMIT as usize {
        return Err(DecodeError::Impossible("messages in one entry"));
    }
    Ok((now, commands))
}

fn message_count(commands: &[Command]) -> usize {
    commands.iter().map(Command::message_count).sum()
}
