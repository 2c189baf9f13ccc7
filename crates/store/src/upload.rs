//! A value on its way in: its bytes go where they will stay, as they come.
//!
//! Shape:      addresses for the whole -> pieces, each with memory of its own -> a write that is given its bytes leads to them
//! Invariants: it takes memory only for what has come; until an item leads to it nobody but its owner sees it; dropped before
//!             that it is gone
//! Failure:    no memory for a piece: nothing of that piece was taken

use crate::log::{Coming, Lent};
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
    /// Begins a value of so many bytes that fits no segment; none if there is no place for it, or others that are on their way in have all
    /// that such may have.
    #[must_use]
    pub fn begin_upload(&self, len: usize) -> Option<Upload> {
        let coming = self.store.log.announce_value(len)?;
        Some(Upload { store: Arc::clone(&self.store), coming, filled: 0, backed: 0 })
    }
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
        match log.back_value(&self.store.epochs, self.coming, next, log.uploads_max()) {
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
