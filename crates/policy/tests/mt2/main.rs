//! Acceptance checks of MT²'s policies and their baselines on hand-written rows and on a plant of four lines.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates of a test")]

mod stage;

mod any_input;
mod caps;
mod own;
mod promises;
mod remedy;
