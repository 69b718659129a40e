//! Secrets of access keys as they are kept and sent: sealed, so that a checkpoint, a log or a backup
//! gives none away.
//!
//! A secret has to be had back to verify a signature, so it is encrypted rather than hashed: by
//! AES-SIV, under a key that the operator gives to every node and that is in no metadata. The id and the
//! owner of the access key are sealed with it: a secret that is moved to another key does not open. The
//! sealing key is named in the clear by a number that follows from it, so that during a rotation two keys
//! open and the first one seals.

use crate::codec::{DecodeError, Reader, Writer};
use crate::tenant::TenantId;
use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a sealing key: AES-256-SIV takes two 256-bit keys.
pub const SEALING_KEY_BYTES: usize = 64;

/// Separates these uses of the key from any other.
const SECRET_LABEL: &[u8] = b"hikyaku access key secret 1";
const NUMBER_LABEL: &[u8] = b"hikyaku sealing key number 1";

/// A secret that only the holder of its sealing key can read.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// The number of the key that sealed it.
    pub key: u32,
    /// The secret, encrypted and authenticated.
    pub bytes: Vec<u8>,
}

/// One key that seals secrets. Never shown.
#[derive(Clone)]
pub struct SealingKey {
    number: u32,
    secret: Zeroizing<[u8; SEALING_KEY_BYTES]>,
}

/// The keys of a cluster: one that seals, and during a rotation one more that opens.
#[derive(Debug, Clone)]
pub struct SealingKeys {
    current: SealingKey,
    previous: Option<SealingKey>,
}

/// Why a secret stays sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StaysSealed {
    /// It was sealed by a key that is not here.
    #[error("it was sealed by key {0:08x}, which this node does not have")]
    OtherKey(u32),
    /// It is not as it was sealed, or not of this access key.
    #[error("it is damaged, or of another access key")]
    Damaged,
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, .. } = self;
        write!(formatter, "SealedSecret(by {key:08x})")
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SealingKey({:08x})", self.number)
    }
}

impl SealingKey {
    /// Takes random bytes as a key.
    pub fn new(secret: Zeroizing<[u8; SEALING_KEY_BYTES]>) -> Self {
        let mut cipher = Aes256Siv::new((&*secret).into());
        let tag = cipher.encrypt([NUMBER_LABEL], b"");
        let tag = tag.expect("one header and no text are within AES-SIV's limits");
        let first = tag[..4].try_into().expect("a tag has sixteen bytes");
        Self {
            number: u32::from_be_bytes(first),
            secret,
        }
    }

    /// What it is called in the clear.
    pub fn number(&self) -> u32 {
        self.number
    }

    fn cipher(&self) -> Aes256Siv {
        Aes256Siv::new((&*self.secret).into())
    }
}

impl SealingKeys {
    /// Seals with `current`; opens with either.
    pub fn new(current: SealingKey, previous: Option<SealingKey>) -> Self {
        Self { current, previous }
    }

    /// The number of the key that seals.
    pub fn current(&self) -> u32 {
        self.current.number
    }

    /// Seals the secret of a tenant's access key.
    pub fn seal(&self, tenant: TenantId, key: &str, secret: &str) -> SealedSecret {
        let tenant = tenant.number().to_be_bytes();
        let headers = [SECRET_LABEL, &tenant, key.as_bytes()];
        let sealed = self.current.cipher().encrypt(headers, secret.as_bytes());
        SealedSecret {
            key: self.current.number,
            bytes: sealed.expect("three headers and a line are within AES-SIV's limits"),
        }
    }

    /// Opens the secret of a tenant's access key.
    ///
    /// # Errors
    /// When another key sealed it, or not this.
    pub fn open(
        &self,
        tenant: TenantId,
        key: &str,
        sealed: &SealedSecret,
    ) -> Result<Zeroizing<String>, StaysSealed> {
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        let opener = keys.find(|it| it.number == sealed.key);
        let opener = opener.ok_or(StaysSealed::OtherKey(sealed.key))?;
        let tenant = tenant.number().to_be_bytes();
        let headers = [SECRET_LABEL, &tenant, key.as_bytes()];
        let secret = opener.cipher().decrypt(headers, &sealed.bytes);
        let secret = String::from_utf8(secret.map_err(|_| StaysSealed::Damaged)?);
        Ok(Zeroizing::new(secret.map_err(|_| StaysSealed::Damaged)?))
    }
}

impl SealedSecret {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.key);
        writer.bytes(&self.bytes);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: reader.u32()?,
            bytes: reader.bytes()?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{SEALING_KEY_BYTES, SealedSecret, SealingKey, SealingKeys, StaysSealed};
    use crate::tenant::TenantId;
    use zeroize::Zeroizing;

    const SECRET: &str = "cGxhbnRlZC1zZWNyZXQtb2YtdGhlLXRlc3Rz";

    fn key(byte: u8) -> SealingKey {
        SealingKey::new(Zeroizing::new([byte; SEALING_KEY_BYTES]))
    }

    fn seal(keys: &SealingKeys) -> SealedSecret {
        keys.seal(TenantId::DEFAULT, "KEY", SECRET)
    }

    #[test]
    fn a_secret_opens_for_its_own_key_alone() {
        let keys = SealingKeys::new(key(1), None);
        let sealed = seal(&keys);
        let opened = keys.open(TenantId::DEFAULT, "KEY", &sealed).unwrap();
        assert_eq!(*opened, SECRET);
        let other = TenantId::parse("000000000001").unwrap();
        for (tenant, id) in [(other, "KEY"), (TenantId::DEFAULT, "OTHER")] {
            assert_eq!(keys.open(tenant, id, &sealed), Err(StaysSealed::Damaged));
        }
        let mut bent = sealed;
        bent.bytes[20] ^= 1;
        let opened = keys.open(TenantId::DEFAULT, "KEY", &bent);
        assert_eq!(opened, Err(StaysSealed::Damaged));
    }

    #[test]
    fn during_a_rotation_two_keys_open_and_the_first_seals() {
        let old = SealingKeys::new(key(1), None);
        let both = SealingKeys::new(key(2), Some(key(1)));
        let new = SealingKeys::new(key(2), None);
        let (before, after) = (seal(&old), seal(&both));
        assert_ne!(before.key, after.key);
        for (keys, sealed, opens) in [
            (&both, &before, true),
            (&both, &after, true),
            (&new, &after, true),
            (&new, &before, false),
            (&old, &after, false),
        ] {
            let opened = keys.open(TenantId::DEFAULT, "KEY", sealed);
            assert_eq!(opened.is_ok(), opens, "{sealed:?}");
        }
    }

    #[test]
    fn neither_keys_nor_secrets_are_shown() {
        let keys = SealingKeys::new(key(171), Some(key(172)));
        let sealed = seal(&keys);
        let shown = format!("{keys:?} {sealed:?}");
        assert!(!shown.contains("171") && !shown.contains("172"), "{shown}");
        assert!(shown.contains(&format!("{:08x}", keys.current())));
        let bytes = SECRET.as_bytes();
        let window = sealed.bytes.windows(8);
        assert!(
            window
                .clone()
                .all(|it| !bytes.windows(8).any(|part| part == it))
        );
    }
}
