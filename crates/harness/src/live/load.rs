//! The load: connections in a closed loop that verify every byte of every answer.
//!
//! Shape:   for each connection in turn: read the answers to its last batch, send the next one
//! Cost:    no allocation per request; an answer is compared with the expected bytes
//! Failure: an answer that differs from the expected ends the benchmark with its beginning

use super::keys;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// How requests are written and answers read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// memcached's classic text protocol.
    Memcached,
    /// Redis's serialisation protocol.
    Redis,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// A look-up of the key of a number.
    Get(u32),
    /// A store of it.
    Set(u32),
}

/// What came of a load.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    /// Requests answered.
    pub requests: u64,
    /// Look-ups among them.
    pub gets: u64,
    /// Look-ups that found their item.
    pub hits: u64,
    /// Sets that the server had no memory for at that moment.
    pub refused: u64,
}

/// Bytes read at once: the answers to a batch of 32 look-ups take less than 3 KiB.
const READ: usize = 16 << 10;

/// What memcached says when it has no memory for an item.
const REFUSED: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// Its beginning, no longer than any answer.
const REFUSED_HEAD: &[u8] = b"SERVE";

/// Some connections to one server.
#[derive(Debug)]
pub struct Load {
    connections: Vec<Connection>,
}

impl Load {
    /// Connects.
    ///
    /// # Errors
    /// If the server does not take a connection.
    pub fn connect(address: SocketAddr, dialect: Dialect, connections: usize) -> io::Result<Self> {
        let connections = (0..connections).map(|_| Connection::new(address, dialect));
        Ok(Self { connections: connections.collect::<io::Result<_>>()? })
    }

    /// Sends what `next` gives, `depth` requests at a time on each connection, until it gives none.
    ///
    /// # Errors
    /// If the server is lost, or an answer is not what it should be.
    pub fn run(&mut self, depth: usize, mut next: impl FnMut() -> Option<Asked>) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        loop {
            let mut has_asked = false;
            for connection in &mut self.connections {
                connection.receive(&mut outcome)?;
                for asked in std::iter::from_fn(&mut next).take(depth) {
                    connection.queue(asked);
                }
                has_asked |= !connection.asked.is_empty();
                connection.send()?;
            }
            if !has_asked {
                return Ok(outcome);
            }
        }
    }
}

/// One connection.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    dialect: Dialect,
    asked: Vec<Asked>,
    out: Vec<u8>,
    expected: Vec<u8>,
    input: Box<[u8]>,
    at: usize,
    end: usize,
}

impl Connection {
    fn new(address: SocketAddr, dialect: Dialect) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (asked, out, expected) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { stream, dialect, asked, out, expected, input: vec![0; READ].into(), at: 0, end: 0 })
    }

    fn queue(&mut self, asked: Asked) {
        let out = &mut self.out;
        match (self.dialect, asked) {
            (Dialect::Memcached, Asked::Get(number)) => {
                out.extend_from_slice(b"get ");
                out.extend_from_slice(&keys::key(number));
            }
            (Dialect::Memcached, Asked::Set(number)) => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(&keys::key(number));
                out.extend_from_slice(b" 0 0 25\r\n");
                out.extend_from_slice(&keys::value(number));
            }
            (Dialect::Redis, Asked::Get(number)) => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$23\r\n");
                out.extend_from_slice(&keys::key(number));
            }
            (Dialect::Redis, Asked::Set(number)) => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$23\r\n");
                out.extend_from_slice(&keys::key(number));
                out.extend_from_slice(b"\r\n$25\r\n");
                out.extend_from_slice(&keys::value(number));
            }
        }
        out.extend_from_slice(b"\r\n");
        self.asked.push(asked);
    }

    fn send(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    fn receive(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        for i in 0..self.asked.len() {
            let asked = self.asked[i];
            outcome.requests += 1;
            let (miss, stored): (&[u8], &[u8]) = match self.dialect {
                Dialect::Memcached => (b"END\r\n", b"STORED\r\n"),
                Dialect::Redis => (b"$-1\r\n", b"+OK\r\n"),
            };
            match asked {
                Asked::Set(_) if self.is_refused()? => outcome.refused += 1,
                Asked::Set(_) => self.take(stored)?,
                Asked::Get(number) => {
                    outcome.gets += 1;
                    self.need(miss.len())?;
                    if self.input[self.at..].starts_with(miss) {
                        self.at += miss.len();
                    } else {
                        self.expect_value(number)?;
                        outcome.hits += 1;
                    }
                }
            }
        }
        self.asked.clear();
        Ok(())
    }

    /// Whether the next answer is that there is no memory, which memcached gives when evicting lags behind; takes it.
    fn is_refused(&mut self) -> io::Result<bool> {
        self.need(REFUSED_HEAD.len())?;
        let refused = self.input[self.at..].starts_with(REFUSED_HEAD);
        if refused {
            self.take(REFUSED)?;
        }
        Ok(refused)
    }

    fn expect_value(&mut self, number: u32) -> io::Result<()> {
        let mut expected = std::mem::take(&mut self.expected);
        expected.clear();
        match self.dialect {
            Dialect::Memcached => {
                expected.extend_from_slice(b"VALUE ");
                expected.extend_from_slice(&keys::key(number));
                expected.extend_from_slice(b" 0 25\r\n");
                expected.extend_from_slice(&keys::value(number));
                expected.extend_from_slice(b"\r\nEND\r\n");
            }
            Dialect::Redis => {
                expected.extend_from_slice(b"$25\r\n");
                expected.extend_from_slice(&keys::value(number));
                expected.extend_from_slice(b"\r\n");
            }
        }
        let taken = self.take(&expected);
        self.expected = expected;
        taken
    }

    /// Takes exactly these bytes from the input.
    fn take(&mut self, expected: &[u8]) -> io::Result<()> {
        // The first bytes are looked at on their own: another answer may be shorter, and none longer may come.
        for len in [expected.len().min(5), expected.len()] {
            self.need(len)?;
            let got = &self.input[self.at..self.at + len];
            if got != &expected[..len] {
                let text = String::from_utf8_lossy(got).trim_end().to_owned();
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("unexpected answer '{text}'"),
                ));
            }
        }
        self.at += expected.len();
        Ok(())
    }

    /// Reads until so many bytes are there.
    fn need(&mut self, wanted: usize) -> io::Result<()> {
        while self.end - self.at < wanted {
            if self.at == self.end || self.input.len() < self.at + wanted {
                self.input.copy_within(self.at..self.end, 0);
                (self.at, self.end) = (0, self.end - self.at);
            }
            let got = self.stream.read(&mut self.input[self.end..])?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.end += got;
        }
        Ok(())
    }
}
