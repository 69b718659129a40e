//! A history as lines of JSON: a header, then one operation or mark a line.
//!
//! The header comes first and holds the format's version; readers refuse one they do not know. A line
//! is written whole or not at all useful: a file whose writer died is read up to its last whole line
//! by cutting the rest off by hand, never silently.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{History, Mark, Operation};

/// Of the format below.
const VERSION: u32 = 1;

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
    /// A line that is none of ours.
    #[error("line {line} is not of a history: {source}")]
    Line {
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Nothing, or something else than a header, at the beginning.
    #[error("no header in the first line")]
    NoHeader,
    /// Another header later.
    #[error("line {0} is a second header")]
    SecondHeader(usize),
    /// Written by another version of this program.
    #[error("format version {0}, known is {VERSION}")]
    Version(u32),
}

/// One line, owned; [`LineRef`] writes the same.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Header(Header),
    Operation(Operation),
    Mark(Mark),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineRef<'a> {
    Header(Header),
    Operation(&'a Operation),
    Mark(&'a Mark),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Header {
    version: u32,
    clock_bound_ms: u64,
}

/// Writes all of a history.
///
/// # Errors
/// Those of the writer.
pub fn write(history: &History, mut to: impl Write) -> io::Result<()> {
    let mut line = |line: &LineRef<'_>| {
        serde_json::to_writer(&mut to, line)?;
        to.write_all(b"\n")
    };
    line(&LineRef::Header(Header {
        version: VERSION,
        clock_bound_ms: history.clock_bound_ms,
    }))?;
    for operation in &history.operations {
        line(&LineRef::Operation(operation))?;
    }
    for mark in &history.marks {
        line(&LineRef::Mark(mark))?;
    }
    to.flush()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// See [`ReadError`].
pub fn read(from: impl BufRead) -> Result<History, ReadError> {
    let mut history: Option<History> = None;
    for (number, text) in from.lines().enumerate() {
        let line = number + 1;
        let parsed = serde_json::from_str(&text?);
        let parsed = parsed.map_err(|source| ReadError::Line { line, source })?;
        match (&mut history, parsed) {
            (None, Line::Header(header)) if header.version == VERSION => {
                history = Some(History {
                    clock_bound_ms: header.clock_bound_ms,
                    ..History::default()
                });
            }
            (None, Line::Header(header)) => return Err(ReadError::Version(header.version)),
            (None, _) => return Err(ReadError::NoHeader),
            (Some(_), Line::Header(_)) => return Err(ReadError::SecondHeader(line)),
            (Some(history), Line::Operation(operation)) => history.operations.push(operation),
            (Some(history), Line::Mark(mark)) => history.marks.push(mark),
        }
    }
    history.ok_or(ReadError::NoHeader)
}

/// Reads a history file.
///
/// # Errors
/// See [`ReadError`].
pub fn load(path: &Path) -> Result<History, ReadError> {
    read(BufReader::new(File::open(path)?))
}

/// Writes a history into a new file in the folder for temporary files, and gives its path.
///
/// # Errors
/// Those of the file system.
pub fn keep(history: &History) -> io::Result<PathBuf> {
    let file = tempfile::Builder::new()
        .prefix("hikyaku-history-")
        .suffix(".jsonl")
        .tempfile()?;
    write(history, BufWriter::new(file.as_file()))?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

/// Keeps a history for whoever looks into a failure, and says where.
pub fn kept(history: &History) -> String {
    match keep(history) {
        Ok(path) => format!("the history is in {}", path.display()),
        Err(error) => format!("the history could not be kept: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Action, Content, Outcome, SendEntry, Sent};

    fn sample() -> History {
        let entry = |outcome| SendEntry {
            content: Content::of("p0-1 and more"),
            group: Some("g".into()),
            deduplication_id: None,
            delay_ms: Some(900_000),
            outcome,
            mentions: None,
        };
        let sent = Outcome::Ok(Sent {
            message_id: "m".into(),
            sequence: Some(99_999_999_999_999_999_999),
        });
        History {
            clock_bound_ms: 400,
            operations: vec![Operation {
                client: 1,
                tenant: "000000000000".into(),
                queue: "q".into(),
                invoked_us: 1,
                returned_us: 2,
                action: Action::Send {
                    entries: vec![entry(sent), entry(Outcome::Info)],
                },
            }],
            marks: vec![Mark::TimeForgotten {
                from_us: 3,
                until_us: 4,
            }],
        }
    }

    fn text(history: &History) -> String {
        let mut bytes = Vec::new();
        write(history, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let text = text(&sample());
        assert_eq!(text.lines().count(), 3);
        assert_eq!(read(text.as_bytes()).unwrap(), sample());
    }

    #[test]
    fn the_lines_of_version_one_are_these() {
        let lines = concat!(
            r#"{"header":{"version":1,"clock_bound_ms":400}}"#,
            "\n",
            r#"{"operation":{"client":1,"tenant":"000000000000","queue":"q","invoked_us":1,"#,
            r#""returned_us":2,"action":{"send":{"entries":[{"content":{"label":"p0-1","#,
            r#""digest":6508478620929793287},"group":"g","delay_ms":900000,"outcome":"#,
            r#"{"ok":{"message_id":"m","sequence":99999999999999999999}}},{"content":{"#,
            r#""label":"p0-1","digest":6508478620929793287},"group":"g","delay_ms":900000,"#,
            r#""outcome":"info"}]}}}}"#,
            "\n",
            r#"{"mark":{"time_forgotten":{"from_us":3,"until_us":4}}}"#,
            "\n",
        );
        assert_eq!(text(&sample()), lines);
    }

    #[test]
    fn refuses_what_is_no_history() {
        let version = r#"{"header":{"version":2,"clock_bound_ms":0}}"#;
        assert!(matches!(
            read(version.as_bytes()),
            Err(ReadError::Version(2))
        ));
        assert!(matches!(read(&b""[..]), Err(ReadError::NoHeader)));
        let whole = text(&sample());
        let cut = &whole[..whole.len() - 5];
        assert!(matches!(
            read(cut.as_bytes()),
            Err(ReadError::Line { line: 3, .. })
        ));
        let twice = format!("{whole}{whole}");
        assert!(matches!(
            read(twice.as_bytes()),
            Err(ReadError::SecondHeader(4))
        ));
    }

    #[test]
    fn a_kept_history_is_loaded_again() {
        let path = keep(&sample()).unwrap();
        assert_eq!(load(&path).unwrap(), sample());
        std::fs::remove_file(path).unwrap();
    }
}
