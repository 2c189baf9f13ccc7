//! The estimator against reuse distances by definition, and what it does when memory or keys change.

use super::*;
use proptest::prelude::*;
use units::Rng;

/// Reuse distances by definition: distinct bytes since the last look-up, the item itself included.
fn exact_miss_ratio(look_ups: &[(u64, u32)], size: u64) -> f64 {
    let mut misses = 0;
    for (i, (key, bytes)) in look_ups.iter().enumerate() {
        let Some(last) = look_ups[..i].iter().rposition(|(k, _)| k == key) else {
            misses += 1;
            continue;
        };
        let mut between: Vec<(u64, u32)> = look_ups[last + 1..i].to_vec();
        between.sort_unstable();
        between.dedup();
        let distance: u64 = between.iter().map(|(_, b)| u64::from(*b)).sum();
        misses += u32::from(size < distance + u64::from(*bytes));
    }
    f64::from(misses) / look_ups.len() as f64
}

#[test]
fn bad_sizes_are_refused_and_nothing_is_no_curve() {
    for (rate, samples) in [(0.0, 10), (1.1, 10), (f64::NAN, 10), (0.5, 1)] {
        assert!(Shards::new(rate, samples).is_none(), "{rate} {samples}");
    }
    let mut shards = Shards::new(1.0, 10).unwrap();
    assert_eq!(shards.curve(), Err(CurveError::TooFew(1)));
    shards.note(1, 10);
    assert_eq!(shards.curve(), Err(CurveError::TooFew(1)));
    shards.note(1, 10);
    assert!(shards.curve().is_ok());
}

#[test]
fn memory_is_bounded_and_the_rate_falls() {
    let mut shards = Shards::new(1.0, 100).unwrap();
    for n in 0..100_000 {
        shards.note(n, 1);
        assert!(shards.samples() <= 100);
    }
    assert!((0.0005..0.002).contains(&shards.rate()), "{}", shards.rate());
    assert!(shards.memory() <= Shards::memory_for(100), "{}", shards.memory());
    shards.clear();
    assert_eq!((shards.samples(), shards.taken()), (0, 0));
    assert!((shards.rate() - 1.0).abs() < 1e-9);
}

/// A loop over more keys than are sampled: below its size everything misses, above it only the first round.
#[test]
fn a_loop_is_a_step() {
    for seed in 1..=3 {
        let mut shards = Shards::new(0.1, 1_000).unwrap();
        for _ in 0..10 {
            for n in 0..20_000_u64 {
                shards.note(n ^ seed << 40, 100);
            }
        }
        let curve = shards.curve().unwrap();
        for (size, ratio) in [(1_500_000, 1.0), (2_500_000, 0.1)] {
            let ours = curve.miss_ratio(Bytes(size));
            assert!((ours - ratio).abs() < 0.02, "seed {seed}: {ours} at {size}");
        }
    }
}

#[test]
fn fading_lets_the_newest_say_more() {
    let mut shards = Shards::new(1.0, 1_000).unwrap();
    (0..1_000).for_each(|n| shards.note(n, 1));
    (0..10).for_each(|_| shards.fade());
    (0..100).for_each(|_| shards.note(7, 1));
    assert!(shards.curve().unwrap().miss_ratio(Bytes(10)) < 0.05);
}

/// Keys by Zipf's law.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: u32, skew: f64) -> Self {
        let mut sum = 0.0;
        Self(
            (1..=keys)
                .map(|rank| {
                    sum += f64::from(rank).powf(-skew);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let at = rng.unit() * self.0.last().unwrap();
        self.0.partition_point(|sum| *sum < at) as u64
    }
}

/// A stream of look-ups that go to a few keys most, or to all in turn.
fn ask(shards: &mut Shards, rng: &mut Rng, look_ups: u64, zipf: Option<&Zipf>) {
    for n in 0..look_ups {
        let key = zipf.map_or(n % 40_000, |zipf| zipf.draw(rng));
        shards.note(key << 20, 100);
    }
}

/// Who turns from a few keys to all in turn is known by that with the next comparison, where a fade would leave a quarter of the old.
#[test]
fn what_came_before_a_turn_is_forgotten() {
    let zipf = Zipf::new(40_000, 1.0);
    for seed in 1..=3 {
        let mut shards = Shards::new(1.0, 4_096).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..8 {
            ask(&mut shards, &mut rng, 40_000, Some(&zipf));
            assert_ne!(shards.compare(), Newest::Turned, "seed {seed}");
        }
        let skewed = shards.curve().unwrap().miss_ratio(Bytes(1_000_000));
        assert!((0.1..0.3).contains(&skewed), "seed {seed}: {skewed}");
        ask(&mut shards, &mut rng, 40_000, None);
        assert_eq!(shards.compare(), Newest::Turned, "seed {seed}");
        ask(&mut shards, &mut rng, 40_000, None);
        shards.compare();
        let in_turn = shards.curve().unwrap().miss_ratio(Bytes(1_000_000));
        assert!(0.97 < in_turn, "seed {seed}: {in_turn}");
        ask(&mut shards, &mut rng, 40_000, Some(&zipf));
        assert_eq!(shards.compare(), Newest::Turned, "seed {seed}");
        // The first ones after the turn have more between them than will be.
        ask(&mut shards, &mut rng, 40_000, Some(&zipf));
        assert_eq!(shards.compare(), Newest::Alike, "seed {seed}");
        let again = shards.curve().unwrap().miss_ratio(Bytes(1_000_000));
        assert!((again - skewed).abs() < 0.05, "seed {seed}: {again} after {skewed}");
    }
}

/// Few look-ups do not look like a turn where there is none.
#[test]
fn chance_is_no_turn() {
    for (seed, skew) in [(1, 0.6), (2, 0.9), (3, 1.2)] {
        let (zipf, mut rng) = (Zipf::new(20_000, skew), Rng::new(seed));
        let mut shards = Shards::new(1.0, 512).unwrap();
        (0..100_000).for_each(|_| shards.note(zipf.draw(&mut rng) << 20, 100));
        shards.compare();
        let (mut compared, mut turned) = (0, 0);
        for _ in 0..2_000_000 {
            shards.note(zipf.draw(&mut rng) << 20, 100);
            match shards.compare() {
                Newest::Few => {}
                Newest::Alike => {
                    compared += 1;
                    shards.fade();
                }
                Newest::Turned => turned += 1,
            }
        }
        assert!(20 < compared && turned == 0, "skew {skew}: {turned} of {compared}");
    }
}

/// Where fewer keys are sampled than before, the hottest may be sampled no more, or stand for more than they are.
#[test]
fn a_lower_rate_is_no_turn() {
    for (seed, skew) in [(1, 0.9), (2, 1.1), (3, 1.3), (4, 1.1), (5, 1.3)] {
        let (zipf, mut rng) = (Zipf::new(20_000, skew), Rng::new(seed));
        let mut shards = Shards::new(1.0, 2_000).unwrap();
        for round in 0..8 {
            (0..100_000).for_each(|_| shards.note(zipf.draw(&mut rng).wrapping_add(seed) << 20, 100));
            let newest = shards.compare();
            assert_ne!(newest, Newest::Turned, "seed {seed}, round {round}, rate {}", shards.rate());
            shards.lower(shards.limit() / 2);
        }
    }
}

/// What is forgotten is forgotten everywhere: the sums are those of the newest look-ups.
#[test]
fn a_turn_keeps_the_newest_look_ups() {
    let mut shards = Shards::new(1.0, 10_000).unwrap();
    for _ in 0..5 {
        (0..100).for_each(|n| shards.note(n << 20, 100));
    }
    assert_eq!(shards.compare(), Newest::Few);
    for _ in 0..5 {
        (0..100).for_each(|n| shards.note(n << 20, 100));
    }
    assert_eq!(
        (shards.compare(), shards.compare()),
        (Newest::Alike, Newest::Few),
        "all are the newest at first"
    );
    shards.set_present(Bytes(1_000));
    for _ in 0..6 {
        (0..100).for_each(|n| shards.note(n << 20, 10_000));
    }
    let before = shards.look_ups();
    assert_eq!(shards.compare(), Newest::Turned);
    assert_eq!((before, shards.look_ups(), shards.taken()), (1_600.0, 600.0, 600));
    assert!((shards.missed() - 1.0).abs() < 1e-9);
    let curve = shards.curve().unwrap();
    // The first ones still have small items before them.
    assert!(0.98 < curve.miss_ratio(Bytes(100_000)), "nobody asks at the old distances any more");
    assert!(curve.miss_ratio(Bytes(1_100_000)) < 0.01);
}

/// What a client of a cache does: a miss does not know the bytes, the write after it does; what expired or was
/// deleted is missed at any size.
#[test]
fn misses_writes_and_removals_are_told_apart() {
    let mut shards = Shards::new(1.0, 100).unwrap();
    let mut rounds = |dead: u64| {
        for round in 0..10 {
            for n in 0..20_u64 {
                let key = mix64(n);
                match (round, n < dead) {
                    (0, _) => shards.look_up(key, None),
                    (_, true) if n % 2 == 0 => shards.look_up_dead(key),
                    (_, true) => {
                        shards.remove(key);
                        shards.look_up(key, None);
                    }
                    (_, false) => shards.look_up(key, None),
                }
                shards.write(key, 100);
                shards.count(1);
            }
        }
        let curve = shards.curve().unwrap();
        shards.clear();
        (curve.miss_ratio(Bytes(1_900)), curve.miss_ratio(Bytes(2_100)))
    };
    let (below, above) = rounds(0);
    assert!((below - 1.0).abs() < 1e-6 && (above - 0.1).abs() < 0.01, "{below} {above}");
    let (_, above) = rounds(10);
    assert!((above - 0.55).abs() < 0.01, "half of nine rounds and the first miss: {above}");
}

/// Keys that come once push nothing out that a cache of the wanted size would hold, and the rate stays.
#[test]
fn what_no_wanted_size_holds_is_forgotten() {
    let mut shards = Shards::new(1.0, 1_000).unwrap();
    shards.set_depth_max(Bytes(50_000));
    for n in 0..100_000 {
        shards.note(n, 100);
        shards.note((n % 10) << 32, 100);
    }
    assert!(shards.samples() <= 501 && 1.0 <= shards.rate(), "{} {}", shards.samples(), shards.rate());
    let curve = shards.curve().unwrap();
    assert!((curve.miss_ratio(Bytes(2_500)) - 0.5).abs() < 0.01);
}

/// A smaller allowance holds at once, and the curve stays that of the stream.
#[test]
fn less_memory_lowers_the_rate_and_keeps_the_curve() {
    let mut shards = Shards::new(1.0, 8_000).unwrap();
    let mut rng = Rng::new(5);
    let mut run = |shards: &mut Shards| {
        (0..200_000).for_each(|_| shards.note(rng.below(10_000), 100));
    };
    run(&mut shards);
    shards.set_samples_max(1_000);
    assert!(shards.memory() <= Shards::memory_for(1_000) && shards.samples() <= 1_000);
    run(&mut shards);
    let ours = shards.curve().unwrap().miss_ratio(Bytes(500_000));
    assert!((ours - 0.5).abs() < 0.03, "{ours}");
}

proptest! {
    /// Every key sampled, the curve is exact but for the width of its buckets.
    #[test]
    fn a_sample_of_all_is_exact(seed: u64, keys in 2_u64..40, length in 50_usize..300) {
        let mut rng = Rng::new(seed);
        let mut shards = Shards::new(1.0, 64).unwrap();
        let look_ups: Vec<(u64, u32)> = (0..length)
            .map(|_| rng.below(keys).min(rng.below(keys)))
            .map(|key| (key, 1 + u32::try_from(mix64(key) % 3).unwrap()))
            .collect();
        look_ups.iter().for_each(|(key, bytes)| shards.note(*key, *bytes));
        let Ok(curve) = shards.curve() else { return Ok(()) };
        // Below 64 a bucket is one byte wide; between points that are close the curve is straight.
        for (size, ratio) in curve.points().iter().skip(1).filter(|(size, _)| size.0 < 64) {
            let exact = exact_miss_ratio(&look_ups, size.0);
            prop_assert!((ratio - exact).abs() < 1.0 / POINTS_MAX + 1e-9, "{} {} {}", size, ratio, exact);
        }
    }
}
