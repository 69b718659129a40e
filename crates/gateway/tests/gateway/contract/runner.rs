//! Runs the cases of a table, in each dialect, against a front of its own.
//!
//! Time is the runtime's and paused: it passes as soon as nothing else can happen, so that waiting
//! costs nothing and an hour is as good as a second. The wall clock keeps step with it.

use std::sync::Arc;
use std::time::Duration;

use hikyaku_cluster::Clock;
use hikyaku_storage::LogConfig;
use http::request::Builder;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::model::model;
use super::said::Said;
use super::table::{
    Act, Answer, Ask, Case, Dialect, Expected, HttpAnswer, HttpRequest, Row, Table,
};
use super::text::Known;
use super::{json, query, said};
use crate::harness::{self, Front, Setup};

const HOST: &str = "queues.example:9324";
const ACCOUNT: &str = "000000000000";

/// The wall clock when a front starts, milliseconds since the epoch.
const START_MS: u64 = 1_760_000_000_000;

/// A wall clock that passes with the runtime's time.
pub struct PausedClock(Instant);

impl PausedClock {
    pub fn start() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for PausedClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> u64 {
        START_MS + u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

/// Runs all cases of a table of so many rows; panics with all that do not hold.
pub async fn hold(rows: usize, text: &str) {
    let table = Table::read(text);
    assert_eq!(table.0.len(), rows, "rows were lost or added");
    let held =
        |row: &Row| row.elsewhere.is_some() != row.cases.iter().any(|case| !case.steps.is_empty());
    let unheld = table.0.iter().find(|row| !held(row));
    if let Some(row) = unheld {
        panic!("{} has no cases", row.topic);
    }
    let mut faults = Vec::new();
    for dialect in [Dialect::Json, Dialect::Query] {
        let clock = PausedClock::start();
        let front = Front::start_as(Setup {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            log: room_for_large_messages(),
            ..Setup::default()
        });
        let front = front.await;
        for row in &table.0 {
            let cases = row.cases.iter();
            for case in cases.filter(|case| case.dialects.contains(&dialect)) {
                let mut story = Story::begin(dialect, &front, &clock);
                if let Err(fault) = story.run(case).await {
                    faults.push(format!(
                        "{}: {} in {dialect:?}\n{fault}",
                        row.topic, case.title
                    ));
                }
            }
        }
    }
    let count = faults.len();
    assert!(
        faults.is_empty(),
        "{count} cases:\n\n{}",
        faults.join("\n\n")
    );
}

/// A small log that takes messages of 1 MiB.
fn room_for_large_messages() -> LogConfig {
    LogConfig {
        segment_bytes: 8 << 20,
        max_entry_bytes: 2 << 20,
        max_round_bytes: 2 << 20,
        purge_budget_bytes: 64 << 20,
        cache_bytes: 8 << 20,
        ..LogConfig::small()
    }
}

/// A case as it runs.
struct Story<'f> {
    dialect: Dialect,
    front: &'f Front,
    clock: &'f PausedClock,
    known: Known,
    /// What was answered last, and how long it took.
    answered: Option<Answered>,
    /// The request that was left waiting.
    waiting: Option<(String, JoinHandle<(harness::Answer, Duration)>)>,
}

struct Answered {
    action: String,
    answer: harness::Answer,
    took: Duration,
}

impl<'f> Story<'f> {
    fn begin(dialect: Dialect, front: &'f Front, clock: &'f PausedClock) -> Self {
        Self {
            dialect,
            front,
            clock,
            // A partition's time may be a moment behind the wall clock.
            known: Known::since(clock.wall_ms() - 2),
            answered: None,
            waiting: None,
        }
    }

    async fn run(&mut self, case: &Case) -> Result<(), String> {
        for step in &case.steps {
            let taken = self.step(case, &step.act).await;
            taken.map_err(|fault| format!("line {}: {fault}", step.line))?;
        }
        match (&self.answered, &self.waiting) {
            (None, None) => Ok(()),
            _ => Err("an answer was not looked at".to_owned()),
        }
    }

    async fn step(&mut self, case: &Case, act: &Act) -> Result<(), String> {
        match act {
            Act::MakeQueue { name, attributes } => {
                let fifo = attributes["FifoQueue"] == "true";
                let suffix = if fifo { ".fifo" } else { "" };
                self.name_queue(name, &format!("{name}-{}{suffix}", case.line));
                let queue_name = format!("«{name}.name»");
                let ask = Ask {
                    action: "CreateQueue".to_owned(),
                    members: json!({ "QueueName": queue_name, "Attributes": attributes }),
                    path: None,
                    headers: Vec::new(),
                    apart: false,
                };
                self.ask(&ask).await?;
                let url = json!({ "QueueUrl": format!("«{name}»") });
                self.expect(&Answer {
                    expected: Expected::Output(url),
                    within_seconds: None,
                    apart: false,
                })
                .await
            }
            Act::Ask(ask) => self.ask(ask).await,
            Act::Answer(answer) => self.expect(answer).await,
            Act::StillWaits => match &self.waiting {
                Some((_, waiting)) if !waiting.is_finished() => Ok(()),
                _ => Err("nothing waits any more".to_owned()),
            },
            Act::Http(request) => {
                self.http(request).await;
                Ok(())
            }
            Act::HttpAnswer(expected) => self.expect_http(expected),
            Act::Differ { first, second } => {
                let (first, second) = (self.known.fill(first), self.known.fill(second));
                is_so(first != second, format!("{first} twice"))
            }
            Act::Rise { first, second } => {
                let (first, second) = (self.known.fill(first), self.known.fill(second));
                is_so(first < second, format!("{second} comes after {first}"))
            }
            Act::Wait { seconds } => {
                tokio::time::sleep(Duration::from_secs(*seconds)).await;
                Ok(())
            }
        }
    }

    fn name_queue(&mut self, name: &str, queue: &str) {
        let path = format!("/{ACCOUNT}/{queue}");
        self.known.name(name, format!("http://{HOST}{path}"));
        self.known.name(format!("{name}.path"), path);
        self.known.name(format!("{name}.name"), queue);
        let arn = format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}");
        self.known.name(format!("{name}.arn"), arn);
    }

    async fn ask(&mut self, ask: &Ask) -> Result<(), String> {
        let members = self.known.fill_value(&ask.members);
        json::check_names(&model().operation(&ask.action).input, &members)?;
        let path = self.known.fill(ask.path.as_deref().unwrap_or("/"));
        let (mut request, body) = match self.dialect {
            Dialect::Json => (json::request(&ask.action, &path), members.to_string()),
            Dialect::Query => (query::request(&path), query::form(&ask.action, &members)),
        };
        for (name, value) in &ask.headers {
            request = request.header(name, self.known.fill(value));
        }
        let action = ask.action.clone();
        let asking = self.send(request.header("Host", HOST), body).await;
        if ask.apart {
            self.waiting = Some((action, asking));
            return Ok(());
        }
        let (answer, took) = asking.await.unwrap();
        self.answered = Some(Answered {
            action,
            answer,
            took,
        });
        Ok(())
    }

    /// Sends a request over a connection of its own, as one kept open would not outlive a long wait.
    async fn send(
        &self,
        request: Builder,
        body: String,
    ) -> JoinHandle<(harness::Answer, Duration)> {
        let mut client = self.front.client().await;
        tokio::spawn(async move {
            let begun = Instant::now();
            let answer = client.send(request, body).await;
            (answer, begun.elapsed())
        })
    }

    async fn expect(&mut self, answer: &Answer) -> Result<(), String> {
        let answered = if answer.apart {
            let (action, waiting) = self.waiting.take().ok_or("nothing waits")?;
            let (answer, took) = waiting.await.unwrap();
            Some(Answered {
                action,
                answer,
                took,
            })
        } else {
            self.answered.take()
        };
        let answered = answered.ok_or("nothing was asked")?;
        self.see_time();
        is_request_id(&answered.answer, &mut self.known)?;
        let said = match self.dialect {
            Dialect::Json => json::read(&answered.action, &answered.answer),
            Dialect::Query => query::read(&answered.action, &answered.answer),
        };
        let said = said.map_err(|fault| format!("{fault}\n{:?}", answered.answer))?;
        self.compare(&answer.expected, &said)?;
        match answer.within_seconds {
            Some(seconds) if answered.took > Duration::from_secs(seconds) => {
                Err(format!("it took {:?}", answered.took))
            }
            _ => Ok(()),
        }
    }

    /// The text for a missing queue is the one that differs between the dialects.
    fn compare(&mut self, expected: &Expected, said: &Said) -> Result<(), String> {
        match expected {
            Expected::Error { shape, message }
                if shape == "QueueDoesNotExist" && self.dialect == Dialect::Query =>
            {
                let message = message.replace("not exist.", "not exist for this wsdl version.");
                let shape = shape.clone();
                said.is(&Expected::Error { shape, message }, &mut self.known)
            }
            expected => said.is(expected, &mut self.known),
        }
    }

    async fn http(&mut self, request: &HttpRequest) {
        let mut builder = http::Request::builder()
            .method(&*request.method)
            .uri(self.known.fill(&request.target))
            .header("Host", HOST);
        for (name, value) in &request.headers {
            builder = builder.header(name, self.known.fill(value));
        }
        let body = self.known.fill(&request.body);
        let (answer, took) = self.send(builder, body).await.await.unwrap();
        let action = String::new();
        self.answered = Some(Answered {
            action,
            answer,
            took,
        });
    }

    fn expect_http(&mut self, expected: &HttpAnswer) -> Result<(), String> {
        let answered = self.answered.take().ok_or("nothing was asked")?;
        let answer = answered.answer;
        self.see_time();
        is_request_id(&answer, &mut self.known)?;
        if answer.status != expected.status {
            return Err(format!("another status: {answer:?}"));
        }
        said::header(&answer, "content-length", &answer.body.len().to_string())?;
        // What every answer has was looked at; the rest must be in the table.
        let mut left = answer.headers.clone();
        for name in ["content-length", "date", "x-amzn-requestid"] {
            left.remove(name);
        }
        for (name, value) in &expected.headers {
            let found = left.remove(&**name);
            let found = found.ok_or_else(|| format!("no header {name}: {answer:?}"))?;
            self.known.matches(value, found.to_str().unwrap())?;
        }
        if !left.is_empty() {
            return Err(format!("more headers: {left:?}"));
        }
        self.known.matches(&expected.body, &answer.body)
    }

    fn see_time(&mut self) {
        self.known.times = *self.known.times.start()..=self.clock.wall_ms();
    }
}

/// Every answer has a request id; it is known as «request» from then on.
fn is_request_id(answer: &harness::Answer, known: &mut Known) -> Result<(), String> {
    let id = answer.headers.get("x-amzn-requestid");
    let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
    known.forget("request");
    known.matches("«uuid request»", id)
}

fn is_so(holds: bool, fault: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault) }
}
