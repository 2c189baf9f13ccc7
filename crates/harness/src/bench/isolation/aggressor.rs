//! The neighbour: four ways to be a burden, each in growing size.
//!
//! Shape:      attack, size -> what was done per second, until the victim is through or as much was done as was to be
//! Failure:    a lost server, a wrong answer, or no file for one more connection; a connection that is refused is part of the attack

use harness::live::keys;
use harness::live::{Heard, Items, Pace, Peer, Plan, Popularity, Sizes};
use lab::workload::Zipf;
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Its tenant, its items before the attack, and their length: as long as the victim's, so that memcached's slab classes do
/// not keep the two apart by accident.
pub(super) const TENANT: u32 = 1;
pub(super) const FILL: u32 = 900_000;
pub(super) const VALUE: u32 = 25;
/// Keys that are written over and over.
const WRITTEN: u32 = 1_000_000;
/// Connections and depth of writes and new keys.
const CONNECTIONS: u32 = 4;
const DEPTH: u32 = 16;
/// A server that takes longer for one answer is lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Files that are open beside the connections of a flood (guess: the victim's, the programs' own).
const FILES_BESIDE: u64 = 200;
/// Connections from which huge look-ups come.
const ASKERS: usize = 4;

/// A kind of burden.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) levels: [u32; 5],
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Writes,
    NewKeys,
    Connections,
    Multigets,
}

/// All of them.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "writes",
        unit: "thousand sets per second",
        levels: [0, 20, 40, 80, 160],
        kind: Kind::Writes,
    },
    Attack {
        name: "key spraying",
        unit: "thousand new keys per second",
        levels: [0, 10, 20, 40, 80],
        kind: Kind::NewKeys,
    },
    Attack {
        name: "connection flood",
        unit: "connections held and made anew",
        levels: [0, 500, 1_000, 2_000, 4_000],
        kind: Kind::Connections,
    },
    Attack {
        name: "huge multigets",
        unit: "keys per look-up, 4 connections",
        levels: [0, 10, 100, 1_000, 10_000],
        kind: Kind::Multigets,
    },
];

/// What was done.
#[derive(Default)]
pub(super) struct Done {
    count: u64,
    /// What was heard of a load, which takes its own time and not the victim's.
    pub(super) heard: Option<Heard>,
}

impl Done {
    /// What came of stores: those refused were not done.
    fn stored(heard: Heard) -> Self {
        Self { count: heard.stores() - heard.refused, heard: Some(heard) }
    }

    fn counted(count: u64) -> Self {
        Self { count, heard: None }
    }

    /// How often per second; the victim took so many.
    pub(super) fn per_sec(&self, victim_secs: f64) -> f64 {
        self.count as f64 / self.heard.as_ref().map_or(victim_secs, |heard| heard.secs)
    }
}

impl Attack {
    /// Files that this program and a server may need for the largest size.
    pub(super) fn files(&self) -> u64 {
        let connections = if matches!(self.kind, Kind::Connections) { self.levels[4] } else { 0 };
        u64::from(connections) + FILES_BESIDE
    }

    /// Attacks for `secs`, or until told to stop; how often it did what it does per second, of its own time where it has as much
    /// to do as in `secs`, else of the victim's.
    pub(super) fn run(
        &self,
        peer: &Peer,
        size: u32,
        level: u64,
        secs: f64,
        stop: &AtomicBool,
    ) -> io::Result<Done> {
        match self.kind {
            _ if size == 0 => Ok(Done::default()),
            Kind::Writes => {
                let items = Arc::new(Items::of_tenant(WRITTEN, Sizes::Fixed(VALUE), TENANT));
                let zipf = Arc::new(Zipf::new(WRITTEN / CONNECTIONS, 0.0));
                Ok(Done::stored(peer.run(&plan(size, secs, 0, Popularity::Zipf(zipf), level), &items)?))
            }
            Kind::NewKeys => {
                let per_sec = f64::from(size) * 1e3;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a positive count"
                )]
                let count = (per_sec * secs * 1.2) as u32;
                // Each level has a tenant's worth of numbers that no other level had.
                let first = FILL * (2 + u32::try_from(level).unwrap_or(0));
                let items = Arc::new(Items::of_tenant(count, Sizes::Fixed(VALUE), TENANT).starting_at(first));
                Ok(Done::stored(peer.run(&plan(size, secs, 100, Popularity::Once, level), &items)?))
            }
            Kind::Connections => Ok(Done::counted(flood(|| connect(peer), size as usize, stop)?)),
            Kind::Multigets => Ok(Done::counted(ask(peer, size, stop)?)),
        }
    }
}

/// So many thousand requests per second; what misses is stored.
fn plan(thousands: u32, secs: f64, gets_percent: u64, popularity: Popularity, seed: u64) -> Plan {
    let per_sec = f64::from(thousands) * 1e3;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive count")]
    let requests = (per_sec * secs) as u64;
    Plan {
        connections: CONNECTIONS,
        threads: 1,
        depth: DEPTH,
        pace: Pace::Open(per_sec / f64::from(DEPTH)),
        gets_percent,
        look_aside: 0 < gets_percent,
        popularity,
        requests,
        seed,
    }
}

fn connect(peer: &Peer) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(peer.address())?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The connection, once a look-up of a key that is not there was answered on it.
fn touched(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.write_all(b"get t1:none\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    if &answer == b"END\r\n" {
        Ok(stream)
    } else {
        Err(io::Error::other("a look-up of nothing found something"))
    }
}

/// Whether it is this program, or the system, that has no file for one more connection.
fn is_out_of_files(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Holds so many connections, and closes and opens one after another.
fn flood(connect: impl Fn() -> io::Result<TcpStream>, count: usize, stop: &AtomicBool) -> io::Result<u64> {
    let mut held: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let mut made = 0;
    for place in (0..count).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        held[place] = None;
        match connect().and_then(touched) {
            Ok(stream) => {
                held[place] = Some(stream);
                made += 1;
            }
            Err(error) if is_out_of_files(&error) => return Err(error),
            // A refusal is an answer too; the next place is tried.
            Err(_) => {}
        }
    }
    Ok(made)
}

/// Look-ups of so many keys each, as fast as they are answered.
fn ask(peer: &Peer, keys: u32, stop: &AtomicBool) -> io::Result<u64> {
    let mut request = b"get".to_vec();
    for number in 0..keys {
        request.push(b' ');
        request.extend_from_slice(&keys::key_of(TENANT, number * (FILL / keys)));
    }
    request.extend_from_slice(b"\r\n");
    let mut streams: Vec<TcpStream> = (0..ASKERS).map(|_| connect(peer)).collect::<io::Result<_>>()?;
    let mut input = vec![0; 256 << 10];
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        // A request may be longer than the buffers of a socket, so each is written in a turn of its own.
        for stream in &mut streams {
            stream.write_all(&request)?;
            read_to_end(stream, &mut input)?;
            answered += 1;
        }
    }
    Ok(answered)
}

/// Reads up to the line `END` at the end of what is there; a value ends so once in 2^40.
fn read_to_end(stream: &mut TcpStream, input: &mut [u8]) -> io::Result<()> {
    const END: &[u8] = b"END\r\n";
    let mut kept = 0;
    loop {
        let got = stream.read(&mut input[kept..])?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = kept + got;
        if input[..end].ends_with(END) {
            return Ok(());
        }
        kept = end.min(END.len() - 1);
        input.copy_within(end - kept..end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_that_has_no_file_for_a_connection_fails() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            let stop = AtomicBool::new(false);
            assert!(flood(|| Err(errno.into()), 3, &stop).is_err(), "{errno}");
        }
    }

    #[test]
    fn a_refused_connection_is_an_answer() {
        let stop = AtomicBool::new(false);
        let refuse = || {
            stop.store(true, Ordering::Relaxed);
            Err(Errno::CONNREFUSED.into())
        };
        assert_eq!(flood(refuse, 3, &stop).unwrap(), 0);
    }

    #[test]
    fn a_store_that_is_refused_is_no_attack() {
        let heard = Heard { requests: 10, gets: 6, fills: 2, refused: 5, secs: 2.0, ..Heard::default() };
        assert!((Done::stored(heard).per_sec(9.0) - 0.5).abs() < 1e-9);
    }
}
