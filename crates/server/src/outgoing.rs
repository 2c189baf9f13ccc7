//! Replies that hold large values, on their way out: by reference, a piece at a time.
//!
//! Shape:      what stands before the first large value goes at once -> the rest as parts -> pieces, as the socket takes them
//! Invariants: a large value is pinned, not copied; of what the socket does not take at once a piece is copied at most

use crate::limits::SEND_PIECE;
use std::collections::VecDeque;
use store::Pinned;

/// A part of replies.
#[derive(Debug)]
pub(crate) enum Part {
    /// Text, and values in segments.
    Bytes(Vec<u8>),
    /// A large value.
    Value(Pinned),
}

/// Replies on their way out.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    parts: VecDeque<Part>,
    /// Bytes of the first part that have gone.
    gone: usize,
    /// Bytes accounted for copies in them.
    pub(crate) accounted: usize,
    /// The connection closes behind them.
    pub(crate) ends: bool,
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Value(value) => value.value(),
        }
    }
}

impl Outgoing {
    /// Appends a part.
    pub(crate) fn push(&mut self, part: Part) {
        if !part.bytes().is_empty() {
            self.parts.push_back(part);
        }
    }

    /// Bytes that were copied.
    pub(crate) fn copied(&self) -> usize {
        let copied = |part: &Part| if let Part::Bytes(bytes) = part { bytes.len() } else { 0 };
        self.parts.iter().map(copied).sum()
    }

    /// The next piece; empty behind the last.
    pub(crate) fn next(&self) -> &[u8] {
        let rest = self.parts.front().map_or(&[][..], |part| &part.bytes()[self.gone..]);
        &rest[..rest.len().min(SEND_PIECE)]
    }

    /// So many bytes have gone.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.gone += bytes;
        if self.parts.front().is_some_and(|part| part.bytes().len() <= self.gone) {
            self.parts.pop_front();
            self.gone = 0;
        }
    }

    /// Whether everything has gone.
    pub(crate) fn is_done(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_parts_in_order() {
        let mut outgoing = Outgoing::default();
        let parts = [vec![1; 10], Vec::new(), vec![2; SEND_PIECE + 5], vec![3; 1]];
        let all = parts.concat();
        parts.into_iter().for_each(|part| outgoing.push(Part::Bytes(part)));
        assert_eq!(outgoing.copied(), all.len());
        let mut sent = Vec::new();
        while !outgoing.is_done() {
            let piece = outgoing.next().to_vec();
            assert!(!piece.is_empty() && piece.len() <= SEND_PIECE);
            outgoing.advance(piece.len());
            sent.extend(piece);
        }
        assert!(sent == all && outgoing.next().is_empty());
    }
}
