//! A tenant's name: the twelve digits that SQS calls an account.

use std::fmt;

/// A tenant of the cluster, written as twelve digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(u64);

/// A text that is not twelve digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tenant is twelve digits, not {0:?}")]
pub struct InvalidTenantId(pub String);

impl TenantId {
    /// The tenant of a cluster whose owner never asked for tenants.
    pub const DEFAULT: Self = Self(0);

    const DIGITS: usize = 12;
    const LIMIT: u64 = 1_000_000_000_000;

    /// Reads exactly twelve ASCII digits.
    pub fn parse(text: &str) -> Result<Self, InvalidTenantId> {
        let invalid = || InvalidTenantId(text.to_owned());
        if text.len() != Self::DIGITS || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        text.parse().map(Self).map_err(|_| invalid())
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        (number < Self::LIMIT).then_some(Self(number))
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:012}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::TenantId;

    #[test]
    fn reads_back_as_twelve_digits() {
        assert_eq!(TenantId::DEFAULT.to_string(), "000000000000");
        let tenant = TenantId::parse("000123456789").unwrap();
        assert_eq!(tenant.to_string(), "000123456789");
    }

    #[test]
    fn refuses_what_is_not_twelve_digits() {
        for text in [
            "",
            "12345678901",
            "1234567890123",
            "+12345678901",
            "12345678901x",
            "١٢٣٤٥٦",
        ] {
            assert!(TenantId::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
