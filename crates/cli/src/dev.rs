//! `hikyaku dev`: the whole service in one process, for the machine it was written on.

use crate::flags::ConfigFlags;
use crate::server::variables;
use anyhow::Context;
use clap::Args;
use hikyaku_server::config::Preset;
use hikyaku_server::{Config, Loaded, serve};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::{env, fs, process};

#[derive(Debug, Args)]
pub struct Dev {
    /// Keep the data in a temporary directory, and remove it at the end.
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,

    #[command(flatten)]
    flags: ConfigFlags,
}

/// Partitions of a development cluster: enough to see queues spread, few enough to start at once.
const PARTITIONS: u32 = 4;

const DATA_DIR: &str = "HIKYAKU_DATA_DIR";

impl Dev {
    pub fn run(self) -> anyhow::Result<()> {
        let temporary = if self.ephemeral {
            Some(Temporary::create()?)
        } else {
            None
        };
        let data_dir = match &temporary {
            Some(temporary) => temporary.path.clone(),
            None => default_data_dir(),
        };
        let preset = Preset {
            name: "hikyaku dev",
            values: vec![
                ("auth.accept_any_credentials", true.to_string()),
                // One order of things on a laptop, whatever the load.
                ("cluster.grow_queues", false.to_string()),
                ("cluster.partitions", PARTITIONS.to_string()),
                ("data_dir", data_dir.display().to_string()),
            ],
        };
        // What is removed at the end must not be a directory that the environment names.
        let environment = variables().filter(|(name, _)| !self.ephemeral || name != DATA_DIR);
        let loaded = Loaded::load(Some(preset), None, environment, self.flags.0)?;
        greet(&loaded.config, temporary.is_some())?;
        Ok(serve(loaded)?)
    }
}

/// Tells where the data is and how to point an SDK here. To standard error, like the log after it.
fn greet(config: &Config, ephemeral: bool) -> std::io::Result<()> {
    let endpoint = config.public_url.clone();
    let endpoint = endpoint.unwrap_or_else(|| format!("{}://{}", config.scheme(), config.listen));
    let fate = if ephemeral {
        " (removed at the end)"
    } else {
        ""
    };
    let mut err = stderr().lock();
    let credentials = if config.auth.accept_any_credentials {
        "account 000000000000, any credentials"
    } else {
        "credentials of auth.keys"
    };
    writeln!(err, "hikyaku dev: SQS at {endpoint}, {credentials}")?;
    writeln!(err, "data in {}{fate}", config.data_dir.display())?;
    writeln!(err)?;
    writeln!(
        err,
        "  export AWS_ENDPOINT_URL_SQS={endpoint} AWS_REGION={}",
        config.region
    )?;
    if config.auth.accept_any_credentials {
        writeln!(
            err,
            "  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any"
        )?;
    }
    writeln!(err, "  aws sqs create-queue --queue-name orders")?;
    writeln!(err)
}

/// `$XDG_DATA_HOME/hikyaku/dev`, or where that would be, or a directory here.
fn default_data_dir() -> PathBuf {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let data_home = env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .and_then(absolute);
    let home = || {
        env::home_dir()
            .and_then(absolute)
            .map(|home| home.join(".local/share"))
    };
    match data_home.or_else(home) {
        Some(directory) => directory.join("hikyaku/dev"),
        None => PathBuf::from("hikyaku-dev"),
    }
}

/// A directory of this process alone, removed when dropped. A killed process leaves it behind.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn create() -> anyhow::Result<Self> {
        let path = env::temp_dir().join(format!("hikyaku-dev-{}", process::id()));
        create_private(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }
}

/// Fails when the directory is there: it would be somebody else's.
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            // The process is ending: telling is all that is left.
            let _ = writeln!(stderr(), "cannot remove {}: {error}", self.path.display());
        }
    }
}
