//! One tenant's requests of a trace, repeated without end by a client in a closed loop.
//!
//! Shape:      requests -> `Stream`; batches of them, sent together and answered before the next; what is missed is stored
//! Invariants: no value that is found is longer than all of the trace's
//! Units:      requests answered; look-ups that were found do not count apart

use super::client::Working;
use lab::{Op, Request};
use server::memcache::client::Client;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Requests of one tenant, in their order.
#[derive(Debug, Default)]
pub struct Stream {
    keys: Vec<u8>,
    records: Vec<Record>,
    /// The largest value.
    most: usize,
}

#[derive(Debug)]
struct Record {
    key_end: usize,
    value_bytes: u32,
    op: Op,
}

impl Stream {
    /// Adds a request.
    pub fn push(&mut self, request: &Request<'_>) {
        self.keys.extend_from_slice(request.key);
        let (key_end, value_bytes, op) = (self.keys.len(), request.value_bytes, request.op);
        self.most = self.most.max(value_bytes as usize);
        self.records.push(Record { key_end, value_bytes, op });
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.records[before].key_end);
        &self.keys[start..self.records[at].key_end]
    }

    /// Batches of `depth`, with a pause behind each: what an application does with what it has read.
    pub(super) fn repeat(self: &Arc<Self>, address: SocketAddr, depth: usize, pause: Duration) -> Working {
        let stream = Arc::clone(self);
        Working::of(1, move |_, stop, heard| {
            let mut client = Client::connect(address)?;
            let (value, mut next) = (vec![b'v'; stream.most], 0);
            while !stop.load(Ordering::Relaxed) {
                let batch: Vec<usize> = (next..next + depth).map(|at| at % stream.records.len()).collect();
                stream.ask(&mut client, &batch, &value)?;
                next = (next + depth) % stream.records.len();
                heard.answered.fetch_add(depth as u64, Ordering::Relaxed);
                if !pause.is_zero() {
                    thread::sleep(pause);
                }
            }
            Ok(())
        })
    }

    /// Sends a batch, and then what it missed.
    fn ask(&self, client: &mut Client, batch: &[usize], value: &[u8]) -> io::Result<()> {
        let store = |client: &mut Client, at: usize| {
            client.queue_store("set", self.key(at), 0, &value[..self.records[at].value_bytes as usize]);
        };
        for &at in batch {
            match self.records[at].op {
                Op::Get | Op::Gets => client.queue_get(self.key(at)),
                Op::Delete => client.queue_delete(self.key(at)),
                _ => store(client, at),
            }
        }
        client.send()?;
        let mut missed = Vec::new();
        for &at in batch {
            if !matches!(self.records[at].op, Op::Get | Op::Gets) {
                client.read_line()?;
                continue;
            }
            match client.read_get(|_| {})? {
                Some(len) if self.most < len => {
                    return Err(io::Error::other(format!("a value of {len} bytes")));
                }
                Some(_) => {}
                None => missed.push(at),
            }
        }
        missed.iter().for_each(|at| store(client, *at));
        client.send()?;
        // Refused, where a value is too large: then it is missed again.
        missed.iter().try_for_each(|_| client.read_line().map(drop))
    }
}
