//! How far policies about a tier's bandwidth go at once: what an experiment takes, and what is lent.
//!
//! Shape:  what the operator says, and what the tier reads -> options of the policies
//! Units:  bytes per second; a part of what a tenant has
//! Source: NyxCache §3.6 and §4.7 (`ExperimentStep` of 500 MB/s, `DonateStep` of 10 %, both the administrator's)

use control::bandwidth::Cost;
use media::SlowAccess;
use policy::bandwidth::{DonateStep, Donation, Options};
use store::Store;
use units::{Bytes, BytesPerSec};

/// What the operator says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Steps {
    /// Bytes per second that an experiment of `qos` takes; none for as many as suit the tier.
    pub(crate) experiment: Option<Bytes>,
    /// The step in which `proportional` lends, as a part of what the donor has: 0 lends nothing, 1 all at once.
    pub(crate) donation: f64,
}

/// An experiment takes one part in so many of what the tier reads, unless told otherwise (guess: NyxCache's 500 MB/s of some 7 GB/s).
const STEP_ONE_IN: u64 = 10;
/// From so many tenths of what the tier reads on `throttle-biggest` punishes (guess: Caladan's 25 GB/s of some 28).
const BUSY_TENTHS: u64 = 9;

impl Steps {
    /// Whether a policy looks at them.
    pub(super) fn are_of(policy: &str) -> bool {
        ["qos", "qos-biggest", "proportional"].contains(&policy)
    }

    /// These for the divided tier of a store: steps of the papers are for media faster than some.
    pub(super) fn put_into(self, store: &Store, options: &mut Options) {
        let default = Options::default();
        let reads = reads_of(store).unwrap_or(BytesPerSec(u64::MAX));
        let suits = default.experiment_step.min(BytesPerSec(reads.0 / STEP_ONE_IN));
        options.experiment_step = self.experiment.map_or(suits, |step| BytesPerSec(step.0));
        options.traffic_limit = default.traffic_limit.min(BytesPerSec(reads.0 / 10 * BUSY_TENTHS));
        options.donation = match DonateStep::new(self.donation) {
            Some(step) => Donation::Aware(step),
            None if self.donation < 1.0 => Donation::Kept,
            None => Donation::All,
        };
    }
}

/// What the divided tier reads in accesses of 4 KiB, by its profile.
fn reads_of(store: &Store) -> Option<BytesPerSec> {
    let read = Bytes::kib(4);
    let cost_ps = store.access_cost_ps(store.divided_tier()?, SlowAccess::Read, read)?;
    let per_sec = (u128::from(read.0) * u128::from(Cost::SECOND.0)).checked_div(u128::from(cost_ps))?;
    Some(BytesPerSec(u64::try_from(per_sec).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::Plain;
    use std::sync::Arc;

    #[test]
    fn steps_are_as_told_or_suit_the_tier() {
        let options = store::Options {
            memory: Bytes::mib(16),
            item_max: Bytes::mib(1),
            threads: 1,
            tenants_max: 2,
            no_evict: false,
            seed: 1,
        };
        let tier = Arc::new(Plain::new(Bytes::mib(16)).expect("memory"));
        let slow = Store::with_tiers(options, &[tier], 0).expect("a store");
        let none = Store::new(options).expect("a store");
        let of = |store: &Store, experiment: Option<u64>, donation| {
            let mut options = Options::default();
            Steps { experiment: experiment.map(Bytes), donation }.put_into(store, &mut options);
            options
        };
        // Without a profile a byte counts as a nanosecond.
        let suits = of(&slow, None, 0.1);
        assert_eq!(suits.experiment_step, BytesPerSec(100_000_000));
        assert_eq!(suits.traffic_limit, BytesPerSec(900_000_000));
        assert_eq!(suits.donation, Donation::Aware(DonateStep::PAPER));
        assert_eq!(of(&none, None, 0.1), Options::default());
        assert_eq!(of(&slow, Some(7), 0.1).experiment_step, BytesPerSec(7));
        assert_eq!(of(&slow, None, 0.0).donation, Donation::Kept);
        assert_eq!(of(&slow, None, 1.0).donation, Donation::All);
    }
}
