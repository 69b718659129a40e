//! The fuzzer itself: it runs, it notices what it is there for, and it can be told to do it again.

#![expect(
    clippy::print_stdout,
    reason = "what the fuzzer said is shown when it fails"
)]

use std::fs;
use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> Output {
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_hikyaku-fuzz"));
    let output = fuzz.args(arguments).output().expect("the fuzzer starts");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// As long as `HIKYAKU_FUZZ_SECONDS` says, or one second.
#[test]
fn every_target_survives() {
    let keep = tempfile::tempdir().expect("a scratch directory");
    let output = fuzz(&["--keep", &keep.path().display().to_string()]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = fuzz(&["--list"]).stdout;
    for target in String::from_utf8_lossy(&listed).lines() {
        assert!(text.contains(&format!("{target} ")), "{target} did not run");
    }
}

#[test]
fn one_input_is_tried_again() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let file = scratch.path().join("input");
    fs::write(&file, "orders.fifo").expect("a file can be written");
    let output = fuzz(&["--replay", &file.display().to_string(), "names"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("names: accepted"));
}
