//! `hikyaku bench` as people use it: the built binary against a server, told by its exit code and JSON.

use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::client::{Outgoing, Wanted};
use hikyaku_cluster_tests::process::{Server, binary};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

fn bench(server: &Server, flags: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(binary()?);
    command
        .args(["bench", "--json", "--warm-up", "0", "--endpoint"])
        .arg(format!("http://{}", server.address()))
        .args(flags.split_whitespace())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    Ok(command)
}

/// The report of a run that was right.
fn report(output: &Output) -> anyhow::Result<Value> {
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}: {err}", output.status);
    let report: Value = serde_json::from_slice(out).context("a report in JSON")?;
    assert_eq!(report["schema_version"], 1);
    assert_eq!(report["ok"], true);
    assert_eq!(report["drained"], true);
    let check = &report["check"];
    assert_eq!(check["received"], check["acknowledged"], "{check}");
    assert_eq!(check["deleted"], check["acknowledged"], "{check}");
    Ok(report)
}

async fn measured(server: &Server, flags: &str) -> anyhow::Result<Value> {
    report(&bench(server, flags)?.output().await?)
}

fn number(report: &Value, pointer: &str) -> f64 {
    let number = report.pointer(pointer).and_then(Value::as_f64);
    number.unwrap_or_else(|| panic!("no number {pointer} in {report:#}"))
}

async fn queues(server: &Server) -> anyhow::Result<Value> {
    let mut connection = server.connect().await?;
    let answer = connection
        .call("ListQueues", &serde_json::json!({}))
        .await?;
    Ok(answer["QueueUrls"].clone())
}

#[tokio::test]
async fn bench_keeps_a_schedule_and_leaves_no_queue() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let flags = "--queues 2 --batch 1 --rate 100 --seconds 2 --body-bytes 54";
    let report = measured(&server, flags).await?;
    let due = 100.0 * number(&report, "/measured_seconds");
    let sends = number(&report, "/send/latency_ms/samples");
    // A machine that is slow sends late, not less.
    let unsent = number(&report, "/unsent_calls");
    assert!(
        sends <= due + 1.0 && sends + unsent >= due - 1.0,
        "{report:#}"
    );
    for (least, most) in [
        ("p50", "p90"),
        ("p90", "p99"),
        ("p99", "p99_9"),
        ("p99_9", "max"),
    ] {
        for part in ["send", "receive", "delete", "end_to_end"] {
            let of = |name| number(&report, &format!("/{part}/latency_ms/{name}"));
            assert!(0.0 < of(least) && of(least) <= of(most), "{report:#}");
        }
    }
    let left = queues(&server).await?;
    assert!(left.as_array().is_none_or(Vec::is_empty), "{left}");
    Ok(())
}

#[tokio::test]
async fn bench_keeps_a_fifo_backlog_deep() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let flags = "--fifo --groups 20 --preload 1003 --keep-depth --seconds 2 --producers 4";
    let report = measured(&server, flags).await?;
    assert_eq!(number(&report, "/preload/messages"), 1003.0);
    let sent = number(&report, "/check/acknowledged");
    assert!(sent > 1003.0, "{report:#}");
    // What is in flight, or deleted and not replaced yet, is less than the connections can hold.
    assert!(
        (1003.0 - number(&report, "/backlog")).abs() <= 200.0,
        "{report:#}"
    );
    Ok(())
}

#[tokio::test]
async fn bench_measures_the_receives_of_a_backlog_until_it_is_gone() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let flags = "--phase receives --preload 500 --seconds 600 --keep";
    let report = measured(&server, flags).await?;
    // The last of them may come when the backlog was just found to be gone; the check sees all.
    let received = number(&report, "/receive/messages");
    assert!((1.0..=500.0).contains(&received), "{report:#}");
    assert_eq!(number(&report, "/send/calls"), 0.0);
    let left = queues(&server).await?;
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    Ok(())
}

/// A run that sends and is measuring, and the queue it sends to.
async fn sending(server: &Server, flags: &str) -> anyhow::Result<(Child, String)> {
    let mut child = bench(
        server,
        &format!("--phase sends --seconds 600 --rate 50 {flags}"),
    )?
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()?;
    let stderr = child.stderr.as_mut().context("a pipe")?;
    let mut lines = BufReader::new(stderr).lines();
    while let Some(line) = lines.next_line().await? {
        if line.contains("measuring") {
            break;
        }
    }
    let url = queues(server).await?[0]
        .as_str()
        .context("a queue")?
        .to_owned();
    Ok((child, url))
}

fn interrupt(child: &Child) -> anyhow::Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id().context("it runs")?)?);
    Ok(kill_process(pid.context("a process")?, Signal::INT)?)
}

#[tokio::test]
async fn an_interrupted_bench_reports() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let (child, url) = sending(&server, "--fifo --high-throughput").await?;
    let mut connection = server.connect().await?;
    let mut looks = 0..100_000;
    // So many that those whose answers are still on their way are not all of them.
    while connection.counts(&url).await?.total() < 50 {
        ensure!(looks.next().is_some(), "nothing is sent");
    }
    interrupt(&child)?;
    let report = report(&child.wait_with_output().await?)?;
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "/measured_seconds") < 600.0);
    assert!(number(&report, "/send/messages") > 0.0);
    Ok(())
}

#[tokio::test]
async fn bench_fails_when_a_message_is_stolen_or_slipped_in() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let (child, url) = sending(&server, "--visibility-timeout 2 --timeout 2").await?;
    let mut connection = server.connect().await?;
    let one = Wanted {
        max: 1,
        visibility_timeout: Some(600),
        wait: Some(20),
    };
    let stolen = connection.receive(&url, one).await?;
    ensure!(stolen.len() == 1, "a message to steal");
    let stranger = Outgoing {
        body: "hello".to_owned(),
        ..Outgoing::default()
    };
    connection.send(&url, &[stranger]).await?.remove(0)?;
    interrupt(&child)?;
    let output = child.wait_with_output().await?;
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(report["ok"], false);
    assert_eq!(report["drained"], false);
    assert_eq!(number(&report, "/check/lost"), 1.0, "{report:#}");
    // It is not the run's to delete, and comes with each visibility timeout.
    assert!(number(&report, "/check/foreign") >= 1.0, "{report:#}");
    let words = report["wrong"].as_str().context("words")?;
    assert!(
        words.starts_with("the queues were wrong: 1 lost, "),
        "{words}"
    );
    let err = String::from_utf8(output.stderr)?;
    assert!(err.ends_with(&format!("hikyaku: {words}\n")), "{err}");
    Ok(())
}

#[tokio::test]
async fn bench_refuses_bad_flags_and_dead_endpoints() -> anyhow::Result<()> {
    let run = async |flags: &[&str]| {
        let output = Command::new(binary()?)
            .arg("bench")
            .args(flags)
            .output()
            .await?;
        anyhow::Ok((output.status.code(), String::from_utf8(output.stderr)?))
    };
    let (code, words) = run(&["--batch", "11"]).await?;
    assert_eq!(code, Some(2), "{words}");
    assert_eq!(words, "hikyaku: --batch is from 1 to 10, unlike 11\n");
    // Nothing listens on the discard port.
    let (code, words) = run(&["--endpoint", "http://127.0.0.1:9"]).await?;
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("cannot create queue hikyaku-bench-"),
        "{words}"
    );
    Ok(())
}
