//! Clients of a server in this process: each a thread that asks until it is stopped, in a closed loop.
//!
//! Shape:      `Work` -> batches of requests, sent together and answered before the next -> how many, and how long they took
//! Invariants: every value is checked for its length, and every store took place; a client that fails is told of when it is stopped; who
//!             is dropped stops
//! Units:      requests; times of batches in ns, by this machine's clock

use super::clock::nanos;
use super::latency::Latency;
use server::memcache::client::Client;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// Whose.
    pub tenant: &'static str,
    /// Of 100 requests, how many look up; the others store.
    pub gets_percent: u64,
    /// Of 100 look-ups, how many are for a key that is there.
    pub hits_percent: u64,
    /// Bytes of a value.
    pub size: usize,
    /// Keys that are there.
    pub keys: u64,
    /// Connections, each with a thread of its own.
    pub clients: u64,
    /// Requests that are on their way together on each.
    pub depth: u64,
    /// Which keys it asks for.
    pub order: Order,
    /// Pause before the next requests, in µs.
    pub pause_us: u64,
    /// What was evicted is stored again; else that is a failure.
    pub stores_again: bool,
}

impl Work {
    /// Look-ups of drawn keys, all found, by one client as fast as it is answered.
    #[must_use]
    pub fn gets(tenant: &'static str, size: usize, keys: u64, depth: u64) -> Self {
        Self {
            tenant,
            gets_percent: 100,
            hits_percent: 100,
            size,
            keys,
            clients: 1,
            depth,
            order: Order::Random,
            pause_us: 0,
            stores_again: false,
        }
    }
}

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// All alike, by chance.
    #[default]
    Random,
    /// One after the other, again and again.
    InTurn,
    /// By chance, the first most: key k as often as k to the power of minus two thirds.
    Skewed,
}

impl Order {
    /// The key of the request of this number, of so many.
    fn key(self, number: u64, keys: u64, rng: &mut units::Rng) -> u64 {
        match self {
            Self::Random => rng.below(keys),
            Self::InTurn => number % keys,
            Self::Skewed => {
                let whole = 1_u64 << 20;
                let part = rng.below(whole) as f64 / whole as f64;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below keys")]
                let key = (part.powi(3) * keys as f64) as u64;
                key
            }
        }
    }
}

/// Clients at work for one load.
#[derive(Debug)]
pub struct Working {
    stop: Arc<AtomicBool>,
    heard: Arc<Heard>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What a client has heard so far.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) answered: AtomicU64,
    /// Stores that the server had no room for, where that is no failure.
    pub(super) refused: AtomicU64,
    times: Mutex<Times>,
}

/// How long batches took, by what they begin with: with one request on its way, how long requests took.
#[derive(Clone, Default, Debug)]
pub struct Times {
    /// Those that begin with a look-up.
    pub gets: Latency,
    /// Those that begin with a store.
    pub stores: Latency,
}

impl Working {
    pub(super) fn start(address: SocketAddr, work: Work) -> Self {
        Self::of(work.clients, move |seed, stop, heard| ask(address, &work, seed, stop, heard))
    }

    /// So many clients, each with a number of its own, that ask until they are to stop.
    pub(super) fn of(
        clients: u64,
        ask: impl Fn(u64, &AtomicBool, &Heard) -> io::Result<()> + Clone + Send + 'static,
    ) -> Self {
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(Heard::default()));
        let one = |number| {
            let (stop, heard, ask) = (Arc::clone(&stop), Arc::clone(&heard), ask.clone());
            thread::spawn(move || ask(number, &stop, &heard))
        };
        let threads = (0..clients).map(one).collect();
        Self { stop, heard, threads }
    }

    /// Requests answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.heard.answered.load(Ordering::Relaxed)
    }

    /// Stores refused so far, where that is no failure; they are not among those answered.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.heard.refused.load(Ordering::Relaxed)
    }

    /// How long batches have taken since this was asked last.
    #[must_use]
    pub fn take_times(&self) -> Times {
        std::mem::take(&mut self.heard.times.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the clients.
    ///
    /// # Errors
    /// If an answer was not what it should be, or the server was lost.
    pub fn end(mut self) -> io::Result<u64> {
        self.stop()?;
        Ok(self.heard.answered.load(Ordering::Relaxed))
    }

    fn stop(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self
            .threads
            .drain(..)
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a client has panicked"))));
        // All are waited for, whatever became of the first.
        ended.fold(Ok(()), io::Result::and)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // The experiment has failed already.
        let _ended = self.stop();
    }
}

impl Heard {
    fn record(&self, is_get: bool, ns: u64) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if is_get { times.gets.record(ns) } else { times.stores.record(ns) }
    }
}

/// Whether the store that is answered next took place; else the server had no room for it.
///
/// # Errors
/// If the server is lost, or answers something else.
pub(crate) fn is_stored(client: &mut Client) -> io::Result<bool> {
    match client.read_line()? {
        b"STORED" => Ok(true),
        b"SERVER_ERROR out of memory storing object" | b"SERVER_ERROR object too large for cache" => {
            Ok(false)
        }
        other => {
            let text = String::from_utf8_lossy(other).into_owned();
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("a store was answered with '{text}'")))
        }
    }
}

/// Takes the answer to the store of a key.
///
/// # Errors
/// If it did not take place, or the server is lost.
pub(super) fn expect_stored(client: &mut Client, tenant: &str, number: u64) -> io::Result<()> {
    let refused = || io::Error::other(format!("key {number} of '{tenant}' is refused: no room"));
    if is_stored(client)? { Ok(()) } else { Err(refused()) }
}

pub(super) fn key(tenant: &str, number: u64) -> Vec<u8> {
    format!("{tenant}:{number}").into_bytes()
}

fn ask(address: SocketAddr, work: &Work, seed: u64, stop: &AtomicBool, heard: &Heard) -> io::Result<()> {
    let mut client = Client::connect(address)?;
    let value = vec![b'v'; work.size];
    // Tenants that ask alike ask for other keys.
    let of_tenant = work.tenant.bytes().fold(0, |hash, byte| units::mix64(hash ^ u64::from(byte)));
    let mut rng = units::Rng::new(of_tenant ^ work.size as u64 ^ work.gets_percent ^ seed << 32);
    let (mut gets, mut again, mut asked) = (Vec::new(), Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        gets.clear();
        for _ in 0..work.depth {
            let is_get = rng.below(100) < work.gets_percent;
            let is_there = !is_get || rng.below(100) < work.hits_percent;
            let number = work.order.key(asked, work.keys, &mut rng) + if is_there { 0 } else { work.keys };
            if is_get {
                client.queue_get(&key(work.tenant, number));
            } else {
                client.queue_store("set", &key(work.tenant, number), 0, &value);
            }
            gets.push((is_get, is_there, number));
            asked += 1;
        }
        let sent = nanos();
        client.send()?;
        for &(is_get, is_there, number) in &gets {
            if is_get {
                let mut len = 0;
                let found = client.read_get(|bytes| len = bytes.len())?.is_some();
                if work.stores_again && is_there && !found {
                    again.push(number);
                } else if found != is_there || (found && len != work.size) {
                    let seen = if found { format!("has {len} bytes") } else { "is not there".to_owned() };
                    return Err(io::Error::other(format!("key {number} of '{}' {seen}", work.tenant)));
                }
            } else {
                expect_stored(&mut client, work.tenant, number)?;
            }
        }
        heard.record(gets.first().is_some_and(|first| first.0), nanos() - sent);
        for number in again.drain(..) {
            client.queue_store("set", &key(work.tenant, number), 0, &value);
            client.send()?;
            expect_stored(&mut client, work.tenant, number)?;
        }
        heard.answered.fetch_add(work.depth, Ordering::Relaxed);
        if 0 < work.pause_us {
            thread::sleep(std::time::Duration::from_micros(work.pause_us));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;

    /// How clients end whose every look-up misses and whose every store is answered so.
    fn ended(work: Work, answer: &'static [u8]) -> io::Result<u64> {
        let answer =
            move |line: &str| if line.starts_with("get") { b"END\r\n".to_vec() } else { answer.to_vec() };
        let working = Working::start(fake::serve(answer), work);
        while working.answered() == 0 && !working.threads.iter().all(JoinHandle::is_finished) {
            thread::yield_now();
        }
        working.end()
    }

    #[test]
    fn a_store_that_does_not_take_place_is_a_failure() {
        let gets = Work { stores_again: true, ..Work::gets("t", 9, 3, 4) };
        for work in [Work { gets_percent: 0, ..gets }, gets] {
            for answer in [fake::FULL, b"SERVER_ERROR too many requests\r\n", b"NOT_STORED\r\n"] {
                assert!(ended(work, answer).is_err(), "{work:?}");
            }
            assert!(ended(work, b"STORED\r\n").is_ok_and(|answered| 4 <= answered), "{work:?}");
        }
    }
}
