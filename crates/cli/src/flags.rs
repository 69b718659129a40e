//! One flag for each key of the configuration, made from the one table of keys.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use hikyaku_server::config::KEYS;

/// The keys given as flags, with their texts.
#[derive(Clone, Debug, Default)]
pub struct ConfigFlags(pub Vec<(String, String)>);

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
