//! How a tenant competes for memory by worth, as one word that cleaners read; and what hits its items let expect.
//!
//! Shape:      a worth or none <-> 32 bits: eighths of an octave in the lowest 16, above them whether it holds within the group;
//!             surveys add hits expected, the sensor takes them
//! Invariants: what is read was set as a whole; hits are expected once for what was written, whoever surveys

use super::Tenant;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use control::memory::Worth;

/// By need.
const NONE: u32 = u32::MAX;

/// A worth that changes while it is read.
#[derive(Debug)]
pub(super) struct WorthCell(AtomicU32);

impl Default for WorthCell {
    fn default() -> Self {
        Self(AtomicU32::new(NONE))
    }
}

impl WorthCell {
    pub(super) fn set(&self, worth: Option<Worth>) {
        let pack = |worth: Worth| u32::from(worth.more.cast_unsigned()) | u32::from(worth.within_group) << 16;
        self.0.store(worth.map_or(NONE, pack), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<Worth> {
        let packed = self.0.load(Ordering::Relaxed);
        let [low, high, group, _] = packed.to_le_bytes();
        (packed != NONE).then(|| Worth { more: i16::from_le_bytes([low, high]), within_group: group != 0 })
    }
}

/// Hits that ranks let expect, and until when they have been added up.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Since the last reading, in thousandths.
    hits: AtomicU64,
    /// Bytes that the tenant had written when a survey of any thread last asked.
    until: AtomicU64,
}

impl Tenant {
    /// Bytes that it had written when a survey last asked.
    pub(crate) fn surveyed_until(&self) -> u64 {
        self.expected.until.load(Ordering::Relaxed)
    }

    /// Of the bytes that it has written by now those that no survey has asked for.
    pub(crate) fn take_unsurveyed(&self, now: u64) -> u64 {
        now.saturating_sub(self.expected.until.fetch_max(now, Ordering::Relaxed))
    }

    /// Adds hits that the ranks of its items let expect.
    pub(crate) fn expect_hits(&self, hits: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; saturates"
        )]
        let thousandths = (hits * 1e3) as u64;
        self.expected.hits.fetch_add(thousandths, Ordering::Relaxed);
    }

    /// What was expected since the last reading, in thousandths of hits.
    pub(crate) fn take_expected_hits(&self) -> u64 {
        self.expected.hits.swap(0, Ordering::Relaxed)
    }

    /// How it competes by worth, if it does.
    pub(crate) fn worth(&self) -> Option<Worth> {
        self.worth.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read() {
        let cell = WorthCell::default();
        assert_eq!(cell.get(), None);
        for more in [0, 1, -1, i16::MIN, i16::MAX] {
            for within_group in [false, true] {
                let worth = Some(Worth { more, within_group });
                cell.set(worth);
                assert_eq!(cell.get(), worth);
            }
        }
        cell.set(None);
        assert_eq!(cell.get(), None);
    }
}
