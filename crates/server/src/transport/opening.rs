//! Who may be opened, and for how long that may take.
//!
//! Shape:      a place is free, or its stream has kept the server waiting: that one makes room. Others wait to be opened
//! Invariants: who waits for the server makes room for nobody; silent clients shut nobody out

use super::{Transport, Wrapped};
use crate::limits::{OPENING_PATIENCE, OPENINGS_MAX};
use crate::reactor::{Reactor, StreamId};
use units::Instant;

impl<R: Reactor> Transport<R> {
    /// Whether another stream may be opened now.
    pub(crate) fn may_open(&mut self, now: Instant) -> bool {
        self.openings < OPENINGS_MAX || self.slowest(now).is_some()
    }

    /// Gives up streams that should be open by now.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.now = now;
        while let Some((deadline, id)) = self.deadlines.pop_front_if(|(deadline, _)| *deadline <= now) {
            if is_opening(&self.wrapped, deadline, id) {
                self.give_up(id);
            }
        }
    }

    /// Makes room for another stream.
    pub(super) fn give_way(&mut self, now: Instant) {
        if let Some((_, id)) = self.slowest(now).and_then(|at| self.deadlines.remove(at)) {
            self.give_up(id);
        }
    }

    /// Which of those that are being opened came first of those that keep the server waiting for long.
    fn slowest(&mut self, now: Instant) -> Option<usize> {
        let wrapped = &self.wrapped;
        self.deadlines.retain(|(deadline, id)| is_opening(wrapped, *deadline, *id));
        self.deadlines.iter().position(|(_, id)| {
            let wrapped = wrapped.get(id.0).and_then(Option::as_ref);
            wrapped.is_some_and(|w| !w.is_queued && OPENING_PATIENCE <= now.since(w.asked))
        })
    }

    fn give_up(&mut self, id: StreamId) {
        if let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) {
            wrapped.is_over = true;
        }
        self.queue_ready(id);
    }
}

/// Whether a stream that was to be open by `deadline` is not, and has not gone.
fn is_opening(wrapped: &[Option<Box<Wrapped>>], deadline: Instant, id: StreamId) -> bool {
    wrapped.get(id.0).and_then(Option::as_ref).is_some_and(|wrapped| wrapped.deadline == Some(deadline))
}
