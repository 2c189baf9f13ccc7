//! Heads of a tier: the segments that are being filled, parked while nobody writes to them.
//!
//! Invariants: where all that is alive stays, what passes over the tier open is filled by them alone

use super::Tier;
use super::area::{Area, Head};
use crate::epoch::Epochs;
use crate::segment::State;
use crate::sync::lock;

impl Tier {
    /// A head in which a record fits. Passes over the tier leave no reserve.
    pub(super) fn head_for(&self, epochs: &Epochs, reserve: u32, len: u64) -> Option<Head> {
        let stride = self.area.stride(len);
        // Else writers would take the last segments, which a pass needs to empty others where all that is alive stays.
        let for_survivors = self.keeps_all && reserve == 0;
        if let Some(head) = self.take_parked(for_survivors) {
            if head.used + stride <= self.segments.bytes() {
                return Some(head);
            }
            self.seal(head);
        }
        let mut head = self.area.open(epochs, || {
            let segment = self.segments.take(epochs, reserve)?;
            Some((segment, self.notes.begin_life(segment)))
        })?;
        head.for_survivors = for_survivors;
        self.segments.set_buffer(head.segment, Area::buffer_mark(&head));
        Some(head)
    }

    fn take_parked(&self, for_survivors: bool) -> Option<Head> {
        let mut parked = lock(&self.parked);
        let at = parked.iter().rposition(|head| head.for_survivors == for_survivors)?;
        Some(parked.remove(at))
    }

    /// Ends a head: it can be cleaned, or has to be written first.
    pub(super) fn seal(&self, head: Head) {
        if self.is_mapped() {
            // Nobody writes it out later: so much and no more is forgotten by a crash. In this order: who notes a record from now on sees it.
            self.segments.change(head.segment, State::Head, State::Sealed);
            self.notes.settle_live(self.segments.range(head.segment));
        } else {
            lock(&self.full).push_back(head);
        }
    }

    /// Ends every head that nobody writes to.
    pub(crate) fn seal_parked(&self) {
        let parked = std::mem::take(&mut *lock(&self.parked));
        for head in parked {
            self.seal(head);
        }
    }
}
