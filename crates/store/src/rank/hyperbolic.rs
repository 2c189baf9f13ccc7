//! Hyperbolic caching: uses per time in the cache, and per byte if that is asked for; the lowest goes first.
//!
//! Units:  uses as the Morris counter has them; time in ticks of the rank clock since the item was stored
//! Source: Blankstein, Sen, Freedman, ATC 2017: p = n / t, also divided by a cost, here bytes. They draw a sample per
//!         eviction and keep both numbers in each item; here a pass is the sample, n is four bits, and t is told from the
//!         item's stamp. A value that is stored again keeps its uses and begins a new time

use super::Usage;
use super::clock::Clock;
use super::uses::USES;

/// Uses per tick since the item was stored.
#[inline]
pub(super) fn uses_per_tick(item: &Usage, clock: &Clock) -> f64 {
    f64::from(USES[usize::from(item.uses)]) / clock.ticks_stored(item)
}

/// Uses per tick and byte.
#[inline]
pub(super) fn uses_per_tick_and_byte(item: &Usage, clock: &Clock) -> f64 {
    uses_per_tick(item, clock) / f64::from(item.size)
}
