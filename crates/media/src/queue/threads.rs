//! Reads by threads that wait for one each: what is done where the system forbids `io_uring`.
//!
//! Shape:      a channel to the threads, one back, the bell rung after each read
//! Invariants: threads end when the queue is dropped, after the reads that they have begun

use super::{Completed, Ticket};
use crate::Buffer;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Threads at most. Guess: a drive's internal parallelism; deeper queues wait in the channel.
const THREADS_MAX: u32 = 32;

#[derive(Debug)]
pub(super) struct Threads {
    /// None once the queue ends.
    wanted: Option<Sender<Read>>,
    done: Receiver<Completed>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Read {
    at: u64,
    ticket: Ticket,
    buffer: Buffer,
}

impl Threads {
    pub(super) fn new(file: Arc<File>, depth: u32, bell: Arc<OwnedFd>) -> io::Result<Self> {
        let (wanted, reads) = unbounded::<Read>();
        let (finished, done) = unbounded();
        let mut threads = Vec::new();
        for _ in 0..depth.min(THREADS_MAX) {
            let (reads, finished, file, bell) = (reads.clone(), finished.clone(), file.clone(), bell.clone());
            let run = move || {
                for Read { at, ticket, mut buffer } in reads {
                    let result = file.read_exact_at(buffer.bytes_mut(), at);
                    // The queue may be gone: then nobody wants it.
                    let _unwanted = finished.send(Completed { ticket, buffer, result });
                    // A bell that is full has been rung.
                    let _rung = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
                }
            };
            threads.push(Builder::new().name("tier-read".to_owned()).spawn(run)?);
        }
        Ok(Self { wanted: Some(wanted), done, threads })
    }

    pub(super) fn fetch(&mut self, at: u64, ticket: Ticket, buffer: Buffer) {
        let wanted = self.wanted.as_ref().expect("the queue is there");
        wanted.send(Read { at, ticket, buffer }).expect("threads end after the queue");
    }

    /// Whether there is something that `completed` brings.
    pub(super) fn has_completed(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn completed(&mut self) -> Option<Completed> {
        self.done.try_recv().ok()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.wanted = None;
        for thread in self.threads.drain(..) {
            // It ended already, whatever its reason.
            let _ended = thread.join();
        }
    }
}
