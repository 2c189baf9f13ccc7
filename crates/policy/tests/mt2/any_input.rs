//! No input makes a policy panic.

use crate::stage::{Boxed, PERIOD, Rows, gb, host, model, thresholds};
use control::bandwidth::{BandwidthSignal, Kinds, Throttle};
use control::{Amount, Claim, Class, Goal, Levers, Pool, Row, Seen, Window};
use policy::bandwidth::{
    BandwidthLimit, Guarantee, Prevention, Remedy, Slo, ThrottleBiggest, cpu_only, mba_only,
};
use policy::compose::Tighter;
use policy::estimate::pause::Pause;
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

#[test]
fn no_input_makes_a_policy_panic() {
    let policies: [fn() -> Boxed; 11] = [
        || Box::new(Prevention::default()),
        || Box::new(Remedy::new(thresholds())),
        || Box::new(Guarantee::new(model())),
        || Box::new(Slo::new(model(), thresholds())),
        || Box::new(BandwidthLimit::default()),
        || Box::new(ThrottleBiggest::default()),
        || Box::new(mba_only(thresholds())),
        || Box::new(cpu_only(thresholds())),
        || Box::new(Tighter::new(Prevention::default(), Remedy::new(thresholds()))),
        || Box::new(Remedy::new(thresholds()).pausing(Pause::default())),
        || Box::new(Tighter::new(Prevention::default(), Remedy::new(thresholds()).pausing(Pause::default()))),
    ];
    for (which, policy) in policies.iter().enumerate() {
        for seed in 0..40 {
            random_run(policy(), seed, which);
        }
    }
}

/// Rows that come and go, signals that are missing, time that stands still, numbers at their ends.
fn random_run(mut policy: Boxed, seed: u64, which: usize) {
    let mut rng = Rng::new(seed);
    let mut now = Instant::ZERO;
    let mut in_force: Vec<(TenantId, Throttle)> = Vec::new();
    for step in 0..60 {
        let mut rows: Rows = Vec::new();
        for id in 0..6_u32 {
            if rng.index(5) == 0 {
                continue;
            }
            let known = in_force.iter().find(|(known, _)| known.0 == id).map(|(_, share)| *share);
            rows.push(random_row(&mut rng, id, known));
        }
        let pause = Duration::from_millis(1);
        let length = [Duration::ZERO, Duration(1), pause, PERIOD, Duration::from_secs(3_600)][rng.index(5)];
        let window = Window { start: now, end: now + length, mixed: rng.index(3) == 0 };
        now = window.end;
        let latency = |rng: &mut Rng| match rng.index(4) {
            0 => None,
            1 => Some(Duration(u64::MAX)),
            _ => Some(Duration(rng.index(3_000) as u64)),
        };
        let pool = Pool { latency: Kinds::from_fn(|_| latency(&mut rng)), ..Pool::default() };
        let seen = Seen::new(window, &pool, &rows).unwrap();
        let decision = policy.decide(now, &seen);
        assert_eq!(decision.shares.rows().len(), rows.len(), "policy {which} seed {seed} step {step}");
        for ((_, share), row) in decision.shares.rows().iter().zip(&rows) {
            assert!(
                row.claim.class != Class::Exempt || *share == Throttle::FREE,
                "policy {which} seed {seed}"
            );
            assert!((10..=100).contains(&share.mba), "policy {which} seed {seed}");
        }
        if rng.index(4) != 0 {
            in_force = decision.shares.rows().to_vec();
        }
    }
}

fn random_row(rng: &mut Rng, id: u32, in_force: Option<Throttle>) -> Row<BandwidthSignal, Throttle> {
    let amount = |rng: &mut Rng| [0, 1, gb(rng.index(100) as f64), u64::MAX >> 12][rng.index(4)];
    let class = match rng.index(4) {
        0 => Class::Exempt,
        1 => Class::Critical { goal: Goal::Bandwidth(Kinds::from_fn(|_| BytesPerSec(amount(rng)))) },
        _ => Class::BestEffort,
    };
    let levers = match rng.index(6) {
        0 => Levers::default(),
        1 => host(),
        2 | 3 => Levers { brake: Kinds::splat(true), ..host() },
        _ => Levers { brake: Kinds::from_fn(|_| rng.index(2) == 0), ..host() },
    };
    let caps = Kinds::from_fn(|_| (rng.index(2) == 0).then(|| BytesPerSec(amount(rng))));
    let ceiling = Amount { bandwidth: BytesPerSec(amount(rng)), ..Amount::default() };
    let signal = BandwidthSignal {
        bytes: Kinds::from_fn(|_| Bytes(amount(rng))),
        accesses: Kinds::from_fn(|_| amount(rng)),
        sampled: Kinds::from_fn(|_| rng.index(8) == 0),
        threads: [0, 1, u16::MAX][rng.index(3)],
        ..BandwidthSignal::default()
    };
    Row {
        id: TenantId(id),
        claim: Claim { class, levers, caps, ceiling: Some(ceiling), ..Claim::default() },
        signal: (rng.index(4) != 0).then_some(signal),
        in_force,
    }
}
