//! A stream on io_uring: what is under way, what waits.

use super::Place;
use crate::limits::{URING_BULK, URING_CALLS};
use rustix::io::Errno;
use socket2::Socket;
use std::io::{self, IoSlice, Write as _};
use std::ops::Range;

/// A number, and the stream that has it now.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// How many streams have had the number, modulo 2^24.
    pub(super) generation: u32,
    pub(super) stream: Option<Stream>,
}

/// A stream on io_uring.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: Socket,
    /// A receive is under way.
    pub(super) is_receiving: bool,
    /// It has been told to end.
    pub(super) is_cancelled: bool,
    /// The socket is watched for room.
    pub(super) is_watched: bool,
    /// It is asked again for room a little later instead.
    pub(super) is_retried: bool,
    /// The socket is watched for the end of what the other side sends.
    pub(super) is_end_watched: bool,
    /// That end has come; some of what was sent before may still be unread.
    pub(super) has_hung_up: bool,
    /// It is to be read from by a call of its own.
    pub(super) is_call_ready: bool,
    /// What is under way is no receive but a watch for something to receive.
    pub(super) is_polled: bool,
    /// The last call has taken all that there was.
    pub(super) is_emptied: bool,
    /// Calls of its own that may bring little until the ring receives for it again; 0 while it does.
    pub(super) calls: u8,
    pub(super) is_paused: bool,
    /// Nothing will arrive any more; told once everything before has been delivered.
    pub(super) is_over: bool,
    /// It has failed.
    pub(super) is_broken: bool,
    /// Nothing more will be sent once everything given has gone.
    pub(super) is_finishing: bool,
    /// Closed as far as the worker knows; it goes when nothing is under way.
    pub(super) is_gone: bool,
    /// `Sent` is owed.
    pub(super) owes_sent: bool,
    /// What arrived while it was not read from.
    pub(super) kept: Vec<u8>,
    /// What waits for the next round, in the ring's memory.
    pub(super) queued: Option<Range<usize>>,
    /// What the socket did not take.
    pub(super) pending: Vec<u8>,
}

impl Stream {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            is_receiving: false,
            is_cancelled: false,
            is_watched: false,
            is_retried: false,
            is_end_watched: false,
            has_hung_up: false,
            is_call_ready: false,
            is_polled: false,
            is_emptied: false,
            calls: 0,
            is_paused: false,
            is_over: false,
            is_broken: false,
            is_finishing: false,
            is_gone: false,
            owes_sent: false,
            kept: Vec::new(),
            queued: None,
            pending: Vec::new(),
        }
    }

    /// Whether nothing of it is delivered now.
    pub(super) fn is_held(&self) -> bool {
        self.is_paused || !self.pending.is_empty()
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_receiving || self.is_watched || self.is_end_watched
    }

    /// Notes how much has arrived together, which says how it is received from then on. Returns whether that changes to calls of its own.
    pub(super) fn note_arrived(&mut self, len: usize) -> bool {
        let before = self.calls;
        self.calls = if URING_BULK <= len { URING_CALLS } else { before.saturating_sub(1) };
        before == 0 && 0 < self.calls
    }

    /// Reads with one call: 0 at the end, failed or not, none if nothing is there yet.
    pub(super) fn read(&mut self, place: &mut Place<'_>) -> Option<usize> {
        let read = place.read(&self.socket);
        if read == Err(Errno::AGAIN) {
            return None;
        }
        self.is_broken |= read.is_err();
        Some(read.unwrap_or(0))
    }

    /// Sends with one call what the socket takes of `pieces`; keeps nothing.
    pub(super) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            let written = match pieces {
                [one] => self.socket.write(one),
                _ => self.socket.write_vectored(pieces),
            };
            match written {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                written => return written,
            }
        }
    }

    /// Keeps what is behind the first `taken` bytes of `pieces`.
    pub(super) fn keep_pending(&mut self, pieces: &[IoSlice<'_>], taken: usize) {
        let mut skip = taken;
        for piece in pieces {
            let from = skip.min(piece.len());
            self.pending.extend_from_slice(&piece[from..]);
            skip -= from;
        }
    }
}
