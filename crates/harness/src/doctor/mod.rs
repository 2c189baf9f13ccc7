//! What this machine offers of what we can use, what is used instead, and the command that enables the rest.
//!
//! Shape:      the system's own description under a folder (`/`), and what is tried -> one `Finding` per ability
//! Invariants: nothing of the machine is changed, but for a file that is made and removed where a tier would be
//! Failure:    what cannot be read counts as not there
//! Non-goals:  enabling anything

mod checks;
mod tried;

use serde_json::{Value, json};
use std::path::Path;

pub use tried::Tried;

/// Whether the machine can do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// It can.
    Yes,
    /// It could, but does not now.
    Off,
    /// It cannot.
    No,
}

/// One ability.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is called.
    pub name: &'static str,
    /// What we use it for.
    pub purpose: &'static str,
    /// Whether the machine can.
    pub offer: Offer,
    /// What was seen.
    pub seen: String,
    /// What is used instead; empty where it is there.
    pub instead: &'static str,
    /// The command that enables it, where there is one.
    pub enable: Option<String>,
}

/// Every ability, from the system's description under `root` and what was tried.
#[must_use]
pub fn examine(root: &Path, tried: &Tried) -> Vec<Finding> {
    checks::all(&checks::System::new(root), tried)
}

impl Offer {
    /// As it is printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Off => "off",
            Self::No => "no",
        }
    }
}

/// The findings as a text for people.
#[must_use]
pub fn to_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let Finding { name, purpose, offer, seen, instead, enable } = finding;
        text.push_str(&format!("{:<4}{name:<16}{purpose}: {seen}\n", offer.word()));
        if !instead.is_empty() {
            text.push_str(&format!("{:20}instead: {instead}\n", ""));
        }
        if let Some(enable) = enable {
            text.push_str(&format!("{:20}enable:  {enable}\n", ""));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The findings as JSON.
#[must_use]
pub fn to_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        json!({
            "name": finding.name,
            "purpose": finding.purpose,
            "offer": finding.offer.word(),
            "seen": finding.seen,
            "instead": finding.instead,
            "enable": finding.enable,
        })
    };
    json!({"findings": findings.iter().map(one).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests;
