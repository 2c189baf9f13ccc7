//! `/journal` and `/bandwidth/journal`: the decisions kept, oldest first, each as one line of JSON that is made while the page is sent.
//!
//! Shape:      number of a decision -> its line; the lock of the control loop is let go between two lines
//! Invariants: ends with the newest decision of when it was asked for; what the journal gives up meanwhile is left out
//! Cost:       memory for one line at a time and for what the connection has not sent yet

use super::pieces;
use crate::View;
use axum::extract::State;
use axum::response::IntoResponse;
use std::convert::Infallible;

/// The lines that are still to be sent.
struct Lines {
    view: View,
    /// The first line from a number on, with its number.
    line: fn(&View, u64) -> Option<(u64, String)>,
    /// Number of the next decision, counted from the start of the server, and the one to end before.
    next: u64,
    end: u64,
}

pub(super) async fn answer(State(view): State<View>) -> impl IntoResponse {
    let end = view.decisions_total();
    send(Lines { view, line: View::journal_line, next: 0, end })
}

pub(super) async fn answer_of_bandwidth(State(view): State<View>) -> impl IntoResponse {
    let end = view.bandwidth_decisions_total();
    send(Lines { view, line: View::bandwidth_journal_line, next: 0, end })
}

fn send(lines: Lines) -> impl IntoResponse {
    pieces::answer("application/x-ndjson", lines)
}

impl Iterator for Lines {
    type Item = Result<String, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, mut line) = (self.line)(&self.view, self.next).filter(|(n, _)| *n < self.end)?;
        self.next = number + 1;
        line.push('\n');
        Some(Ok(line))
    }
}
