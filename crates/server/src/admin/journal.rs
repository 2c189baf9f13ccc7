//! `/journal` and `/bandwidth/journal`: the decisions kept, oldest first, each as one line of JSON that is made while the page is sent.
//!
//! Shape:      number of a decision -> its line; the lock of the control loop is let go between two lines
//! Invariants: ends with the newest decision of when it was asked for; what the journal gives up meanwhile is left out
//! Cost:       memory for one line at a time and for what the connection has not sent yet

use crate::View;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

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
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::new(lines))
}

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some((number, mut line)) = (self.line)(&self.view, self.next).filter(|(n, _)| *n < self.end)
        else {
            return Poll::Ready(None);
        };
        self.next = number + 1;
        line.push('\n');
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(line)))))
    }
}
