#![allow(clippy::all)]
use lab::reference::{Gdsf, Reference, apply};
use policy::estimate::Shards;
use policy::estimate::operating_point::*;
use std::collections::HashMap;
use units::{Bytes, Rng, mix64};
#[test]
fn calib() {
    let path = "/tmp/h/shared/traces/mix-dev.csv.zst";
    let mut foot: HashMap<Vec<u8>, HashMap<u64, u32>> = HashMap::new();
    let mut r = lab::open(std::path::Path::new(path), None).unwrap();
    while let Some(q) = r.next().unwrap() {
        let h = rapidhash::v3::rapidhash_v3(q.key);
        let b = q.value_bytes + q.key.len() as u32 + 48;
        if let Some(m) = foot.get_mut(q.tenant) {
            m.insert(h, b);
        } else {
            foot.insert(q.tenant.to_vec(), HashMap::from([(h, b)]));
        }
    }
    let mut sims: HashMap<Vec<u8>, (Bytes, Shards, Vec<(f64, Gdsf, u64)>, u64)> = foot
        .iter()
        .map(|(t, m)| {
            let f = m.values().map(|b| *b as u64).sum::<u64>();
            let mut v = vec![];
            for p in [0.1, 0.2, 0.4] {
                for c in [0.8, 1.0, 1.2] {
                    v.push((p * c, Gdsf::new(Bytes((f as f64 * p * c) as u64), Bytes(48)), 0));
                }
            }
            (t.clone(), (Bytes(f), Shards::new(1.0, 2048).unwrap(), v, 0))
        })
        .collect();
    let mut r = lab::open(std::path::Path::new(path), None).unwrap();
    while let Some(q) = r.next().unwrap() {
        let (_, sh, v, gets) = sims.get_mut(q.tenant).unwrap();
        let look = q.op.is_look_up();
        let h = rapidhash::v3::rapidhash_v3(q.key);
        let b = q.value_bytes + q.key.len() as u32 + 48;
        if look {
            *gets += 1;
            sh.note(h, b);
        } else if q.op == lab::Op::Delete {
            sh.remove(mix64(h));
        } else {
            sh.write(mix64(h), b);
        }
        for (_, g, miss) in v.iter_mut() {
            if !apply(&q, g) && look {
                *miss += 1;
            }
        }
    }
    let hows = [Calibration::Raw, Calibration::Shift, Calibration::Stretch, Calibration::Size];
    let mut sums: HashMap<String, (f64, u64)> = HashMap::new();
    let mut names: Vec<_> = sims.keys().cloned().collect();
    names.sort();
    for n in &names {
        let (f, sh, v, gets) = &sims[n];
        let curve = match sh.curve() {
            Ok(c) => c,
            Err(_) => continue,
        };
        for k in 0..3 {
            let at = Bytes((f.0 as f64 * [0.1, 0.2, 0.4][k]) as u64);
            let m = |i: usize| v[k * 3 + i].2 as f64 / *gets as f64;
            let mut line = format!(
                "{:20} {:.1} meas {:.4} lru {:.4}:",
                String::from_utf8_lossy(n),
                [0.1, 0.2, 0.4][k],
                m(1),
                curve.miss_ratio(at)
            );
            for (i, c) in [(0, 0.8), (2, 1.2)] {
                line += &format!(" x{c} true {:.4}", m(i));
                let size = Bytes((at.0 as f64 * c) as u64);
                for how in hows {
                    let e = (predict(&curve, at, m(1), size, how) - m(i)).abs();
                    let s = sums.entry(format!("{how:?}")).or_default();
                    s.0 += e;
                    s.1 += 1;
                    line += &format!(" {how:?} {e:.4}");
                }
                let e = (m(1) - m(i)).abs();
                let s = sums.entry("same".into()).or_default();
                s.0 += e;
                s.1 += 1;
            }
            println!("{line}");
        }
    }
    for (h, (s, n)) in sums {
        println!("{h}: {:.5}", s / n as f64);
    }
}
#[test]
fn age() {
    use lab::workload::Zipf;
    for per in [1u64, 2, 4, 8] {
        for samples in [512usize, 2048] {
            let mut out = String::new();
            for seed in 1..=3u64 {
                let z1 = Zipf::new(100_000, 0.9);
                let z2 = Zipf::new(30_000, 0.6);
                let mut rng = Rng::new(seed);
                let mut sh = Shards::new(1.0, samples).unwrap();
                // exact of phase: via full sampling of 30k keys? use Shards 40960 fresh, warm then count
                let mut full = Shards::new(1.0, 40_960).unwrap();
                let mut full1 = Shards::new(0.4, 49_000).unwrap();
                let mut step = |sh: &mut Shards, k: u64| {
                    sh.note(k, 100);
                    if per * (sh.samples() as u64).max(64) <= sh.taken() {
                        sh.fade();
                    }
                };
                for i in 0..2_000_000u64 {
                    let k = z1.draw(&mut rng) as u64 | seed << 40;
                    step(&mut sh, k);
                    if i == 1_000_000 {
                        for _ in 0..40 {
                            full1.fade();
                        }
                    }
                    full1.note(k, 100);
                }
                let err = |sh: &Shards, full: &Shards, f: u64| {
                    let (a, b) = (sh.curve().unwrap(), full.curve().unwrap());
                    (1..=19)
                        .map(|p| (a.miss_ratio(Bytes(f * p / 20)) - b.miss_ratio(Bytes(f * p / 20))).abs())
                        .sum::<f64>()
                        / 19.0
                };
                out += &format!(" steady {:.4} r{:.3} |", err(&sh, &full1, 10_000_000), sh.rate());
                // reference for phase 2
                let mut rng2 = Rng::new(seed + 9);
                for i in 0..1_000_000u64 {
                    let k = z2.draw(&mut rng2) as u64 | 1 << 50;
                    if i == 300_000 {
                        for _ in 0..40 {
                            full.fade();
                        }
                    }
                    full.note(k, 100);
                }
                for i in 1..=800_000u64 {
                    let k = z2.draw(&mut rng) as u64 | 1 << 50;
                    step(&mut sh, k);
                    if [100_000, 200_000, 400_000, 800_000].contains(&i) {
                        out += &format!(" {:.4}", err(&sh, &full, 3_000_000));
                    }
                }
                out += &format!(" r{:.3};", sh.rate());
            }
            println!("per {per} samples {samples}: {out}");
        }
    }
}
