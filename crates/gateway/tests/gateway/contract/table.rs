//! The tables of the contract: plain text, so that a row reads as the contract does.
//!
//! ```text
//! == DelaySeconds                          a row of the contract, by its topic
//! -- why, or where it is held              instead of cases
//! * more than 900 seconds [json]           a case; in both dialects unless it says otherwise
//!   queue q {"DelaySeconds": "5"}          a queue of the case's own: «q», «q.name», «q.path», «q.arn»
//!   > SendMessage {"QueueUrl": "«q»", ...  a request, its members named as in JSON
//!       "MessageBody": "«1024 x»"}         deeper lines go on
//!     at «q.path»                          where it is posted, if not to /
//!     with X-Amzn-Trace-Id: Root=1         a header
//!   < {"MessageId": "«uuid m»", ...        the whole output; alone, for operations without output
//!     within 1 s                           how long it may have taken
//!   ! InvalidAddress the text              or the error: shape and message
//!   wait 60 s                              time passes
//!   differ «a» «b»                         two texts that were seen are not the same
//!   rise «a» «b»                           the first sorts before the second
//!   >> ReceiveMessage {...}                a request that is left waiting
//!   ...                                    it still waits
//!   << {...}                               its output; !! its error
//!   http GET /?Action=FooBar               a request as bytes, with headers and
//!     with Accept: */*
//!     | body, lines joined
//!   = 400                                  and its answer: status, headers, body, nothing left out
//!     with Content-Type: text/xml
//!     | body
//! ```
//!
//! What stands in « » is explained in `text`. Lines that begin with # are comments.

use serde_json::Value;

/// A file of rows.
pub struct Table(pub Vec<Row>);

/// A row of the contract.
pub struct Row {
    pub topic: String,
    pub cases: Vec<Case>,
    /// Why there are no cases.
    pub elsewhere: Option<String>,
}

/// One story about a row.
pub struct Case {
    pub line: usize,
    pub title: String,
    pub dialects: &'static [Dialect],
    pub steps: Vec<Step>,
}

/// A dialect of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Json,
    Query,
}

pub struct Step {
    pub line: usize,
    pub act: Act,
}

pub enum Act {
    MakeQueue { name: String, attributes: Value },
    Ask(Ask),
    Answer(Answer),
    StillWaits,
    Http(HttpRequest),
    HttpAnswer(HttpAnswer),
    Wait { seconds: u64 },
    Differ { first: String, second: String },
    Rise { first: String, second: String },
}

/// A request in no dialect yet.
pub struct Ask {
    pub action: String,
    pub members: Value,
    pub path: Option<String>,
    pub headers: Vec<(String, String)>,
    /// Whether it is left waiting.
    pub apart: bool,
}

/// What a request is answered.
pub struct Answer {
    pub expected: Expected,
    pub within_seconds: Option<u64>,
    /// Whether it answers the request that was left waiting.
    pub apart: bool,
}

pub enum Expected {
    NoOutput,
    Output(Value),
    Error { shape: String, message: String },
}

pub struct HttpRequest {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// How far a line is indented at least that goes on with the one before.
const CONTINUED: usize = 6;

impl Table {
    pub fn read(text: &str) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for (line, text) in logical_lines(text) {
            let told = |fault: &str| -> ! { panic!("line {line}: {fault}: {text}") };
            if let Some(topic) = text.strip_prefix("== ") {
                rows.push(Row {
                    topic: topic.to_owned(),
                    cases: Vec::new(),
                    elsewhere: None,
                });
                continue;
            }
            let Some(row) = rows.last_mut() else {
                told("nothing comes before the first row");
            };
            if let Some(reason) = text.strip_prefix("-- ") {
                row.elsewhere = Some(reason.to_owned());
            } else if let Some(title) = text.strip_prefix("* ") {
                row.cases.push(Case::titled(line, title));
            } else {
                let Some(case) = row.cases.last_mut() else {
                    told("a step belongs to a case");
                };
                if !case.take(line, text.trim()) {
                    told("no step begins like this");
                }
            }
        }
        Self(rows)
    }
}

/// Lines without comments and empty ones, and with those that go on.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let indent = line.len() - line.trim_start().len();
        match lines.last_mut() {
            _ if line.trim().is_empty() || line.starts_with('#') => {}
            Some((_, before)) if indent >= CONTINUED => {
                before.push(' ');
                before.push_str(line.trim());
            }
            _ => lines.push((number, line.to_owned())),
        }
    }
    lines
}

impl Case {
    fn titled(line: usize, title: &str) -> Self {
        let (title, dialects): (_, &'static [Dialect]) = match title {
            title if title.ends_with(" [json]") => (&title[..title.len() - 7], &[Dialect::Json]),
            title if title.ends_with(" [query]") => (&title[..title.len() - 8], &[Dialect::Query]),
            title => (title, &[Dialect::Json, Dialect::Query]),
        };
        Self {
            line,
            title: title.to_owned(),
            dialects,
            steps: Vec::new(),
        }
    }

    /// Takes a line as a step, or as a part of the step before; whether it is one.
    fn take(&mut self, line: usize, text: &str) -> bool {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let act = match word {
            "queue" => {
                let (name, attributes) = rest.split_once(' ').unwrap_or((rest, "{}"));
                Act::MakeQueue {
                    name: name.to_owned(),
                    attributes: json(attributes),
                }
            }
            ">" | ">>" => {
                let (action, members) = rest.split_once(' ').unwrap_or((rest, "{}"));
                Act::Ask(Ask {
                    action: action.to_owned(),
                    members: json(members),
                    path: None,
                    headers: Vec::new(),
                    apart: word == ">>",
                })
            }
            "<" | "<<" if rest.is_empty() => answer(Expected::NoOutput, word == "<<"),
            "<" | "<<" => answer(Expected::Output(json(rest)), word == "<<"),
            "!" | "!!" => {
                let (shape, message) = rest.split_once(' ').unwrap_or((rest, ""));
                let (shape, message) = (shape.to_owned(), message.to_owned());
                answer(Expected::Error { shape, message }, word == "!!")
            }
            "..." => Act::StillWaits,
            "wait" => Act::Wait {
                seconds: seconds(rest),
            },
            "differ" | "rise" => {
                let (first, second) = rest.split_once(' ').unwrap();
                let (first, second) = (first.to_owned(), second.to_owned());
                match word {
                    "rise" => Act::Rise { first, second },
                    _ => Act::Differ { first, second },
                }
            }
            "http" => {
                let (method, target) = rest.split_once(' ').unwrap();
                Act::Http(HttpRequest {
                    method: method.to_owned(),
                    target: target.to_owned(),
                    headers: Vec::new(),
                    body: String::new(),
                })
            }
            "=" => Act::HttpAnswer(HttpAnswer {
                status: rest.parse().unwrap(),
                headers: Vec::new(),
                body: String::new(),
            }),
            _ => return self.amend(word, rest),
        };
        self.steps.push(Step { line, act });
        true
    }

    fn amend(&mut self, word: &str, rest: &str) -> bool {
        let Some(step) = self.steps.last_mut() else {
            return false;
        };
        match (word, &mut step.act) {
            ("at", Act::Ask(ask)) => ask.path = Some(rest.to_owned()),
            ("with", Act::Ask(Ask { headers, .. }))
            | ("with", Act::Http(HttpRequest { headers, .. }))
            | ("with", Act::HttpAnswer(HttpAnswer { headers, .. })) => {
                let (name, value) = rest.split_once(": ").unwrap();
                headers.push((name.to_owned(), value.to_owned()));
            }
            ("within", Act::Answer(answer)) => answer.within_seconds = Some(seconds(rest)),
            ("|", Act::Http(HttpRequest { body, .. }))
            | ("|", Act::HttpAnswer(HttpAnswer { body, .. })) => body.push_str(rest),
            _ => return false,
        }
        true
    }
}

fn answer(expected: Expected, apart: bool) -> Act {
    Act::Answer(Answer {
        expected,
        within_seconds: None,
        apart,
    })
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn seconds(text: &str) -> u64 {
    let number = text
        .strip_suffix(" s")
        .unwrap_or_else(|| panic!("no seconds: {text}"));
    number.parse().unwrap()
}
