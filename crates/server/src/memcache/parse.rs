//! From bytes to requests: the classic text protocol, without copying.
//!
//! Shape:      a buffer -> one request and the bytes that it takes, or what is still missing
//! Invariants: nothing here panics on input; a request's parts borrow from the buffer
//! Source:     memcached 1.6.45's `protocol.txt` and observed answers; see `docs/memcached-differences.md`

use super::meta;
use super::numbers::{number, time, unsigned, unsigned_32};
use super::reply::text;
use crate::auth::Need;
use crate::limits::{GET_LINE_MAX, KEY_MAX, LINE_MAX};
use crate::observe::Operation;
use crate::stats;
use memchr::memchr;
use store::Mode;

/// What the buffer begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed<'b> {
    /// A request that takes so many bytes.
    Request(Command<'b>, usize),
    /// A storing request without its value, which is `len` bytes behind the `taken` bytes of the line, and large.
    Upload { command: Command<'b>, taken: usize, len: usize },
    /// More bytes are needed: so many in all, as far as is known.
    Incomplete(usize),
    /// An answer, after which so many bytes of the stream are skipped: those here and those still to come.
    Refused {
        /// The answer; none for a silent request.
        reply: Option<&'static [u8]>,
        /// What becomes of the key.
        effect: Effect<'b>,
        /// Bytes to skip, those of the line included.
        skip: u64,
    },
    /// The connection cannot go on: this is no client of ours.
    Hopeless,
}

/// What a refused data block does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect<'b> {
    /// Nothing: it was not understood.
    None,
    /// It is too large.
    TooLarge {
        key: Named<'b>,
        mode: Mode,
        /// The value of its key goes, so that nobody takes it for the new one.
        takes_older: bool,
    },
    /// It does not end where it should; it counts as a store of this key.
    BadChunk(Named<'b>),
}

/// A key as a request gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named<'b> {
    /// As it is.
    Plain(&'b [u8]),
    /// In base64.
    Base64(&'b [u8]),
}

impl<'b> Named<'b> {
    /// The key, perhaps decoded into `out`.
    pub(super) fn text<'o>(self, out: &'o mut [u8; KEY_MAX]) -> Option<&'o [u8]>
    where
        'b: 'o,
    {
        match self {
            Self::Plain(key) => Some(key),
            Self::Base64(key) => meta::decode(key, out),
        }
    }
}

/// Which of the reading commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GetKind {
    /// `get` and `gat`: without CAS values.
    Plain,
    /// `gets` and `gats`: with them.
    WithCas,
    /// Any of them, with a key that is none behind these: they are read, touched and counted, and the error is the answer.
    Wrong,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command<'b> {
    /// Reads keys, which are separated by spaces; with an exptime it touches them too.
    Get {
        kind: GetKind,
        touch: Option<i64>,
        keys: &'b [u8],
        /// There are more of them than are looked at in this turn.
        goes_on: bool,
    },
    Store {
        mode: Mode,
        key: &'b [u8],
        flags: u32,
        exptime: i64,
        value: &'b [u8],
        noreply: bool,
    },
    Delete {
        key: &'b [u8],
        noreply: bool,
    },
    Count {
        key: &'b [u8],
        delta: u64,
        up: bool,
        noreply: bool,
    },
    Touch {
        key: &'b [u8],
        exptime: i64,
        noreply: bool,
    },
    Flush {
        delay: i64,
        noreply: bool,
    },
    Verbosity {
        noreply: bool,
    },
    Version,
    /// Read the certificates again.
    RefreshCerts,
    Stats(&'b [u8]),
    /// A request of the meta protocol about an item.
    Meta(meta::Request<'b>),
    /// A command about the server as a whole, and the words behind it.
    Operate(&'b [u8], &'b [u8]),
    /// `mn`
    MetaNoOp,
    MemoryLimit {
        mebibytes: u64,
        noreply: bool,
    },
    Quit,
    /// A request that is wrong in itself, with its answer.
    Wrong(&'static [u8]),
    /// A wrong request that wants no answer.
    Silent,
}

impl<'b> Command<'b> {
    /// The same with its value.
    pub(super) fn with_value(self, value: &'b [u8]) -> Self {
        match self {
            Self::Store { mode, key, flags, exptime, noreply, .. } => {
                Self::Store { mode, key, flags, exptime, value, noreply }
            }
            Self::Meta(request) => Self::Meta(meta::Request { value, ..request }),
            other => other,
        }
    }

    /// What it asks for.
    #[inline]
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Get { touch: None, .. } => Operation::Get,
            Self::Get { touch: Some(_), .. } => Operation::Gat,
            Self::Store { mode, .. } => (*mode).into(),
            Self::Delete { .. } => Operation::Delete,
            Self::Count { up: true, .. } => Operation::Incr,
            Self::Count { up: false, .. } => Operation::Decr,
            Self::Touch { .. } => Operation::Touch,
            Self::Meta(request) => request.operation(),
            _ => Operation::Other,
        }
    }

    /// What it needs of whoever asks, and whether it wants silence.
    pub(crate) fn needs(&self) -> (Need, bool) {
        match *self {
            Command::Get { touch: Some(_), .. } => (Need::Write, false),
            Command::Store { noreply, .. }
            | Command::Delete { noreply, .. }
            | Command::Count { noreply, .. }
            | Command::Touch { noreply, .. } => (Need::Write, noreply),
            // Looking on changes nothing.
            Command::Operate(b"watch", _) => (Need::Read, false),
            Command::Operate(b"lru_crawler", rest)
                if Words::of(rest).next().is_some_and(|word| word.ends_with(b"dump")) =>
            {
                (Need::Read, false)
            }
            Command::Operate(..) => (Need::Administer, false),
            Command::Meta(request) if request.writes() => (Need::Write, false),
            Command::Flush { noreply, .. } => (Need::Flush, noreply),
            Command::MemoryLimit { noreply, .. } => (Need::Administer, noreply),
            Command::RefreshCerts => (Need::Administer, false),
            Command::Stats(what) if stats::changes(what) => (Need::Administer, false),
            _ => (Need::Read, false),
        }
    }
}

/// What of a server's settings a parser must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Largest key and value together that can fit an item.
    pub(crate) body_max: usize,
    /// Key and value together above which the value goes to its place as it comes.
    pub(crate) upload_from: usize,
    /// Whether `flush_all` is refused.
    pub(crate) flush_disabled: bool,
}

/// The words of a line.
#[derive(Clone, Copy)]
pub(super) struct Words<'b> {
    rest: &'b [u8],
}

impl<'b> Words<'b> {
    pub(super) fn of(line: &'b [u8]) -> Self {
        Self { rest: line }
    }

    /// What was not read yet.
    pub(super) fn rest(self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Words<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let start = self.rest.iter().position(|b| *b != b' ')?;
        let rest = &self.rest[start..];
        let end = memchr(b' ', rest).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// The keys of a reading command.
pub(crate) fn keys(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    Words { rest: list }
}

/// Whether a text is a key.
#[inline]
pub(crate) fn is_key(word: &[u8]) -> bool {
    !word.is_empty() && word.len() <= KEY_MAX
}

/// Reads one request off the front of `input`.
pub(crate) fn parse<'b>(input: &'b [u8], bounds: &Bounds) -> Parsed<'b> {
    let Some(end) = memchr(b'\n', &input[..input.len().min(GET_LINE_MAX)]) else {
        return unfinished_line(input);
    };
    let taken = end + 1;
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    if LINE_MAX < taken && !is_long_get(line) {
        return Parsed::Hopeless;
    }
    if taken < 4 {
        return Parsed::Request(Command::Wrong(text::BAD_FORMAT), taken);
    }
    let (word, rest) = command_word(line);
    let words = Words { rest };
    let request = match word {
        b"get" => get(rest, GetKind::Plain),
        b"gets" => get(rest, GetKind::WithCas),
        b"gat" => get_and_touch(words, GetKind::Plain),
        b"gats" => get_and_touch(words, GetKind::WithCas),
        b"set" => return store(input, taken, words, Mode::Set, bounds),
        b"add" => return store(input, taken, words, Mode::Add, bounds),
        b"replace" => return store(input, taken, words, Mode::Replace, bounds),
        b"append" => return store(input, taken, words, Mode::Append, bounds),
        b"prepend" => return store(input, taken, words, Mode::Prepend, bounds),
        b"cas" => return store(input, taken, words, Mode::Cas(0), bounds),
        b"mg" => meta::request(meta::Verb::Get, rest),
        b"ms" => return meta::set(input, taken, rest, bounds),
        b"md" => meta::request(meta::Verb::Delete, rest),
        b"ma" => meta::request(meta::Verb::Arithmetic, rest),
        b"me" => meta::request(meta::Verb::Debug, rest),
        b"mn" => Command::MetaNoOp,
        b"delete" => delete(words),
        b"incr" => count(words, true),
        b"decr" => count(words, false),
        b"touch" => touch(words),
        b"flush_all" => flush(words, bounds),
        b"version" => Command::Version,
        b"refresh_certs" => Command::RefreshCerts,
        b"verbosity" => verbosity(words),
        b"stats" => Command::Stats(rest),
        b"quit" => Command::Quit,
        b"cache_memlimit" => memory_limit(words),
        b"lru_crawler" | b"lru" | b"slabs" | b"watch" | b"shutdown" => Command::Operate(word, rest),
        // A browser, or what pretends to be one.
        _ if words.last().is_some_and(|w| w.starts_with(b"HTTP/")) => return Parsed::Hopeless,
        _ => Command::Wrong(text::ERROR),
    };
    Parsed::Request(request, taken)
}

/// Commands about no item, before which spaces may stand, as in memcached.
const SPACED: &[u8] = b"cache_memlimit flush_all lru lru_crawler refresh_certs shutdown slabs verbosity";

/// The command of a line, and what stands behind it.
#[inline]
fn command_word(line: &[u8]) -> (&[u8], &[u8]) {
    let (word, rest) = line.split_at(memchr(b' ', line).unwrap_or(line.len()));
    if word.is_empty() { spaced_command(line).unwrap_or((word, rest)) } else { (word, rest) }
}

/// A command behind spaces.
#[cold]
fn spaced_command(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = Words::of(line);
    let word = words.next()?;
    Words::of(SPACED).any(|known| known == word).then_some((word, words.rest))
}

fn is_long_get(line: &[u8]) -> bool {
    let start = line.iter().position(|b| *b != b' ').unwrap_or(0).min(100);
    let line = &line[start..];
    [b"get ".as_slice(), b"gets ", b"gat ", b"gats "].iter().any(|word| line.starts_with(word))
}

fn unfinished_line(input: &[u8]) -> Parsed<'_> {
    let long = LINE_MAX < input.len();
    if GET_LINE_MAX <= input.len() || (long && !is_long_get(input)) {
        return Parsed::Hopeless;
    }
    Parsed::Incomplete(input.len() + 1)
}

/// Whether the last word asks for silence.
fn is_silent(words: Words<'_>) -> bool {
    words.last() == Some(b"noreply")
}

fn get(keys: &[u8], kind: GetKind) -> Command<'_> {
    get_keys(keys, kind, None)
}

fn get_keys(list: &[u8], kind: GetKind, touch: Option<i64>) -> Command<'_> {
    let mut words = Words::of(list);
    let mut count = 0;
    loop {
        let before = list.len() - words.rest.len();
        match words.next() {
            Some(key) if is_key(key) => count += 1,
            _ if count == 0 => return Command::Wrong(text::BAD_FORMAT),
            None => return Command::Get { kind, touch, keys: list, goes_on: false },
            Some(_) => {
                let kind = GetKind::Wrong;
                return Command::Get { kind, touch, keys: &list[..before], goes_on: false };
            }
        }
    }
}

fn get_and_touch(mut words: Words<'_>, kind: GetKind) -> Command<'_> {
    let Some(exptime) = words.next() else { return Command::Wrong(text::BAD_FORMAT) };
    if words.clone().next().is_none() {
        return Command::Wrong(text::BAD_FORMAT);
    }
    match time(exptime) {
        Some(exptime) => get_keys(words.rest, kind, Some(exptime.into())),
        None => Command::Wrong(text::BAD_EXPTIME),
    }
}

/// The words of a storing command, checked; the data block is looked at afterwards.
fn store<'b>(input: &'b [u8], taken: usize, mut words: Words<'b>, mode: Mode, bounds: &Bounds) -> Parsed<'b> {
    let (Some(key), Some(flags), Some(exptime), Some(len)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Parsed::Request(Command::Wrong(text::BAD_FORMAT), taken);
    };
    // memcached reads the length into 32 bits with a sign and leaves room for the line end.
    let len = number(len).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= (i32::MAX - 2) as usize);
    let Some(len) = len else { return Parsed::Request(Command::Wrong(text::BAD_FORMAT), taken) };
    // The words before are none that ask for silence: the last of them is a number.
    let noreply = is_silent(words);
    let mode = match mode {
        Mode::Cas(_) => words.next().and_then(unsigned).map(Mode::Cas),
        other => Some(other),
    };
    let refuse = |reply, effect| {
        let reply = (!noreply).then_some(reply);
        Parsed::Refused { reply, effect, skip: (taken + len + 2) as u64 }
    };
    let flags = unsigned(flags).and_then(|f| u32::try_from(f).ok());
    let (true, Some(flags), Some(exptime), Some(mode)) = (is_key(key), flags, time(exptime), mode) else {
        return refuse(text::BAD_FORMAT, Effect::None);
    };
    let exptime = exptime.into();
    if bounds.body_max < key.len() + len {
        let (key, takes_older) = (Named::Plain(key), mode == Mode::Set);
        return refuse(text::TOO_LARGE, Effect::TooLarge { key, mode, takes_older });
    }
    if bounds.upload_from < key.len() + len {
        let command = Command::Store { mode, key, flags, exptime, value: &[], noreply };
        return Parsed::Upload { command, taken, len };
    }
    let block = &input[taken..];
    if block.len() < len + 2 {
        return Parsed::Incomplete(taken + len + 2);
    }
    let (value, rest) = block.split_at(len);
    if !rest.starts_with(b"\r\n") {
        return refuse(text::BAD_CHUNK, Effect::BadChunk(Named::Plain(key)));
    }
    Parsed::Request(Command::Store { mode, key, flags, exptime, value, noreply }, taken + len + 2)
}

/// A wrong request, or its silence.
pub(super) fn wrong(noreply: bool, reply: &'static [u8]) -> Command<'static> {
    if noreply { Command::Silent } else { Command::Wrong(reply) }
}

/// A key, and nothing behind it but the time 0 of old clients and `noreply`.
fn delete(mut words: Words<'_>) -> Command<'_> {
    let Some(key) = words.next() else { return Command::Wrong(text::BAD_FORMAT) };
    let noreply = words.last() == Some(b"noreply");
    let known = match (words.next(), words.next(), words.next()) {
        (None | Some(b"0" | b"noreply"), None, None) => true,
        (Some(time), Some(b"noreply"), None) => time == b"0",
        _ => false,
    };
    match (is_key(key), known) {
        (true, true) => Command::Delete { key, noreply },
        (true, false) => wrong(noreply, text::BAD_DELETE),
        (false, _) => wrong(noreply, text::BAD_FORMAT),
    }
}

fn count(mut words: Words<'_>, up: bool) -> Command<'_> {
    let noreply = is_silent(words);
    let (Some(key), Some(delta)) = (words.next(), words.next()) else {
        return Command::Wrong(text::BAD_FORMAT);
    };
    match unsigned(delta) {
        _ if !is_key(key) => wrong(noreply, text::BAD_FORMAT),
        Some(delta) => Command::Count { key, delta, up, noreply },
        None => wrong(noreply, text::BAD_DELTA),
    }
}

fn touch(mut words: Words<'_>) -> Command<'_> {
    let noreply = is_silent(words);
    let (Some(key), Some(exptime)) = (words.next(), words.next()) else {
        return Command::Wrong(text::BAD_FORMAT);
    };
    match time(exptime) {
        _ if !is_key(key) => wrong(noreply, text::BAD_FORMAT),
        Some(exptime) => Command::Touch { key, exptime: exptime.into(), noreply },
        None => wrong(noreply, text::BAD_EXPTIME),
    }
}

fn memory_limit(mut words: Words<'_>) -> Command<'_> {
    let noreply = is_silent(words);
    match words.next().and_then(unsigned_32) {
        Some(mebibytes) => Command::MemoryLimit { mebibytes: mebibytes.into(), noreply },
        None => wrong(noreply, text::ERROR),
    }
}

fn flush<'b>(mut words: Words<'b>, bounds: &Bounds) -> Command<'b> {
    let noreply = is_silent(words);
    let delay = match words.next() {
        None | Some(b"noreply") => Some(0),
        Some(word) => time(word),
    };
    match delay {
        _ if bounds.flush_disabled => wrong(noreply, text::FLUSH_DISABLED),
        Some(delay) => Command::Flush { delay: delay.into(), noreply },
        None => wrong(noreply, text::BAD_EXPTIME),
    }
}

fn verbosity(mut words: Words<'_>) -> Command<'_> {
    let noreply = is_silent(words);
    match words.next() {
        Some(b"noreply") => Command::Verbosity { noreply: true },
        Some(level) if unsigned(level).is_some() => Command::Verbosity { noreply },
        _ => wrong(noreply, text::BAD_FORMAT),
    }
}

#[cfg(test)]
mod tests;
