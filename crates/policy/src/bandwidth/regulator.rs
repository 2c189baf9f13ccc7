//! Turns "hold this kind back one step", or "by 500 MB/s", into a setting of the levers that a tenant has.
//!
//! Shape:      levers, the throttle in force, the traffic it let through -> the next throttle
//! Invariants: tightening never loosens a lever and relaxing never tightens one; a lever that does not act on the kind is
//!             left alone; relaxing undoes levers in the opposite order; nobody is paused who had not the longest delay before
//! Units:      delays in 10 ns, bandwidth in bytes per second
//! Source:     NyxCache §3.3 (delays), MT² §3.3.2 (MBA first where it acts, then CPU time; for writes of a slow tier CPU
//!             time). We choose: one step of a delay is a tenth of the bandwidth, one of the CPU quota a factor of .9
//!             (the papers leave both open)

use control::bandwidth::{BandwidthSignal, Kind, Throttle};
use control::{CpuQuota, Levers, Window};
use units::{Bytes, BytesPerSec};

/// The longest delay; beyond it an access is paused (2 ms, some times what a value of 64 KiB takes of a slow tier; guess, 600 µs to 10 ms were tried).
pub const DELAY_MAX: u32 = 200_000;
/// Part of the bandwidth that one step of the delay takes (MT² leaves the step open; NyxCache uses 500 MB/s of some 5 GB/s).
const STEP_PART: f64 = 0.1;
/// Factor of one step of the CPU quota (guess; .8 to .95 were considered, no paper says).
const CPU_STEP: f64 = 0.9;

/// How much to hold back or let go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The lever's own step.
    One,
    /// So much bandwidth of the kind.
    By(BytesPerSec),
}

/// A throttle that holds `kind` back by one more `step`; none if every lever that acts on the kind is at its end.
#[must_use]
pub fn tighten(
    levers: &Levers,
    now: Throttle,
    kind: Kind,
    step: Step,
    traffic: Option<(&BandwidthSignal, Window)>,
) -> Option<Throttle> {
    if *levers.brake.get(kind) {
        let merged = traffic.map(|(signal, window)| (merged(levers, kind, signal), window));
        return longer_delay(now, kind, step, merged.as_ref().map(|(signal, window)| (signal, *window)));
    }
    if let Some(mba) = levers.mba.filter(|mba| *mba.acts_on.get(kind)).and_then(|mba| mba.below(now.mba)) {
        return Some(Throttle { mba, ..now });
    }
    levers.cpu.and_then(|quota| less_cpu(now, quota, part_of(kind, step, traffic)))
}

/// A throttle that holds `kind` back by one `step` less; none if nothing holds it back.
#[must_use]
pub fn relax(
    levers: &Levers,
    now: Throttle,
    kind: Kind,
    step: Step,
    traffic: Option<(&BandwidthSignal, Window)>,
) -> Option<Throttle> {
    if let (Some(quota), Some(cpu)) = (levers.cpu, now.cpu) {
        return Some(more_cpu(now, quota, cpu, growth_of(kind, step, traffic)));
    }
    if let Some(mba) = levers.mba.filter(|mba| *mba.acts_on.get(kind)).and_then(|mba| mba.above(now.mba)) {
        return Some(Throttle { mba, ..now });
    }
    let merged = traffic.map(|(signal, window)| (merged(levers, kind, signal), window));
    (*levers.brake.get(kind) && (0 < now.delay || now.paused))
        .then(|| shorter_delay(now, kind, step, merged.as_ref().map(|(signal, window)| (signal, *window))))
}

/// Reads and writes of the slow tier as one kind where one brake delays both: the pace of a thread is that of all its
/// accesses together.
pub(super) fn merged(levers: &Levers, kind: Kind, signal: &BandwidthSignal) -> BandwidthSignal {
    let mut merged = *signal;
    if levers.brake.slow_read && levers.brake.slow_write && kind.is_slow() {
        let other = if kind == Kind::SlowRead { Kind::SlowWrite } else { Kind::SlowRead };
        *merged.bytes.get_mut(kind) = signal.slow_bytes();
        *merged.bytes.get_mut(other) = Bytes::ZERO;
        *merged.accesses.get_mut(kind) += *signal.accesses.get(other);
        *merged.accesses.get_mut(other) = 0;
    }
    merged
}

/// How much more a tenant would do without its delay: what an access takes now, and what it would take without. At most
/// ten times as much, for nobody is measured that well.
pub(super) fn freed_by(levers: &Levers, delay: u32, traffic: (&BandwidthSignal, Window)) -> f64 {
    let merged = merged(levers, Kind::SlowRead, traffic.0);
    let Some((rate, bytes, threads)) = pace(Kind::SlowRead, Some((&merged, traffic.1))) else { return 1.0 };
    let takes = threads * bytes / rate * 1e9;
    let waits = if levers.brake.slow_read { f64::from(delay) * 10.0 } else { 0.0 };
    takes / (takes - waits).max(takes / 10.0)
}

/// What an access of `kind` takes now on average, from its start to the start of the thread's next, in ns; and its bytes.
fn pace(kind: Kind, traffic: Option<(&BandwidthSignal, Window)>) -> Option<(f64, f64, f64)> {
    let (signal, window) = traffic?;
    let bytes_per_sec = window.per_sec(signal.bytes.get(kind).0)?;
    let accesses = *signal.accesses.get(kind);
    if accesses == 0 || bytes_per_sec <= 0.0 {
        return None;
    }
    let bytes = signal.bytes.get(kind).0 as f64 / accesses as f64;
    let threads = f64::from(signal.threads.max(1));
    Some((bytes_per_sec, bytes, threads))
}

/// The delay, in units of 10 ns, that takes a kind from `from` to `to` bytes per second: each of the threads waits
/// `bytes / rate` longer per access.
fn delay_between(from: f64, to: f64, bytes: f64, threads: f64) -> f64 {
    threads * bytes * (1.0 / to - 1.0 / from) * 1e9 / 10.0
}

fn longer_delay(
    now: Throttle,
    kind: Kind,
    step: Step,
    traffic: Option<(&BandwidthSignal, Window)>,
) -> Option<Throttle> {
    if now.paused {
        return None;
    }
    let Some((rate, bytes, threads)) = pace(kind, traffic) else {
        // Nothing known of its pace: as much again, at least 100 ns.
        return Some(with_delay(now, f64::from(now.delay.max(10)) * 2.0));
    };
    let less = match step {
        Step::One => rate * STEP_PART,
        Step::By(bandwidth) => bandwidth.0 as f64,
    };
    // Whoever makes no more than the step is left with a tenth of it.
    let to = (rate - less).max(rate * STEP_PART);
    let more = delay_between(rate, to, bytes, threads).max(1.0);
    Some(with_delay(now, f64::from(now.delay) + more))
}

fn shorter_delay(
    now: Throttle,
    kind: Kind,
    step: Step,
    traffic: Option<(&BandwidthSignal, Window)>,
) -> Throttle {
    if now.paused {
        return Throttle { paused: false, delay: DELAY_MAX, ..now };
    }
    let Some((rate, bytes, threads)) = pace(kind, traffic) else {
        return with_delay(now, f64::from(now.delay / 2));
    };
    let more = match step {
        Step::One => rate * STEP_PART,
        Step::By(bandwidth) => bandwidth.0 as f64,
    };
    let less = delay_between(rate + more, rate, bytes, threads).max(1.0);
    with_delay(now, f64::from(now.delay) - less)
}

fn with_delay(now: Throttle, delay: f64) -> Throttle {
    // Whoever makes few accesses would be paused by its first step.
    if f64::from(DELAY_MAX) < delay && now.delay == DELAY_MAX {
        return Throttle { paused: true, ..now };
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0..=DELAY_MAX after the clamp"
    )]
    let delay = delay.round().clamp(0.0, f64::from(DELAY_MAX)) as u32;
    Throttle { delay, ..now }
}

/// The part of the kind's traffic that a step takes, in 0..1.
fn part_of(kind: Kind, step: Step, traffic: Option<(&BandwidthSignal, Window)>) -> f64 {
    match (step, pace(kind, traffic)) {
        (Step::By(bandwidth), Some((rate, ..))) => (bandwidth.0 as f64 / rate).clamp(0.0, 1.0),
        _ => 1.0 - CPU_STEP,
    }
}

fn less_cpu(now: Throttle, quota: CpuQuota, part: f64) -> Option<Throttle> {
    let from = now.cpu.unwrap_or(quota.most);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part in 0..=1 of a quota")]
    let to = ((f64::from(from) * (1.0 - part)) as u32).max(quota.least);
    (to < from).then_some(Throttle { cpu: Some(to), ..now })
}

/// The factor by which a step lets the kind's traffic grow, at least 1.
fn growth_of(kind: Kind, step: Step, traffic: Option<(&BandwidthSignal, Window)>) -> f64 {
    match (step, pace(kind, traffic)) {
        (Step::By(bandwidth), Some((rate, ..))) => (rate + bandwidth.0 as f64) / rate,
        _ => 1.0 / CPU_STEP,
    }
}

fn more_cpu(now: Throttle, quota: CpuQuota, cpu: u32, growth: f64) -> Throttle {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion to an integer saturates; then it is bounded"
    )]
    let to = (f64::from(cpu.max(1)) * growth).ceil() as u32;
    Throttle { cpu: (to < quota.most).then_some(to), ..now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::Mba;
    use control::bandwidth::Kinds;
    use units::{Bytes, Duration, Instant};

    const BRAKE: Kinds<bool> =
        Kinds { dram_read: false, dram_write: false, slow_read: true, slow_write: true };

    fn traffic(bytes: u64, accesses: u64, threads: u16) -> (BandwidthSignal, Window) {
        let signal = BandwidthSignal {
            bytes: Kinds { slow_read: Bytes(bytes), ..Kinds::default() },
            accesses: Kinds { slow_read: accesses, ..Kinds::default() },
            threads,
            ..BandwidthSignal::default()
        };
        let window = Window { end: Instant::ZERO + Duration::from_secs(1), ..Window::default() };
        (signal, window)
    }

    #[test]
    fn a_delay_takes_the_bandwidth_that_was_asked() {
        // One thread, 256 B every 100 ns: 2.56 GB/s. Half of it: 100 ns more per access.
        let (signal, window) = traffic(2_560_000_000, 10_000_000, 1);
        let levers = Levers { brake: BRAKE, ..Levers::default() };
        let by = Step::By(BytesPerSec(1_280_000_000));
        let held = tighten(&levers, Throttle::FREE, Kind::SlowRead, by, Some((&signal, window))).unwrap();
        assert_eq!(held.delay, 10);
        // With two threads each waits twice as long.
        let (signal, window) = traffic(2_560_000_000, 10_000_000, 2);
        let held = tighten(&levers, Throttle::FREE, Kind::SlowRead, by, Some((&signal, window))).unwrap();
        assert_eq!(held.delay, 20);
        // Back: from 1.28 to 2.56 GB/s.
        let (signal, window) = traffic(1_280_000_000, 5_000_000, 2);
        let back = relax(&levers, held, Kind::SlowRead, by, Some((&signal, window))).unwrap();
        assert_eq!(back, Throttle::FREE);
        assert_eq!(relax(&levers, back, Kind::SlowRead, by, Some((&signal, window))), None);
    }

    #[test]
    fn beyond_the_longest_delay_comes_a_pause() {
        let levers = Levers { brake: BRAKE, ..Levers::default() };
        let mut now = Throttle::FREE;
        let mut steps = 0;
        while let Some(next) = tighten(&levers, now, Kind::SlowWrite, Step::One, None) {
            assert_eq!(next, next.tighter(now), "tightening never loosens");
            now = next;
            steps += 1;
            assert!(steps < 100, "it ends");
        }
        assert!(now.paused);
        let back = relax(&levers, now, Kind::SlowWrite, Step::One, None).unwrap();
        assert!(!back.paused && back.delay == DELAY_MAX);
    }

    #[test]
    fn who_makes_few_accesses_is_not_paused_by_its_first_step() {
        let levers = Levers { brake: BRAKE, ..Levers::default() };
        // Five values of 4 KiB a second, and a step of a tenth or of far more than all of it.
        let (signal, window) = traffic(20_480, 5, 1);
        for step in [Step::One, Step::By(BytesPerSec(500_000_000))] {
            let tighter = |now| tighten(&levers, now, Kind::SlowRead, step, Some((&signal, window))).unwrap();
            let first = tighter(Throttle::FREE);
            assert_eq!((first.delay, first.paused), (DELAY_MAX, false), "{step:?}");
            assert!(tighter(first).paused, "{step:?}");
        }
    }

    #[test]
    fn the_host_takes_mba_where_it_acts_and_cpu_time_after_it() {
        let levers = Levers {
            mba: Some(Mba::MT2),
            cpu: Some(CpuQuota { most: 4000, least: 100 }),
            ..Levers::default()
        };
        let mut now = Throttle::FREE;
        let mut mba = Vec::new();
        while now.cpu.is_none() {
            now = tighten(&levers, now, Kind::DramRead, Step::One, None).unwrap();
            mba.push(now.mba);
        }
        assert_eq!(mba, [90, 60, 50, 40, 30, 20, 10, 10], "the eight values of MT², then CPU time");
        assert_eq!(now.cpu, Some(3600));
        let relaxed = relax(&levers, now, Kind::DramRead, Step::One, None).unwrap();
        assert_eq!((relaxed.mba, relaxed.cpu), (10, None), "in the opposite order");
        let written = tighten(&levers, Throttle::FREE, Kind::SlowWrite, Step::One, None).unwrap();
        assert_eq!(
            (written.mba, written.cpu),
            (100, Some(3600)),
            "MBA does not act on writes of a slow tier"
        );
    }

    #[test]
    fn cpu_time_follows_the_bandwidth_that_was_asked() {
        let levers = Levers { cpu: Some(CpuQuota { most: 4000, least: 100 }), ..Levers::default() };
        let (signal, window) = traffic(1_000_000_000, 1_000_000, 4);
        let by = Step::By(BytesPerSec(500_000_000));
        let half = tighten(&levers, Throttle::FREE, Kind::SlowRead, by, Some((&signal, window))).unwrap();
        assert_eq!(half.cpu, Some(2000));
        let more = relax(&levers, half, Kind::SlowRead, by, Some((&signal, window))).unwrap();
        assert_eq!(more.cpu, Some(3000));
        let unknown = relax(&levers, half, Kind::SlowRead, by, None).unwrap();
        assert_eq!(unknown.cpu, Some(2223), "without a pace it is the lever's own step");
    }

    #[test]
    fn a_lever_ends_at_its_floor() {
        let levers = Levers { cpu: Some(CpuQuota { most: 1000, least: 900 }), ..Levers::default() };
        let once = tighten(&levers, Throttle::FREE, Kind::SlowWrite, Step::One, None).unwrap();
        assert_eq!(once.cpu, Some(900));
        assert_eq!(tighten(&levers, once, Kind::SlowWrite, Step::One, None), None);
        assert_eq!(
            tighten(&Levers::default(), Throttle::FREE, Kind::DramRead, Step::One, None),
            None,
            "no lever"
        );
    }
}
