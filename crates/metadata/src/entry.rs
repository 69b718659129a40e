//! One Raft entry of the metadata group: the time it was proposed at, and the commands in it.

use crate::codec::{DecodeError, Reader, Writer};
use crate::command::Command;
use hikyaku_queue::RequestId;

/// A command with what makes its retries exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Made once by whoever asks, before the first attempt, and the same on every retry.
    pub request_id: RequestId,
    /// The last moment, in ms of the metadata group's time, at which the command may take effect.
    /// The answer is kept for retries until then, so the asker bounds it (60 s ahead at most).
    pub not_after: u64,
    /// What is asked.
    pub command: Command,
}

const ENTRY_VERSION: u8 = 1;

/// Writes an entry: the leader's time in ms, then the commands in the order they are applied.
pub fn encode_entry(now: u64, envelopes: &[Envelope]) -> Vec<u8> {
    let mut writer = Writer::versioned(ENTRY_VERSION);
    writer.u64(now);
    writer.count(envelopes.len());
    for envelope in envelopes {
        envelope.write(&mut writer);
    }
    writer.finish()
}

/// Reads what [`encode_entry`] wrote.
pub fn decode_entry(bytes: &[u8]) -> Result<(u64, Vec<Envelope>), DecodeError> {
    let mut reader = Reader::versioned(bytes, ENTRY_VERSION)?;
    let now = reader.u64()?;
    let envelopes = reader.list(Envelope::read)?;
    reader.finish()?;
    Ok((now, envelopes))
}

impl Envelope {
    const VERSION: u8 = 1;

    /// Writes one command in its versioned form, for forwarding to the leader.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(Self::VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`Envelope::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, Self::VERSION)?;
        let envelope = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(envelope)
    }

    fn write(&self, writer: &mut Writer) {
        writer.u128(self.request_id.0);
        writer.u64(self.not_after);
        self.command.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            request_id: RequestId(reader.u128()?),
            not_after: reader.u64()?,
            command: Command::read(reader)?,
        })
    }
}
