//! `hikyaku server`: a node, configured by a file, the environment and flags.

use crate::flags::ConfigFlags;
use crate::operator::VARIABLES;
use clap::Args;
use hikyaku_server::{Loaded, serve};
use std::env;
use std::io::{Write, stdout};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Server {
    /// A TOML file. The environment wins over it, and flags over both.
    #[arg(long, value_name = "FILE", env = "HIKYAKU_CONFIG")]
    config: Option<PathBuf>,

    /// Show every value and where it is from, and end.
    #[arg(long)]
    print_config: bool,

    #[command(flatten)]
    flags: ConfigFlags,
}

impl Server {
    pub fn run(self) -> anyhow::Result<()> {
        let loaded = Loaded::load(None, self.config.as_deref(), variables(), self.flags.0)?;
        if self.print_config {
            return Ok(print(&loaded)?);
        }
        Ok(serve(loaded)?)
    }
}

/// The environment as far as it is text; ours is, and the rest is not for us. The path of the file
/// is this command's own, and some names are the operator's.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name != "HIKYAKU_CONFIG" && !VARIABLES.contains(&&**name))
}

/// Writes a file that `--config` takes, with the origins as comments.
fn print(loaded: &Loaded) -> std::io::Result<()> {
    let mut out = stdout().lock();
    for (key, value, origin) in loaded.lines() {
        writeln!(out, "{} = {value:?} # {origin}", key.name)?;
    }
    Ok(())
}
