//! Replays a trace against a memcached server over TCP, ours or another.
//!
//! Shape:      look-aside client: a look-up that misses is followed by a set; requests are pipelined in batches
//! Invariants: within a batch a key is asked at most once, so that every set is sent before the key's next look-up; no large value is
//!             sent while large replies wait to be read
//! Failure:    a server that is lost, silent for `PATIENCE` or does not speak the protocol ends the replay with what it said

use crate::names::{name_of, whose};
use crate::replay::{ReplayError, ReplayOptions, Times};
use crate::report::{Report, TenantReport};
use lab::{Op, Request, TraceReader};
use server::memcache::client::Client;
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::time::Duration;
use units::{Bytes, Instant};

/// Requests in one batch at most.
const BATCH: usize = 64;
/// Bytes queued in one batch at most, so that neither side's socket fills while the other waits.
const BATCH_BYTES: usize = 64 << 10;
/// A server that neither answers nor reads for so long is given up (guess: six times what a client of the benchmarks waits).
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time to live that memcached takes for one, and not for a date.
const TTL_MAX_SECS: u32 = 30 * 24 * 60 * 60;

/// One queued request.
enum Asked {
    Get { key: Vec<u8>, tenant: usize, value_len: usize, exptime: u32 },
    Line,
}

/// A replay over the wire.
struct WireReplay<'a> {
    options: &'a ReplayOptions,
    client: Client,
    /// As long as the longest value so far.
    filler: Vec<u8>,
    /// Bytes of the largest value that is sent.
    item_max: usize,
    tenants: Vec<TenantReport>,
    ids: HashMap<Vec<u8>, usize>,
    asked: Vec<Asked>,
    /// Bytes that what is asked may bring.
    replies: usize,
    in_batch: HashSet<Vec<u8>>,
}

/// Keeps the pace of a trace.
pub trait Pace {
    /// Whether this time is still to come.
    fn is_early(&mut self, at: Instant) -> bool;
    /// Lets the time until then pass.
    fn wait(&mut self, at: Instant);
}

/// Whether the sockets may not hold the replies to what was asked and a value together, so that each side would wait for the other to read.
pub(crate) fn is_too_much(replies: usize, value_len: usize) -> bool {
    0 < replies && BATCH_BYTES < replies.saturating_add(value_len)
}

fn said(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("it is silent for {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    }
}

/// Replays `traces`, one after another, against `server`, by a pace if there is one: nothing waits in a batch for what is to be
/// asked later.
///
/// # Errors
/// If the trace cannot be read or the server is lost.
pub fn over_tcp(
    options: &ReplayOptions,
    server: &str,
    traces: &mut [&mut dyn TraceReader],
    progress: &mut dyn FnMut(u64),
    mut pace: Option<&mut dyn Pace>,
) -> Result<Report, ReplayError> {
    let lost = |e: io::Error| ReplayError::Server { server: server.to_owned(), what: said(&e) };
    let client = Client::connect(server).map_err(lost)?;
    client.give_up_after(PATIENCE).map_err(lost)?;
    let mut replay = WireReplay {
        options,
        client,
        filler: Vec::new(),
        item_max: options.item_max.as_usize(),
        tenants: Vec::new(),
        ids: HashMap::new(),
        asked: Vec::new(),
        replies: 0,
        in_batch: HashSet::new(),
    };
    let before = replay.figures().map_err(lost)?;
    replay.item_max = before.item_max.unwrap_or(replay.item_max);
    let (mut requests, mut times) = (0, Times::default());
    let limit = options.limit.unwrap_or(u64::MAX);
    for trace in traces {
        times.begin_trace();
        while requests < limit
            && let Some(request) = trace.next()?
        {
            let request = times.in_turn(request);
            if let Some(pace) = &mut pace
                && pace.is_early(request.at)
            {
                replay.flush().map_err(lost)?;
                pace.wait(request.at);
            }
            replay.ask(&request).map_err(lost)?;
            requests += 1;
            if requests.is_multiple_of(1 << 16) {
                progress(requests);
            }
        }
    }
    replay.flush().map_err(lost)?;
    progress(requests);
    let after = replay.figures().map_err(lost)?;
    let mut tenants = std::mem::take(&mut replay.tenants);
    tenants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Report {
        policy: after.policy(),
        memory: Bytes(after.limit),
        requests,
        gets: tenants.iter().map(|t| t.gets).sum(),
        hits: tenants.iter().map(|t| t.hits).sum(),
        seconds: 0.0,
        cleaner_moved_bytes: None,
        evictions: Some(after.evictions.saturating_sub(before.evictions)),
        tier: None,
        peak_resident: None,
        tenants,
    })
}

/// What is asked of `stats`.
#[derive(Default)]
struct Figures {
    product: String,
    version: String,
    limit: u64,
    evictions: u64,
    /// The largest item, if it says so.
    item_max: Option<usize>,
}

impl Figures {
    /// Whose policy it was: a server's version is its own but for one that tells clients memcached's.
    fn policy(&self) -> String {
        let Self { product, version, .. } = self;
        if product == MEMCACHED {
            format!("of {product} {version}")
        } else {
            format!("of {product}, which tells clients {version}")
        }
    }
}

/// Who a server is that does not say so.
const MEMCACHED: &str = "memcached";

impl WireReplay<'_> {
    fn figures(&mut self) -> io::Result<Figures> {
        let number = |text: Option<String>| text.and_then(|t| t.parse().ok()).unwrap_or(0);
        Ok(Figures {
            product: self.client.stat("stats settings", "product")?.unwrap_or_else(|| MEMCACHED.to_owned()),
            version: self.client.stat("", "version")?.unwrap_or_default(),
            limit: number(self.client.stat("", "limit_maxbytes")?),
            evictions: number(self.client.stat("", "evictions")?),
            item_max: self.client.stat("stats settings", "item_size_max")?.and_then(|size| size.parse().ok()),
        })
    }

    fn tenant(&mut self, name: &[u8]) -> usize {
        let name = whose(name);
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.tenants.push(TenantReport { name: name_of(name), ..TenantReport::default() });
        self.ids.insert(name.to_vec(), self.tenants.len() - 1);
        self.tenants.len() - 1
    }

    fn ask(&mut self, request: &Request<'_>) -> io::Result<()> {
        // One of the largest item's size is refused, as any larger one.
        let value_len = (request.value_bytes as usize).min(self.item_max);
        let sends_value = !matches!(request.op, Op::Get | Op::Gets | Op::Delete | Op::Incr | Op::Decr);
        if self.in_batch.contains(request.key) || (sends_value && is_too_much(self.replies, value_len)) {
            self.flush()?;
        }
        self.in_batch.insert(request.key.to_vec());
        let tenant = self.tenant(request.tenant);
        if self.filler.len() < value_len {
            self.filler.resize(value_len, b'x');
        }
        // A longer time would be a date; no replay at the trace's pace lasts so long.
        let exptime = if self.options.ttl { request.ttl_secs.min(TTL_MAX_SECS) } else { 0 };
        let command = match request.op {
            Op::Get | Op::Gets => {
                self.client.queue_get(request.key);
                self.replies += value_len;
                self.asked.push(Asked::Get { key: request.key.to_vec(), tenant, value_len, exptime });
                return self.flush_if_full();
            }
            Op::Set | Op::Cas => "set",
            Op::Add => "add",
            Op::Replace => "replace",
            Op::Append => "append",
            Op::Prepend => "prepend",
            Op::Delete => {
                self.client.queue_delete(request.key);
                self.asked.push(Asked::Line);
                return self.flush_if_full();
            }
            Op::Incr | Op::Decr => {
                let name = if request.op == Op::Incr { "incr" } else { "decr" };
                self.client.queue_line([name.as_bytes(), b" ", request.key, b" 1"].concat());
                self.asked.push(Asked::Line);
                return self.flush_if_full();
            }
        };
        self.client.queue_store(command, request.key, exptime, &self.filler[..value_len]);
        self.asked.push(Asked::Line);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if BATCH <= self.asked.len() || BATCH_BYTES <= self.client.queued() { self.flush() } else { Ok(()) }
    }

    /// Sends what is queued, reads the replies, sets what missed.
    fn flush(&mut self) -> io::Result<()> {
        self.client.send()?;
        let asked = std::mem::take(&mut self.asked);
        self.replies = 0;
        let mut sets = 0;
        let mut missed = Vec::new();
        for one in asked {
            match one {
                Asked::Line => self.one_line()?,
                Asked::Get { key, tenant, value_len, exptime } => {
                    let hit = self.client.read_get(|_| {})?.is_some();
                    self.tenants[tenant].gets += 1;
                    self.tenants[tenant].hits += u64::from(hit);
                    if !hit {
                        missed.push((key, value_len, exptime));
                    }
                }
            }
        }
        for (key, value_len, exptime) in missed {
            self.client.queue_store("set", &key, exptime, &self.filler[..value_len]);
            sets += 1;
            if BATCH_BYTES <= self.client.queued() {
                self.send_sets(sets)?;
                sets = 0;
            }
        }
        self.send_sets(sets)?;
        self.in_batch.clear();
        Ok(())
    }

    fn send_sets(&mut self, count: usize) -> io::Result<()> {
        self.client.send()?;
        for _ in 0..count {
            self.one_line()?;
        }
        Ok(())
    }

    /// A reply of one line; an item that the server has no room for is no reason to stop.
    fn one_line(&mut self) -> io::Result<()> {
        let line = self.client.read_line()?;
        if line == b"ERROR" {
            return Err(io::Error::new(ErrorKind::InvalidData, "it does not know a command of the trace"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::fake::{self, LARGE};
    use lab::TraceError;

    /// A trace of requests, each of a key and a large value.
    struct Given(std::vec::IntoIter<(&'static str, Op)>);

    impl TraceReader for Given {
        fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
            Ok(self.0.next().map(|(key, op)| fake::request(key, op, LARGE)))
        }
    }

    #[test]
    fn a_store_behind_large_replies_waits_for_them() {
        let server = fake::serve(|line| match line.split(' ').next() {
            Some("get") => fake::hit(LARGE),
            Some("set") => b"STORED\r\n".to_vec(),
            _ => b"END\r\n".to_vec(),
        });
        let requests = vec![("a", Op::Get), ("b", Op::Set), ("c", Op::Get), ("d", Op::Set), ("e", Op::Get)];
        let options = ReplayOptions { item_max: Bytes(LARGE as u64), ..ReplayOptions::default() };
        let mut trace = Given(requests.into_iter());
        let report = over_tcp(&options, &server.to_string(), &mut [&mut trace], &mut |_| {}, None).unwrap();
        assert_eq!((report.requests, report.gets, report.hits), (5, 3, 3));
    }

    #[test]
    fn counts_are_of_the_key_as_it_is() {
        let server = fake::serve(|line| match line {
            "incr k\u{ff} 1" => b"1\r\n".to_vec(),
            line if line.starts_with("stats") => b"END\r\n".to_vec(),
            _ => b"ERROR\r\n".to_vec(),
        });
        let text = b"t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n0,,k\xff,2,1,incr,0\n".to_vec();
        let mut trace = lab::open_reader(Box::new(io::Cursor::new(text)), "t", None).unwrap();
        let options = ReplayOptions::default();
        let report = over_tcp(&options, &server.to_string(), &mut [&mut *trace], &mut |_| {}, None).unwrap();
        assert_eq!((report.requests, report.tenants[0].name.as_str()), (1, "default"));
    }

    #[test]
    fn replies_and_a_value_are_too_much_where_sockets_may_not_hold_both() {
        for (replies, value_len, expected) in [
            (0, usize::MAX, false),
            (1, BATCH_BYTES, true),
            (BATCH_BYTES, 0, false),
            (BATCH_BYTES, 1, true),
            (300, 300, false),
        ] {
            assert_eq!(is_too_much(replies, value_len), expected, "{replies} {value_len}");
        }
    }
}
