//! A client of the administration: one request, one answer, one connection.
//!
//! Failure: an answer that is not HTTP, or too large, is an error with its text; so is one that is not whole in time, however it comes

use crate::limits::ADMIN_ANSWER_MAX;
use media::Stopwatch;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use units::Bytes;

/// Longest wait for an answer, from the first try to connect to its last byte.
const WAIT: Duration = Duration::from_secs(10);

/// Asks `address` for `path` and returns status and body.
///
/// # Errors
/// If nobody listens, or the answer is none.
pub fn ask(
    address: impl ToSocketAddrs,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> io::Result<(u16, String)> {
    let mut stream = Patient::connect(address, WAIT)?;
    let body = body.unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    parse(&String::from_utf8_lossy(&read(stream, ADMIN_ANSWER_MAX)?))
}

/// A connection that is given up after a time, however much of it is left to read and write.
struct Patient {
    stream: TcpStream,
    left: Left,
}

/// What is left of a time.
struct Left {
    since: Stopwatch,
    wait: Duration,
}

impl Left {
    fn get(&self) -> io::Result<Duration> {
        let left = self.wait.checked_sub(Duration::from_nanos(self.since.now().0));
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no whole answer in {:?}", self.wait));
        left.filter(|left| !left.is_zero()).ok_or_else(late)
    }

    /// The same error, said as what it is where that was all the time.
    fn told(&self, error: io::Error) -> io::Error {
        match error.kind() {
            // What a socket says whose time is over (socket(7)).
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.get().err().unwrap_or(error),
            _ => error,
        }
    }
}

impl Patient {
    fn connect(address: impl ToSocketAddrs, wait: Duration) -> io::Result<Self> {
        let left = Left { since: Stopwatch::new(), wait };
        let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for address in address.to_socket_addrs()? {
            match connect(&address, &left) {
                Ok(stream) => return Ok(Self { stream, left }),
                Err(e) => failed = left.told(e),
            }
        }
        Err(failed)
    }
}

fn connect(address: &SocketAddr, left: &Left) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(address, left.get()?)
}

impl io::Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left.get()?))?;
        self.stream.read(into).map_err(|e| self.left.told(e))
    }
}

impl io::Write for Patient {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left.get()?))?;
        self.stream.write(from).map_err(|e| self.left.told(e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// All that comes, at most so many bytes: the start of an answer is none.
fn read(from: impl io::Read, most: usize) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut answer)?;
    if most < answer.len() {
        let most = Bytes(most as u64);
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the answer is longer than the {most} that are taken of one"),
        ));
    }
    Ok(answer)
}

/// A text as one part of a path.
#[must_use]
pub fn part(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // A string takes every write.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn parse(answer: &str) -> io::Result<(u16, String)> {
    let odd = || {
        let start: String = answer.chars().take(80).collect();
        io::Error::new(io::ErrorKind::InvalidData, format!("unexpected answer '{}'", start.trim_end()))
    };
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(odd)?;
    let version = ["HTTP/1.1 ", "HTTP/1.0 "].into_iter().find_map(|version| head.strip_prefix(version));
    let status = version.and_then(|rest| rest.get(..3)).ok_or_else(odd)?;
    Ok((status.parse().map_err(|_| odd())?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_is_an_error_and_not_cut() {
        assert_eq!(read(&b"four"[..], 4).unwrap(), b"four");
        let error = read(&b"five5"[..], 4).unwrap_err();
        assert_eq!(error.to_string(), "the answer is longer than the 4B that are taken of one");
    }

    #[test]
    fn an_answer_that_drips_is_given_up() {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let drips = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // Until nobody reads.
            while client.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let wait = Duration::from_millis(200);
        let error = read(Patient::connect(address, wait).unwrap(), usize::MAX - 1).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::TimedOut, "no whole answer in 200ms".to_owned())
        );
        drips.join().unwrap();
        assert!(Patient::connect(address, Duration::ZERO).is_err());
    }

    #[test]
    fn answers_are_read_and_others_refused() {
        assert_eq!(parse("HTTP/1.1 404 Not Found\r\na: b\r\n\r\n{}").unwrap(), (404, "{}".to_owned()));
        for odd in ["", "VALUE a 0 1\r\n1\r\nEND\r\n", "HTTP/1.1 x\r\n\r\n", "HTTP/1.1 200 OK"] {
            assert!(parse(odd).is_err(), "{odd}");
        }
        assert_eq!(part("a b/ü"), "a%20b%2F%C3%BC");
    }
}
