//! Who may use a tier how fast.

pub mod regulator;
