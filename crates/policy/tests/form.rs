//! What holds for every policy of forms, whatever tenants come and go and whatever sensors say.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::form::{FormSignal, Forms};
use control::{Amount, Claim, Class, Policy, Pool, Row, Seen, Weight, Window};
use policy::form::{FormPolicy, Options, Parts, Steps, Watch, by_name};
use proptest::prelude::*;
use units::{Bytes, Duration, Instant, Rng, TenantId};

const NAMES: [&str; 6] =
    ["morph", "morph-functional", "write-cache", "dram-extension", "compressed", "fixed"];

fn policy(name: &str) -> FormPolicy {
    by_name(name, Options::default(), Parts::new(300, 200).unwrap()).unwrap()
}

fn all(forms: Forms) -> Bytes {
    forms.write_cache + forms.memory + forms.compressed
}

/// A signal of any quality: absent, empty, exact, or with errors that are no numbers.
fn signal(rng: &mut Rng) -> Option<FormSignal> {
    let latency = Duration::from_micros(rng.below(2_000));
    let error = [None, Some(0.01), Some(0.0), Some(f64::NAN), Some(-1.0), Some(f64::INFINITY)];
    let held = Forms { memory: Bytes(rng.below(1 << 30)), ..Forms::default() };
    rng.chance(0.8).then(|| FormSignal {
        operations: rng.below(3) * 1_000,
        latency,
        tail: Duration::from_micros(rng.below(9_000)),
        latency_error: error[rng.index(6)],
        tail_error: error[rng.index(6)],
        compression: error[rng.index(6)],
        held: rng.chance(0.5).then_some(held),
    })
}

fn claim(rng: &mut Rng) -> Claim {
    Claim {
        weight: Weight::new(0.5 + rng.unit()).unwrap(),
        floor: Amount::memory(Bytes(rng.below(1 << 20))),
        ceiling: rng.chance(0.2).then(|| Amount::memory(Bytes((1 << 20) + rng.below(1 << 30)))),
        class: if rng.chance(0.1) { Class::Exempt } else { Class::BestEffort },
        ..Claim::default()
    }
}

/// Sixty decisions among up to five tenants that come and go; the forms asked for may or may not come into force.
fn run(name: &str, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut policy = policy(name);
    let mut rows: Vec<Row<FormSignal, Forms>> = Vec::new();
    let mut pool = Pool { capacity: Amount::memory(Bytes(rng.below(6 << 30))), ..Pool::default() };
    let mut now = Instant::ZERO;
    for _ in 0..60 {
        if rng.chance(0.1) {
            rows.retain(|_| rng.chance(0.7));
        }
        if rng.chance(0.2) && rows.len() < 5 {
            let id = rows.last().map_or(0, |r| r.id.0 + 1);
            rows.push(Row { id: TenantId(id), claim: claim(&mut rng), signal: None, in_force: None });
        }
        if rng.chance(0.03) {
            pool.capacity = Amount::memory(Bytes(rng.below(6 << 30)));
        }
        pool.latency.slow_read = rng.chance(0.8).then(|| Duration::from_micros(rng.below(900)));
        for row in &mut rows {
            row.signal = signal(&mut rng);
        }
        let start = now;
        if rng.chance(0.9) {
            now += Duration::from_secs(60);
        }
        let window = Window { start, end: now, mixed: false };
        let seen = Seen::new(window, &pool, &rows).unwrap();
        let decision = policy.decide(now, &seen);
        assert!(Duration::ZERO < decision.wake && decision.wake < decision.lease, "{name} seed {seed}");
        let shares = decision.shares.rows().to_vec();
        let total: Bytes = shares.iter().map(|(_, forms)| all(*forms)).sum();
        assert!(total <= pool.capacity.bytes, "{name} seed {seed}");
        for ((id, forms), row) in shares.iter().zip(&mut rows) {
            assert_eq!(*id, row.id, "{name} seed {seed}");
            let ceiling = row.claim.ceiling.map_or(Bytes(u64::MAX), |c| c.bytes);
            assert!(all(*forms) <= ceiling, "{name} seed {seed}");
            if rng.chance(0.8) {
                row.in_force = Some(*forms);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Forms sum to each tenant's amount, amounts to at most the pool; floors and ceilings hold (the law is checked where
    /// shares are built); nothing panics.
    #[test]
    fn every_policy_conserves_bytes_whatever_it_sees(seed in any::<u64>()) {
        for name in NAMES {
            run(name, seed);
        }
    }
}

/// A plant of one tenant whose latency depends on its split only.
fn converge(policy: &mut FormPolicy, us: impl Fn(Forms) -> f64, decisions: usize) -> Vec<(Forms, bool)> {
    let pool = Pool { capacity: Amount::memory(Bytes(1_000)), ..Pool::default() };
    let mut rows = [Row { id: TenantId(4), claim: Claim::default(), signal: None, in_force: None }];
    let mut now = Instant::ZERO;
    let mut asked = Vec::new();
    for _ in 0..decisions {
        let window = Window { start: now, end: now + Duration::from_secs(60), mixed: false };
        now = window.end;
        let seen = Seen::new(window, &pool, &rows).unwrap();
        let decision = policy.decide(now, &seen);
        let forms = decision.shares.rows()[0].1;
        asked.push((forms, decision.steady));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        let latency = Duration((us(forms) * 1e3) as u64);
        let errors = (Some(0.001), Some(0.001));
        rows[0].signal = Some(FormSignal {
            operations: 1_000,
            latency,
            tail: latency,
            latency_error: errors.0,
            tail_error: errors.1,
            held: Some(forms),
            ..FormSignal::default()
        });
        rows[0].in_force = Some(forms);
    }
    asked
}

#[test]
fn morph_starts_with_all_write_cache_and_ends_steady_at_the_best_split() {
    for best in [0, 300, 700, 1_000] {
        let us = |f: Forms| 100.0 + f.memory.0.abs_diff(best) as f64 + f.compressed.0 as f64;
        let asked = converge(&mut policy("morph"), us, 60);
        assert_eq!(asked[0], (Forms { write_cache: Bytes(1_000), ..Forms::default() }, true));
        assert!(asked.iter().any(|(_, steady)| !steady), "trials are experiments");
        let (forms, steady) = asked[59];
        assert_eq!((forms.memory.0, forms.compressed.0, steady), (best, 0, true));
    }
}

#[test]
fn compression_is_taken_where_it_helps_and_only_by_the_whole_search() {
    let us = |f: Forms| 2_000.0 - f.memory.0 as f64 - 1.5 * f.compressed.0.min(600) as f64;
    let (whole, _) = converge(&mut policy("morph"), us, 90)[89];
    assert_eq!(whole.compressed, Bytes(600), "{whole:?}");
    let (functional, _) = converge(&mut policy("morph-functional"), us, 90)[89];
    assert_eq!((functional.memory, functional.compressed), (Bytes(1_000), Bytes(0)));
}

/// Tenants share an SSD, so that only one of them is tried at a time; each gets its turn.
#[test]
fn tenants_take_turns() {
    let mut policy = policy("morph-functional");
    let pool = Pool { capacity: Amount::memory(Bytes(3_000)), ..Pool::default() };
    let mut rows: Vec<_> = (0..3)
        .map(|id| Row { id: TenantId(id), claim: Claim::default(), signal: None, in_force: None })
        .collect();
    let mut moved = [false; 3];
    for i in 0..60 {
        let window = Window { start: Instant(i * 60), end: Instant(i * 60 + 60), mixed: false };
        let seen = Seen::new(window, &pool, &rows).unwrap();
        let shares = policy.decide(window.end, &seen).shares.rows().to_vec();
        let changed = shares.iter().zip(&rows).filter(|((_, f), r)| r.in_force.is_some_and(|o| o != *f));
        let changed: Vec<_> = changed.map(|((id, _), _)| id.index()).collect();
        assert!(changed.len() <= 1, "{changed:?}");
        changed.iter().for_each(|i| moved[*i] = true);
        for (row, (_, forms)) in rows.iter_mut().zip(&shares) {
            row.in_force = Some(*forms);
            row.signal = Some(FormSignal {
                operations: 1_000,
                latency: Duration::from_micros(2_000 - forms.memory.0),
                latency_error: Some(0.001),
                held: Some(*forms),
                ..FormSignal::default()
            });
        }
    }
    assert_eq!(moved, [true; 3]);
    assert!(rows.iter().all(|r| r.in_force.is_some_and(|f| f.memory == Bytes(1_000))), "{rows:?}");
}

#[test]
fn without_signals_a_search_gives_up_and_begins_anew_when_they_return() {
    let mut policy = policy("morph");
    let pool = Pool { capacity: Amount::memory(Bytes(1_000)), ..Pool::default() };
    let cache = Forms { write_cache: Bytes(1_000), ..Forms::default() };
    let mut words = Vec::new();
    for i in 0..30 {
        let signal = (20 <= i).then(|| FormSignal {
            operations: 9,
            latency: Duration::from_micros(9),
            ..FormSignal::default()
        });
        let rows = [Row { id: TenantId(0), claim: Claim::default(), signal, in_force: Some(cache) }];
        let window = Window { start: Instant(i), end: Instant(i + 1), mixed: false };
        let decision = policy.decide(Instant(i + 1), &Seen::new(window, &pool, &rows).unwrap());
        words.extend(decision.notes.iter().map(|n| n.reason.word()));
    }
    let at = |word| words.iter().position(|w| *w == word);
    assert!(at("fallback") < at("restarted") && at("fallback").is_some(), "{words:?}");
}

#[test]
fn names_and_options_are_checked() {
    assert!(by_name("best", Options::default(), Parts::MEMORY).is_none());
    for name in NAMES {
        assert_eq!(policy(name).name(), name);
    }
    assert!(Steps::new(1).is_none() && Steps::new(21).is_none());
    let watched = Options { watch: Watch::Medium, ..Options::default() };
    assert!(by_name("morph", watched, Parts::MEMORY).is_some());
}
