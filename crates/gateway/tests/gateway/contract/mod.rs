//! The contract with clients of SQS, row by row.
//!
//! The tables beside this file (`section_4.txt` and so on) have the rows of the contract in its order,
//! each with the cases that hold it: requests named as in the JSON dialect, and what is answered. The
//! runner asks them in both dialects and compares everything that comes back: status, headers, error
//! names, every member. A row without cases says why, or where it is held; how many rows the contract has
//! in a section stands here, so that none is lost. Section 3, the list of errors, has a table of its own
//! form, see `errors`.
//!
//! The parts know nothing of the crates that they test: `model` has AWS's names as data, `json` and
//! `query` write requests and read answers by it.

mod errors;
mod json;
mod model;
pub mod query;
mod runner;
mod said;
mod table;
mod text;
mod xml;

use runner::hold;

const SECTION_2: &str = include_str!("section_2.txt");
const SECTION_3: &str = include_str!("section_3.txt");
const SECTION_4: &str = include_str!("section_4.txt");
const SECTION_5: &str = include_str!("section_5.txt");
const SECTION_6: &str = include_str!("section_6.txt");
const SECTION_7: &str = include_str!("section_7.txt");
const SECTION_8: &str = include_str!("section_8.txt");
const SECTION_9: &str = include_str!("section_9.txt");
const SECTION_10: &str = include_str!("section_10.txt");
const SECTION_11: &str = include_str!("section_11.txt");

#[tokio::test(start_paused = true)]
async fn section_2_protocols() {
    hold(25, SECTION_2).await;
}

#[test]
fn section_3_errors() {
    errors::hold(SECTION_3);
}

#[tokio::test(start_paused = true)]
async fn section_4_attributes_of_queues() {
    hold(30, SECTION_4).await;
}

#[tokio::test(start_paused = true)]
async fn section_5_queues() {
    hold(22, SECTION_5).await;
}

#[tokio::test(start_paused = true)]
async fn section_6_sending() {
    hold(30, SECTION_6).await;
}

#[tokio::test(start_paused = true)]
async fn section_7_receiving() {
    hold(27, SECTION_7).await;
}

#[tokio::test(start_paused = true)]
async fn section_8_fifo() {
    hold(17, SECTION_8).await;
}

#[tokio::test(start_paused = true)]
async fn section_9_dead_letters() {
    hold(18, SECTION_9).await;
}

#[tokio::test(start_paused = true)]
async fn section_10_fair_queues() {
    hold(5, SECTION_10).await;
}

#[tokio::test(start_paused = true)]
async fn section_11_limits() {
    hold(20, SECTION_11).await;
}

#[test]
fn every_name_of_the_model_is_asked_for() {
    let sections = [
        SECTION_2, SECTION_4, SECTION_5, SECTION_6, SECTION_7, SECTION_8, SECTION_9, SECTION_10,
        SECTION_11,
    ];
    let asked = |name: &str| sections.iter().any(|section| section.contains(name));
    let model = model::model();
    for operation in model.operations.keys() {
        assert!(asked(&format!("> {operation} {{")), "{operation}");
    }
    for name in model.enumerations.values().flatten() {
        assert!(asked(&format!("\"{name}\"")), "{name}");
    }
}
