//! One flag for each key of the configuration, made from the one table of keys.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use hikyaku_server::config::KEYS;
use std::fmt;

/// The keys given as flags, with their texts.
#[derive(Clone, Default)]
pub struct ConfigFlags(pub Vec<(String, String)>);

/// Names alone: a text may be a secret.
impl fmt::Debug for ConfigFlags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        formatter.debug_list().entries(names).finish()
    }
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| {
            let flag = Arg::new(key.name).long(key.flag()).value_name("VALUE");
            let help = format!("{} [{}]", key.help, key.variable());
            command.arg(flag.help(help).help_heading("Configuration"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for key in KEYS {
            if let Some(text) = matches.get_one::<String>(key.name) {
                self.0.push((key.name.to_owned(), text.clone()));
            }
        }
        Ok(())
    }
}
