//! Traces: recorded requests, read one by one from the formats in which they are published.
//!
//! Shape:      file or stdin -> (zstd) -> lines -> one reader per format -> `Request`
//! Invariants: a key is ready for the wire: padded, at most 250 bytes, no space or control byte;
//!             `at` never goes back, a row with an earlier time counts as at the time of the row before it
//! Cost:       no allocation per request; a request borrows from the reader's buffers
//! Failure:    `TraceError`, with the file and the line; the call after it goes on with the next line if it can
//! Non-goals:  CSV quoting: no published format uses it, a quote is part of the key

mod arc;
mod error;
mod fields;
mod format;
mod key;
mod lines;
mod mix;
mod open;
mod stream;
mod tenant;
mod twitter;

pub use error::{Place, TraceError};
pub use format::{Format, UnknownFormat};
pub use open::{head, open, open_reader, unpack, zstd_magic};
pub use tenant::with_tenant;

use units::Instant;

/// Names of the recorded single streams that benchmarks and tests use where they are present, and whether their items
/// have sizes.
pub const STREAMS: [(&str, bool); 8] = [
    ("orm-busy", false),
    ("web12", false),
    ("scarab-recs-h1", false),
    ("cloudphysics-w106", false),
    ("arc-P3", true),
    ("arc-P6", true),
    ("http-nasa-19950801", true),
    ("llmkv-conversation-h1", false),
];

/// One request of a trace or of a generated workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// When, since the trace's own origin. Zero throughout where the format has no times.
    pub at: Instant,
    /// Who asks; empty where the format has no tenants.
    pub tenant: &'a [u8],
    /// The key as it goes over the wire, tenant prefix and padding included.
    pub key: &'a [u8],
    /// Size of the value that is stored, or that a missed `get` would store.
    pub value_bytes: u32,
    /// What is asked.
    pub op: Op,
    /// Time to live of what is stored, 0 for ever.
    pub ttl_secs: u32,
}

/// What a request asks for, named as in the memcached protocol.
///
/// `Get` and `Gets` are look-aside: on a miss the client sets the key with the request's size and TTL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Look up; a miss sets.
    Get,
    /// Look up with the unique id; a miss sets.
    Gets,
    /// Store.
    Set,
    /// Store if absent.
    Add,
    /// Store if present.
    Replace,
    /// Store if unchanged since `gets`.
    Cas,
    /// Add to the end of a present value.
    Append,
    /// Add to the start of a present value.
    Prepend,
    /// Remove.
    Delete,
    /// Add to a number.
    Incr,
    /// Subtract from a number.
    Decr,
}

impl Op {
    /// Every op with its name in traces.
    pub const NAMES: [(Self, &'static str); 11] = [
        (Self::Get, "get"),
        (Self::Gets, "gets"),
        (Self::Set, "set"),
        (Self::Add, "add"),
        (Self::Replace, "replace"),
        (Self::Cas, "cas"),
        (Self::Append, "append"),
        (Self::Prepend, "prepend"),
        (Self::Delete, "delete"),
        (Self::Incr, "incr"),
        (Self::Decr, "decr"),
    ];

    /// Whether it looks up and, on a miss, sets.
    #[must_use]
    pub const fn is_look_up(self) -> bool {
        matches!(self, Self::Get | Self::Gets)
    }

    /// The op called `name`.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(op, _)| *op)
    }
}

/// A source of requests in order: a trace file or a generated workload.
pub trait TraceReader {
    /// The next request, `None` at the end. The request borrows from the reader until the next call.
    ///
    /// # Errors
    /// A `TraceError` with the place where the trace is not what its format says.
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError>;
}

impl<R: TraceReader + ?Sized> TraceReader for Box<R> {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        (**self).next()
    }
}

#[cfg(test)]
mod testing;
