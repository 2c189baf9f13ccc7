//! The binary protocol's grammar: from bytes to requests, without copying.
//!
//! ```text
//!  0       1        2        4        5      6      8       12       16   24
//! +-------+--------+--------+--------+------+------+-------+--------+----+--------+-----+-------+
//! | magic | opcode | keylen | extlen | type | –    | body  | opaque | cas| extras | key | value |
//! +-------+--------+--------+--------+------+------+-------+--------+----+--------+-----+-------+
//! ```
//! Big endian; `body` counts extras, key and value.
//!
//! Shape:      a buffer -> one request and the bytes of the stream that it takes, or what is still missing
//! Invariants: nothing here panics on input; a request's parts borrow from the buffer; the stream stays in step but
//!             where a body is longer than `touch`, its kin and `stat` have use for: there, as in memcached, the rest is
//!             read as the next request
//! Source:     memcached 1.6.45's answers; see `docs/memcached-differences.md`

mod execute;

pub(in crate::memcache) use execute::{credentials, execute, lose, plain, refuse_rate};

use super::batch::{Awaiting, Hashed, Next, Prepared, Step, gather, hash_key};
use super::parse::Bounds;
use super::session::Session;
use super::turn::{Announced, Block, Turn};
use crate::auth::Need;
use crate::limits::{AUTH_MESSAGE_MAX, KEY_MAX};
use crate::observe::Operation;
use store::{Mode, Worker};

/// The first byte of a request.
pub(crate) const REQUEST_MAGIC: u8 = 0x80;
/// Bytes of a header.
pub(super) const HEADER: usize = 24;
/// Bytes of a mechanism's name at most, memcached's.
const MECHANISM_MAX: usize = 32;
/// The exptime that forbids a counter to be made.
const MAKE_NONE: u32 = u32::MAX;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request<'b> {
    pub(super) head: Head,
    pub(super) body: Body<'b>,
}

/// What an answer repeats, and what holds for any request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) opcode: u8,
    pub(super) opaque: [u8; 4],
    /// The CAS value that the item must have; 0 for any.
    pub(super) cas: u64,
    /// No answer to what is expected: a miss of a look-up, the success of anything else.
    pub(super) is_quiet: bool,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Body<'b> {
    Get {
        key: &'b [u8],
        with_key: bool,
    },
    Touch {
        key: &'b [u8],
        exptime: u32,
        reply: Shown,
    },
    Store {
        mode: Mode,
        key: &'b [u8],
        flags: u32,
        exptime: u32,
        value: &'b [u8],
    },
    Delete {
        key: &'b [u8],
    },
    Count {
        key: &'b [u8],
        up: bool,
        delta: u64,
        /// Value and exptime of a counter that is made where there is none.
        make: Option<(u64, u32)>,
    },
    Flush {
        delay: u32,
    },
    Noop,
    Version,
    Stat(&'b [u8]),
    Quit,
    Mechanisms,
    LogIn {
        mechanism: &'b [u8],
        message: &'b [u8],
        is_step: bool,
    },
    /// A request that is wrong in itself.
    Wrong(Wrong<'b>),
}

/// What a look-up or a touch answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    Flags,
    Value,
    KeyAndValue,
}

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong<'b> {
    /// The opcode means nothing.
    Opcode,
    /// Key and extras are longer than the body. The connection ends.
    Lengths,
    /// Extras, key or body have a length that the opcode has no use for. The connection ends.
    Shape,
    /// The name of a mechanism is too long.
    Mechanism,
    /// A message that shows a password is too long.
    Message,
    /// The item cannot fit.
    TooLarge { key: &'b [u8], mode: Mode },
}

/// What the buffer begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parsed<'b> {
    /// A request, and the bytes of the stream that it takes.
    Request(Request<'b>, u64),
    /// A storing request without its value, which is `len` bytes behind so many bytes, and large.
    Upload { request: Request<'b>, taken: usize, len: usize },
    /// More bytes are needed: so many in all, as far as is known.
    Incomplete(usize),
    /// This is no request.
    Hopeless,
}

/// What an opcode does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Get { with_key: bool },
    Touch(Shown),
    Store(Mode),
    Join(Mode),
    Delete,
    Count { up: bool },
    Flush,
    Noop,
    Version,
    Stat,
    Quit,
    Mechanisms,
    LogIn { is_step: bool },
}

/// Which parts of a body an opcode takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    None,
    Some,
    Any,
}

/// One opcode.
#[derive(Clone, Copy, Debug)]
struct Row {
    act: Act,
    /// The opcode and its quiet form.
    codes: (u8, Option<u8>),
    /// Lengths that its extras may have.
    extras: &'static [usize],
    key: Part,
    /// Its value: none (longer bodies are wrong), some (it may be empty), or any: none, and what is there is left.
    value: Part,
}

const fn row(codes: (u8, Option<u8>), act: Act, extras: &'static [usize], key: Part, value: Part) -> Row {
    Row { act, codes, extras, key, value }
}

/// Every opcode.
const ROWS: &[Row] = &[
    row((0x00, Some(0x09)), Act::Get { with_key: false }, &[0], Part::Some, Part::None),
    row((0x0C, Some(0x0D)), Act::Get { with_key: true }, &[0], Part::Some, Part::None),
    row((0x01, Some(0x11)), Act::Store(Mode::Set), &[8], Part::Some, Part::Some),
    row((0x02, Some(0x12)), Act::Store(Mode::Add), &[8], Part::Some, Part::Some),
    row((0x03, Some(0x13)), Act::Store(Mode::Replace), &[8], Part::Some, Part::Some),
    row((0x0E, Some(0x19)), Act::Join(Mode::Append), &[0], Part::Some, Part::Some),
    row((0x0F, Some(0x1A)), Act::Join(Mode::Prepend), &[0], Part::Some, Part::Some),
    row((0x04, Some(0x14)), Act::Delete, &[0], Part::Some, Part::None),
    row((0x05, Some(0x15)), Act::Count { up: true }, &[20], Part::Some, Part::None),
    row((0x06, Some(0x16)), Act::Count { up: false }, &[20], Part::Some, Part::None),
    row((0x1C, None), Act::Touch(Shown::Flags), &[4], Part::Some, Part::Any),
    row((0x1D, Some(0x1E)), Act::Touch(Shown::Value), &[4], Part::Some, Part::Any),
    row((0x23, Some(0x24)), Act::Touch(Shown::KeyAndValue), &[4], Part::Some, Part::Any),
    row((0x08, Some(0x18)), Act::Flush, &[0, 4], Part::None, Part::None),
    row((0x0A, None), Act::Noop, &[0], Part::None, Part::None),
    row((0x0B, None), Act::Version, &[0], Part::None, Part::None),
    row((0x10, None), Act::Stat, &[0], Part::Any, Part::Any),
    row((0x07, Some(0x17)), Act::Quit, &[0], Part::None, Part::None),
    row((0x20, None), Act::Mechanisms, &[0], Part::None, Part::None),
    row((0x21, None), Act::LogIn { is_step: false }, &[0], Part::Some, Part::Some),
    row((0x22, None), Act::LogIn { is_step: true }, &[0], Part::Some, Part::Some),
];

/// The row of each opcode, and whether it is its quiet form.
static BY_CODE: [Option<(Row, bool)>; 256] = {
    let mut table = [None; 256];
    let mut at = 0;
    while at < ROWS.len() {
        let row = ROWS[at];
        table[row.codes.0 as usize] = Some((row, false));
        if let Some(quiet) = row.codes.1 {
            table[quiet as usize] = Some((row, true));
        }
        at += 1;
    }
    table
};

impl Part {
    fn allows(self, len: usize) -> bool {
        match self {
            Self::None => len == 0,
            Self::Some => 0 < len,
            Self::Any => true,
        }
    }
}

impl Act {
    /// Whether a stranger may ask for it.
    fn is_open(self) -> bool {
        matches!(self, Self::Version | Self::Mechanisms | Self::LogIn { .. })
    }
}

impl<'b> Request<'b> {
    /// What it asks for.
    #[inline]
    pub(super) fn operation(&self) -> Operation {
        match self.body {
            Body::Get { .. } => Operation::Get,
            Body::Store { mode, .. } => mode.into(),
            Body::Delete { .. } => Operation::Delete,
            Body::Count { up: true, .. } => Operation::Incr,
            Body::Count { up: false, .. } => Operation::Decr,
            Body::Touch { reply: Shown::Flags, .. } => Operation::Touch,
            Body::Touch { .. } => Operation::Gat,
            _ => Operation::Other,
        }
    }

    /// The same with its value.
    fn with_value(self, value: &'b [u8]) -> Self {
        match self.body {
            Body::Store { mode, key, flags, exptime, .. } => {
                Self { body: Body::Store { mode, key, flags, exptime, value }, ..self }
            }
            _ => self,
        }
    }

    /// The key whose item it is about.
    pub(super) fn key(&self) -> Option<&'b [u8]> {
        match self.body {
            Body::Get { key, .. }
            | Body::Touch { key, .. }
            | Body::Store { key, .. }
            | Body::Delete { key }
            | Body::Count { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Whether a stranger may ask for it.
    pub(super) fn is_open(&self) -> bool {
        // Lengths are judged before anybody is asked for a password.
        matches!(self.body, Body::Wrong(Wrong::Lengths))
            || BY_CODE[usize::from(self.head.opcode)].is_some_and(|(row, _)| row.act.is_open())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

/// Reads one request off the front of `input`.
pub(super) fn parse<'b>(input: &'b [u8], bounds: &Bounds) -> Parsed<'b> {
    // As memcached, which looks at no byte before it has a header.
    let Some(header) = input.first_chunk::<HEADER>() else { return Parsed::Incomplete(HEADER) };
    if header[0] != REQUEST_MAGIC {
        return Parsed::Hopeless;
    }
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras_len = usize::from(header[4]);
    let body_len = u32_at(header, 8);
    let front = HEADER + extras_len + key_len;
    let Some(parts) = input.get(HEADER..front) else { return Parsed::Incomplete(front) };
    let known = BY_CODE[usize::from(header[1])];
    let head = Head {
        opcode: header[1],
        opaque: [header[12], header[13], header[14], header[15]],
        cas: u64_at(header, 16),
        is_quiet: known.is_some_and(|(_, is_quiet)| is_quiet),
    };
    let all = HEADER as u64 + u64::from(body_len);
    let wrong = |wrong, takes| Parsed::Request(Request { head, body: Body::Wrong(wrong) }, takes);
    if all < front as u64 {
        return wrong(Wrong::Lengths, front as u64);
    }
    if KEY_MAX < key_len {
        return wrong(Wrong::Shape, all);
    }
    let Some((row, _)) = known else { return wrong(Wrong::Opcode, all) };
    let has_value = all != front as u64;
    let is_shaped = row.extras.contains(&extras_len)
        && row.key.allows(key_len)
        && !(row.value == Part::None && has_value);
    if !is_shaped {
        return wrong(Wrong::Shape, all);
    }
    let (extras, key) = parts.split_at(extras_len);
    if row.value != Part::Some {
        return Parsed::Request(Request { head, body: body(row.act, &head, extras, key, &[]) }, front as u64);
    }
    let value_len = usize::try_from(all - front as u64).unwrap_or(usize::MAX);
    match row.act {
        Act::LogIn { .. } if MECHANISM_MAX < key_len => return wrong(Wrong::Mechanism, all),
        Act::LogIn { .. } if AUTH_MESSAGE_MAX < value_len => return wrong(Wrong::Message, all),
        Act::Store(mode) | Act::Join(mode) if bounds.body_max < key_len + value_len => {
            return wrong(Wrong::TooLarge { key, mode }, all);
        }
        _ => {}
    }
    if matches!(row.act, Act::Store(_) | Act::Join(_)) && bounds.upload_from < key_len + value_len {
        let request = Request { head, body: body(row.act, &head, extras, key, &[]) };
        return Parsed::Upload { request, taken: front, len: value_len };
    }
    let Some(value) = input.get(front..front + value_len) else {
        return Parsed::Incomplete(front + value_len);
    };
    Parsed::Request(Request { head, body: body(row.act, &head, extras, key, value) }, all)
}

/// The parts of a request, whose lengths were checked.
fn body<'b>(act: Act, head: &Head, extras: &[u8], key: &'b [u8], value: &'b [u8]) -> Body<'b> {
    match act {
        Act::Get { with_key } => Body::Get { key, with_key },
        Act::Touch(reply) => Body::Touch { key, exptime: u32_at(extras, 0), reply },
        Act::Store(mode) => {
            let mode = if head.cas == 0 { mode } else { Mode::Cas(head.cas) };
            Body::Store { mode, key, flags: u32_at(extras, 0), exptime: u32_at(extras, 4), value }
        }
        Act::Join(mode) => Body::Store { mode, key, flags: 0, exptime: 0, value },
        Act::Delete => Body::Delete { key },
        Act::Count { up } => {
            let (delta, initial, exptime) = (u64_at(extras, 0), u64_at(extras, 8), u32_at(extras, 16));
            Body::Count { key, up, delta, make: (exptime != MAKE_NONE).then_some((initial, exptime)) }
        }
        Act::Flush => Body::Flush { delay: if extras.is_empty() { 0 } else { u32_at(extras, 0) } },
        Act::Noop => Body::Noop,
        Act::Version => Body::Version,
        Act::Stat => Body::Stat(key),
        Act::Quit => Body::Quit,
        Act::Mechanisms => Body::Mechanisms,
        Act::LogIn { is_step } => Body::LogIn { mechanism: key, message: value, is_step },
    }
}

/// Gathers requests of the binary protocol. A password ends the batch.
pub(super) fn prepare<'b>(
    session: &Session<'_>,
    worker: &Worker,
    input: &'b [u8],
    block: Option<Block<'b>>,
    turn: &mut Turn,
    batch: &mut Vec<Prepared<'b>>,
    hashed: &mut Hashed<'b>,
) {
    let mut bounds = session.bounds;
    if session.identity.is_stranger() {
        // Values of strangers are not waited for.
        bounds.body_max = 0;
    }
    let routes = session.router.routes(session.binding);
    gather(session.requests_max, input, turn, batch, hashed, |rest, turn, hashed| {
        match parse(rest, &bounds) {
            Parsed::Request(request, takes) => {
                turn.take(takes, input.len());
                if let Some(key) = request.key() {
                    hash_key(&routes, worker, key, hashed);
                }
                let is_log_in = matches!(request.body, Body::LogIn { .. });
                let step = Step::Binary(request);
                if is_log_in { Next::Last(step) } else { Next::Step(step) }
            }
            Parsed::Upload { request, taken, len } => {
                turn.consumed += taken;
                if block.is_none() && session.identity.denies(Need::Write).is_some() {
                    // No memory is made for a value that is refused.
                    turn.take(len as u64, input.len());
                    return Next::Step(Step::Binary(request));
                }
                if let Some(key) = request.key() {
                    hash_key(&routes, worker, key, hashed);
                }
                match block {
                    None => Next::Last(Step::Await(Awaiting::Binary(request), Announced::new(len, 0))),
                    Some(Block::Whole(value)) => Next::Last(Step::Binary(request.with_value(value))),
                    Some(Block::Unended | Block::Lost) => Next::Last(Step::Lose(Awaiting::Binary(request))),
                }
            }
            Parsed::Incomplete(needed) => Next::Incomplete(needed),
            Parsed::Hopeless => Next::Hopeless,
        }
    });
}

#[cfg(test)]
mod tests;
