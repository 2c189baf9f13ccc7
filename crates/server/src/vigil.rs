//! Who notices that a thread of the server has ended before it should: a server without it would lose connections, or
//! stand still in time.
//!
//! Shape:      `spawn` -> a thread; one that ends while the server is not stopping is named, and whoever asked is told

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What is to be done when a thread has ended.
type Tell = Box<dyn Fn() + Send>;

/// The threads of a server, as seen by who waits for its end.
#[derive(Default)]
pub(crate) struct Vigil {
    stop: Arc<AtomicBool>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// The first that ended.
    ended: Option<String>,
    tell: Option<Tell>,
}

/// A thread's own part: it is dropped at the end, or while the thread unwinds.
struct Life {
    vigil: Arc<Vigil>,
    name: String,
}

impl Drop for Life {
    fn drop(&mut self) {
        if self.vigil.stop.load(Ordering::Acquire) {
            return;
        }
        tracing::error!("the thread {} has ended: the server cannot go on", self.name);
        let mut told = self.vigil.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.ended.get_or_insert_with(|| self.name.clone());
        told.tell.iter().for_each(|tell| tell());
    }
}

impl Vigil {
    /// What ends every thread, once it is true.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Starts a thread.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        act: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (vigil, name) = (Arc::clone(self), name.to_owned());
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            let _life = Life { vigil, name };
            act();
        })
    }

    /// Calls `tell` once a thread has ended, at once if one has.
    pub(crate) fn when_ended(&self, tell: Tell) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.ended.is_some() {
            tell();
        }
        told.tell = Some(tell);
    }

    /// The thread that ended before its time, if one did.
    pub(crate) fn ended(&self) -> Option<String> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).ended.clone()
    }
}

impl std::fmt::Debug for Vigil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vigil").field("ended", &self.ended()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_ends_too_early_is_told_of_and_one_that_is_stopped_is_not() {
        let acts: [(fn(), bool); 2] = [(|| (), false), (|| panic!("told of, not hidden"), true)];
        for (act, panics) in acts {
            let vigil = Arc::new(Vigil::default());
            let (sender, told) = mpsc::channel();
            vigil.when_ended(Box::new(move || _ = sender.send(())));
            assert_eq!(vigil.spawn("worker-7", act).unwrap().join().is_err(), panics);
            assert_eq!(told.try_recv(), Ok(()), "who waits is told");
            assert_eq!(vigil.ended().as_deref(), Some("worker-7"));
            let (sender, late) = mpsc::channel();
            vigil.when_ended(Box::new(move || _ = sender.send(())));
            assert_eq!(late.try_recv(), Ok(()), "and who comes late");

            let stopped = Arc::new(Vigil::default());
            stopped.stop().store(true, Ordering::Release);
            drop(stopped.spawn("worker-7", act).unwrap().join());
            assert_eq!(stopped.ended(), None);
        }
    }
}
