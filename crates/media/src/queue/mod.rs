//! Many reads of a device under way at once: a buffer goes in with an offset, and comes back filled.
//!
//! Shape:      `fetch` writes reads down, `submit` hands over those that are not yet, a bell rings when some have come,
//!             `completed` brings them
//! Invariants: every buffer that went in comes back once, or is freed when the queue is dropped, which waits for what is under
//!             way; a read that fails brings its buffer and the reason
//! Cost:       on io_uring one system call per `submit`, and one in `fetch` whenever as many are written down as are under way;
//!             none per `completed`
//! Failure:    where the system forbids io_uring, threads read instead

mod threads;
mod uring;

use crate::Buffer;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use threads::Threads;
use uring::Uring;

/// Reads under way at once at most.
pub const DEPTH_MAX: u32 = 1024;

/// Which read it is: counts from 0 in the order of `fetch`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A read that has come.
#[derive(Debug)]
pub struct Completed {
    /// Which.
    pub ticket: Ticket,
    /// What it was asked with.
    pub buffer: Buffer,
    /// Whether the buffer is filled, or why not.
    pub result: io::Result<()>,
}

/// What reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// `io_uring` where the system allows it, threads elsewhere.
    Auto,
    /// Threads that wait for one read each.
    Threads,
}

/// A queue of reads. It belongs to one thread at a time.
#[derive(Debug)]
pub struct ReadQueue {
    reader: Reader,
    depth: u32,
    next: u64,
    under_way: u32,
    /// Where offset 0 of the tier is in the file, and how much it holds.
    base: u64,
    size: u64,
    unit: u64,
    bell: Arc<OwnedFd>,
    refused: VecDeque<Completed>,
}

#[derive(Debug)]
enum Reader {
    Uring(Box<Uring>),
    Threads(Threads),
}

/// Which part of a file a queue reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Where it begins.
    pub(crate) base: u64,
    /// How long it is.
    pub(crate) size: u64,
    /// What offsets and lengths are multiples of.
    pub(crate) unit: u64,
}

impl ReadQueue {
    /// A queue of `depth` reads (at least one, [`DEPTH_MAX`] at most) of a part of `file`.
    pub(crate) fn new(
        file: Arc<File>,
        part: Part,
        depth: u32,
        engine: Engine,
        bell: Option<Arc<OwnedFd>>,
    ) -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let depth = depth.clamp(1, DEPTH_MAX);
        let bell = match bell {
            Some(bell) => bell,
            None => Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
        };
        let reader = match engine {
            Engine::Auto => match Uring::new(file.clone(), depth, &bell) {
                Ok(uring) => Reader::Uring(Box::new(uring)),
                Err(_forbidden) => Reader::Threads(Threads::new(file, depth, bell.clone())?),
            },
            Engine::Threads => Reader::Threads(Threads::new(file, depth, bell.clone())?),
        };
        let Part { base, size, unit } = part;
        Ok(Self { reader, depth, next: 0, under_way: 0, base, size, unit, bell, refused: VecDeque::new() })
    }

    /// What reads: `io_uring` or threads.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        match self.reader {
            Reader::Uring(_) => "io_uring",
            Reader::Threads(_) => "threads",
        }
    }

    /// Reads written down or under way.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Writes down a read of the whole buffer from `at`; `submit` hands it over, or a later call of this. What is beyond the end or not in whole
    /// access units comes back as an error.
    ///
    /// # Errors
    /// Gives the buffer back if as many reads as the queue is deep are under way.
    pub fn fetch(&mut self, at: u64, buffer: Buffer) -> Result<Ticket, Buffer> {
        if self.depth <= self.under_way {
            return Err(buffer);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.under_way += 1;
        match crate::device::check_units(self.size, self.unit, at, buffer.len()) {
            Ok(()) => match &mut self.reader {
                Reader::Uring(uring) => uring.fetch(self.base + at, ticket, buffer),
                Reader::Threads(threads) => threads.fetch(self.base + at, ticket, buffer),
            },
            Err(reason) => self.refused.push_back(Completed { ticket, buffer, result: Err(reason) }),
        }
        Ok(ticket)
    }

    /// Hands over what is still written down: to be called behind the last of some reads.
    ///
    /// # Errors
    /// If the system does not take it now; it stays written down.
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.reader {
            Reader::Uring(uring) => uring.submit(),
            Reader::Threads(_) => Ok(()),
        }
    }

    /// A read that has come, if one has. Does not wait.
    pub fn completed(&mut self) -> Option<Completed> {
        let refused = self.refused.pop_front();
        let completed = refused.or_else(|| match &mut self.reader {
            Reader::Uring(uring) => uring.completed(),
            Reader::Threads(threads) => threads.completed(),
        })?;
        self.under_way -= 1;
        Some(completed)
    }

    /// Silences the bell: to be called before the last look for completed reads.
    pub fn hear(&self) {
        // What fails here is a bell that has not rung.
        let _silent = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
    }

    /// Hands over what was written down and waits until a read has come, or something may have.
    ///
    /// # Errors
    /// If the system says so.
    pub fn wait(&mut self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        if self.under_way == 0 || !self.refused.is_empty() {
            return Ok(());
        }
        match &mut self.reader {
            Reader::Uring(uring) => uring.wait(),
            // The bell may have been silenced for what has come already.
            Reader::Threads(threads) if threads.has_completed() => Ok(()),
            Reader::Threads(_) => match poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {
                    self.hear();
                    Ok(())
                }
                Err(errno) => Err(errno.into()),
            },
        }
    }
}

impl AsFd for ReadQueue {
    /// The bell: an eventfd that is readable once a read has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
