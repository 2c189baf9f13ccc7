//! Cores that do not go to sleep while something is measured.
//!
//! Shape:   one thread per core that does nothing there, at the lowest priority, until it is dropped
//! Cost:    what is left of the processor, and about a seventieth of what others use where there is no `chrt`
//! Source:  a core that idles in a virtual machine takes some 50 µs to wake: a client alone in a closed loop then does a third of
//!          what it does beside another that keeps the cores awake, and nothing is slowed down by anybody

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::process::{Command, Stdio};
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
        let cores = sched_getaffinity(None).unwrap_or_default();
        let idle = |core: usize, stop: &AtomicBool| {
            let mut only = CpuSet::new();
            only.set(core);
            // On Linux both are the calling thread's. Two that were on one core would let another sleep.
            let is_there = sched_setaffinity(None, &only).is_ok();
            if is_there && rustix::process::setpriority_process(None, NICEST).is_ok() {
                give_way_at_once();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).map(|core| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || idle(core, &stop))
        });
        Self { threads: threads.collect(), stop }
    }
}

/// Lets the calling thread have what nobody else wants, by `chrt`: who wakes up beside the nicest thread sometimes waits for it, beside an
/// idle one never. Where that is not there the nicest has to do.
fn give_way_at_once() {
    let id = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _done = Command::new("chrt")
        .args(["--idle", "--pid", "0", &id])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
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
