//! One tenant's requests of a trace, repeated without end by a client in a closed loop.
//!
//! Shape:      requests -> `Stream`; batches of them, sent together and answered before the next; what is missed is stored
//! Invariants: no value that is found is longer than all of the trace's; a store that is refused is counted apart from what was answered
//! Units:      requests answered; look-ups that were found do not count apart

use super::client::{Working, is_stored};
use crate::wire;
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
                let [refused, not_back] = stream.ask(&mut client, &batch, &value)?;
                next = (next + depth) % stream.records.len();
                heard.answered.fetch_add(depth as u64 - refused, Ordering::Relaxed);
                heard.refused.fetch_add(refused + not_back, Ordering::Relaxed);
                if !pause.is_zero() {
                    thread::sleep(pause);
                }
            }
            Ok(())
        })
    }

    /// Sends a batch, and then what it missed. Returns how many of the batch's stores were refused, and how many of those after misses.
    fn ask(&self, client: &mut Client, batch: &[usize], value: &[u8]) -> io::Result<[u64; 2]> {
        let store = |client: &mut Client, at: usize| {
            client.queue_store("set", self.key(at), 0, &value[..self.records[at].value_bytes as usize]);
        };
        let (mut asked, mut missed, mut replies, mut refused) = (Vec::new(), Vec::new(), 0, 0);
        for &at in batch {
            let value_bytes = self.records[at].value_bytes as usize;
            match self.records[at].op {
                Op::Get | Op::Gets => {
                    client.queue_get(self.key(at));
                    replies += value_bytes;
                }
                Op::Delete => client.queue_delete(self.key(at)),
                _ => {
                    if wire::is_too_much(replies, value_bytes) {
                        refused += self.hear(client, &mut asked, &mut missed)?;
                        replies = 0;
                    }
                    store(client, at);
                }
            }
            asked.push(at);
        }
        refused += self.hear(client, &mut asked, &mut missed)?;
        missed.iter().for_each(|at| store(client, *at));
        client.send()?;
        let mut not_back = 0;
        for _ in missed {
            // Where a value is too large: then it is missed again.
            not_back += u64::from(!is_stored(client)?);
        }
        Ok([refused, not_back])
    }

    /// Sends what is queued and takes the answers. Returns how many stores were refused.
    fn hear(&self, client: &mut Client, asked: &mut Vec<usize>, missed: &mut Vec<usize>) -> io::Result<u64> {
        client.send()?;
        let mut refused = 0;
        for at in asked.drain(..) {
            match self.records[at].op {
                Op::Get | Op::Gets => match client.read_get(|_| {})? {
                    Some(len) if self.most < len => {
                        return Err(io::Error::other(format!("a value of {len} bytes")));
                    }
                    Some(_) => {}
                    None => missed.push(at),
                },
                Op::Delete => drop(client.read_line()?),
                _ => refused += u64::from(!is_stored(client)?),
            }
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, LARGE};
    use super::*;

    fn stream(of: &[(&str, Op, usize)]) -> Stream {
        let mut stream = Stream::default();
        of.iter().for_each(|(key, op, len)| stream.push(&fake::request(key, *op, *len)));
        stream
    }

    #[test]
    fn stores_that_are_refused_are_counted_apart() {
        let answer = |line: &str| match line {
            _ if line.starts_with("set") => fake::FULL,
            _ if line.starts_with("get") => b"END\r\n",
            _ => b"NOT_FOUND\r\n",
        };
        let mut client = Client::connect(fake::serve(move |line| answer(line).to_vec())).unwrap();
        let stream = stream(&[("a", Op::Set, 9), ("b", Op::Get, 9), ("a", Op::Delete, 0)]);
        assert_eq!(stream.ask(&mut client, &[0, 1, 2, 0], &[0; 9]).unwrap(), [2, 1]);
    }

    #[test]
    fn a_store_behind_large_replies_waits_for_them() {
        let answer =
            |line: &str| if line.starts_with("get") { fake::hit(LARGE) } else { b"STORED\r\n".to_vec() };
        let mut client = Client::connect(fake::serve(answer)).unwrap();
        let stream = stream(&[("a", Op::Get, LARGE), ("b", Op::Set, LARGE)]);
        assert_eq!(stream.ask(&mut client, &[0, 1, 0, 1, 0], &vec![0; LARGE]).unwrap(), [0, 0]);
    }
}
