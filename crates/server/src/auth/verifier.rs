//! Passwords whose hash is dear are verified on a thread of their own: no worker waits for that.
//!
//! Shape:      an attempt -> a bounded queue -> the thread -> whoever asked is told
//! Invariants: one is verified at a time, so that the memory of hashes is that of one
//! Failure:    a full queue takes nothing; who is gone when its attempt is verified is told in vain; one that panics is a wrong
//!             password, and no end of the thread, for connections wait for what it says
//! Non-goals:  joining the thread: it ends with the queue, when the last who could ask is gone

use super::{Grant, Table};
use crate::limits::LOGIN_QUEUE;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
        std::thread::Builder::new()
            .name("passwords".to_owned())
            .spawn(move || verify_all(&attempts, grant_of))?;
        Ok(Self { queue })
    }

    /// Has an attempt verified. False if too many wait.
    pub(super) fn take(&self, attempt: Attempt) -> bool {
        self.queue.try_send(attempt).is_ok()
    }
}

fn verify_all(attempts: &Receiver<Attempt>, grant_of: impl Fn(&Attempt) -> Option<Grant>) {
    for attempt in attempts {
        let grant = catch_unwind(AssertUnwindSafe(|| grant_of(&attempt))).unwrap_or_else(|_panic| {
            tracing::error!("a password could not be verified");
            None
        });
        (attempt.tell)(grant);
    }
}

fn grant_of(attempt: &Attempt) -> Option<Grant> {
    let known = attempt.table.users.get(&attempt.user[..]);
    known.filter(|known| known.secret.matches(&attempt.user, &attempt.password)).map(|known| known.grant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_attempt_that_panics_is_answered_and_so_are_those_behind_it() {
        let table = Arc::new(Table {
            users: std::collections::HashMap::new(),
            nobody: crate::auth::Secret::of_nobody(),
        });
        let (queue, attempts) = bounded(2);
        let (sender, told) = mpsc::channel();
        for user in ["first", "second"] {
            let sender = sender.clone();
            let tell = Box::new(move |grant: Option<Grant>| sender.send((user, grant.is_some())).unwrap());
            let (user, password) = (user.as_bytes().into(), user.as_bytes().into());
            queue.send(Attempt { table: Arc::clone(&table), user, password, tell }).unwrap();
        }
        drop(queue);
        verify_all(&attempts, |attempt| {
            assert_eq!(&attempt.user[..], b"second", "the first one fails");
            None
        });
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [("first", false), ("second", false)]);
    }
}
