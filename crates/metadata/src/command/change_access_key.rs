//! ChangeAccessKey: disables an access key, enables it again, or deletes it.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::tenants::AccessKeyState;

/// Sets the state of an access key, or deletes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeAccessKey {
    /// The id.
    pub key: String,
    /// What it is to be; nothing deletes it.
    pub state: Option<AccessKeyState>,
}

/// Why the key stayed as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeAccessKeyError {
    /// It never was, is deleted, or is of a node's configuration.
    #[error("there is no such access key; those of a node's configuration are changed there")]
    NoSuchKey,
}

impl ChangeAccessKey {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), ChangeAccessKeyError> {
        let owner = metadata.owner_of_key(&self.key);
        let mut record = owner.ok_or(ChangeAccessKeyError::NoSuchKey)?.clone();
        match self.state {
            None => {
                record.keys.remove(&self.key);
            }
            Some(state) => {
                let key = record.keys.get_mut(&self.key);
                let key = key.expect("an owner has its keys");
                if key.state == state {
                    return Ok(());
                }
                key.state = state;
            }
        }
        metadata.put_tenant(record);
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.text(&self.key);
        writer.u8(match self.state {
            None => 0,
            Some(AccessKeyState::Active) => 1,
            Some(AccessKeyState::Disabled) => 2,
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: reader.text()?,
            state: match reader.u8()? {
                0 => None,
                1 => Some(AccessKeyState::Active),
                2 => Some(AccessKeyState::Disabled),
                change => return Err(unknown("change of an access key", change)),
            },
        })
    }
}

impl ChangeAccessKeyError {
    pub(crate) fn write(self, writer: &mut Writer) {
        let Self::NoSuchKey = self;
        writer.u8(1);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchKey),
            kind => Err(unknown("error of changing an access key", kind)),
        }
    }
}
