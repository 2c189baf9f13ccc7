//! How requests are written and answers read: memcached's classic text protocol, and Redis's serialisation protocol.
//!
//! Shape:      key, value -> bytes of a request; bytes -> one answer, or that more are needed
//! Invariants: an answer is given out only once all of it is there; nothing is allocated per request
//! Failure:    what is no answer to a look-up or a store is `Answer::Strange`

use std::io::Write as _;

/// The language of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// memcached's classic text protocol.
    Memcached,
    /// Redis's serialisation protocol.
    Redis,
}

/// One whole answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// A look-up found this value, of this key where the protocol repeats it.
    Value {
        /// The key, or nothing where the protocol does not say.
        key: Option<&'a [u8]>,
        /// What was stored.
        value: &'a [u8],
    },
    /// A look-up found nothing.
    Miss,
    /// A store took place.
    Stored,
    /// The server had no memory for the item at that moment.
    Refused,
    /// Something else: the beginning of the line.
    Strange(&'a [u8]),
}

/// Longest line that is read as one: 250 B of key and the numbers of a `VALUE` line fit.
const LINE_MAX: usize = 512;

impl Dialect {
    /// Appends a look-up.
    pub fn write_get(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Memcached => out.extend_from_slice(b"get "),
            // A vector takes every write.
            Self::Redis => drop(write!(out, "*2\r\n$3\r\nGET\r\n${}\r\n", key.len())),
        }
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends a store that never expires.
    pub fn write_set(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Memcached => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(key);
                drop(write!(out, " 0 0 {}\r\n", value.len()));
            }
            Self::Redis => {
                drop(write!(out, "*3\r\n$3\r\nSET\r\n${}\r\n", key.len()));
                out.extend_from_slice(key);
                drop(write!(out, "\r\n${}\r\n", value.len()));
            }
        }
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    /// The first answer in `input` and its length; none if it is not all there.
    #[must_use]
    pub fn read(self, input: &[u8]) -> Option<(Answer<'_>, usize)> {
        let window = &input[..input.len().min(LINE_MAX)];
        let Some(end) = memchr_newline(window) else {
            return (LINE_MAX <= input.len()).then_some((Answer::Strange(window), window.len()));
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        match self {
            Self::Memcached => read_memcached(input, line, end + 1),
            Self::Redis => read_redis(input, line, end + 1),
        }
    }
}

fn memchr_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn read_memcached<'a>(input: &'a [u8], line: &'a [u8], after: usize) -> Option<(Answer<'a>, usize)> {
    let short = match line {
        b"END" => Answer::Miss,
        b"STORED" => Answer::Stored,
        b"SERVER_ERROR out of memory storing object" => Answer::Refused,
        _ => match line.strip_prefix(b"VALUE ") {
            Some(rest) => return read_value(input, rest, line, after),
            None => Answer::Strange(line),
        },
    };
    Some((short, after))
}

/// `KEY FLAGS LENGTH`, the value, and `END`.
fn read_value<'a>(
    input: &'a [u8],
    rest: &'a [u8],
    line: &'a [u8],
    after: usize,
) -> Option<(Answer<'a>, usize)> {
    let mut words = rest.split(|byte| *byte == b' ');
    let (key, length) = (words.next(), words.nth(1).and_then(number));
    let Some(length) = length else { return Some((Answer::Strange(line), after)) };
    let tail: &[u8] = b"\r\nEND\r\n";
    let end = after + length + tail.len();
    let all = input.get(after..end)?;
    let (value, got) = all.split_at(length);
    let answer = if got == tail { Answer::Value { key, value } } else { Answer::Strange(line) };
    Some((answer, end))
}

fn read_redis<'a>(input: &'a [u8], line: &'a [u8], after: usize) -> Option<(Answer<'a>, usize)> {
    let short = match line {
        b"$-1" => Answer::Miss,
        b"+OK" => Answer::Stored,
        _ if line.starts_with(b"-OOM") => Answer::Refused,
        _ => match line.strip_prefix(b"$").and_then(number) {
            Some(length) => {
                let all = input.get(after..after + length + 2)?;
                let answer = Answer::Value { key: None, value: &all[..length] };
                return Some((answer, after + length + 2));
            }
            None => Answer::Strange(line),
        },
    };
    Some((short, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every answer is read whole, and no part of it is taken for one.
    fn check(dialect: Dialect, bytes: &str, answer: Answer<'_>) {
        let input = format!("{bytes}rest");
        assert_eq!(dialect.read(input.as_bytes()), Some((answer, bytes.len())));
        for cut in 0..bytes.len() {
            assert_eq!(dialect.read(&bytes.as_bytes()[..cut]), None, "{bytes:?} cut at {cut}");
        }
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let value = Answer::Value { key: Some(b"k"), value: b"a\r\nb" };
        check(Dialect::Memcached, "VALUE k 0 4\r\na\r\nb\r\nEND\r\n", value);
        check(Dialect::Memcached, "END\r\n", Answer::Miss);
        check(Dialect::Memcached, "STORED\r\n", Answer::Stored);
        check(Dialect::Memcached, "SERVER_ERROR out of memory storing object\r\n", Answer::Refused);
        check(Dialect::Memcached, "ERROR\r\n", Answer::Strange(b"ERROR"));
        check(Dialect::Redis, "$4\r\na\r\nb\r\n", Answer::Value { key: None, value: b"a\r\nb" });
        check(Dialect::Redis, "$-1\r\n", Answer::Miss);
        check(Dialect::Redis, "+OK\r\n", Answer::Stored);
        check(Dialect::Redis, "-OOM command not allowed\r\n", Answer::Refused);
        check(Dialect::Redis, "-ERR no\r\n", Answer::Strange(b"-ERR no"));
    }

    #[test]
    fn a_value_of_another_length_is_strange() {
        let input = b"VALUE k 0 1\r\nab\r\nEND\r\n";
        assert!(matches!(Dialect::Memcached.read(input), Some((Answer::Strange(_), _))));
        assert!(matches!(Dialect::Memcached.read(&[b'x'; LINE_MAX]), Some((Answer::Strange(_), LINE_MAX))));
    }

    #[test]
    fn requests_are_written() {
        let written = |dialect: Dialect| {
            let mut out = Vec::new();
            dialect.write_get(b"k", &mut out);
            dialect.write_set(b"k", b"vv", &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Dialect::Memcached), "get k\r\nset k 0 0 2\r\nvv\r\n");
        assert_eq!(
            written(Dialect::Redis),
            "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n"
        );
    }
}
