//! The metadata from outside: stories, a naive model, replays and pinned encodings.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy sees only the functions marked so"
)]

mod attributes;
mod encodings;
mod harness;
mod model;
mod move_tasks;
mod moves;
mod nodes;
mod nodes_model;
mod pinned;
mod planner_property;
mod planner_stories;
mod property;
mod redrive;
mod samples;
mod script;
mod spreads;
mod stories;
mod tenants;
mod tenants_model;
mod world;
