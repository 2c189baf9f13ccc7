//! Heads of a tier: the segments that are being filled, parked while nobody writes to them.
//!
//! Invariants: what a pass over the tier opens where only the reserve is left, or all that is alive stays, is filled by such passes alone:
//!             else writers would take the last segments, which a pass needs to empty others

use super::area::{Area, Head};
use super::{Tier, limits};
use crate::epoch::Epochs;
use crate::segment::State;
use crate::sync::lock;

impl Tier {
    /// A head in which a record fits. Passes over the tier leave no reserve.
    pub(super) fn head_for(&self, epochs: &Epochs, reserve: u32, len: u64) -> Option<Head> {
        let stride = self.area.stride(len);
        let is_pass = reserve == 0;
        let of_reserve = is_pass && (self.keeps_all || self.segments.available() <= limits::TIER_RESERVE);
        let parked = if is_pass { self.take_parked(true) } else { None };
        if let Some(head) = parked.or_else(|| if of_reserve { None } else { self.take_parked(false) }) {
            if head.used + stride <= self.segments.bytes() {
                return Some(head);
            }
            self.seal(head);
        }
        let mut head = self.area.open(epochs, || {
            let segment = self.segments.take(epochs, reserve)?;
            Some((segment, self.notes.begin_life(segment)))
        })?;
        head.for_survivors = of_reserve;
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

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Options;
    use crate::tier::{Owner, record};
    use media::Plain;
    use std::sync::Arc;
    use units::Bytes;

    #[test]
    fn writers_do_not_fill_what_a_pass_opened_of_the_reserve() {
        let options = Options {
            memory: Bytes::mib(8),
            item_max: Bytes::kib(64),
            threads: 2,
            tenants_max: 4,
            no_evict: false,
            seed: 1,
        };
        let tier = Tier::new(0, Arc::new(Plain::new(Bytes::mib(16)).unwrap()), &options).unwrap();
        let epochs = Epochs::new();
        let (own_space, stamp, cas, client_flags, expires_wall, state) = (true, 1, None, 0, 0, 0);
        let owner = Owner(0);
        let fields = record::Fields { owner, own_space, stamp, cas, client_flags, expires_wall, state };
        let append = |reserve| tier.append(&epochs, (reserve, 0), &fields, b"key", [&[7; 2_000], &[]]);
        while append(limits::TIER_RESERVE).is_ok() {}
        assert_eq!(tier.segments.available(), limits::TIER_RESERVE);
        let first = append(0).unwrap();
        assert_eq!(tier.segments.available(), limits::TIER_RESERVE - 1);
        assert!(append(limits::TIER_RESERVE).is_err(), "a segment of the reserve has room, for a pass");
        let second = append(0).unwrap();
        assert_eq!(tier.segments.of(second.at), tier.segments.of(first.at));
    }
}
