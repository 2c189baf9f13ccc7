//! Cores that do not go to sleep while something is measured.
//!
//! Shape:   one thread per core that does nothing, at the lowest priority, until it is dropped
//! Cost:    what is left of the processor, and about a seventieth of what others use
//! Source:  a core that idles in a virtual machine takes some 50 µs to wake: a client alone in a closed loop then does a third of
//!          what it does beside another that keeps the cores awake, and nothing is slowed down by anybody

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The nicest that a thread can be.
const NICEST: i32 = 19;

/// Keeps all cores awake until it is dropped.
#[derive(Debug)]
pub struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// From now on; where priorities cannot be changed, not at all.
    #[must_use]
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let idle = |stop: Arc<AtomicBool>| {
            // On Linux this is the calling thread's.
            if rustix::process::setpriority_process(None, NICEST).is_ok() {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..cores).map(|_| Arc::clone(&stop)).map(|stop| thread::spawn(move || idle(stop)));
        Self { threads: threads.collect(), stop }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked keeps nothing awake.
            let _ended = thread.join();
        }
    }
}
