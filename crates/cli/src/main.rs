//! `hikyaku`: a queue service on a laptop, a node of a cluster, and the operator's commands.

mod dev;
mod flags;
mod server;

use anyhow::Error;
use clap::{Parser, Subcommand};
use hikyaku_server::ServeError;
use hikyaku_server::config::ConfigError;
use std::io::{Write, stderr};
use std::process::ExitCode;

/// A self-hosted queue service that speaks the Amazon SQS API.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything in one process, for development: any credentials, nothing to configure.
    Dev(dev::Dev),
    /// Run a node.
    Server(server::Server),
}

/// Exit code for what the caller has to change: flags (as clap has it) and configuration.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Dev(dev) => dev.run(),
        Command::Server(server) => server.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone there is nobody left to tell.
            let _ = writeln!(stderr(), "hikyaku: {error:#}");
            exit_code(&error)
        }
    }
}

fn exit_code(error: &Error) -> ExitCode {
    let refused = error.is::<ConfigError>()
        || matches!(error.downcast_ref(), Some(ServeError::Configuration(_)));
    if refused {
        ExitCode::from(EXIT_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
