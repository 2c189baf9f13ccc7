//! Room in sockets: what a socket has not taken goes when it takes more.
//!
//! Shape:      short of room -> what is left is pending -> the socket is watched -> the rest goes, and `Sent` is told
//! Failure:    the system ends a watch when the other side has ended what it sends, room or not (`IO_POLL_UNMASK`): such a stream
//!             is asked again a little later instead of watched without end

use super::{Uring, What, end_sending};
use crate::limits::ROOM_POLL;
use crate::reactor::tag::Purpose;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use units::Duration;

impl Uring {
    /// A send has not taken everything.
    pub(super) fn send_fell_short(&mut self, at: usize, result: Result<u32, Errno>) -> io::Result<()> {
        let Some(stream) = self.slots[at].stream.as_mut().filter(|stream| !stream.is_gone) else {
            return Ok(());
        };
        let Some(bytes) = stream.queued.take() else { return Ok(()) };
        let taken = match result {
            Ok(taken) => (taken as usize).min(bytes.len()),
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.fail(at);
                return Ok(());
            }
        };
        stream.pending.extend_from_slice(self.ring.out(bytes.start + taken..bytes.end));
        stream.owes_sent = true;
        self.make_ready(at, What::Owes(bytes.len() - taken));
        self.watch_for_room(at)
    }

    /// Says when a socket may take more, unless that is known to come.
    pub(super) fn watch_for_room(&mut self, at: usize) -> io::Result<()> {
        let room = self.tag(Purpose::Room, at);
        let stream = self.slots[at].stream.as_mut().filter(|s| !s.is_watched && !s.is_retried);
        let Some(stream) = stream else { return Ok(()) };
        stream.is_watched = true;
        self.ring.watch(stream.socket.as_raw_fd(), u32::from(PollFlags::OUT.bits()), false, room)
    }

    /// A socket may take what is pending.
    pub(super) fn has_room(&mut self, at: usize) -> io::Result<()> {
        let Some(stream) = &mut self.slots[at].stream else { return Ok(()) };
        stream.is_watched = false;
        if stream.is_gone {
            self.release(at);
            return Ok(());
        }
        let pending = std::mem::take(&mut stream.pending);
        let Ok(taken) = stream.write(&[IoSlice::new(&pending)]) else {
            self.fail(at);
            return Ok(());
        };
        if taken < pending.len() {
            stream.pending = pending;
            stream.pending.drain(..taken);
            if taken == 0 {
                stream.is_retried = true;
                self.to_retry.push((at, self.slots[at].generation));
                return Ok(());
            }
            return self.watch_for_room(at);
        }
        if stream.is_finishing {
            end_sending(&stream.socket);
        }
        if std::mem::take(&mut stream.owes_sent) {
            self.make_ready(at, What::Sent);
        }
        self.go_on(at);
        Ok(())
    }

    /// How long to wait for everything else.
    pub(super) fn until_retried(&self, timeout: Option<Duration>) -> Option<Duration> {
        if self.to_retry.is_empty() { timeout } else { Some(timeout.map_or(ROOM_POLL, |t| t.min(ROOM_POLL))) }
    }

    /// Asks those again that had no room.
    pub(super) fn retry(&mut self, due: Vec<(usize, u32)>) -> io::Result<()> {
        for (at, generation) in due {
            let slot = &mut self.slots[at];
            if slot.generation != generation {
                continue;
            }
            if let Some(stream) = slot.stream.as_mut().filter(|stream| !stream.is_gone) {
                stream.is_retried = false;
                self.has_room(at)?;
            }
        }
        Ok(())
    }
}
