//! How the policies about memory and bandwidth together are set up.

use super::auction::Bundle;
use crate::estimate::access_histogram::Method;
use crate::estimate::slowdown::RAMP_START;
use control::joint::Table;
use units::{Duration, TenantId};

/// The shortest epoch: one of no length would be decided again without time having passed. A guess; curves need seconds.
const EPOCH_MIN: Duration = Duration::from_millis(1);

/// Without a loop, shares stay for so many epochs: a step that comes late is no loop that died. A guess: they are safe, only no
/// longer the best.
const LEASE_EPOCHS: u64 = 10;

/// How the policies of this family are set up. A value that makes no sense is taken for the nearest that does, when a
/// policy is made ([`Options::bounded`]).
#[derive(Clone, Debug)]
pub struct Options {
    /// Time between decisions (Spirit §6.2: 30 s is best); a millisecond at least.
    pub epoch: Duration,
    /// How many steps of its own range a tenant may move per epoch; none for any number (Spirit §4.1: 5).
    pub window: Option<usize>,
    /// Epochs at the static share, at first and for whoever comes (released code: 3).
    pub static_epochs: u32,
    /// A curve is taken over every so many epochs (Spirit §4: 5); 1 at least.
    pub refit_every: u32,
    /// Part of its static share below which nobody is taken, for programs crash (released configuration of six tenants:
    /// 768 of 1,706 MB and 1,056 of 1,280 Mbps). Both in 0..=1; what is no number is the default.
    pub floor_part: Bundle,
    /// The same of a tenant that does not use it: what it holds and uses, but no less than this part, is all that it keeps. None keeps
    /// `floor_part` for everybody, as the paper does. What is no number is that, too.
    pub idle_floor_part: Option<Bundle>,
    /// Part of its bandwidth that an unsaturated tenant plans to use at most. By default the start of the ramp of
    /// saturation: a bid that planned for more would be saturated in the next epoch. In 0..=1; what is no number is the
    /// default.
    pub headroom: f64,
    /// A tenant leaves its static share only for a gain of more than this part, and one that speeds up by less from its floor to all it could
    /// get does not bid (released code: half a percent). Not negative; what is no number is the default.
    pub indifferent: f64,
    /// Part of the way from what is in force to the auction's outcome that an epoch goes: whole in the paper, whose epochs are long enough
    /// for curves with little noise. Above 0 and at most 1; what is not is 1.
    pub ease: f64,
    /// Whether unspent credits are remembered: who left some is served first from what others leave (Spirit §7).
    pub stateful: bool,
    /// How curves are fitted to samples.
    pub method: Method,
    /// Profiles known beforehand (`ideal`), by tenant; of two for one tenant the first counts.
    pub profiles: Vec<(TenantId, Table)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            epoch: Duration::from_secs(30),
            window: Some(5),
            static_epochs: 3,
            refit_every: 5,
            floor_part: Bundle { memory: 0.45, bandwidth: 0.825 },
            idle_floor_part: None,
            headroom: RAMP_START,
            indifferent: 0.005,
            ease: 1.0,
            stateful: false,
            method: Method::default(),
            profiles: Vec::new(),
        }
    }
}

impl Options {
    /// How long shares hold that nobody renews.
    pub(super) fn lease(&self) -> Duration {
        Duration(self.epoch.0.saturating_mul(LEASE_EPOCHS))
    }

    /// With every value in its range and profiles in the order of tenants: what each policy of this family starts from.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let usual = Self::default();
        let part = |part: f64, usual: f64| if part.is_nan() { usual } else { part.clamp(0.0, 1.0) };
        self.epoch = self.epoch.max(EPOCH_MIN);
        self.refit_every = self.refit_every.max(1);
        self.floor_part = Bundle {
            memory: part(self.floor_part.memory, usual.floor_part.memory),
            bandwidth: part(self.floor_part.bandwidth, usual.floor_part.bandwidth),
        };
        let idle = self.idle_floor_part.unwrap_or(self.floor_part);
        self.idle_floor_part = Some(Bundle {
            memory: part(idle.memory, self.floor_part.memory),
            bandwidth: part(idle.bandwidth, self.floor_part.bandwidth),
        });
        self.headroom = part(self.headroom, usual.headroom);
        self.indifferent =
            if self.indifferent.is_nan() { usual.indifferent } else { self.indifferent.max(0.0) };
        self.ease = if 0.0 < self.ease && self.ease <= 1.0 { self.ease } else { usual.ease };
        self.profiles.sort_by_key(|(id, _)| *id);
        self.profiles.dedup_by_key(|(id, _)| *id);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joint::{NAMES, by_name};
    use control::joint::{Joint, JointSignal, Utility};
    use control::{Amount, Claim, Curve, Pool, Row, Seen, Window};
    use units::{Bytes, BytesPerSec, Instant};

    #[test]
    fn options_without_sense_are_brought_to_the_nearest_that_has_some() {
        let usual = Options::default();
        for (given, expected) in
            [(f64::NAN, None), (-1.0, Some(0.0)), (f64::INFINITY, Some(1.0)), (0.5, Some(0.5))]
        {
            let floor_part = Bundle { memory: given, bandwidth: given };
            let options =
                Options { headroom: given, indifferent: given, floor_part, ..usual.clone() }.bounded();
            let least = if given.is_nan() { usual.indifferent } else { given.max(0.0) };
            assert_eq!(options.indifferent.to_bits(), least.to_bits(), "{given}");
            let found = [options.headroom, options.floor_part.memory, options.floor_part.bandwidth];
            let usual = [usual.headroom, usual.floor_part.memory, usual.floor_part.bandwidth];
            for (found, usual) in found.into_iter().zip(usual) {
                assert!((found - expected.unwrap_or(usual)).abs() < 1e-12, "{given}: {found}");
            }
        }
        let table = |first: f32| {
            let most = Joint { bytes: Bytes(1), bandwidth: BytesPerSec(1) };
            Table::new(most, 2, 2, [first, 9.0, 9.0, 9.0]).unwrap()
        };
        let profiles = [(2, 1.0), (1, 2.0), (2, 3.0)].map(|(id, first)| (TenantId(id), table(first)));
        let options = Options { profiles: profiles.to_vec(), ..usual }.bounded();
        assert_eq!(options.profiles, [(TenantId(1), table(2.0)), (TenantId(2), table(1.0))]);
    }

    #[test]
    fn every_policy_stands_options_without_sense() {
        let amount = Amount { bytes: Bytes(1 << 30), bandwidth: BytesPerSec(1 << 30), ..Amount::default() };
        let pool = Pool { capacity: amount, ..Pool::default() };
        let curve = Curve::new(vec![(Bytes(1), 0.9), (Bytes(1 << 28), 0.2), (Bytes(1 << 30), 0.0)]).unwrap();
        for name in NAMES {
            for odd in [f64::NAN, f64::NEG_INFINITY, -0.5, 0.0, 7.0, f64::INFINITY] {
                let options = Options {
                    epoch: Duration::ZERO,
                    static_epochs: 0,
                    refit_every: 0,
                    floor_part: Bundle { memory: odd, bandwidth: odd },
                    idle_floor_part: Some(Bundle { memory: odd, bandwidth: odd }),
                    headroom: odd,
                    indifferent: odd,
                    ease: odd,
                    ..Options::default()
                };
                let mut policy = by_name(name, options).unwrap();
                let mut in_force = [None; 2];
                for second in 0..20 {
                    let rows = [0, 1].map(|at| Row {
                        id: TenantId(at),
                        claim: Claim::default(),
                        signal: Some(JointSignal {
                            bandwidth: BytesPerSec(1 << (20 + 8 * at)),
                            operations: 1_000,
                            utility: Some(Utility::Curve(curve.clone())),
                            ..JointSignal::default()
                        }),
                        in_force: in_force[at as usize],
                    });
                    let at = |second| Instant::ZERO + Duration::from_secs(second);
                    let window = Window { start: at(second), end: at(second + 1), mixed: false };
                    let seen = Seen::new(window, &pool, &rows).unwrap();
                    let decision = policy.decide(window.end, &seen);
                    assert!(Duration::ZERO < decision.wake && decision.wake < decision.lease, "{name} {odd}");
                    let given: Bytes = decision.shares.rows().iter().map(|(_, share)| share.bytes).sum();
                    assert_eq!(given, amount.bytes, "{name} {odd}");
                    in_force = [0, 1].map(|at| decision.shares.get(TenantId(at)).copied());
                }
            }
        }
    }
}
