//! Passwords whose hash is dear are verified on a thread of their own: no worker waits for that.
//!
//! Shape:      an attempt -> a bounded queue -> the thread -> whoever asked is told
//! Invariants: one is verified at a time, so that the memory of hashes is that of one
//! Failure:    a full queue takes nothing; who is gone when its attempt is verified is told in vain
//! Non-goals:  joining the thread: it ends with the queue, when the last who could ask is gone

use super::{Grant, Table};
use crate::limits::LOGIN_QUEUE;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::fmt;
use std::io;
use std::sync::Arc;

/// An attempt to be verified.
pub(super) struct Attempt {
    pub(super) table: Arc<Table>,
    pub(super) user: Box<[u8]>,
    pub(super) password: Box<[u8]>,
    pub(super) tell: Box<dyn FnOnce(Option<Grant>) + Send>,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attempt")
    }
}

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Verifier {
    queue: Sender<Attempt>,
}

impl Verifier {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (queue, attempts) = bounded(LOGIN_QUEUE);
        std::thread::Builder::new().name("passwords".to_owned()).spawn(move || verify_all(&attempts))?;
        Ok(Self { queue })
    }

    /// Has an attempt verified. False if too many wait.
    pub(super) fn take(&self, attempt: Attempt) -> bool {
        self.queue.try_send(attempt).is_ok()
    }
}

fn verify_all(attempts: &Receiver<Attempt>) {
    for attempt in attempts {
        let Attempt { table, user, password, tell } = attempt;
        let known = table.users.get(&user[..]);
        let grant = known.filter(|known| known.secret.matches(&user, &password)).map(|known| known.grant);
        tell(grant);
    }
}
