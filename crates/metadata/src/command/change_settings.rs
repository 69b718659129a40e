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
    #[error("cooldown_ms is {0}, more than {REMOVAL_MEMORY_MS}")]
    CooldownTooLong(u64),
}

impl ChangeSettings {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), ChangeSettingsError> {
        let cooldown = self.0.cooldown_ms;
        if cooldown > REMOVAL_MEMORY_MS {
            return Err(ChangeSettingsError::CooldownTooLong(cooldown));
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
        let Self::CooldownTooLong(cooldown) = self;
        writer.u8(1);
        writer.u64(cooldown);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::CooldownTooLong(reader.u64()?)),
            kind => Err(unknown("error of changing settings", kind)),
        }
    }
}
