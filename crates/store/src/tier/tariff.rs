//! What accesses to a tier cost of the time that is divided, worked out beforehand for every size up to 4 KiB.
//!
//! Shape:      profile, and whether the tier's time is divided -> a table by direction and lines -> cost of an access
//! Invariants: a tier whose time is not divided costs nothing, so that no access asks whether it is
//! Units:      lines of `GRAIN` bytes, whole records; picoseconds of the tier
//! Cost:       a comparison and a load up to 4 KiB; a division above
//! Source:     NyxCache §3.3 (cost = 1 / MaxIOPS of kind and size)

use super::record::GRAIN;
use crate::sync::{AtomicU64, Ordering};
use media::SlowAccess;
use units::Bytes;

/// Lines of the largest size of the table, a profile's: 4 KiB.
const LINES: usize = (media::PROFILE_MAX.0 / GRAIN) as usize;

/// Costs by lines, of none to the most.
type Costs = [AtomicU64; LINES + 1];

/// Costs of reads, then of writes.
#[derive(Debug)]
pub(crate) struct Tariff {
    costs_ps: [Costs; 2],
}

impl Tariff {
    /// Everything costs nothing.
    pub(crate) fn free() -> Self {
        let nothing = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { costs_ps: [nothing(), nothing()] }
    }

    /// Accesses cost what `cost_ps` says of each size from now on. One sets at a time; an access meanwhile costs what it did or
    /// what it will.
    pub(crate) fn set(&self, cost_ps: impl Fn(SlowAccess, u64) -> u64) {
        for kind in [SlowAccess::Read, SlowAccess::Write] {
            for (lines, cost) in (0..).zip(&self.costs_ps[kind as usize]).skip(1) {
                cost.store(cost_ps(kind, lines * GRAIN), Ordering::Relaxed);
            }
        }
    }

    /// What one access of so many lines costs.
    pub(crate) fn cost_ps(&self, kind: SlowAccess, lines: u64) -> u64 {
        self.at_hand(kind, lines).unwrap_or_else(|| large(&self.costs_ps[kind as usize], lines))
    }

    /// The same if it is no larger than a profile's largest size.
    #[inline]
    pub(crate) fn at_hand(&self, kind: SlowAccess, lines: u64) -> Option<u64> {
        let cost = self.costs_ps[kind as usize].get(Bytes(lines).as_usize())?;
        Some(cost.load(Ordering::Relaxed))
    }
}

/// What an access beyond the table costs: as many whole pieces, and the rest.
#[cold]
fn large(costs: &Costs, lines: u64) -> u64 {
    let of = |lines: u64| costs[Bytes(lines).as_usize()].load(Ordering::Relaxed);
    let most = LINES as u64;
    (lines / most).saturating_mul(of(most)).saturating_add(of(lines % most))
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use SlowAccess::{Read, Write};
    use media::Profile;
    use media::model::MemorySystem;

    #[test]
    fn every_size_costs_what_the_profile_says() {
        let profile = Profile::new(&Profile::modelled(&MemorySystem::nyx())).unwrap();
        let tariff = Tariff::free();
        tariff.set(|kind, size| profile.cost_ps(kind, Bytes(size)));
        for size in (1..=3 * LINES as u64).map(|lines| lines * GRAIN).chain([1 << 20, (8 << 20) + GRAIN]) {
            for kind in [Read, Write] {
                assert_eq!(
                    tariff.cost_ps(kind, size / GRAIN),
                    profile.cost_ps(kind, Bytes(size)),
                    "{kind:?} of {size}"
                );
            }
        }
        assert_ne!(tariff.cost_ps(Read, 4), tariff.cost_ps(Write, 4));
    }

    #[test]
    fn who_has_no_tariff_pays_nothing() {
        let tariff = Tariff::free();
        assert_eq!([64, 4096, 4160, 1 << 20].map(|size| tariff.cost_ps(Write, size / GRAIN)), [0; 4]);
    }
}
