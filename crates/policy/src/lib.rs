//! The algorithms of the papers, pure: the folder says what is divided, the file says who described it.
//!
//! Invariants: no clock, no I/O, no counter, no random device; a policy owns a seeded generator
//! Non-goals:  knowing on which plant it runs (live server, host daemon, modelled machine)

pub mod bandwidth;
pub mod compose;
pub mod estimate;
pub mod form;
pub mod joint;
pub mod memory;
