//! Spirit on the modelled swap host: its programs, its auction, its policies.

use super::{Experiment, ExperimentError, Results, Sweep};
use crate::experiment;
use crate::machine::swap::{Noise, Pace, SwapHost, SwapTenant, Told};
use crate::machine::swap_programs::{FLOOR_PART, POOL, dlrm, memcached, server, social, stream, tenant};
use control::Loop;
use control::joint::{Accesses, Joint, Table};
use policy::estimate::access_histogram::{Fitter, Method};
use policy::estimate::slowdown::{GAMMA, Spot, speed_up};
use policy::joint::{Auction, Bid, Bidder, Bundle, Options, Range, STEPS, Stance, Terms, Value, by_name};
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

/// Spirit's figures.
pub(super) const SPIRIT: &[Experiment] = &[
    experiment!("spirit/fig_1", fig_1),
    experiment!("spirit/fig_3", fig_3),
    experiment!("spirit/fig_4", fig_4),
    experiment!("spirit/fig_6", fig_6),
    experiment!("spirit/fig_7", fig_7),
    experiment!("spirit/fig_9", fig_9),
];

/// Points along each side of a profile for `ideal`.
const PROFILE_POINTS: usize = 101;
/// Spirit §6.2: two applications share 5 Gbps.
const SMALL_POOL: Joint = Joint { bytes: POOL.bytes, bandwidth: BytesPerSec(625_000_000) };
const QUIET: Noise = Noise { counts: 0.0, curve: 0.0 };

fn part(share: Joint, memory: f64, bandwidth: f64) -> Joint {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a size")]
    let of = |whole: u64, part: f64| (whole as f64 * part) as u64;
    Joint {
        bytes: Bytes(of(share.bytes.0, memory)),
        bandwidth: BytesPerSec(of(share.bandwidth.0, bandwidth)),
    }
}

fn minutes(n: f64) -> Instant {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of the sweep")]
    let secs = (n * 60.0) as u64;
    Instant::ZERO + Duration::from_secs(secs)
}

/// The pace of the only tenant of `host` with a part of the pool.
fn alone(host: &SwapHost, memory: f64, bandwidth: f64) -> Result<Pace, ExperimentError> {
    let pace = host.truth(TenantId(1), part(POOL, memory, bandwidth));
    pace.ok_or_else(|| ExperimentError::failed("the host has no tenant"))
}

/// Figure 1: how programs depend on memory and bandwidth.
fn fig_1(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (memory, bandwidth) = (sweep.list("memory")?, sweep.list("bandwidth")?);
    let edges = |list: &[f64]| Some((*list.first()?, *list.last()?));
    let edges = edges(&memory).zip(edges(&bandwidth));
    let ((little, all), (narrow, wide)) = edges.ok_or_else(|| ExperimentError::failed("a list is empty"))?;
    for (name, program) in
        [("stream", stream()), ("memcached", memcached()), ("social", social()), ("dlrm", dlrm())]
    {
        let host = SwapHost::new(POOL, vec![tenant(program)], QUIET, Told::Nothing, sweep.seed);
        let speed = |m: f64, b: f64| alone(&host, m, b).map(|pace| pace.operations);
        let least = speed(little, narrow)?;
        for &m in &memory {
            let points: Result<Vec<_>, _> =
                bandwidth.iter().map(|&b| Ok((b, speed(m, b)? / least))).collect();
            results.series(name, &format!("memory {:.0} %", m * 100.0), &points?);
        }
        results.axes(name, "bandwidth, part of the pool", "speed, relative to the least of both");
        if name == "stream" {
            results.number("stream_equivalence", speed(1.0, 0.75)? / speed(0.4, 1.0)?);
        }
        if name == "dlrm" {
            results.number("dlrm_range", speed(all, wide)? / least);
        } else {
            results.number(format!("{name}_memory"), speed(all, wide)? / speed(little, wide)?);
            results.number(format!("{name}_bandwidth"), speed(all, wide)? / speed(all, narrow)?);
        }
    }
    Ok(())
}

/// A bidder with a table of `steps` over the whole pool.
fn tabled(steps: usize, speed: impl Fn(f64, f64) -> f64) -> Result<Bid, ExperimentError> {
    let points = steps + 1;
    let at = |i: usize| i as f64 / steps as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a table holds 32 bits")]
    let speeds: Vec<f32> =
        (0..points * points).map(|i| speed(at(i / points), at(i % points)) as f32).collect();
    let table = Table::new(POOL, points, points, speeds).map_err(ExperimentError::failed)?;
    let third = Bundle { memory: 1.0 / 3.0, bandwidth: 1.0 / 3.0 };
    let terms = Terms {
        endowment: third,
        floor: Bundle::default(),
        ceiling: Bundle { memory: 4.0, bandwidth: 4.0 },
        step: 1.0 / steps as f64,
        weight: third.memory,
        unspent_weight: third.memory,
    };
    Ok(Bid {
        terms,
        range: Range::new(0.0, 1.0),
        window: (0, STEPS),
        stance: Stance::Bids,
        worth: 0.0,
        ratios: Box::default(),
        value: Value::Profile { table, scale: Bundle { memory: 1.0, bandwidth: 1.0 } },
    })
}

/// Figure 3: three functions go through the auction.
fn fig_3(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let steps = usize::try_from(sweep.count("steps")?).map_err(ExperimentError::failed)?;
    let bids =
        [tabled(steps, |c, b| c * c / 2.0 + c * b)?, tabled(steps, |_, b| b)?, tabled(steps, |c, _| c)?];
    let mut auction = Auction::default();
    let outcome = auction.run(&bids);
    let [one, two, three] = auction.bundles() else {
        return Err(ExperimentError::failed("three bidders got other than three bundles"));
    };
    results.number("memory_price", outcome.prices.memory());
    results.number("price_closed_form", outcome.prices.memory());
    results.number("bandwidth_price", outcome.prices.bandwidth());
    results.number("app1_memory", one.memory);
    results.number("app1_bandwidth", one.bandwidth);
    results.number("app2_bandwidth", two.bandwidth);
    results.number("app3_memory", three.memory);
    for (name, bid, bundle) in
        [("app1_speed", &bids[0], one), ("app2_speed", &bids[1], two), ("app3_speed", &bids[2], three)]
    {
        results.number(name, bid.utility(*bundle));
    }
    Ok(())
}

/// Samples of Memcached's accesses while `held` is cached, in groups of pages.
fn samples(rng: &mut Rng, held: Bytes) -> Result<Accesses, ExperimentError> {
    const GROUPS: u64 = 2_000;
    const SAMPLES: f64 = 40_000.0;
    let curve = memcached().curve;
    let last = curve.points().last().map_or(Bytes::ZERO, |(size, _)| *size);
    let counts = (0..GROUPS).map(|i| {
        let hits = curve.miss_ratio(last.scale(i, GROUPS)) - curve.miss_ratio(last.scale(i + 1, GROUPS));
        u32::try_from(rng.binomial(40_000, (SAMPLES * hits.max(0.0) / 40_000.0).min(1.0))).unwrap_or(u32::MAX)
    });
    let page = last.scale(1, GROUPS);
    Accesses::new(counts.collect(), page, GROUPS, held, curve.miss_ratio(held))
        .map_err(ExperimentError::failed)
}

/// Figure 4: predicted against real speed, near and far.
fn fig_4(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut rng = Rng::new(sweep.seed);
    let mut fitter = Fitter::default();
    let own_range = 0.8; // 8 of the pool's 10 GiB
    let host = |program| SwapHost::new(POOL, vec![tenant(program)], QUIET, Told::Nothing, sweep.seed);
    let (keys, arrays) = (host(memcached()), host(stream()));
    let share = 1.0 / 6.0;
    for (kind, key) in [("near", "near_steps"), ("far", "far_steps")] {
        let away = sweep.number(key)? / STEPS as f64;
        let (mut memory_error, mut bandwidth_error) = (0.0_f64, 0.0_f64);
        for now in [0.25, 0.3, 0.4] {
            let accesses = samples(&mut rng, part(POOL, now, 0.0).bytes)?;
            let law = fitter.fit(&accesses, Method::default());
            let law = law.ok_or_else(|| ExperimentError::failed("no curve fits the samples"))?;
            let ratio = |m: f64| law.miss_ratio(m * POOL.bytes.0 as f64 / accesses.page().0 as f64);
            for target in [now - away * own_range, now + away * own_range] {
                let used = alone(&keys, now, share)?.fetched / POOL.bandwidth.0 as f64;
                let spot = |m: f64| Spot { miss_ratio: ratio(m), bandwidth: share };
                let predicted = speed_up(GAMMA, used, spot(now), spot(target));
                let real = alone(&keys, target, share)?.operations / alone(&keys, now, share)?.operations;
                memory_error = memory_error.max((predicted / real - 1.0).abs());
            }
        }
        for now in [0.25, 0.3, 0.4] {
            for target in [now - away, now + away] {
                let used = alone(&arrays, share, now)?.fetched / POOL.bandwidth.0 as f64;
                let spot = |bandwidth: f64| Spot { miss_ratio: 1.0 - share * 10.0 / 28.0, bandwidth };
                let predicted = speed_up(GAMMA, used, spot(now), spot(target));
                let real = alone(&arrays, share, target)?.operations / alone(&arrays, share, now)?.operations;
                bandwidth_error = bandwidth_error.max((predicted / real - 1.0).abs());
            }
        }
        results.number(format!("memcached_{kind}"), memory_error);
        results.number(format!("stream_{kind}"), bandwidth_error);
    }
    Ok(())
}

fn noise(sweep: &Sweep) -> Result<Noise, ExperimentError> {
    Ok(Noise { counts: sweep.number("counts_noise")?, curve: sweep.number("curve_noise")? })
}

fn options() -> Options {
    let (memory, bandwidth) = FLOOR_PART;
    Options { floor_part: Bundle { memory, bandwidth }, ..Options::default() }
}

/// An hour (or what the sweep says) of `tenants` under the policy `name`.
fn driven(
    sweep: &Sweep,
    name: &str,
    pool: Joint,
    tenants: Vec<SwapTenant>,
    epoch: Duration,
) -> Result<SwapHost, ExperimentError> {
    let ids: Vec<TenantId> = (1..).map(TenantId).take(tenants.len()).collect();
    let mut host = SwapHost::new(pool, tenants, noise(sweep)?, Told::Curve, sweep.seed);
    let mut options = Options { epoch, ..options() };
    if name == "ideal" {
        // The link is as busy as it will be.
        host.advance(minutes(0.5));
        let profile = |id: &TenantId| Ok((*id, host.profile(*id, PROFILE_POINTS)?));
        let profiles: Result<_, control::joint::TableError> = ids.iter().map(profile).collect();
        options.profiles = profiles.map_err(ExperimentError::failed)?;
    }
    let policy = by_name(name, options).ok_or_else(|| ExperimentError::failed("no such policy"))?;
    host.drive(&mut Loop::new(policy, 1), minutes(sweep.number("minutes")?));
    Ok(host)
}

fn rate(host: &SwapHost, id: u32, from: Instant) -> Result<f64, ExperimentError> {
    let rate = host.mean_rate(TenantId(id), from, host.now());
    rate.ok_or_else(|| ExperimentError::failed("nothing ran"))
}

/// Mean 99th percentile of a tenant's operations over the shares that it had from `from` on.
fn p99(host: &SwapHost, id: u32, from: Instant) -> f64 {
    let shares = host.shares(TenantId(id)).filter(|(at, _)| from <= *at).step_by(30);
    let paces = shares.filter_map(|(_, share)| host.truth(TenantId(id), share));
    let (count, sum) =
        paces.fold((0.0, 0.0), |(count, sum), pace| (count + 1.0, sum + pace.p99.as_secs_f64()));
    sum / count
}

/// Figure 6: every policy against the static shares, and `symbiosis` with twice the memory.
fn fig_6(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let from = minutes(sweep.number("minutes")? / 2.0);
    let epoch = Options::default().epoch;
    let gains = |name: &str, memory: u64| -> Result<(Vec<f64>, [f64; 2]), ExperimentError> {
        let pool = Joint { bytes: Bytes(POOL.bytes.0 * memory), ..POOL };
        let [base, ours] =
            [driven(sweep, "static", pool, server(), epoch)?, driven(sweep, name, pool, server(), epoch)?];
        let gain = |id: u32| Ok(rate(&ours, id, from)? / rate(&base, id, from)?);
        let tails = [4, 6].map(|id| p99(&ours, id, from) / p99(&base, id, from) - 1.0);
        Ok(((1..=6).map(gain).collect::<Result<_, ExperimentError>>()?, tails))
    };
    let stream_gain = |gains: &[f64]| gains[..3].iter().sum::<f64>() / 3.0 - 1.0;
    for name in ["harvest", "trade", "symbiosis", "ideal"] {
        let (gains, tails) = gains(name, 1)?;
        let overall = gains.iter().map(|gain| gain.ln()).sum::<f64>() / gains.len() as f64;
        results.number(format!("overall_{name}"), overall);
        let shown = [stream_gain(&gains), gains[3] - 1.0, gains[4] - 1.0, gains[5] - 1.0];
        let points: Vec<(f64, f64)> = (1_u32..).map(f64::from).zip(shown).collect();
        results.series("gain over static shares", name, &points);
        if name == "trade" {
            results.number("social_trade", gains[5] - 1.0);
        }
        if name == "symbiosis" {
            results.number("stream_symbiosis", stream_gain(&gains));
            results.number("memcached_symbiosis", gains[3] - 1.0);
            results.number("social_symbiosis", gains[5] - 1.0);
            results.number("memcached_p99", tails[0]);
            results.number("social_p99", tails[1]);
            results.number("least_symbiosis", gains.iter().copied().fold(f64::INFINITY, f64::min) - 1.0);
        }
    }
    let title = "gain over static shares";
    results.axes(title, "1 STREAM, 2 Memcached, 3 DLRM, 4 SocialNetwork", "gain");
    let (once, twice) = (stream_gain(&gains("symbiosis", 1)?.0), stream_gain(&gains("symbiosis", 2)?.0));
    results.number("stream_doubled", twice);
    results.number("doubled_over_single", twice / once);
    Ok(())
}

/// A tenant that turns from STREAM to Memcached and back at `turns`.
fn turning(turns: &[f64]) -> SwapTenant {
    let program = |i: usize| if i.is_multiple_of(2) { memcached() } else { stream() };
    let phases = turns.iter().enumerate().map(|(i, at)| (minutes(*at), program(i)));
    SwapTenant {
        phases: std::iter::once((Instant::ZERO, stream())).chain(phases).collect(),
        ..tenant(stream())
    }
}

/// Figure 7: speed over the length of an epoch.
fn fig_7(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (all, every) = (sweep.number("minutes")?, sweep.number("turn_minutes")?);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few turns")]
    let count = (all / every) as u32;
    let turns: Vec<f64> = (1..=count).map(|i| f64::from(i) * every).collect();
    let later: Vec<f64> = turns.iter().map(|at| at + every / 2.0).collect();
    let tenants = || vec![turning(&turns), turning(&later), tenant(stream()), tenant(stream())];
    let base = driven(sweep, "static", SMALL_POOL, tenants(), Duration::from_secs(30))?;
    let mut points = Vec::new();
    for seconds in sweep.list("epochs")? {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number of seconds"
        )]
        let epoch = seconds as u64;
        let host = driven(sweep, "symbiosis", SMALL_POOL, tenants(), Duration::from_secs(epoch))?;
        let gain = |id: u32| Ok((rate(&host, id, Instant::ZERO)? / rate(&base, id, Instant::ZERO)?).ln());
        let gains: Result<Vec<f64>, ExperimentError> = (1..=4).map(gain).collect();
        let overall = gains?.iter().sum::<f64>() / 4.0;
        results.number(format!("epoch_{epoch}"), overall);
        points.push((seconds, overall));
    }
    results.series("speed over the epoch", "symbiosis", &points);
    results.axes("speed over the epoch", "epoch, s", "mean log speed over static");
    Ok(())
}

/// Figure 9: shares follow changes of demand.
fn fig_9(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let [first, second, third, fourth] = sweep.list("changes_minutes")?[..] else {
        return Err(ExperimentError::failed("four changes are needed"));
    };
    let all = sweep.number("minutes")?;
    let tenants =
        vec![turning(&[first, third]), turning(&[second, fourth]), tenant(stream()), tenant(stream())];
    let host = driven(sweep, "symbiosis", SMALL_POOL, tenants, Options::default().epoch)?;
    let memory = |id: u32| -> Vec<(f64, f64)> {
        let at = |(at, share): (Instant, Joint)| {
            (at.0 as f64 / 60e9, share.bytes.0 as f64 / SMALL_POOL.bytes.0 as f64)
        };
        host.shares(TenantId(id)).map(at).collect()
    };
    for id in 1..=4 {
        results.series("memory over time", &format!("tenant {id}"), &memory(id));
    }
    results.axes("memory over time", "min", "part of the pool");
    let (up, down) = (sweep.number("up")?, sweep.number("down")?);
    for (id, change, next, is_up) in [
        (1, first, second, true),
        (2, second, third, true),
        (1, third, fourth, false),
        (2, fourth, all, false),
    ] {
        let item = format!("minutes_at_{change:.0}");
        let of_static: Vec<(f64, f64)> = memory(id).into_iter().map(|(at, part)| (at, 4.0 * part)).collect();
        let there = |share: f64| if is_up { up <= share } else { share <= down };
        let last = of_static.iter().rfind(|(at, _)| change <= *at && *at < next).map_or(0.0, |(_, y)| *y);
        results.note(&item, format!("{last:.2} of its static share at the end"));
        let found = stays_after(&of_static, change, next, there);
        if found.is_none() {
            results.note(&item, "never for good: what is left of the run");
        }
        results.number(item, found.unwrap_or(all - change));
    }
    let mean = |points: &[(f64, f64)], from: f64, to: f64| {
        let inside = points.iter().filter(|(at, _)| from <= *at && *at < to);
        let (n, sum) = inside.fold((0.0, 0.0), |(n, sum), (_, y)| (n + 1.0, sum + y));
        sum / n
    };
    results.number("gains_memory", 4.0 * mean(&memory(1), second, third));
    Ok(())
}

/// How long after `change` a curve of (time, value) `is_there` and stays so until `next`; none if it never does.
pub fn stays_after(
    points: &[(f64, f64)],
    change: f64,
    next: f64,
    is_there: impl Fn(f64) -> bool,
) -> Option<f64> {
    let inside = || points.iter().filter(|(at, _)| change <= *at && *at < next);
    let after = inside().rev().take_while(|(_, share)| is_there(*share)).last();
    after.map(|(at, _)| at - change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_there_only_if_it_stays() {
        let curve = |shares: [f64; 5]| -> Vec<(f64, f64)> { (0_u8..).map(f64::from).zip(shares).collect() };
        for (shares, minutes) in [
            ([1.0, 1.0, 1.3, 1.3, 1.0], Some(1.0)),
            ([1.0, 1.3, 1.3, 1.3, 1.0], Some(0.0)),
            ([1.0, 1.3, 1.1, 1.2, 1.0], Some(2.0)),
            ([1.0, 1.3, 1.3, 1.1, 1.3], None),
            ([1.0, 1.0, 1.0, 1.0, 1.3], None),
        ] {
            let found = stays_after(&curve(shares), 1.0, 4.0, |share| 1.2 <= share);
            assert_eq!(found, minutes, "{shares:?}");
        }
    }
}
