//! DRAM and a tier's time as policies over both see them in a server: the store's levers, tenants' claims, live curves.
//!
//! Shape:      the store's rows + claims + curves of what DRAM does not answer, or speeds that were measured -> rows
//! Invariants: a limit in parts or operations is of the whole tier's time, whatever part of it is divided
//! Failure:    a tenant whose curve is not known yet has none in its row: policies leave it its static share
//! Units:      a tier's time as bandwidth: a byte is a nanosecond

use super::thing::price;
use super::{Claims, Speeds, TierClaim};
use crate::shared::Shared;
use control::joint::{Joint, JointSignal, Utility};
use control::{Actuator, Amount, Class, Decision, Pool, Row, Sensor};
use std::sync::PoisonError;
use store::JointControl;
use units::{BytesPerSec, Duration, Instant, TenantId};

/// Seconds in which shares go two thirds of the way to what an auction finds, for a curve is made of the look-ups of an epoch or two: that of a
/// tenant with a hundred per second differs by a quarter from one second to the next, and a tier pays for what moves to and fro. A guess;
/// an epoch of a second goes .28 of the way, one of thirty all of it.
const EASE_SECS: f64 = 3.0;
/// Parts of its static share that a tenant keeps of what it does not use. The paper keeps .45 of the memory and .825 of the bandwidth for
/// everybody, for programs crash below; a cache serves from any DRAM, and what nobody uses was lost to all. For loads that change: who has
/// sold its bandwidth begins with so much of it, and has what it kept before back after four epochs of using all it has (guess).
const IDLE_FLOOR_PART: policy::joint::Bundle = policy::joint::Bundle { memory: 0.1, bandwidth: 0.25 };

/// A gain of less is none: with half a percent, the released code's, tenants that read far more than all of DRAM in turn swap it for what their
/// sampled curves differ by chance; with two a tenant of four that could gain a tenth stays at its share
/// (`docs/decisions/2026-11-26-what-nobody-uses-is-for-sale.md`).
const INDIFFERENT: f64 = 0.01;

/// How policies over memory and bandwidth together are set up in a server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct JointSettings {
    /// Time between two decisions.
    pub(crate) epoch: Duration,
    /// Part of the tier's time that they divide, above 0 and at most 1.
    pub(crate) part: f64,
}

impl JointSettings {
    /// Curves are made all the time here: a new one costs nothing and is taken at every decision. They say something at every
    /// size, so that bids are not held to a window (Spirit §4.1 narrows the search to where estimates are good).
    pub(super) fn options(self) -> policy::joint::Options {
        policy::joint::Options {
            epoch: self.epoch,
            refit_every: 1,
            window: None,
            idle_floor_part: Some(IDLE_FLOOR_PART),
            indifferent: INDIFFERENT,
            ease: 1.0 - (-self.epoch.as_secs_f64() / EASE_SECS).exp(),
            ..policy::joint::Options::default()
        }
    }
}

/// DRAM and a tier's time while the loop steps.
#[derive(Debug)]
pub(super) struct Around<'t> {
    pub(super) control: &'t mut JointControl,
    pub(super) shared: &'t Shared,
    pub(super) claims: &'t Claims,
    /// Of tenants that it has, instead of their curves.
    pub(super) speeds: &'t Speeds,
}

/// A cost per second as bandwidth, at least the least that limits something.
pub(super) fn as_bandwidth(most: Amount) -> BytesPerSec {
    BytesPerSec((most.cost.0 / 1_000).max(u64::from(most.cost.0 != 0)))
}

impl Sensor for Around<'_> {
    type Signal = JointSignal;
    type Share = Joint;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<JointSignal, Joint>>) -> Pool {
        let pool = self.control.read(now, rows);
        for row in rows.iter_mut() {
            let own = self.claims.get(row.id).unwrap_or(const { &TierClaim::NOTHING });
            own.put_into(&mut row.claim, |operations| price(&self.shared.store, operations));
            let limit = row.claim.ceiling.map(as_bandwidth);
            row.claim.ceiling = limit.map(|bandwidth| Amount { bandwidth, ..Amount::default() });
        }
        let exempt = rows.iter().filter(|row| row.claim.class == Class::Exempt);
        self.control.set_exempt(exempt.map(|row| row.id));
        let mut curves = self.shared.curves.lock().unwrap_or_else(PoisonError::into_inner);
        curves.catch_up_all();
        for row in rows.iter_mut() {
            let Some(signal) = &mut row.signal else { continue };
            let name = self.shared.store.tenant_state(row.id).map(|tenant| tenant.name);
            let measured = name.and_then(|name| self.speeds.get(&name)).cloned().map(Utility::Table);
            signal.utility = measured.or_else(|| curves.near(row.id).map(Utility::Curve));
        }
        pool
    }
}

impl Actuator for Around<'_> {
    type Share = Joint;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Joint>,
        in_force: &mut Vec<(TenantId, Joint)>,
    ) -> bool {
        self.control.apply(now, decision, in_force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::JOURNAL_CURVES;
    use crate::sharing::Running;
    use crate::sharing::testing::two_under;
    use control::Curve;
    use store::{Fields, Mode, Space};
    use units::{Bytes, TenantId};

    /// A tenant whose curve is a quarter of all that the journal may hold, and another one each time.
    struct Detailed;

    impl Sensor for Detailed {
        type Signal = JointSignal;
        type Share = Joint;

        fn read(&mut self, _: Instant, rows: &mut Vec<Row<JointSignal, Joint>>) -> Pool {
            let points = JOURNAL_CURVES / 4 / size_of::<(Bytes, f64)>();
            let curve = Curve::new((0..points as u64).map(|at| (Bytes(at), 0.5)).collect::<Vec<_>>());
            let utility = Some(Utility::Curve(curve.expect("a flat one")));
            let signal = Some(JointSignal { utility, ..JointSignal::default() });
            rows.push(Row { id: TenantId(1), claim: control::Claim::default(), signal, in_force: None });
            let capacity =
                Amount { bytes: Bytes::mib(1), bandwidth: BytesPerSec(1_000), ..Amount::default() };
            Pool { capacity, ..Pool::default() }
        }
    }

    impl Actuator for Detailed {
        type Share = Joint;

        fn apply(
            &mut self,
            _: Instant,
            _: &Decision<'_, Joint>,
            in_force: &mut Vec<(TenantId, Joint)>,
        ) -> bool {
            in_force.clear();
            true
        }
    }

    #[test]
    fn curves_in_the_journal_are_bounded() {
        let (_, shared, _) = two_under("symbiosis");
        let mut running = shared.sharing.running();
        for second in 1..=9 {
            running.joint_pacer.step(Instant::ZERO + Duration::from_secs(second), &mut Detailed);
        }
        let journal = running.joint_pacer.journal();
        assert_eq!((journal.recorded_total(), journal.records().len()), (9, 4));
    }

    /// Samples are taken within a second, look-ups counted at its end: whoever decides in between sees neither ahead of the other.
    #[test]
    fn a_policy_sees_curves_of_what_was_both_sampled_and_counted() {
        let (_, shared, [id, _]) = two_under("symbiosis");
        let mut worker = shared.store.worker().expect("a place");
        let curves = || shared.curves.lock().expect("nobody panics");
        let second = |second: u64| Instant::ZERO + Duration::from_secs(second);
        curves().run(second(1));
        for number in 0..30_000_u64 {
            let bytes = (number * number % 2_003).to_string();
            let key = worker.key(Space::Own(id), bytes.as_bytes()).expect("a key");
            if worker.get(id, &key).is_none() {
                worker.set(id, &key, Mode::Set, Fields::default(), &[b'x'; 100]).expect("room");
            }
            worker.quiesce();
            if number % 500 == 0 {
                curves().take_samples();
            }
            if number == 20_000 {
                curves().run(second(2));
            }
        }
        curves().take_samples();
        let ahead = curves().near(id).map(Utility::Curve);
        let mut running = shared.sharing.running();
        let (claims, mut rows) = (shared.sharing.claims(), Vec::new());
        let Running { both, speeds, .. } = &mut *running;
        Around { control: both, shared: &shared, claims: &claims, speeds }.read(second(2), &mut rows);
        let seen = rows.iter().find(|row| row.id == id).and_then(|row| row.signal.clone()?.utility);
        assert!(ahead.is_some() && seen != ahead);
        assert_eq!(seen, curves().near(id).map(Utility::Curve));
    }

    #[test]
    fn a_long_epoch_goes_all_of_the_way_and_a_short_one_a_part() {
        for (seconds, part) in [(1, 0.2835), (3, 0.6321), (30, 1.0)] {
            let settings = JointSettings { epoch: Duration::from_secs(seconds), part: 1.0 };
            let ease = settings.options().ease;
            assert!((ease - part).abs() < 1e-4 && ease <= 1.0, "{seconds} s: {ease}");
        }
    }

    const POOL: Joint = Joint { bytes: Bytes::mib(64), bandwidth: BytesPerSec(4_000_000) };

    /// What tenants of these miss ratios in so many MiB have after some seconds under `symbiosis`, as parts of the pool; those that are
    /// `busy` use all of the tier's time that they have, the others nothing.
    fn after_a_while<const N: usize>(tenants: [(&[(u64, f64)], bool); N]) -> [(f64, f64); N] {
        let settings = JointSettings { epoch: Duration::from_secs(1), part: 1.0 };
        let mut policy = policy::joint::by_name("symbiosis", settings.options()).expect("it is one");
        let curve = |points: &[(u64, f64)]| {
            Curve::new(points.iter().map(|(mib, r)| (Bytes::mib(*mib), *r)).collect::<Vec<_>>())
        };
        let ids: [TenantId; N] = std::array::from_fn(|at| TenantId(u32::try_from(at).expect("few")));
        let mut in_force = [None; N];
        for second in 0..40 {
            let rows = ids.map(|id| {
                let (points, busy) = tenants[id.index()];
                let held: Joint = in_force[id.index()].unwrap_or_default();
                Row {
                    id,
                    claim: control::Claim::default(),
                    signal: Some(JointSignal {
                        bandwidth: BytesPerSec(if busy { held.bandwidth.0 } else { 0 }),
                        utility: Some(Utility::Curve(curve(points).expect("it falls"))),
                        ..JointSignal::default()
                    }),
                    in_force: in_force[id.index()],
                }
            });
            let at = |second| Instant::ZERO + Duration::from_secs(second);
            let window = control::Window { start: at(second), end: at(second + 1), mixed: false };
            let capacity = Amount { bytes: POOL.bytes, bandwidth: POOL.bandwidth, ..Amount::default() };
            let whole = Pool { capacity, ..Pool::default() };
            let seen = control::Seen::new(window, &whole, &rows).expect("rows are in order");
            let decision = policy.decide(window.end, &seen);
            in_force = ids.map(|id| decision.shares.get(id).copied());
        }
        in_force.map(|held| {
            let held = held.expect("all have a share");
            let bandwidth = held.bandwidth.0 as f64 / POOL.bandwidth.0 as f64;
            (held.bytes.0 as f64 / POOL.bytes.0 as f64, bandwidth)
        })
    }

    /// One that is in DRAM and asks nothing of the tier beside one whose DRAM gains it nothing: each has nearly all of what helps it.
    #[test]
    fn who_does_not_use_the_tier_sells_most_of_its_time() {
        let near: &[(u64, f64)] = &[(0, 1.0), (60, 0.0)];
        let [(near_part, _), (_, far_part)] =
            after_a_while([(near, false), (&[(0, 1.0), (64, 0.999)], true)]);
        assert!(0.9 < near_part && near_part <= 0.95 + 1e-6, "{near_part} of DRAM");
        assert!(0.8 < far_part && far_part <= 0.875 + 1e-6, "{far_part} of the tier's time");
    }

    /// Four that read in turn far more than all of DRAM, whose sampled curves differ by chance; then one turns to what DRAM helps.
    #[test]
    fn nobody_moves_for_what_curves_differ_by_chance() {
        let loops: [&[(u64, f64)]; 4] = [
            &[(0, 1.0), (16, 0.99), (64, 0.968)],
            &[(0, 1.0), (16, 0.995), (64, 0.982)],
            &[(0, 1.0), (16, 0.992), (64, 0.973)],
            &[(0, 1.0), (16, 0.986), (64, 0.961)],
        ];
        for (memory, bandwidth) in after_a_while(loops.map(|curve| (curve, true))) {
            assert!((memory - 0.25).abs() < 1e-3 && (bandwidth - 0.25).abs() < 1e-3, "{memory} {bandwidth}");
        }
        let skewed: &[(u64, f64)] = &[(0, 1.0), (16, 0.6), (40, 0.4), (64, 0.3)];
        let [(memory, bandwidth), others @ ..] =
            after_a_while([skewed, loops[1], loops[2], loops[3]].map(|curve| (curve, true)));
        assert!(0.5 < memory && bandwidth < 0.25, "{memory} {bandwidth}");
        assert!(others.iter().all(|(memory, bandwidth)| *memory < 0.25 && 0.25 < *bandwidth), "{others:?}");
    }
}
