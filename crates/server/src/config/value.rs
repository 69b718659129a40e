//! Values as texts: the one form in which a file, the environment and flags agree.

use super::Roles;
use hikyaku_raft::certificate_name;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use tracing::level_filters::LevelFilter;

/// A value that can be read from a text and shown as one that reads back.
pub(crate) trait Value: Sized {
    /// Reads the text, or says what it should have been.
    fn parse(text: &str) -> Result<Self, String>;
    /// Shows the value.
    fn show(&self) -> String;
}

/// Where the others reach a node: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress(pub String);

impl PeerAddress {
    /// Whether it certainly is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = certificate_name(&self.0).unwrap_or_default();
        let address: Result<IpAddr, _> = host.parse();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for people.
    Text,
}

/// The least severe level that is logged: one for all, and others for modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    /// For every module that is not named.
    pub default: LevelFilter,
    /// By module path; the longest that fits counts.
    pub modules: Vec<(String, LevelFilter)>,
}

impl LogFilter {
    /// `info` for all.
    pub const INFO: Self = Self {
        default: LevelFilter::INFO,
        modules: Vec::new(),
    };
}

fn parsed<T: FromStr>(text: &str, expected: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected {expected}"))
}

/// Whole numbers are shown plainly.
macro_rules! whole_number {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn parse(text: &str) -> Result<Self, String> {
                parsed(text, &format!("a whole number up to {}", <$type>::MAX))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

whole_number!(u8, u32, u64, usize);

impl Value for bool {
    fn parse(text: &str) -> Result<Self, String> {
        parsed(text, "true or false")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Turns `64MiB` and the like into bytes; a plain number is bytes already.
pub(crate) fn bytes_as_number(text: &str) -> Result<String, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let Some((count, shift)) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
    else {
        return Ok(text.to_owned());
    };
    let count: u64 = parsed(count.trim_end(), "a whole number before the unit")?;
    let bytes = count.checked_mul(1 << shift);
    bytes
        .map(|bytes| bytes.to_string())
        .ok_or_else(|| "that is too many bytes".to_owned())
}

impl<T: Value> Value for Option<T> {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Ok(None)
        } else {
            T::parse(text).map(Some)
        }
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }
}

impl Value for String {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Err("expected a text".to_owned())
        } else {
            Ok(text.to_owned())
        }
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Err("expected a path".to_owned())
        } else {
            Ok(Self::from(text))
        }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl Value for SocketAddr {
    fn parse(text: &str) -> Result<Self, String> {
        parsed(text, "ADDRESS:PORT, such as 127.0.0.1:9324")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for LogFormat {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err("expected json or text".to_owned()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Json => "json".to_owned(),
            Self::Text => "text".to_owned(),
        }
    }
}

impl Value for LevelFilter {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::OFF),
            "error" => Ok(Self::ERROR),
            "warn" => Ok(Self::WARN),
            "info" => Ok(Self::INFO),
            "debug" => Ok(Self::DEBUG),
            "trace" => Ok(Self::TRACE),
            _ => Err(format!(
                "{text:?} is none of off, error, warn, info, debug, trace"
            )),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for LogFilter {
    /// Reads `info` or `info,hikyaku_raft=debug`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::INFO;
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((module, level)) => {
                    filter
                        .modules
                        .push((module.to_owned(), LevelFilter::parse(level)?));
                }
                None => filter.default = LevelFilter::parse(part)?,
            }
        }
        Ok(filter)
    }

    fn show(&self) -> String {
        let modules = self.modules.iter();
        let modules = modules.map(|(module, level)| format!(",{module}={}", level.show()));
        self.default.show() + &modules.collect::<String>()
    }
}

impl Value for Roles {
    fn parse(text: &str) -> Result<Self, String> {
        let mut roles: Vec<&str> = text.split(',').map(str::trim).collect();
        roles.sort_unstable();
        match *roles {
            ["router", "storage"] => Ok(Self { storage: true }),
            ["router"] => Ok(Self { storage: false }),
            // A node that takes no requests would be one more thing to run and to explain.
            _ => Err("expected storage,router or router".to_owned()),
        }
    }

    fn show(&self) -> String {
        let storage = if self.storage { "storage," } else { "" };
        format!("{storage}router")
    }
}

impl Value for PeerAddress {
    fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected HOST:PORT, such as hikyaku-0.hikyaku:9325";
        let (host, port) = text.rsplit_once(':').ok_or(expected)?;
        let plain = !host.contains(|c: char| c.is_whitespace() || matches!(c, '=' | '/' | '@'));
        if host.is_empty() || !plain || port.parse::<u16>().is_err() {
            return Err(expected.to_owned());
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for Vec<PeerAddress> {
    fn parse(text: &str) -> Result<Self, String> {
        let peers = text
            .split(',')
            .map(str::trim)
            .filter(|peer| !peer.is_empty());
        peers.map(PeerAddress::parse).collect()
    }

    fn show(&self) -> String {
        let shown = self.iter().map(PeerAddress::show);
        shown.collect::<Vec<_>>().join(",")
    }
}

/// Reads `scheme://host[:port]`, which queue URLs continue with `/ACCOUNT/NAME`.
pub(crate) fn public_url(text: &str) -> Result<Option<String>, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() {
        return Ok(None);
    }
    let host = ["http://", "https://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let plain = |host: &str| {
        let ends = |c: char| matches!(c, '/' | '?' | '#' | '@') || c.is_whitespace();
        !host.is_empty() && !host.contains(ends)
    };
    match host {
        Some(host) if plain(host) => Ok(Some(text.to_owned())),
        Some(_) | None => Err("expected http[s]://HOST[:PORT] without a path".to_owned()),
    }
}

/// Shows something that has a text of its own.
pub(crate) fn shown(value: Option<&impl Display>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}
