//! ChangeSettings: what an operator changes for the whole cluster.

use crate::cluster::ClusterSettings;
use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::{Metadata, REMOVAL_MEMORY_MS};

/// Replaces the cluster's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeSettings(pub ClusterSettings);

/// Why the settings stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeSettingsError {
    /// Removals are not remembered for that long.
    #[error("name_reuse_delay_ms is {0}, more than {REMOVAL_MEMORY_MS}")]
    NameReuseDelayTooLong(u64),
}

impl ChangeSettings {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), ChangeSettingsError> {
        let delay = self.0.name_reuse_delay_ms;
        if delay > REMOVAL_MEMORY_MS {
            return Err(ChangeSettingsError::NameReuseDelayTooLong(delay));
        }
        metadata.put_settings(self.0);
        Ok(())
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        self.0.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(ClusterSettings::read(reader)?))
    }
}

impl ChangeSettingsError {
    pub(crate) fn write(self, writer: &mut Writer) {
        let Self::NameReuseDelayTooLong(delay) = self;
        writer.u8(1);
        writer.u64(delay);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NameReuseDelayTooLong(reader.u64()?)),
            kind => Err(unknown("error of changing settings", kind)),
        }
    }
}
