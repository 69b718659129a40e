//! Log lines on standard error: JSON for machines, text for people.
//!
//! Standard output stays free for what a command answers.

use crate::config::{LogFormat, LogOutput};
use std::io::{IsTerminal, stderr};
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry};

/// Starts logging for the whole process; panics are logged as errors from then on.
pub(crate) fn start(output: &LogOutput) -> Result<(), TryInitError> {
    subscriber(output, stderr, stderr().is_terminal()).try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let location = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(location, message, "panicked");
    }));
    Ok(())
}

fn subscriber<W>(output: &LogOutput, writer: W, colours: bool) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = match output.format {
        LogFormat::Json => {
            let json = fmt::layer()
                .json()
                .flatten_event(true)
                .with_span_list(false);
            json.with_writer(writer).boxed()
        }
        LogFormat::Text => fmt::layer().with_ansi(colours).with_writer(writer).boxed(),
    };
    // openraft tells every step of an election, and warns of the first one; ours say who leads.
    let library = output.level.default.min(LevelFilter::ERROR);
    let filter = Targets::new()
        .with_default(output.level.default)
        .with_target("openraft", library)
        .with_targets(output.level.modules.iter().cloned());
    Registry::default().with(lines.with_filter(filter))
}

#[cfg(test)]
mod tests {
    use super::subscriber;
    use crate::config::{LogFilter, LogFormat, LogOutput};
    use std::io::pipe;
    use std::sync::Mutex;
    use tracing::level_filters::LevelFilter;

    /// Logs three events and returns the lines that came out.
    fn lines(format: LogFormat, level: LogFilter) -> Vec<String> {
        let (reader, writer) = pipe().unwrap();
        let output = LogOutput { format, level };
        let subscriber = subscriber(&output, Mutex::new(writer), false);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(partition = 3, "became leader");
            tracing::debug!(target: "noisy", "tick");
            tracing::debug!("unheard");
        });
        let text = std::io::read_to_string(reader).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn json_lines_have_the_fields_beside_the_message() {
        let lines = lines(LogFormat::Json, LogFilter::INFO);
        assert_eq!(lines.len(), 1);
        for part in [
            r#""level":"INFO""#,
            r#""message":"became leader""#,
            r#""partition":3"#,
            r#""timestamp":""#,
        ] {
            assert!(lines[0].contains(part), "{part} is not in {}", lines[0]);
        }
    }

    #[test]
    fn a_module_may_say_more_than_the_rest() {
        let modules = vec![("noisy".to_owned(), LevelFilter::DEBUG)];
        let default = LevelFilter::WARN;
        let lines = lines(LogFormat::Text, LogFilter { default, modules });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with("DEBUG noisy: tick"), "{}", lines[0]);
    }
}
