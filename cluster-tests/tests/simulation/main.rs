//! Servers, clients, network, disks and time in one thread, driven by one seed.
//!
//! A run draws its weather from the seed: when servers are killed, when the network holds its breath
//! or loses what it carries. Clients go on through it and write a history, which is judged. The same
//! seed gives the same run, which is what makes a finding worth having; so each run is a process of
//! its own, in which clocks and random numbers follow the simulation, libraries' included.
//!
//! ```sh
//! cargo test -p hikyaku-cluster-tests --test simulation              # a few seeds of every case
//! HIKYAKU_SEEDS=5000 cargo test ... --test simulation a_good         # a long night of some cases
//! HIKYAKU_SEED=17 HIKYAKU_LOG=info cargo test ... --test simulation  # one seed, and the nodes' logs
//! ```
//!
//! A failed run keeps its history in a file and says where; `HIKYAKU_KEEP=1` keeps that of any run, for
//! `cargo run -p hikyaku-cluster-tests --bin judge -- FILE --evidence`.

#![expect(
    clippy::print_stdout,
    reason = "this is a test harness: its output is its result"
)]

use std::process::ExitCode;

use hikyaku_cluster_tests::black_box::Rule;

mod clients;
mod cluster;
mod ports;
mod runner;
mod stand_in;
mod weather;

use clients::{Kind, Spread};
use runner::{Case, Expected};
use stand_in::Fault;

/// What is run; the names read as sentences.
const CASES: &[Case] = &[
    Case {
        name: "three_nodes_keep_their_promises_on_a_standard_queue",
        run: |seed| cluster::run(seed, Kind::Standard, Spread::OfItsKind, None),
        expected: Expected::Kept,
    },
    Case {
        name: "three_nodes_keep_their_promises_while_a_standard_queue_spreads_and_shrinks",
        run: |seed| cluster::run(seed, Kind::Standard, Spread::Restless, None),
        expected: Expected::Kept,
    },
    Case {
        name: "three_nodes_keep_their_promises_on_a_fifo_queue",
        run: |seed| cluster::run(seed, Kind::Fifo, Spread::OfItsKind, None),
        expected: Expected::Kept,
    },
    Case {
        name: "three_nodes_keep_their_promises_on_a_fifo_queue_of_many_partitions",
        run: |seed| cluster::run(seed, Kind::FifoByMessageGroup, Spread::OfItsKind, None),
        expected: Expected::Kept,
    },
    Case {
        name: "three_nodes_keep_their_promises_on_dead_letters_of_a_standard_queue",
        run: |seed| cluster::run(seed, Kind::Standard, Spread::OfItsKind, Some(2)),
        expected: Expected::Kept,
    },
    Case {
        name: "a_good_server_keeps_its_promises_on_a_standard_queue",
        run: |seed| stand_in::run(seed, Kind::Standard, Fault::None),
        expected: Expected::Kept,
    },
    Case {
        name: "a_good_server_keeps_its_promises_on_a_fifo_queue",
        run: |seed| stand_in::run(seed, Kind::Fifo, Fault::None),
        expected: Expected::Kept,
    },
    Case {
        name: "an_acknowledgement_before_the_disk_is_noticed",
        run: |seed| stand_in::run(seed, Kind::Standard, Fault::AcknowledgesTooSoon),
        expected: Expected::Broken(Rule::AcknowledgedSend),
    },
    Case {
        name: "forgotten_receives_are_noticed",
        run: |seed| stand_in::run(seed, Kind::Standard, Fault::ForgetsReceives),
        expected: Expected::Broken(Rule::ReceiveCount),
    },
    Case {
        name: "forgotten_deletes_are_noticed",
        run: |seed| stand_in::run(seed, Kind::Fifo, Fault::ForgetsDeletes),
        expected: Expected::Broken(Rule::Delete),
    },
    Case {
        name: "forgotten_deduplication_is_noticed",
        run: |seed| stand_in::run(seed, Kind::Fifo, Fault::ForgetsDeduplication),
        expected: Expected::Broken(Rule::Deduplication),
    },
    Case {
        name: "a_clock_that_jumps_is_noticed",
        run: |seed| stand_in::run(seed, Kind::Standard, Fault::ClockJumps),
        expected: Expected::Broken(Rule::Visibility),
    },
];

fn main() -> ExitCode {
    runner::main(CASES)
}
