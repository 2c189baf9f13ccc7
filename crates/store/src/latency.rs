//! How long an access to the divided tier takes now: small accesses of nobody, timed.
//!
//! Units:   nanoseconds, of an access of 256 B where its time is modelled, of a cache line where the tier is memory, else of its access unit
//! Cost:    a few accesses of the tier, which no tenant is charged
//! Failure: what cannot be timed is not: stores to a tier whose time is not modelled
//! Source:  MT² §3.2.2 takes the latency of the medium from queue occupancies; without counters it is probed

use crate::store::Store;
use crate::tier::Tier;
use control::bandwidth::{Kind, Kinds};
use media::{Buffer, SlowAccess};
use units::{Bytes, Duration};

/// Probes whose median counts: a single one meets whatever is under way at its moment (guess).
const PROBES: usize = 5;
/// The same of loads from memory, which take some 100 ns each (guess): what they are compared with is a ninth more.
const LOADS: usize = 65;
const PAGE: usize = 4096;
/// The medium's own unit (NyxCache §2.1).
const UNIT: Bytes = Bytes(256);

/// What some looks at a tier saw, each of its moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    sum_ns: Kinds<u64>,
    count: Kinds<u32>,
}

impl Looks {
    pub(crate) fn add(&mut self, seen: Kinds<Option<Duration>>) {
        for kind in Kind::ALL {
            if let Some(latency) = seen.get(kind) {
                let sum = self.sum_ns.get_mut(kind);
                *sum = sum.saturating_add(latency.0);
                *self.count.get_mut(kind) += 1;
            }
        }
    }

    /// Their mean, of each kind that one of them saw: as over all of the time between them.
    pub(crate) fn mean(&self) -> Kinds<Option<Duration>> {
        Kinds::from_fn(|kind| {
            Some(Duration(self.sum_ns.get(kind).checked_div(u64::from(*self.count.get(kind)))?))
        })
    }
}

impl Store {
    /// How long reads and writes of the divided tier take now, as far as that can be told.
    #[must_use]
    pub fn tier_latency(&self) -> Kinds<Option<Duration>> {
        Kinds {
            slow_read: self.probe_median(SlowAccess::Read),
            slow_write: self.probe_median(SlowAccess::Write),
            ..Kinds::default()
        }
    }

    fn probe_median(&self, kind: SlowAccess) -> Option<Duration> {
        let tier = self.tiers.get(usize::from(self.divided_tier()?))?;
        let is_loaded = !tier.device.is_timed() && tier.is_mapped();
        let mut probes = [Duration::ZERO; LOADS];
        let probes = &mut probes[..if is_loaded { LOADS } else { PROBES }];
        for probe in probes.iter_mut() {
            *probe = if is_loaded { self.load(tier, kind)? } else { self.probe(tier, kind)? };
        }
        probes.sort_unstable();
        Some(probes[probes.len() / 2])
    }

    /// Times a load from memory.
    fn load(&self, tier: &Tier, kind: SlowAccess) -> Option<Duration> {
        let region = tier.device.mapped().filter(|_| kind == SlowAccess::Read)?;
        let watch = self.brakes.watch();
        // Each time another page: a line that was just loaded may be in a buffer of the medium.
        let page = watch.now().0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let at = usize::try_from(page).unwrap_or(0).wrapping_mul(PAGE) % region.len();
        media::cold::load(region, at, watch)
    }

    /// Times an access whose time is modelled, or a read of a tier that is no memory.
    fn probe(&self, tier: &Tier, kind: SlowAccess) -> Option<Duration> {
        let (device, watch) = (&tier.device, self.brakes.watch());
        let started = watch.now();
        if device.is_timed() {
            device.take_time(kind, UNIT);
        } else if kind == SlowAccess::Read {
            let unit = device.access_unit();
            let mut buffer = Buffer::new(unit).ok()?;
            device.read(0, buffer.bytes_mut()).ok()?;
        } else {
            return None;
        }
        // A threshold of nothing could not be passed.
        Some(watch.now().since(started).max(Duration(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_told_by_their_mean_of_each_kind_that_was_seen() {
        let seen = |read: Option<u64>, write: Option<u64>| Kinds {
            slow_read: read.map(Duration),
            slow_write: write.map(Duration),
            ..Kinds::default()
        };
        let mut looks = Looks::default();
        assert_eq!(looks.mean(), seen(None, None));
        for (read, write) in [(Some(800), None), (Some(2_000), Some(700)), (Some(803), None)] {
            looks.add(seen(read, write));
        }
        assert_eq!(looks.mean(), seen(Some(1_201), Some(700)));
    }
}
