//! One io_uring and the memory that it reads and writes, as a safe type.
//!
//! Shape:       `receive`, `send`, `watch`, `cancel` are written down -> `enter` hands all of them over, waits, and brings
//!              what has completed, in one system call
//! Invariants:  the system touches the memory in `enter` only, which has the ring to itself
//! Memory:
//!   | entries of the buffer ring | BUFFERS x BUFFER_BYTES received into | OUT_BYTES sent from |
//! Assumptions: 1. with IORING_SETUP_DEFER_TASKRUN sockets are received from and sent to in the thread that submits,
//!                 while it is in `io_uring_enter` (io_uring_setup(2))
//!              2. a send with MSG_DONTWAIT and MSG_WAITALL is decided when it is submitted: it takes everything, or
//!                 completes with what it took or an error, without being tried again (io_uring_enter(2))
//!              3. with IOSQE_CQE_SKIP_SUCCESS only what has not taken everything completes
//! Cost:        a receive and a send have no system call of their own
//! Failure:     a system that forbids io_uring, or does not know all this (before Linux 6.1), is an error of `new`

#![allow(
    unsafe_code,
    reason = "memory shared with the system, entries of its queues; see the SAFETY comments"
)]

use crate::limits::{URING_BUFFER, URING_BUFFERS, URING_OUT};
use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use media::Region;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};
use units::{Bytes, Duration};

/// What was asked for has completed, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    /// What it was asked with.
    pub(crate) tag: u64,
    /// Bytes, or events; or the system's reason why not.
    pub(crate) result: Result<u32, rustix::io::Errno>,
    /// The buffer that holds what was received; to be given back.
    pub(crate) buffer: Option<u16>,
    /// It goes on.
    pub(crate) more: bool,
    /// Behind what was received there was more.
    pub(crate) is_followed: bool,
}

/// Entries of the submission queue; when it is full they are handed over early.
const SUBMISSIONS: u32 = 512;
/// Entries of the completion queue: a burst of every buffer and what else completes.
const COMPLETIONS: u32 = 4096;
/// The one group of buffers.
const GROUP: u16 = 0;
/// Bytes of an entry of the buffer ring (io_uring_register(2)).
const ENTRY: usize = size_of::<BufRingEntry>();
/// The buffer ring has to begin on a page (io_uring_register(2)).
const PAGE: usize = 4096;
const BUFFERS_AT: usize = (URING_BUFFERS as usize * ENTRY).next_multiple_of(PAGE);
const OUT_AT: usize = BUFFERS_AT + URING_BUFFERS as usize * URING_BUFFER;
/// Bytes of a ring's memory.
pub(crate) const RING_BYTES: usize = OUT_AT + URING_OUT;

const _: () = assert!(ENTRY == 16);
const _: () = assert!(URING_BUFFERS.is_power_of_two());
const _: () = assert!((URING_BUFFERS as u32) < COMPLETIONS);

/// One io_uring.
pub(crate) struct Ring {
    // Dropped before the memory.
    io: IoUring,
    memory: Memory,
    /// Where the next buffer is given back.
    tail: u16,
    is_enabled: bool,
    /// What completed when the submission queue was full.
    early: Vec<Completed>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("io", &self.io.as_raw_fd())
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring; it belongs to the thread that enters it first.
    pub(crate) fn new() -> io::Result<Self> {
        let io = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let has_all = io.params().is_feature_ext_arg()
            && io.params().is_feature_nodrop()
            && io.params().is_feature_skip_cqe_on_success();
        if !has_all {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the system's io_uring is too old"));
        }
        let memory = Memory::new()?;
        let entries = memory.at(0) as u64;
        let submitter = io.submitter();
        // SAFETY: the address begins a page and has room for `URING_BUFFERS` entries (`BUFFERS_AT`); the memory outlives
        // the ring, being dropped after it.
        unsafe { submitter.register_buf_ring_with_flags(entries, URING_BUFFERS, GROUP, 0) }?;
        let mut ring = Self { io, memory, tail: 0, is_enabled: false, early: Vec::new() };
        (0..URING_BUFFERS).for_each(|buffer| ring.give_back(buffer));
        Ok(ring)
    }

    /// Finds out whether the system lets a ring be made and entered, and knows every operation.
    pub(crate) fn probe() -> io::Result<()> {
        let mut ring = Self::new()?;
        let mut known = Probe::new();
        ring.io.submitter().register_probe(&mut known)?;
        let needed = [
            ("recv", opcode::RecvMulti::CODE),
            ("send", opcode::Send::CODE),
            ("poll", opcode::PollAdd::CODE),
            ("cancel", opcode::AsyncCancel::CODE),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, code)| !known.is_supported(*code)) {
            let what = format!("the system's io_uring does not know {name}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let nothing = opcode::Nop::new().build();
        ring.push(&nothing)?;
        let mut completed = Vec::new();
        ring.enter(None, &mut completed)?;
        if completed.len() == 1 { Ok(()) } else { Err(io::Error::other("an io_uring does not complete")) }
    }

    /// Receives from a socket into buffers of the ring, until it says that it does not go on.
    pub(crate) fn receive(&mut self, socket: RawFd, tag: u64) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket), GROUP).build().user_data(tag);
        self.push(&entry)
    }

    /// Sends bytes of the ring's memory. Completes in the `enter` that hands it over, and only if not everything was
    /// taken.
    pub(crate) fn send(&mut self, socket: RawFd, bytes: Range<usize>, tag: u64) -> io::Result<()> {
        assert!(bytes.start <= bytes.end && bytes.end <= URING_OUT, "bytes of the ring's memory");
        let flags = SendFlags::DONTWAIT.bits() | SendFlags::NOSIGNAL.bits() | RecvFlags::WAITALL.bits();
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(socket), self.memory.at(OUT_AT + bytes.start), len)
            .flags(flags.cast_signed())
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(tag);
        self.push(&entry)
    }

    /// Watches for events of poll(2), once or again and again.
    pub(crate) fn watch(&mut self, file: RawFd, events: u32, again: bool, tag: u64) -> io::Result<()> {
        self.push(&opcode::PollAdd::new(Fd(file), events).multi(again).build().user_data(tag))
    }

    /// Cancels what was asked with `target`; that completes then.
    pub(crate) fn cancel(&mut self, target: u64, tag: u64) -> io::Result<()> {
        self.push(&opcode::AsyncCancel::new(target).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(tag))
    }

    /// Hands over what is written down and waits until something has completed, at most so long. Every send is decided
    /// afterwards.
    pub(crate) fn enter(
        &mut self,
        timeout: Option<Duration>,
        completed: &mut Vec<Completed>,
    ) -> io::Result<()> {
        self.enable()?;
        completed.append(&mut self.early);
        let timeout = if completed.is_empty() { timeout } else { Some(Duration::ZERO) };
        let submitter = self.io.submitter();
        let entered = match timeout.map(Duration::to_std) {
            Some(std::time::Duration::ZERO) => submitter.submit(),
            Some(most) => {
                let most = Timespec::from(most);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&most))
            }
            None => submitter.submit_and_wait(1),
        };
        check(entered)?;
        self.take(completed);
        loop {
            let submission = self.io.submission();
            if submission.is_empty() && !submission.cq_overflow() {
                return Ok(());
            }
            drop(submission);
            // Short of memory the system takes a part.
            std::thread::yield_now();
            check(self.io.submit())?;
            self.take(completed);
        }
    }

    /// The first thread that enters has the ring from then on.
    fn enable(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_enabled, true) {
            self.io.submitter().register_enable_rings()?;
        }
        Ok(())
    }

    fn take(&mut self, completed: &mut Vec<Completed>) {
        completed.extend(self.io.completion().map(|entry| {
            Completed {
                tag: entry.user_data(),
                result: u32::try_from(entry.result())
                    .map_err(|_| rustix::io::Errno::from_raw_os_error(-entry.result())),
                buffer: cqueue::buffer_select(entry.flags()),
                more: cqueue::more(entry.flags()),
                is_followed: cqueue::sock_nonempty(entry.flags()),
            }
        }));
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        while self.io.submission().is_full() {
            self.enable()?;
            check(self.io.submit())?;
            let mut early = std::mem::take(&mut self.early);
            self.take(&mut early);
            self.early = early;
        }
        // SAFETY: the entry refers to this ring's memory only, which outlives the ring, or to none.
        unsafe { self.io.submission().push(entry) }.map_err(io::Error::other)
    }

    /// What a buffer holds.
    pub(crate) fn received(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(buffer < URING_BUFFERS && len <= URING_BUFFER, "a buffer of the ring");
        self.memory.bytes(BUFFERS_AT + usize::from(buffer) * URING_BUFFER, len)
    }

    /// Gives a buffer back.
    pub(crate) fn give_back(&mut self, buffer: u16) {
        assert!(buffer < URING_BUFFERS, "a buffer of the ring");
        let address = self.memory.at(BUFFERS_AT + usize::from(buffer) * URING_BUFFER) as u64;
        let entries = self.memory.at(0).cast::<BufRingEntry>();
        // SAFETY: the index is below `URING_BUFFERS`, for as many entries there is room.
        let place = unsafe { entries.add(usize::from(self.tail & (URING_BUFFERS - 1))) };
        // SAFETY: aligned to 16 bytes in zeroed memory, for which any bytes are an entry; the system reads entries in
        // `enter` only, which borrows the ring exclusively, as this does.
        let entry = unsafe { &mut *place };
        entry.set_addr(address);
        entry.set_len(u32::try_from(URING_BUFFER).unwrap_or(u32::MAX));
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the first entry of the ring.
        let tail = unsafe { BufRingEntry::tail(entries) };
        // SAFETY: aligned to two bytes, lives as long as the memory, and everybody who writes it does so here.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// The memory that is sent from.
    pub(crate) fn out(&self, bytes: Range<usize>) -> &[u8] {
        assert!(bytes.start <= bytes.end && bytes.end <= URING_OUT, "bytes of the ring's memory");
        self.memory.bytes(OUT_AT + bytes.start, bytes.len())
    }

    /// Copies bytes to the memory that is sent from.
    pub(crate) fn put_out(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= URING_OUT && bytes.len() <= URING_OUT - at, "bytes of the ring's memory");
        self.memory.write(OUT_AT + at, bytes);
    }
}

/// A wait that ended early is no failure.
fn check(entered: io::Result<usize>) -> io::Result<()> {
    use rustix::io::Errno;
    match entered {
        Ok(_) => Ok(()),
        Err(e) => match Errno::from_io_error(&e) {
            Some(Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY) => Ok(()),
            _ => Err(e),
        },
    }
}

/// Zeroed memory that begins a page, of which what was never used is not resident.
struct Memory(Region);

impl Memory {
    fn new() -> io::Result<Self> {
        Region::anonymous(Bytes(RING_BYTES as u64)).map(Self).map_err(io::Error::other)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= RING_BYTES, "inside of the memory");
        // SAFETY: checked above.
        unsafe { self.0.start().as_ptr().add(offset) }
    }

    fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset <= RING_BYTES && len <= RING_BYTES - offset, "inside of the memory");
        // SAFETY: initialised (zeroed), inside of the memory as checked above; nobody writes while it is borrowed: the
        // system does so in `Ring::enter`, this program in `write`, and both borrow exclusively.
        unsafe { std::slice::from_raw_parts(self.at(offset), len) }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= RING_BYTES && bytes.len() <= RING_BYTES - offset, "inside of the memory");
        // SAFETY: inside of the memory as checked above, and apart from `bytes`, which are borrowed beside an exclusive
        // borrow of the memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset), bytes.len()) }
    }
}
