//! From results to bytes: replies of one turn, small ones copied, large values by reference into the log.
//!
//! Invariants: pieces are in the order of the requests; references live no longer than the turn; from the first large value on
//!             they go piece by piece (`outgoing`)

use crate::limits::COPY_VALUE_MAX;
use crate::outgoing::{Outgoing, Part};
use std::io::IoSlice;
use store::{Item, Worker};

/// The fixed answers.
pub(crate) mod text {
    pub(crate) const STORED: &[u8] = b"STORED\r\n";
    pub(crate) const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
    pub(crate) const EXISTS: &[u8] = b"EXISTS\r\n";
    pub(crate) const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
    pub(crate) const DELETED: &[u8] = b"DELETED\r\n";
    pub(crate) const TOUCHED: &[u8] = b"TOUCHED\r\n";
    pub(crate) const OK: &[u8] = b"OK\r\n";
    pub(crate) const RESET: &[u8] = b"RESET\r\n";
    pub(crate) const END: &[u8] = b"END\r\n";
    pub(crate) const ERROR: &[u8] = b"ERROR\r\n";
    pub(crate) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
    pub(crate) const BAD_DELETE: &[u8] =
        b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
    pub(crate) const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
    pub(crate) const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
    pub(crate) const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
    pub(crate) const NOT_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    pub(crate) const FLUSH_DISABLED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
    pub(crate) const READ_ONLY: &[u8] = b"CLIENT_ERROR read-only credentials\r\n";
    pub(crate) const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
    pub(crate) const BAD_TERMINATION: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
    pub(crate) const BAD_AUTH_TOKEN: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";
    pub(crate) const AUTH_FAILURE: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
    pub(crate) const SHUTDOWN_DISABLED: &[u8] = b"ERROR: shutdown not enabled\r\n";
    pub(crate) const TLS_OFF: &[u8] = b"Error TLS not enabled\r\n";
    pub(crate) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
    pub(crate) const OVER_RATE: &[u8] = b"SERVER_ERROR too many requests\r\n";
    pub(crate) const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
    pub(crate) const MEMLIMIT_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
    pub(crate) const MEMLIMIT_BYTES: &[u8] = b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
    pub(crate) const MEMLIMIT_FAILED: &[u8] = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
    pub(crate) const META_NO_OP: &[u8] = b"MN\r\n";
    pub(crate) const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
    pub(crate) const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
    pub(crate) const WRONG_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
    pub(crate) const TOO_MANY_FLAGS: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
    pub(crate) const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
    pub(crate) const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
    pub(crate) const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
    pub(crate) const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
    pub(crate) const BAD_DELTA_VALUE: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
    pub(crate) const BAD_SET_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
    pub(crate) const BAD_COUNT_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";
    pub(crate) const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";
    pub(crate) const NO_MEMORY_FOR_ITEM: &[u8] = b"SERVER_ERROR Out of memory allocating new item\r\n";
    pub(crate) const SHUTDOWN_MODE: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
    pub(crate) const WATCH_DISABLED: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
    pub(crate) const WATCH_FULL: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";
    pub(crate) const DUMP_DISABLED: &[u8] = b"ERROR metadump not allowed\r\n";
    pub(crate) const CACHEDUMP_DISABLED: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
    pub(crate) const DETAIL_DISABLED: &[u8] = b"CLIENT_ERROR stats detail not allowed\r\n";
    pub(crate) const CACHEDUMP_FORMAT: &[u8] = b"CLIENT_ERROR bad command line\r\n";
    pub(crate) const CACHEDUMP_CLASS: &[u8] = b"CLIENT_ERROR Illegal slab id\r\n";
    pub(crate) const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";
    pub(crate) const CRAWLER_DISABLED: &[u8] = b"CLIENT_ERROR lru crawler disabled\r\n";
    pub(crate) const CRAWLER_RUNS: &[u8] = b"ERROR failed to start lru crawler thread\r\n";
    pub(crate) const CRAWLER_ERROR: &[u8] = b"ERROR an unknown error happened\r\n";
    pub(crate) const CRAWLER_SLEEP: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
    pub(crate) const NOT_FOR_TENANTS: &[u8] = b"CLIENT_ERROR not on a tenant's own listener\r\n";
    pub(crate) const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
    pub(crate) const LRU_PERCENT: &[u8] = b"ERROR hot and warm pcts must not exceed 80\r\n";
    pub(crate) const LRU_FACTOR: &[u8] = b"ERROR hot/warm age factors must be greater than 0\r\n";
    pub(crate) const SLABS_SAME: &[u8] = b"SAME src and dst class are identical\r\n";
    pub(crate) const SLABS_NO_SPARE: &[u8] = b"NOSPARE source class has no spare pages\r\n";
    pub(crate) const SLABS_BAD_CLASS: &[u8] = b"BADCLASS invalid src or dst class id\r\n";
    pub(crate) const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";
    pub(crate) const NO_BUFFER: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
}

/// The replies of a turn.
#[derive(Debug)]
pub(crate) struct Replies<'w> {
    out: Vec<u8>,
    /// Values sent from the log, each after so many bytes of `out`.
    values: Vec<(usize, Item<'w>)>,
    value_bytes: usize,
    /// Large values among them.
    large: usize,
}

/// How far replies had come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    out: usize,
    values: usize,
    value_bytes: usize,
    large: usize,
}

impl<'w> Replies<'w> {
    /// How far they have come.
    pub(crate) fn mark(&self) -> Mark {
        let (out, values) = (self.out.len(), self.values.len());
        Mark { out, values, value_bytes: self.value_bytes, large: self.large }
    }

    /// Drops what was put since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.out.truncate(mark.out);
        self.values.truncate(mark.values);
        (self.value_bytes, self.large) = (mark.value_bytes, mark.large);
    }

    /// Collects behind what is in `out`.
    pub(crate) fn new(out: Vec<u8>) -> Self {
        Self { out, values: Vec::new(), value_bytes: 0, large: 0 }
    }

    /// Bytes collected.
    pub(crate) fn len(&self) -> usize {
        self.out.len() + self.value_bytes
    }

    /// Pieces that a gathering write would have.
    pub(crate) fn pieces(&self) -> usize {
        self.values.len() * 2 + 1
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn put_number(&mut self, number: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// `VALUE key flags length [cas]`, the value, and the line end.
    #[inline]
    pub(crate) fn put_value(&mut self, key: &[u8], item: &Item<'w>, with_cas: bool) {
        let value = item.value();
        self.put(b"VALUE ");
        self.put(key);
        self.put(b" ");
        match item.client_flags() {
            0 => self.put(b"0"),
            flags => self.put_number(u64::from(flags)),
        }
        self.put(b" ");
        self.put_number(value.len() as u64);
        if with_cas {
            self.put(b" ");
            self.put_number(item.cas());
        }
        self.put(b"\r\n");
        self.put_body(item);
    }

    /// An item's value and the line end behind it.
    #[inline]
    pub(crate) fn put_body(&mut self, item: &Item<'w>) {
        self.put_from_log(item);
        self.put(b"\r\n");
    }

    /// An item's value: copied if it is small, else by reference.
    #[inline]
    pub(crate) fn put_from_log(&mut self, item: &Item<'w>) {
        let value = item.value();
        if value.len() <= COPY_VALUE_MAX {
            self.put(value);
        } else {
            self.values.push((self.out.len(), *item));
            self.value_bytes += value.len();
            self.large += usize::from(item.is_large());
        }
    }

    /// Whether large values are among them: nothing is executed behind those before they have gone.
    #[inline]
    pub(crate) fn has_large_values(&self) -> bool {
        0 < self.large
    }

    /// The pieces in order, for one gathering write, up to the first large value.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(self.pieces());
        let mut from = 0;
        for (to, item) in &self.values {
            slices.push(IoSlice::new(&self.out[from..*to]));
            if item.is_large() {
                return slices;
            }
            slices.push(IoSlice::new(item.value()));
            from = *to;
        }
        slices.push(IoSlice::new(&self.out[from..]));
        slices
    }

    /// What goes behind them.
    pub(crate) fn outgoing(&self, worker: &Worker) -> Option<Outgoing> {
        let first = self.values.iter().position(|(_, item)| item.is_large())?;
        let mut outgoing = Outgoing::default();
        let mut from = self.values[first].0;
        for (to, item) in &self.values[first..] {
            outgoing.push(Part::Bytes(self.out[from..*to].to_vec()));
            outgoing.push(match worker.pin(item) {
                Some(pinned) => Part::Value(pinned),
                None => Part::Bytes(item.value().to_vec()),
            });
            from = *to;
        }
        outgoing.push(Part::Bytes(self.out[from..].to_vec()));
        Some(outgoing)
    }

    /// Whether everything is in one piece.
    pub(crate) fn is_flat(&self) -> bool {
        self.values.is_empty()
    }

    /// The bytes of a flat reply.
    pub(crate) fn flat(&self) -> &[u8] {
        &self.out
    }

    /// Gives the buffer back.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.out
    }
}
