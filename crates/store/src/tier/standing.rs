//! How a tenant stands to tiers: where its values go, how it is held back, and which of its hits there are more than counted.
//!
//! Shape:      placement, brake, the store's promotion and whether a tier takes time -> the fewest uses from which a hit is heeded
//! Invariants: a hit of a tenant that is held back, or that takes time, is heeded whatever its uses, as soon as that was said
//! Units:      uses as slots count them
//! Cost:       a hit that needs no more than counting pays one load and one comparison

use super::{Placement, Promotion};
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use media::brake::{Brake, Setting};
use units::Instant;

/// More uses than any slot counts.
const NEVER: u32 = u32::MAX;

/// A tenant's.
#[derive(Debug)]
pub(crate) struct Standing {
    /// As `Placement::code`.
    placement: AtomicU32,
    brake: Brake,
    /// Hits of so many uses are heeded. Follows from the others; set under the lock of `reasons`, as they are.
    heeded_from: AtomicU32,
    reasons: Mutex<Reasons>,
}

/// What the store says of all tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reasons {
    /// When hits bring values back.
    pub(crate) promotion: Promotion,
    /// Whether accesses to a tier have to be made to take their time.
    pub(crate) timed: bool,
}

impl Standing {
    pub(crate) fn new(reasons: Reasons) -> Self {
        let standing = Self {
            placement: AtomicU32::new(Placement::Dram.code()),
            brake: Brake::default(),
            heeded_from: AtomicU32::new(NEVER),
            reasons: Mutex::new(reasons),
        };
        standing.change(|_| ());
        standing
    }

    /// Where its values go.
    #[inline]
    pub(crate) fn placement(&self) -> Placement {
        Placement::of_code(self.placement.load(Ordering::Relaxed))
    }

    /// How its accesses to the tier whose time is divided are held back. It is set here alone.
    pub(crate) fn brake(&self) -> &Brake {
        &self.brake
    }

    /// Whether a hit of so many uses may have to do more than be counted.
    #[inline]
    pub(crate) fn heeds(&self, uses: u8) -> bool {
        self.heeded_from.load(Ordering::Relaxed) <= u32::from(uses)
    }

    pub(crate) fn set_placement(&self, placement: Placement) {
        self.change(|_| self.placement.store(placement.code(), Ordering::Relaxed));
    }

    pub(crate) fn set_promotion(&self, promotion: Promotion) {
        self.change(|reasons| reasons.promotion = promotion);
    }

    /// As [`Brake::set`].
    pub(crate) fn set_brake(&self, setting: Setting, now: Instant) -> bool {
        self.change(|_| self.brake.set(setting, now))
    }

    /// As [`Brake::begin`].
    pub(crate) fn begin_brake(&self, setting: Setting, now: Instant) -> bool {
        self.change(|_| self.brake.begin(setting, now))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Reasons) -> T) -> T {
        let mut reasons = lock(&self.reasons);
        let said = change(&mut reasons);
        let promoted = reasons.promotion.uses().filter(|_| self.placement() == Placement::Auto);
        let from = if reasons.timed || !self.brake.is_free() { 0 } else { promoted.map_or(NEVER, u32::from) };
        self.heeded_from.store(from, Ordering::Relaxed);
        said
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// The fewest uses that are heeded, of none to fifteen.
    fn from(standing: &Standing) -> Option<u8> {
        let heeded: Vec<_> = (0..16).filter(|uses| standing.heeds(*uses)).collect();
        let from = heeded.first().copied();
        assert_eq!(heeded, from.map_or(vec![], |from| (from..16).collect()));
        from
    }

    #[test]
    fn hits_that_may_be_promoted_are_heeded() {
        let standing = Standing::new(Reasons::default());
        for (placement, promotion, expected) in [
            (Placement::Dram, Promotion::Always, None),
            (Placement::Tier(0), Promotion::Repeated, None),
            (Placement::Auto, Promotion::Never, None),
            (Placement::Auto, Promotion::Repeated, Some(2)),
            (Placement::Auto, Promotion::Always, Some(0)),
        ] {
            standing.set_placement(placement);
            standing.set_promotion(promotion);
            assert_eq!(from(&standing), expected, "{placement:?}, {promotion:?}");
        }
    }

    #[test]
    fn every_hit_of_who_is_held_back_is_heeded() {
        let standing = Standing::new(Reasons::default());
        let now = Instant::ZERO;
        let set: [fn(&Standing, Setting, Instant) -> bool; 2] = [Standing::set_brake, Standing::begin_brake];
        for set in set {
            set(&standing, Setting { delay: 1, ..Setting::FREE }, now);
            assert_eq!(from(&standing), Some(0));
            set(&standing, Setting::FREE, now);
            assert_eq!(from(&standing), None);
        }
    }

    #[test]
    fn every_hit_is_heeded_where_accesses_take_time() {
        let standing = Standing::new(Reasons { timed: true, ..Reasons::default() });
        assert_eq!(from(&standing), Some(0));
        standing.set_placement(Placement::Tier(0));
        assert_eq!(from(&standing), Some(0));
    }
}
