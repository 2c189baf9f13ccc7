//! Listing items: `lru_crawler metadump` and `mgdump` piece by piece, `stats cachedump` at once.
//!
//! Shape:      a cursor over the index -> a bounded piece of lines -> the next when that has been sent
//! Invariants: no writer waits; a connection sees the items that its requests can see; memory is bounded by a piece
//! Source:     memcached 1.6.45's lines

use crate::limits::{CACHEDUMP_BUCKETS_MAX, CACHEDUMP_BYTES_MAX, DUMP_BUCKETS_AT_ONCE, DUMP_PIECE};
use crate::memcache::encode_base64;
use crate::shared::Shared;
use crate::tenants::Binding;
use crate::watch::encoded;
use store::{CLASSES, Cursor, Description, Worker};

/// What lines look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Everything that is known of an item.
    Meta,
    /// A request that fetches it.
    Get,
}

/// What is to be listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    /// A bit per size class.
    pub(crate) classes: u64,
}

/// A list that is being sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dump {
    wanted: Wanted,
    cursor: Cursor,
    is_done: bool,
}

/// The classes that words of `metadump` name: `all`, `hash`, or numbers with commas between them.
pub(crate) fn classes(word: &[u8]) -> Option<u64> {
    if word == b"all" || word == b"hash" {
        return Some(u64::MAX);
    }
    let text = std::str::from_utf8(word).ok()?;
    let mut classes = 0;
    for number in text.split(',').filter(|number| !number.is_empty()) {
        let class: u32 = number.parse().ok()?;
        classes |= (0 < class && (class as usize) < CLASSES).then(|| 1 << class)?;
    }
    (classes != 0).then_some(classes)
}

/// Whether a connection may see an item.
pub(crate) fn sees(binding: &Binding, item: &store::Item<'_>) -> bool {
    match *binding {
        Binding::To(tenant) => item.tenant() == tenant,
        Binding::Unbound => !item.has_own_space(),
    }
}

impl Dump {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self { wanted, cursor: Cursor::default(), is_done: false }
    }

    /// Whether everything was written.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Writes the next piece.
    pub(crate) fn write(&mut self, shared: &Shared, worker: &Worker, binding: &Binding, out: &mut Vec<u8>) {
        let wanted = self.wanted;
        let mut left = DUMP_BUCKETS_AT_ONCE;
        while out.len() < DUMP_PIECE && 0 < left && !self.is_done {
            left -= 1;
            let more = worker.walk(&mut self.cursor, 1, |known| {
                let item = &known.item;
                if wanted.classes >> item.class() & 1 == 1 && sees(binding, item) {
                    match wanted.form {
                        Form::Meta => put_meta(shared, worker, known, out),
                        Form::Get => put_get(item, out),
                    }
                }
            });
            if !more {
                self.is_done = true;
                out.extend_from_slice(if wanted.form == Form::Meta { b"END\r\n" } else { b"EN\r\n" });
            }
        }
    }
}

fn put_meta(shared: &Shared, worker: &Worker, known: &Description<'_>, out: &mut Vec<u8>) {
    let item = &known.item;
    let expires = if item.expires_at() == 0 { -1 } else { shared.unix_of(item.expires_at()) };
    let line = format!(
        "key={} exp={expires} la={} cas={} fetch={} cls={} size={} flags={}\n",
        encoded(item.key()),
        shared.unix_of(worker.used_secs(known)),
        item.cas(),
        if known.fetched { "yes" } else { "no" },
        item.class(),
        known.size.0,
        item.client_flags()
    );
    out.extend_from_slice(line.as_bytes());
}

fn put_get(item: &store::Item<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"mg ");
    let is_plain = !item.has_binary_key() && item.key().iter().all(|b| b.is_ascii_graphic() || 127 < *b);
    if is_plain {
        out.extend_from_slice(item.key());
    } else {
        encode_base64(item.key(), out);
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(b"\r\n");
}

/// `stats cachedump CLASS LIMIT`: at most so many items (0 for no limit) of a part of the index, 2 MiB at most.
pub(crate) fn cachedump(
    shared: &Shared,
    worker: &Worker,
    binding: &Binding,
    class: usize,
    limit: usize,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut cursor = Cursor::default();
    let mut count = 0;
    let limit = if limit == 0 { usize::MAX } else { limit };
    for _ in 0..CACHEDUMP_BUCKETS_MAX {
        let more = worker.walk(&mut cursor, 1, |known| {
            let item = &known.item;
            let fits = count < limit && out.len() < CACHEDUMP_BYTES_MAX;
            if fits && item.class() == class && sees(binding, item) && !item.has_binary_key() {
                count += 1;
                let expires = if item.expires_at() == 0 { 0 } else { shared.unix_of(item.expires_at()) };
                out.extend_from_slice(b"ITEM ");
                out.extend_from_slice(item.key());
                out.extend_from_slice(format!(" [{} b; {expires} s]\r\n", item.value_len()).as_bytes());
            }
        });
        if !more || limit <= count || CACHEDUMP_BYTES_MAX <= out.len() {
            break;
        }
    }
    out.extend_from_slice(b"END\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_named_alone_or_all() {
        assert_eq!(classes(b"all"), Some(u64::MAX));
        assert_eq!(classes(b"1,3"), Some(0b1010));
        assert_eq!(classes(b",1,,3"), Some(0b1010));
        for wrong in [b"".as_slice(), b"0", b"64", b"x", b",", b"-1"] {
            assert_eq!(classes(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }
}
