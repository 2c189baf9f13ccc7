//! Tidy tests: the house rules that a machine can check, each in one small file.
//!
//! Shape:      a check is a pure function from paths and texts to findings; `tests/tidy.rs` runs every check on the
//!             repository and prints what it found
//! Invariants: each check has a unit test on a made-up input that it refuses
//! Non-goals:  what rustfmt, clippy, rustdoc or the compiler already refuse

mod finding;
mod rust;
mod tree;

pub mod clocks;
pub mod duplicates;
pub mod front_page;
pub mod glossary;
pub mod layers;
pub mod leaks;
pub mod modules;
pub mod paths;
pub mod promises;
pub mod unfinished;
pub mod unsafety;

pub use finding::{Finding, report};
pub use tree::Tree;
