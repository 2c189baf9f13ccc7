//! A pipelining client of the classic text protocol, for replay, the demo and benchmarks.
//!
//! Shape:   requests are written into a buffer, sent together, and their replies read in order
//! Failure: an answer that is not the protocol's is an error with its text

use memchr::memchr;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    at: usize,
}

/// Bytes asked of the socket at once.
const READ: usize = 64 << 10;

fn unexpected(what: &[u8]) -> io::Error {
    let text = String::from_utf8_lossy(&what[..what.len().min(80)]).trim_end().to_owned();
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected answer '{text}'"))
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, out: Vec::new(), input: Vec::new(), at: 0 })
    }

    /// A server that for so long neither answers nor reads is an error from now on.
    ///
    /// # Errors
    /// If that is no time at all.
    pub fn give_up_after(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))
    }

    /// Queues a `get`.
    pub fn queue_get(&mut self, key: &[u8]) {
        self.out.extend_from_slice(b"get ");
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Queues a storing command (`set`, `add`, …).
    pub fn queue_store(&mut self, command: &str, key: &[u8], exptime: u32, value: &[u8]) {
        self.out.extend_from_slice(command.as_bytes());
        self.out.push(b' ');
        self.out.extend_from_slice(key);
        // Writing to a vector cannot fail.
        let _ = write!(self.out, " 0 {exptime} {}\r\n", value.len());
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Queues a `delete`.
    pub fn queue_delete(&mut self, key: &[u8]) {
        self.out.extend_from_slice(b"delete ");
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Queues a raw line.
    pub fn queue_line(&mut self, line: impl AsRef<[u8]>) {
        self.out.extend_from_slice(line.as_ref());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Bytes queued.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.out.len()
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Reads the reply to a `get`: the length of the value, or none for a miss. `check` sees the value.
    ///
    /// # Errors
    /// If the connection is lost or the answer is not the protocol's.
    pub fn read_get(&mut self, mut check: impl FnMut(&[u8])) -> io::Result<Option<usize>> {
        let mut found = None;
        loop {
            let (start, end) = self.line()?;
            let line = &self.input[start..end];
            if line == b"END" {
                return Ok(found);
            }
            let Some(rest) = line.strip_prefix(b"VALUE ") else { return Err(unexpected(line)) };
            let len =
                rest.split(|b| *b == b' ').nth(2).and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
            let len: usize = len.ok_or_else(|| unexpected(rest))?;
            self.fill(len + 2)?;
            check(&self.input[self.at..self.at + len]);
            self.at += len + 2;
            found = Some(len);
        }
    }

    /// Reads a reply of one line.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn read_line(&mut self) -> io::Result<&[u8]> {
        let (start, end) = self.line()?;
        Ok(&self.input[start..end])
    }

    /// One figure of `stats`.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn stat(&mut self, what: &str, name: &str) -> io::Result<Option<String>> {
        self.queue_line(if what.is_empty() { "stats" } else { what });
        self.send()?;
        let mut found = None;
        loop {
            let line = self.read_line()?;
            if line == b"END" || line == b"ERROR" {
                return Ok(found);
            }
            let text = String::from_utf8_lossy(line).into_owned();
            if let Some(value) =
                text.strip_prefix("STAT ").and_then(|t| t.strip_prefix(name)?.strip_prefix(' '))
            {
                found = Some(value.to_owned());
            }
        }
    }

    /// The next line, without its end.
    fn line(&mut self) -> io::Result<(usize, usize)> {
        loop {
            if let Some(len) = memchr(b'\n', &self.input[self.at..]) {
                let start = self.at;
                self.at += len + 1;
                let end = start + len;
                let end = if start < end && self.input[end - 1] == b'\r' { end - 1 } else { end };
                return Ok((start, end));
            }
            let have = self.input.len() - self.at;
            self.fill(have + 1)?;
        }
    }

    /// Reads until so many bytes are there.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        while self.input.len() - self.at < wanted {
            if READ < self.at {
                self.input.drain(..self.at);
                self.at = 0;
            }
            let old = self.input.len();
            self.input.resize(old + READ, 0);
            let got = match self.stream.read(&mut self.input[old..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                    self.input.truncate(old);
                    continue;
                }
                got => got?,
            };
            self.input.truncate(old + got);
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_server_that_neither_answers_nor_reads_is_given_up() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = Client::connect(silent.local_addr().unwrap()).unwrap();
        client.give_up_after(Duration::from_millis(1)).unwrap();
        assert!(client.read_line().is_err());
        // More than both sockets hold.
        client.queue_store("set", b"k", 0, &vec![0; 16 << 20]);
        assert!(client.send().is_err());
    }
}
