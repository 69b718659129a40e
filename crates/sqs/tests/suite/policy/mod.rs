//! Access policies: what is refused when they are set, and who may do what under them.

mod decisions;
mod pools;
mod refusals;
