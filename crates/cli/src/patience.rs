//! Asks the service manager for patience while a start or an end takes long.
//!
//! Shape:   a thread -> at once and every few seconds one datagram: how long to wait for the next, and how far it is
//! Units:   microseconds in what is sent, as systemd has it
//! Failure: whether the server gets any further is not looked at: the number in its status says so to who asks
//! Source:  systemd's sd_notify(3), EXTEND_TIMEOUT_USEC

use crate::activation::Activation;
use server::Headway;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it asks. Guess: a look at `systemctl status` sees it move.
const EVERY: Duration = Duration::from_secs(5);
/// For how long, in microseconds. Guess: so many times longer that a busy machine may be late with the next.
const FOR_US: u64 = 60_000_000;

/// Asks as long as it is there.
pub(crate) struct Patience {
    asking: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Patience {
    /// Asks for it, if there is a service manager. `doing` goes before the number of items.
    pub(crate) fn ask(activation: &Activation, doing: &'static str, headway: &Arc<Headway>) -> Self {
        if !activation.has_manager() {
            return Self { asking: None };
        }
        let (activation, headway) = (activation.clone(), Arc::clone(headway));
        let (enough, until) = channel::<()>();
        let ask = move || loop {
            activation.notify(&request(doing, headway.items()));
            if until.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("patience".to_owned()).spawn(ask);
        let thread = thread.inspect_err(|e| tracing::warn!("the service manager is not asked to wait: {e}"));
        Self { asking: thread.ok().map(|thread| (enough, thread)) }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        // What is said next is the last word.
        if let Some((enough, thread)) = self.asking.take() {
            drop(enough);
            let _ended = thread.join();
        }
    }
}

fn request(doing: &str, items: u64) -> String {
    format!("EXTEND_TIMEOUT_USEC={FOR_US}\nSTATUS={doing}: {items} items so far")
}
