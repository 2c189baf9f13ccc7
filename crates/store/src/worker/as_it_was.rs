//! Making an item again that an earlier run had, or that a tier brought back: as it was.
//!
//! Failure: no segment, or no place in the index: `Refused::NoRoom`

use super::{Key, Refused, Worker};
use crate::account::link;
use crate::index::Locked;
use crate::item::{Apart, Sizes};
use crate::slot::Slot;
use crate::stamps::{Needed, restamp};
use crate::tier::Made;

impl Worker {
    /// Writes an item as it was, that the index does not know. Its value fits a segment, or was uploaded.
    pub(crate) fn put_as_it_was(
        &self,
        locked: &Locked<'_>,
        key: &Key<'_>,
        made: &Made<'_>,
    ) -> Result<(), Refused> {
        let mut meta = made.meta;
        let apart = if made.value.is_empty() { None } else { self.store.log.uploaded(made.value) };
        meta.is_apart = apart.is_some();
        let reference = apart.map(Apart::encode);
        let tail = reference.as_ref().map_or(made.value, |reference| reference);
        let needed = Needed::new(meta.item_len(made.key.len(), tail.len()), meta.cas.is_some());
        if self.store.log.segment_bytes() < needed.at_most() {
            return Err(Refused::TooLarge);
        }
        let mut head = self.head.borrow_mut();
        let head = self.head_for(&mut head, needed, made.stamp)?;
        restamp(&mut meta, made.stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(made.key.len(), tail.len(), &mut header);
        let parts = [&header[..header_len], made.key, tail, &[]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = self.store.log.append(head, parts).expect("the head was made for this item");
        let slot = Slot::new(key.hash, place, made.tick, made.uses);
        if !locked.insert(slot, |s| self.store.hash_at(&self.reader, s)) {
            self.crowded.set(true);
            return Err(Refused::NoRoom);
        }
        let below = meta.away.map_or(0, |away| away.footprint(made.key.len()));
        link(&self.store, &self.counters, place, &meta, Sizes::new(len, apart).with_below(below), made.stamp);
        if let Some(away) = meta.away {
            self.store.tier(away).adopt(away, made.key.len());
        }
        if let Some(apart) = apart {
            self.store.log.link_value(apart, key.hash);
        }
        Ok(())
    }

    /// Grows the index if it is crowded, as after every write.
    pub(crate) fn after_make(&self) {
        self.after_write();
    }
}
