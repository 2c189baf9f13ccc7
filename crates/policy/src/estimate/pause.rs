//! How long all but one pause so that it is seen alone, and how often.
//!
//! Shape:      how long a quiet access of the medium takes -> how long a pause lasts, what of it counts, how many there are
//! Invariants: all pauses of a period together last no longer than twelve on a medium as fast as memory, but where somebody wants them to
//!             settle for longer
//! Units:      time; accesses in a pause, by their time
//! Source:     NyxCache §4.1 (pauses of 1 ms, 12 tenants, each second). We differ: pauses are longer on a slower medium, for in a
//!             millisecond a disk does ten accesses one after the other, and settle before anything counts

use units::Duration;

/// A pause long enough to see how a tenant performs alone on a medium as fast as memory (NyxCache §4.1).
pub const PAUSE: Duration = Duration::from_millis(1);
/// A read of a medium as fast as memory takes at most so long; pauses are longer in proportion on slower ones (the paper's
/// medium takes .2 to .3 µs).
const QUICK: Duration = Duration::from_micros(1);
/// What counts of a pause is at most so many times as long: who is paused stands still for that and longer (guess).
const LONGER_MOST: f64 = 10.0;
/// A probe may outlive its pause by so many pauses.
const LEASE_PAUSES: u64 = 20;
/// Most probes in a period: the largest number of tenants that the paper measured (NyxCache §4.1, Fig. 5b).
pub const PROBES_MOST: u32 = 12;

/// How long all but one pause for a probe, and how many probes there are in a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// What others had under way is still being done, and caches hold what they moved: does not count.
    settle: Duration,
    counts: Duration,
    /// Probes in a period at most.
    most: u32,
}

impl Default for Pause {
    /// The paper's.
    fn default() -> Self {
        Self { settle: Duration::ZERO, counts: PAUSE, most: PROBES_MOST }
    }
}

impl Pause {
    /// Of a medium where a read takes `quiet` while nobody else is there, of a plant on which it takes `settle` until what was under
    /// way is done, if the medium is as fast as memory. On slower ones a pause is longer, and there are fewer: a tenant does as many
    /// accesses in it, and all pauses together take as much of the time. Where they settle, what rounding their number leaves settles, too: beside who
    /// stores a reader does less in the first milliseconds alone, most likely until the processor's caches hold its own again.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and 10 times as long"
    )]
    pub fn new(settle: Duration, quiet: Option<Duration>) -> Self {
        let longer = quiet.map_or(1.0, |quiet| quiet.0 as f64 / QUICK.0 as f64).clamp(1.0, LONGER_MOST);
        let times = |time: Duration| Duration((time.0 as f64 * longer) as u64);
        let most = ((f64::from(PROBES_MOST) / longer) as u32).max(1);
        let counts = times(PAUSE);
        let each = (PAUSE.0 + settle.0) * u64::from(PROBES_MOST) / u64::from(most);
        let pause = Self { settle: times(settle), counts, most };
        if pause.settles() { pause.settling(Duration(each.saturating_sub(counts.0))) } else { pause }
    }

    /// The same that settles for so long at least.
    #[must_use]
    pub fn settling(self, least: Duration) -> Self {
        Self { settle: self.settle.max(least), ..self }
    }

    /// How long it lasts before what is done in it counts.
    #[must_use]
    pub const fn settle(self) -> Duration {
        self.settle
    }

    /// How long what is done in it counts.
    #[must_use]
    pub const fn counts(self) -> Duration {
        self.counts
    }

    /// Whether something is under way when it begins.
    #[must_use]
    pub fn settles(self) -> bool {
        Duration::ZERO < self.settle
    }

    /// When it ends though nobody decides any more.
    #[must_use]
    pub const fn lease(self) -> Duration {
        Duration(self.counts.0 * LEASE_PAUSES)
    }

    /// Probes in a period at most.
    #[must_use]
    pub const fn most(self) -> u32 {
        self.most
    }

    /// Whether who is alone was so for as long as a pause settles, when that ends with a window of such a length: no decision came early,
    /// and none so late that the others went on.
    #[must_use]
    pub fn has_settled(self, length: Duration) -> bool {
        (Duration(self.settle.0 / 10 * 9)..=self.lease()).contains(&length)
    }

    /// Whether a window is about a pause: no decision came early, and none late.
    #[must_use]
    pub fn is_seen_in(self, length: Duration) -> bool {
        (Duration(self.counts.0 / 2)..=self.lease()).contains(&length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_alone::Probe;
    use super::*;
    use units::TenantId;

    #[test]
    fn a_slower_medium_has_longer_and_fewer_pauses() {
        let settle = Duration::from_micros(500);
        for (quiet_ns, longer, most, settle_ns) in [
            (300, 1, 12, 500_000),
            (1_000, 1, 12, 500_000),
            (2_000, 2, 6, 1_000_000),
            (5_000, 5, 2, 4_000_000),
            (7_000, 7, 1, 11_000_000),
            (80_000, 10, 1, 8_000_000),
        ] {
            let pause = Pause::new(settle, Some(Duration(quiet_ns)));
            let probe = Probe::new(TenantId(1), pause);
            let settled = probe.lasts(pause);
            let counts = probe.next(pause, settled).expect("it settles first");
            let lasts = counts.lasts(pause);
            assert_eq!((settled.0, lasts.0), (settle_ns, 1_000_000 * longer), "{quiet_ns} ns");
            assert_eq!((pause.most(), counts.next(pause, lasts)), (most, None));
            let all = u64::from(most) * (settled.0 + lasts.0);
            assert_eq!(all, 18_000_000, "{quiet_ns} ns: as long as twelve on memory");
            // A decision that came early, or when the others went on already.
            let cut = [settled.0 / 2, pause.lease().0 + 1].map(|ns| probe.next(pause, Duration(ns)));
            assert_eq!(cut, [None, None], "{quiet_ns} ns");
            let seen =
                [499_999, 500_000, 20_000_000, 20_000_001].map(|ns| pause.is_seen_in(Duration(ns * longer)));
            assert_eq!(seen, [false, true, true, false], "{quiet_ns} ns");
        }
        assert_eq!(Pause::new(Duration::ZERO, None), Pause::default());
    }
}
