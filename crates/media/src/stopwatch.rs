//! A calibrated stopwatch: reads the processor's time stamp counter and waits by spinning, for times that no sleep is short
//! enough for, or for the last part of a longer one.
//!
//! Shape:       `now` reads nanoseconds since the stopwatch was made; `spin_until` and `wait_until` wait for such a reading
//! Units:       nanoseconds. The counter itself moves in steps of 10 ns on some machines, so does a reading
//! Assumptions: 1. the counter is the same on all cores and does not change its rate (the processor says so); where it does
//!              not, the system's monotonic clock takes its place; 2. calibration over `CALIBRATION` is off by less than
//!              1 part in 10,000
//! Non-goals:   the time of day; deciding anything: who needs time to decide is handed it

#![allow(unsafe_code, reason = "reads the time stamp counter; see the SAFETY comment")]

use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;
use std::sync::OnceLock;
use units::{Duration, Instant};

/// How long the counter is compared with the system's clock. A guess: two readings are 0.1 µs off at most.
const CALIBRATION: std::time::Duration = std::time::Duration::from_millis(5);
/// Readings of both at each end, of which the quickest counts: one that was interrupted does not (guess; one in thousands is).
const READINGS: u32 = 8;

/// What a sleep of a thread without timer slack ends late by, but for one of a hundred (measured here: 14 us in the median where cores do
/// not idle, 34 where they do; 29 and 63 of a hundred).
const LATE: Duration = Duration::from_micros(60);
/// Shortest time that is worth a sleep (guess): four fifths of it are slept, and one that ends late is little longer.
const SLEEP_MIN: Duration = Duration(5 * LATE.0);

/// Reads time and waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    counter: Counter,
    origin: u64,
}

#[derive(Clone, Copy, Debug)]
enum Counter {
    /// The time stamp counter, with nanoseconds per tick in units of 2⁻³².
    Ticks { scale: u64 },
    /// The system's monotonic clock.
    System,
}

impl Stopwatch {
    /// A stopwatch that starts now. The first of a process takes 5 ms to calibrate.
    #[must_use]
    pub fn new() -> Self {
        static COUNTER: OnceLock<Counter> = OnceLock::new();
        let counter = *COUNTER.get_or_init(Counter::calibrated);
        Self { counter, origin: counter.read() }
    }

    /// Time since the start.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        let passed = self.counter.read().saturating_sub(self.origin);
        match self.counter {
            Counter::Ticks { scale } => {
                #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
                let ns = ((u128::from(passed) * u128::from(scale)) >> 32) as u64;
                Instant(ns)
            }
            Counter::System => Instant(passed),
        }
    }

    /// Waits until `then` without giving the processor away; returns the reading that ended it.
    #[inline]
    pub fn spin_until(&self, then: Instant) -> Instant {
        loop {
            let now = self.now();
            if then <= now {
                return now;
            }
            // A pause takes 25 to 40 ns: only what is far away can afford it.
            if PAUSE.0 * 2 < then.since(now).0 {
                std::hint::spin_loop();
            }
        }
    }

    /// Waits until `then`, without the processor while that is far away; returns the reading that ended it. The calling thread has no
    /// timer slack after that.
    #[inline]
    pub fn wait_until(&self, then: Instant) -> Instant {
        let rest = then.since(self.now());
        if SLEEP_MIN <= rest {
            sleep(rest - LATE);
        }
        self.spin_until(then)
    }

    /// Waits for `length` from now.
    #[inline]
    pub fn spin(&self, length: Duration) {
        self.spin_until(self.now() + length);
    }
}

#[cold]
fn sleep(length: Duration) {
    thread_local! {
        // Where the system refuses, sleeps end some 50 us later.
        static HAS_NO_SLACK: bool = set_current_timer_slack(Some(NonZeroU64::MIN)).is_ok();
    }
    HAS_NO_SLACK.with(|_| std::thread::sleep(std::time::Duration::from_nanos(length.0)));
}

/// What a pause instruction takes at most (measured 25 to 36 ns on Zen 4, published 140 cycles on Skylake).
const PAUSE: Duration = Duration(50);

impl Default for Stopwatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    fn calibrated() -> Self {
        if !has_steady_counter() {
            return Self::System;
        }
        match scale_of(ticks, system_ns, || std::thread::sleep(CALIBRATION)) {
            Some(scale) => Self::Ticks { scale },
            None => Self::System,
        }
    }

    #[inline]
    fn read(self) -> u64 {
        match self {
            Self::Ticks { .. } => ticks(),
            Self::System => system_ns(),
        }
    }
}

/// Nanoseconds per tick in units of 2⁻³², by what passes while `wait` does; none if that is nothing.
fn scale_of(
    mut ticks: impl FnMut() -> u64,
    mut clock: impl FnMut() -> u64,
    wait: impl FnOnce(),
) -> Option<u64> {
    let mut both = || {
        let readings = (0..READINGS).map(|_| {
            let (before, ns, after) = (ticks(), clock(), ticks());
            let between = after.wrapping_sub(before);
            (between, (ns, before.wrapping_add(between / 2)))
        });
        readings.min_by_key(|(between, _)| *between).unwrap_or_default().1
    };
    let start = both();
    wait();
    let end = both();
    let (ns, ticks) = (end.0.wrapping_sub(start.0), end.1.wrapping_sub(start.1));
    let scale = u64::try_from((u128::from(ns) << 32) / u128::from(ticks.max(1))).ok();
    scale.filter(|scale| 0 < *scale)
}

fn system_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory; where a system forbids it to programs
    // (`prctl(PR_SET_TSC)`), nobody in this process asked for that.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn ticks() -> u64 {
    system_ns()
}

/// Whether the processor promises a counter of constant rate in all its states (AMD and Intel: CPUID 8000_0007h, EDX bit 8).
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_steady_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    0x8000_0007 <= __cpuid(0x8000_0000).eax && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_steady_counter() -> bool {
    false
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    /// Three ticks are a nanosecond here, and a reading of either takes 20 ns; whoever makes the `late`-th comes back to it after 1 ms.
    fn scale_with_a_preemption(late: u32) -> (u64, u32) {
        let (now, made) = (std::cell::Cell::new(1_000_000_u64), std::cell::Cell::new(0));
        let pass = |ns| now.set(now.get() + ns);
        let reading = || {
            pass(if made.get() == late { 1_000_020 } else { 20 });
            made.set(made.get() + 1);
            now.get()
        };
        let wait = || pass(u64::try_from(CALIBRATION.as_nanos()).unwrap());
        (scale_of(|| reading() * 3, reading, wait).unwrap(), made.get())
    }

    #[test]
    fn a_thread_that_is_interrupted_while_it_calibrates_has_the_right_scale() {
        let right = (1_u64 << 32) as f64 / 3.0;
        let (_, readings) = scale_with_a_preemption(u32::MAX);
        for late in 0..readings {
            let (scale, _) = scale_with_a_preemption(late);
            assert!((scale as f64 / right - 1.0).abs() < 1e-4, "{late}: {scale}, not {right}");
        }
        assert_eq!(scale_of(|| 7, || 7, || ()), None, "nothing passes");
        assert_eq!(scale_of(|| u64::MAX, || 7, || ()), None);
    }

    #[test]
    fn it_waits_at_least_as_long_as_asked() {
        let watch = Stopwatch::new();
        for wait in [Stopwatch::spin_until, Stopwatch::wait_until] {
            for ns in [0, 10, 300, 5_000, 500_000] {
                let start = watch.now();
                let end = wait(&watch, start + Duration(ns));
                assert!(start + Duration(ns) <= end);
                assert!(end <= watch.now());
            }
        }
    }

    #[test]
    fn a_long_wait_leaves_the_processor_to_others() {
        let used = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        let watch = Stopwatch::new();
        let before = used();
        for _ in 0..100 {
            watch.wait_until(watch.now() + Duration::from_millis(1));
        }
        let took = used() - before;
        assert!(took < 50_000_000, "{took} ns of the processor for 100 ms");
    }

    #[test]
    fn it_agrees_with_the_systems_clock_on_what_has_passed() {
        let watch = Stopwatch::new();
        let before = system_ns();
        let start = watch.now();
        watch.spin(Duration::from_millis(2));
        let (ours, theirs) = (watch.now().since(start).0, system_ns() - before);
        // Read inside of theirs, so never more than that but for the calibration.
        assert!(ours <= theirs + theirs / 1000, "{ours} ns of {theirs}");
        assert!(2_000_000 <= ours);
    }
}
