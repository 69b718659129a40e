//! `hikyaku`: a queue service on a laptop, a node of a cluster, and the operator's commands.

mod dev;
mod flags;
mod operator;
mod server;

use anyhow::Error;
use clap::{Parser, Subcommand};
use hikyaku_bench::BenchError;
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
    /// List nodes, and take them out of service or back.
    Node(operator::node::Node),
    /// Show where partitions and their leaders are.
    Partition(operator::partition::Partition),
    /// Show how the cluster is, and what is wanted of it.
    Cluster(operator::cluster::Cluster),
    /// Create tenants, suspend and delete them.
    Tenant(operator::tenant::Tenant),
    /// Create access keys for tenants, disable and delete them.
    Key(operator::key::Key),
    /// Stop one node in order: it answers its clients, hands over what it leads, and ends.
    Drain(operator::drain::Drain),
    /// Load an SQS endpoint, measure it, and check what it hands out.
    Bench(Box<hikyaku_bench::Options>),
}

/// Exit code for what the caller has to change: flags (as clap has it) and configuration.
const EXIT_USAGE: u8 = 2;

/// Exit code for an answer that is not what one would wish: something is not well, or not done yet.
const EXIT_UNWELL: u8 = 3;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Dev(dev) => dev.run(),
        Command::Server(server) => server.run(),
        Command::Node(node) => node.run(),
        Command::Partition(partition) => partition.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::Tenant(tenant) => tenant.run(),
        Command::Key(key) => key.run(),
        Command::Drain(drain) => drain.run(),
        Command::Bench(options) => hikyaku_bench::run(*options).map_err(Error::new),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone there is nobody left to tell.
            let _ = writeln!(stderr(), "hikyaku: {}", told_once(&error));
            exit_code(&error)
        }
    }
}

/// An error and its causes in one line. Many errors tell their cause themselves; a cause that was told
/// is not told again.
fn told_once(error: &Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line
}

fn exit_code(error: &Error) -> ExitCode {
    let refused = error.is::<ConfigError>()
        || matches!(error.downcast_ref(), Some(ServeError::Configuration(_)))
        || matches!(error.downcast_ref(), Some(BenchError::Plan(_)));
    if refused {
        ExitCode::from(EXIT_USAGE)
    } else if error.is::<operator::Unwell>() {
        ExitCode::from(EXIT_UNWELL)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, told_once};
    use clap::CommandFactory;

    #[test]
    fn a_cause_is_told_once() {
        let cause = std::io::Error::other("the disk is on fire");
        let error = anyhow::Error::new(cause).context("cannot open: the disk is on fire");
        assert_eq!(told_once(&error), "cannot open: the disk is on fire");
        let error = error.context("cannot start");
        assert_eq!(
            told_once(&error),
            "cannot start: cannot open: the disk is on fire"
        );
    }

    #[test]
    fn commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
