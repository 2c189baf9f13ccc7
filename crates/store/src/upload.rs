//! A value on its way in: its bytes go where they will stay, as they come.
//!
//! Shape:      addresses for the whole -> pieces, each with memory of its own -> a write that is given its bytes leads to them
//! Invariants: it takes memory only for what has come; until an item leads to it nobody but its owner sees it; dropped before
//!             that it is gone
//! Failure:    no memory for a piece: nothing of that piece was taken

use crate::item::Meta;
use crate::log::{Coming, Lent};
use crate::stamps::Needed;
use crate::store::Store;
use crate::worker::Worker;
use std::sync::Arc;
use units::Bytes;

/// A value on its way in.
#[derive(Debug)]
pub struct Upload {
    store: Arc<Store>,
    coming: Coming,
    /// Bytes that have come.
    filled: usize,
    /// Bytes that there is memory for.
    backed: usize,
    /// An earlier run had it, and it may have all the memory.
    is_brought: bool,
}

/// Why a piece was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// No memory is free: let go of items, call `make_room`, come again.
    NoRoom,
    /// Values on their way in have all the memory that they may.
    TooMany,
}

impl Worker {
    /// Begins a large value of so many bytes; none if it is longer than all that may be on their way in, if there is no
    /// place for it, or others that are on their way in have all that such may have.
    #[must_use]
    pub fn begin_upload(&self, len: usize) -> Option<Upload> {
        if self.store.uploads_max() < len as u64 {
            return None;
        }
        let coming = self.store.log.announce_value(len)?;
        Some(Upload { store: Arc::clone(&self.store), coming, filled: 0, backed: 0, is_brought: false })
    }

    /// Whether an item can have its value in a segment.
    pub(crate) fn fits_segment(&self, meta: &Meta, key_len: usize, value_len: usize) -> bool {
        needed(meta, key_len, value_len) <= self.store.geometry.in_segment_max.as_usize()
    }

    /// Begins a value that an earlier run had, while nobody else works with the store: it may have all the memory. None if it is too large
    /// for an item now, or there is no place for it.
    pub(crate) fn bring_value(&self, meta: &Meta, key_len: usize, len: usize) -> Option<Upload> {
        if self.store.geometry.item_max.as_usize() < needed(meta, key_len, len) {
            return None;
        }
        let coming = self.store.log.begin_value(len)?;
        Some(Upload { store: Arc::clone(&self.store), coming, filled: 0, backed: 0, is_brought: true })
    }

    /// Takes the next bytes of such a value. Returns whether there was room for them, or could be made.
    pub(crate) fn fill(&mut self, upload: &mut Upload, mut part: &[u8]) -> bool {
        loop {
            match upload.take(&mut part) {
                Ok(()) => return true,
                Err(Shortage::NoRoom) if self.make_room().is_ok() => {}
                Err(_) => return false,
            }
        }
    }
}

/// Bytes of an item with all of its value, wherever that is written next.
fn needed(meta: &Meta, key_len: usize, value_len: usize) -> usize {
    Needed::new(meta.item_len(key_len, value_len), meta.cas.is_some()).at_most()
}

impl Upload {
    /// Bytes still to come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.coming.apart.len as usize - self.filled
    }

    /// Bytes that have come.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Takes the next bytes off `data`, as many as belong to it.
    ///
    /// # Errors
    /// If there is no memory for more of them; what is left in `data` was not taken.
    pub fn take(&mut self, data: &mut &[u8]) -> Result<(), Shortage> {
        while !data.is_empty() && 0 < self.missing() {
            if self.filled == self.backed {
                self.back()?;
            }
            let here = data.len().min(self.backed - self.filled);
            let (piece, rest) = data.split_at(here);
            self.store.log.write_value(self.coming.apart, self.filled, piece);
            self.filled += here;
            *data = rest;
        }
        Ok(())
    }

    /// Memory for the next piece: at most a segment's, which is what `make_room` makes.
    fn back(&mut self) -> Result<(), Shortage> {
        let log = &self.store.log;
        let next = (self.backed + log.segment_bytes()).min(self.coming.apart.len as usize);
        let most = if self.is_brought { u64::MAX } else { self.store.uploads_max() };
        match log.back_value(&self.store.epochs, self.coming, next, most) {
            Lent::Done => {
                self.store.note_written(Bytes((next - self.backed) as u64));
                self.backed = next;
                Ok(())
            }
            Lent::NoRoom(_) => Err(Shortage::NoRoom),
            Lent::TooMany => Err(Shortage::TooMany),
        }
    }

    /// The whole value: a write that is given these bytes does not copy them.
    ///
    /// # Panics
    /// If bytes are missing.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        assert_eq!(self.missing(), 0, "a value is whole before it is stored");
        self.store.log.value_held(self.coming.apart)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.store.log.give_up_value(self.coming);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::worker::{Key, Refused};
    use crate::{Fields, Mode, Options, RankKind, Space, TenantSpec};
    use units::TenantId;

    const LARGE: usize = 20 << 20;

    /// A store that may not evict.
    fn store() -> (Worker, TenantId) {
        let options = Options {
            memory: Bytes::mib(64),
            item_max: Bytes::mib(32),
            threads: 1,
            tenants_max: 2,
            no_evict: true,
            seed: 1,
        };
        let store = Store::new(options).unwrap();
        let (name, claim, rank) = ("t".to_owned(), control::Claim::default(), RankKind::Lru);
        let tenant = store.add_tenant(TenantSpec { name, own_space: false, claim, rank }).unwrap();
        (store.worker().unwrap(), tenant)
    }

    fn key<'k>(worker: &Worker, name: &'k str) -> Key<'k> {
        worker.key(Space::Shared, name.as_bytes()).unwrap()
    }

    /// A write as a server does it: answered once there is no room to be made.
    fn put(worker: &mut Worker, tenant: TenantId, (mode, name): (Mode, &str), value: &[u8]) -> bool {
        let mut is_out_of_memory = false;
        loop {
            let written = worker.set(tenant, &key(worker, name), mode, Fields::default(), value);
            match written {
                Ok(_) => return true,
                Err(Refused::NoRoom) if is_out_of_memory => {
                    worker.note_no_memory(tenant, None);
                    return false;
                }
                Err(Refused::NoRoom) => is_out_of_memory = worker.make_room().is_err(),
                Err(why) => panic!("{why:?}"),
            }
        }
    }

    #[test]
    fn a_piece_asks_for_no_more_than_its_segment_whatever_was_refused_before() {
        let (mut worker, tenant) = store();
        assert!(put(&mut worker, tenant, (Mode::Set, "large"), &vec![1; LARGE]));
        let names: Vec<_> = (0..4_000).map(|n| format!("small {n}")).collect();
        let stored =
            names.iter().take_while(|name| put(&mut worker, tenant, (Mode::Set, name), &[2; 16_000]));
        let stored = stored.count();
        assert!(stored < names.len(), "it is full");
        assert!(!put(&mut worker, tenant, (Mode::Append, "large"), b"x"));
        // A few segments of it are dead now: fewer than the append wanted.
        let dead = 4 * worker.store().log.segment_bytes() / 16_000;
        for name in &names[..dead] {
            assert!(worker.delete(tenant, &key(&worker, name)));
        }
        let mut upload = worker.begin_upload(worker.store().log.segment_bytes() * 3 / 2).unwrap();
        let mut data = &vec![3; upload.missing()][..];
        let mut waited = 0;
        while upload.take(&mut data) == Err(Shortage::NoRoom) {
            worker.make_room().unwrap();
            waited += 1;
        }
        assert!(0 < waited && upload.missing() == 0);
    }
}
