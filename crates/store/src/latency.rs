//! How long an access to the divided tier takes now: small accesses of nobody, timed.
//!
//! Units:   nanoseconds, of an access of 256 B where its time is modelled, else of the tier's access unit
//! Cost:    a few accesses of the tier, which no tenant is charged
//! Failure: what cannot be timed is not: stores to a tier that is no memory, and memory that is in the processor's caches after one look
//! Source:  MT² §3.2.2 takes the latency of the medium from queue occupancies; without counters it is probed

use crate::store::Store;
use control::bandwidth::Kinds;
use media::{Buffer, SlowAccess};
use units::{Bytes, Duration};

/// Probes whose median counts: a single one meets whatever is under way at its moment (guess).
const PROBES: usize = 5;
/// The medium's own unit (NyxCache §2.1).
const UNIT: Bytes = Bytes(256);

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
        let mut probes = [Duration::ZERO; PROBES];
        for probe in &mut probes {
            *probe = self.probe(kind)?;
        }
        probes.sort_unstable();
        Some(probes[PROBES / 2])
    }

    fn probe(&self, kind: SlowAccess) -> Option<Duration> {
        let tier = self.tiers.get(usize::from(self.divided_tier()?))?;
        let (device, watch) = (&tier.device, self.brakes.watch());
        let started = watch.now();
        if device.is_timed() {
            device.take_time(kind, UNIT);
        } else if tier.is_mapped() {
            return None;
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
