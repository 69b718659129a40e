//! Reading a configuration: presets, then a file, then the environment, then flags.
//!
//! Every layer gives texts by key; a later one wins. A key that nobody knows is an error wherever a
//! person wrote it. In the environment it is only reported: Kubernetes adds variables of its own
//! (`HIKYAKU_SERVICE_HOST`) to every pod beside a service of that name.

use super::auth::{HIDDEN, key_list};
use super::users::user_list;
use super::{Config, Counterpart, Disagreement, KEYS, Key};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::{Table, Value as Toml};

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gave one.
    Default,
    /// The command itself gives it.
    Preset(&'static str),
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

/// Values that a command brings with it.
#[derive(Clone, Debug)]
pub struct Preset {
    /// The command, as it is shown as an origin.
    pub name: &'static str,
    /// Values by key.
    pub values: Vec<(&'static str, String)>,
}

/// A configuration and where each value is from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// Things worth a warning once there is a log.
    pub warnings: Vec<String>,
    origins: BTreeMap<&'static str, Origin>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path} is not TOML: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// Somebody wrote a key that does not exist.
    #[error("unknown key {key} ({origin}){suggestion}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Who wrote it.
        origin: Origin,
        /// `; did you mean ...?`, or nothing.
        suggestion: String,
    },
    /// A value cannot be read.
    #[error("{key} = {value:?} ({origin}): {reason}")]
    BadValue {
        /// The key.
        key: String,
        /// What was written.
        value: String,
        /// Who wrote it.
        origin: Origin,
        /// What it should have been.
        reason: String,
    },
    /// Two values contradict each other, or one is beyond its limits.
    #[error("{0}")]
    Disagree(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Preset(name) => write!(formatter, "set by {name}"),
            Self::File(path) => write!(formatter, "from {}", path.display()),
            Self::Environment(variable) => write!(formatter, "from {variable}"),
            Self::Flag(flag) => write!(formatter, "from --{flag}"),
        }
    }
}

impl Loaded {
    /// Reads all layers and checks the whole. `flags` are texts by the names of keys.
    pub fn load(
        preset: Option<Preset>,
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut loaded = Self {
            config: Config::default(),
            warnings: Vec::new(),
            origins: KEYS.iter().map(|key| (key.name, Origin::Default)).collect(),
        };
        if let Some(Preset { name, values }) = preset {
            for (key, value) in values {
                loaded.set(key, &value, Origin::Preset(name))?;
            }
        }
        if let Some(path) = file {
            for (key, value) in read_file(path)? {
                loaded.set(&key, &value, Origin::File(path.to_owned()))?;
            }
        }
        loaded.take_environment(environment)?;
        for (key, value) in flags {
            let flag = key.replace(['.', '_'], "-");
            loaded.set(&key, &value, Origin::Flag(flag))?;
        }
        loaded
            .config
            .check()
            .map_err(|broken| loaded.explain(&broken))?;
        Ok(loaded)
    }

    /// Checks what is needed to serve, and not only to be looked at.
    pub fn check_servable(&self) -> Result<(), ConfigError> {
        let checked = self.config.check_somebody_may_ask();
        checked.map_err(|broken| self.explain(&broken))
    }

    fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), ConfigError> {
        let Some(key) = Key::named(name) else {
            return Err(unknown_key(name, origin));
        };
        key.set(&mut self.config, value)
            .map_err(|reason| ConfigError::BadValue {
                key: name.to_owned(),
                value: if key.is_secret() { HIDDEN } else { value }.to_owned(),
                origin: origin.clone(),
                reason,
            })?;
        self.origins.insert(key.name, origin);
        Ok(())
    }

    fn take_environment(
        &mut self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        for (variable, value) in environment {
            if !variable.starts_with("HIKYAKU_") {
                continue;
            }
            match KEYS.iter().find(|key| key.variable() == variable) {
                Some(key) => self.set(key.name, &value, Origin::Environment(variable))?,
                None => self.warnings.push(unknown_variable(&variable)),
            }
        }
        Ok(())
    }

    /// Every key with its value and where that is from.
    pub fn lines(&self) -> impl Iterator<Item = (&'static Key, String, &Origin)> {
        KEYS.iter()
            .map(|key| (key, key.show(&self.config), self.origin(key.name)))
    }

    fn origin(&self, name: &str) -> &Origin {
        self.origins.get(name).unwrap_or(&Origin::Default)
    }

    fn explain(&self, broken: &Disagreement) -> ConfigError {
        let value = |name| {
            let shown = Key::named(name)
                .map(|key| key.show(&self.config))
                .unwrap_or_default();
            let shown = if shown.is_empty() {
                "not set".to_owned()
            } else {
                shown
            };
            format!("{name} = {shown} ({})", self.origin(name))
        };
        let with = match broken.with {
            Counterpart::Key(name) => format!(" {}", value(name)),
            Counterpart::Limit(limit) => format!(" {limit}"),
            Counterpart::Nothing => String::new(),
        };
        ConfigError::Disagree(format!("{} {}{with}", value(broken.key), broken.rule))
    }
}

fn unknown_key(name: &str, origin: Origin) -> ConfigError {
    let suggestion = Key::resembling(name).map(|key| format!("; did you mean {}?", key.name));
    ConfigError::UnknownKey {
        key: name.to_owned(),
        origin,
        suggestion: suggestion.unwrap_or_default(),
    }
}

fn unknown_variable(variable: &str) -> String {
    let name = variable.trim_start_matches("HIKYAKU_").to_lowercase();
    let meant = Key::resembling(&name).map(|key| format!("; did you mean {}?", key.variable()));
    format!(
        "the environment variable {variable} is not ours{}",
        meant.unwrap_or_default()
    )
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            message: place_and_reason(&text, &error),
        })?;
    let mut values = Vec::new();
    flatten("", table, path, &mut values)?;
    Ok(values)
}

/// What is wrong with the text, and where. Not with the line itself, as the error would show it: there
/// may be a secret in it.
fn place_and_reason(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

/// Gives tables' values their full names. Only sections are entered, so that a key under something
/// that is no section is called unknown by the name it was written with.
fn flatten(
    section: &str,
    table: Table,
    path: &Path,
    values: &mut Vec<(String, String)>,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = format!("{section}{name}");
        let text = match value {
            Toml::Table(table) => {
                flatten(&format!("{key}."), table, path, values)?;
                continue;
            }
            Toml::String(text) => text,
            Toml::Integer(number) => number.to_string(),
            Toml::Boolean(flag) => flag.to_string(),
            Toml::Array(peers) if key == "cluster.peers" => peer_list(peers, path)?,
            Toml::Array(keys) if key == "auth.keys" => {
                key_list(&keys).map_err(|reason| ConfigError::BadValue {
                    key: key.clone(),
                    value: HIDDEN.to_owned(),
                    origin: Origin::File(path.to_owned()),
                    reason,
                })?
            }
            Toml::Array(users) if key == "auth.users" => {
                let shown = Toml::Array(users.clone()).to_string();
                user_list(&users).map_err(|reason| ConfigError::BadValue {
                    key: key.clone(),
                    value: shown,
                    origin: Origin::File(path.to_owned()),
                    reason,
                })?
            }
            // What it holds may be a secret under a misspelt name.
            Toml::Array(_) if Key::named(&key).is_none() => {
                return Err(unknown_key(&key, Origin::File(path.to_owned())));
            }
            other @ (Toml::Array(_) | Toml::Float(_) | Toml::Datetime(_)) => {
                return Err(bad_type(
                    &key,
                    &other,
                    path,
                    "expected a text or a whole number",
                ));
            }
        };
        values.push((key, text));
    }
    Ok(())
}

/// Turns `["one:9325", ...]` into `one:9325,...`.
fn peer_list(peers: Vec<Toml>, path: &Path) -> Result<String, ConfigError> {
    let mut texts = Vec::new();
    for peer in peers {
        match peer {
            Toml::String(address) => texts.push(address),
            other => {
                let expected = "expected a list of \"HOST:PORT\"";
                return Err(bad_type("cluster.peers", &other, path, expected));
            }
        }
    }
    Ok(texts.join(","))
}

fn bad_type(key: &str, value: &Toml, path: &Path, reason: &str) -> ConfigError {
    ConfigError::BadValue {
        key: key.to_owned(),
        value: value.to_string(),
        origin: Origin::File(path.to_owned()),
        reason: reason.to_owned(),
    }
}
