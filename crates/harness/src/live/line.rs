//! One connection of a load: what it has asked, and whether the answers are right.
//!
//! Shape:      requests -> bytes out; bytes in -> answers, each compared with the only ones that are right
//! Invariants: answers come in the order of requests; a look-up finds the version stored last on this connection, or
//!             nothing
//! Failure:    a wrong answer, a lost server

use super::dialect::Answer;
use super::items::Items;
use super::plan::{Address, Heard};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Bytes read at once.
const READ: usize = 64 << 10;

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u32,
    version: u16,
    kind: Kind,
    /// When it was due.
    due: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Get,
    Set,
    /// The store after a miss.
    Fill,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    address: Address,
    waiting: VecDeque<Waiting>,
    out: Vec<u8>,
    /// Bytes of `out` that the socket has taken.
    sent: usize,
    input: Vec<u8>,
    /// The answers that are not read yet are `input[at..end]`.
    at: usize,
    end: usize,
    value: Vec<u8>,
}

impl Line {
    pub(super) fn connect(address: Address) -> io::Result<Self> {
        let stream = TcpStream::connect(address.socket)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            address,
            waiting: VecDeque::new(),
            out: Vec::new(),
            sent: 0,
            input: vec![0; READ],
            at: 0,
            end: 0,
            value: Vec::new(),
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Requests without an answer.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the socket has not taken all.
    pub(super) fn is_sending(&self) -> bool {
        self.sent < self.out.len()
    }

    pub(super) fn get(&mut self, items: &Items, number: u32, due: u64) {
        self.address.dialect.write_get(&items.key(number), &mut self.out);
        self.waiting.push_back(Waiting { number, version: items.version(number), kind: Kind::Get, due });
    }

    pub(super) fn set(&mut self, items: &Items, number: u32, due: u64) {
        self.store(items, number, Kind::Set, due);
    }

    fn store(&mut self, items: &Items, number: u32, kind: Kind, due: u64) {
        let version = items.advance(number);
        items.write_value(number, version, &mut self.value);
        self.address.dialect.write_set(&items.key(number), &self.value, &mut self.out);
        self.waiting.push_back(Waiting { number, version, kind, due });
    }

    /// Hands the socket what it takes.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.is_sending() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what is there and judges the answers. `clock` is read after the socket.
    pub(super) fn receive(
        &mut self,
        items: &Items,
        look_aside: bool,
        clock: impl Fn() -> u64,
        heard: &mut Heard,
    ) -> io::Result<()> {
        if self.at == self.end {
            (self.at, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            if self.end == self.input.len() {
                // One answer is longer than the buffer.
                self.input.resize(self.end * 2, 0);
            }
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.end += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let now = clock();
        let input = std::mem::take(&mut self.input);
        let judged = self.judge_all(&input, items, look_aside, now, heard);
        self.input = input;
        judged
    }

    fn judge_all(
        &mut self,
        input: &[u8],
        items: &Items,
        look_aside: bool,
        now: u64,
        heard: &mut Heard,
    ) -> io::Result<()> {
        while let Some((answer, len)) = self.address.dialect.read(&input[self.at..self.end]) {
            let Some(asked) = self.waiting.pop_front() else {
                return Err(wrong("an answer to nothing".to_owned()));
            };
            let is_miss = self.judge(asked, answer, items, heard)?;
            self.at += len;
            if asked.kind == Kind::Fill {
                heard.fills += 1;
                continue;
            }
            heard.requests += 1;
            heard.latency.record(now.saturating_sub(asked.due));
            if is_miss && look_aside {
                self.store(items, asked.number, Kind::Fill, now);
            }
        }
        Ok(())
    }

    /// Whether the answer is a miss; an error if it is wrong.
    fn judge(
        &mut self,
        asked: Waiting,
        answer: Answer<'_>,
        items: &Items,
        heard: &mut Heard,
    ) -> io::Result<bool> {
        match (asked.kind, answer) {
            (Kind::Get, Answer::Miss) => {
                heard.gets += 1;
                Ok(true)
            }
            (Kind::Get, Answer::Value { key, value }) => {
                heard.gets += 1;
                heard.hits += 1;
                if key.is_some_and(|key| key != items.key(asked.number)) {
                    return Err(wrong(format!("item {} was answered with another key", asked.number)));
                }
                items.write_value(asked.number, asked.version, &mut self.value);
                if asked.version == 0 || value != self.value {
                    return Err(wrong(items.explain(asked.number, asked.version, value)));
                }
                Ok(false)
            }
            (Kind::Set | Kind::Fill, Answer::Stored) => Ok(false),
            (Kind::Set | Kind::Fill, Answer::Refused) => {
                heard.refused += 1;
                Ok(false)
            }
            (kind, answer) => {
                let text = match answer {
                    Answer::Strange(line) => String::from_utf8_lossy(line).into_owned(),
                    other => format!("{other:?}"),
                };
                Err(wrong(format!("a {kind:?} was answered with '{text}'")))
            }
        }
    }
}

fn wrong(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
