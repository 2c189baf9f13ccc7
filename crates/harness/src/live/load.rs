//! The load: connections in a closed loop that verify every byte of every answer.
//!
//! Shape:   for each connection in turn: read the answers to its last batch, send the next one
//! Cost:    no allocation per request; an answer is compared with the expected bytes
//! Failure: an answer that differs from the expected ends the benchmark with its beginning

use super::dialect::{Answer, Dialect};
use super::keys;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

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

impl Outcome {
    /// Stores among the requests.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.requests - self.gets
    }
}

/// Bytes read at once: the answers to a batch of 32 look-ups take less than 3 KiB.
const READ: usize = 16 << 10;

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
    input: Box<[u8]>,
    at: usize,
    end: usize,
}

impl Connection {
    fn new(address: SocketAddr, dialect: Dialect) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (asked, out) = (Vec::new(), Vec::new());
        Ok(Self { stream, dialect, asked, out, input: vec![0; READ].into(), at: 0, end: 0 })
    }

    fn queue(&mut self, asked: Asked) {
        match asked {
            Asked::Get(number) => self.dialect.write_get(&keys::key(number), &mut self.out),
            Asked::Set(number) => {
                self.dialect.write_set(&keys::key(number), &keys::value(number), &mut self.out);
            }
        }
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
        let mut answered = 0;
        while answered < self.asked.len() {
            let Some((answer, len)) = self.dialect.read(&self.input[self.at..self.end]) else {
                self.read()?;
                continue;
            };
            outcome.requests += 1;
            match (self.asked[answered], answer) {
                (Asked::Set(_), Answer::Stored) => {}
                (Asked::Set(_), Answer::Refused) => outcome.refused += 1,
                (Asked::Get(_), Answer::Miss) => outcome.gets += 1,
                (Asked::Get(number), Answer::Value { key, value })
                    if key.is_none_or(|key| key == keys::key(number)) && value == keys::value(number) =>
                {
                    outcome.gets += 1;
                    outcome.hits += 1;
                }
                (asked, answer) => {
                    let what = match answer {
                        Answer::Strange(line) => String::from_utf8_lossy(line).into_owned(),
                        other => format!("{other:?}"),
                    };
                    let text = format!("unexpected answer '{what}' to {asked:?}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
            self.at += len;
            answered += 1;
        }
        self.asked.clear();
        Ok(())
    }

    /// Reads what is there, at least one byte.
    fn read(&mut self) -> io::Result<()> {
        self.input.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        loop {
            match self.stream.read(&mut self.input[self.end..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => {
                    self.end += got?;
                    return Ok(());
                }
            }
        }
    }
}
