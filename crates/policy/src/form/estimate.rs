//! What a split is worth: latencies with their standard errors, gathered over windows until they have settled.
//!
//! Shape:      windows of one split -> [`Trial`] -> an [`Estimate`] -> better, worse or no difference, by an objective
//! Invariants: a window of which the split was not in force counts for nothing
//! Source:     PolyEMT §3.1 probes application latencies, §5.3 turns to the tail without harm to the average. The paper
//!             says nothing about noise; what is significant here is our own
//!
//! A form that was just given is filled only by faults, so the first windows of a split understate it. Where the sensor
//! tells how much the forms hold, a trial waits until they no longer grow and takes the next window; where it does not, a
//! trial ends when two windows in a row do not differ by more than their noise.

use control::Row;
use control::Window;
use control::form::{FormSignal, Forms};
use units::{Bytes, Duration};

/// Standard errors by which two figures must differ to count as different: one in twenty differs by chance.
const SIGNIFICANT: f64 = 2.0;
/// Differences below this part are none, however sure. A guess (.005 to .03).
const GAIN_MIN: f64 = 0.01;
/// A mean may get worse by this part for a better tail (§5.3: "without impacting the average"). A guess (.01 to .05).
const HARM_MAX: f64 = 0.02;
/// Relative standard errors of a mean and of a tail whose sensor knows none. Guesses for a minute.
const ERROR: f64 = 0.03;
const TAIL_ERROR: f64 = 0.1;
/// Windows after which a trial ends though it still moves. A guess: six minutes.
const WINDOWS_MAX: u8 = 6;
/// Windows that a trial waits for a conversion before it takes what is in force for what there is. A guess (4 to 20).
const CONVERTING_MAX: u8 = 10;
/// Windows of a trial in which forms may still fill. A guess (4 to 20).
const FILLING_MAX: u8 = 8;
/// Growth of what the forms hold, in parts of all of it, up to which a window shows what they are worth. A guess
/// (1/1000 to 1/50).
const GROWTH_MAX: u64 = 200;
/// Missing bytes, in parts of all, that are worth a longer wait. A guess (1/100 to 1/10).
const MISSING_BYTES_MAX: u64 = 50;
/// Longest wait for forms to convert or to fill. A guess (2 to 15 minutes).
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Windows without a signal after which a trial is given up. A guess (3 to 20).
const MISSING_MAX: u8 = 5;

/// A figure in microseconds with its standard error.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figure {
    us: f64,
    error_us: f64,
}

/// What a split was found to be worth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    mean: Figure,
    tail: Figure,
}

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Objective {
    /// Low mean latency: for a closed application, throughput (§3.1).
    Mean,
    /// Low tail latency without harm to the mean, or a lower mean without harm to the tail (§5.3).
    Tail,
}

/// How one estimate compares with another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Significantly better.
    Better,
    /// No significant difference.
    Same,
    /// Significantly worse.
    Worse,
}

/// Windows of one split.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Trial {
    last: Option<Estimate>,
    held: Option<Forms>,
    windows: u8,
    converting: u8,
    filling: u8,
    missing: u8,
    /// Bytes that were still to convert when last looked at.
    unconverted: Option<u64>,
    wait: Option<Duration>,
}

/// Where a trial stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Progress {
    /// It needs another window.
    Open,
    /// It is done.
    Done(Estimate),
    /// It is given up for want of signals.
    Lost,
}

impl Figure {
    fn new(value: Duration, error: Option<f64>, unknown: f64) -> Self {
        let us = value.0 as f64 / 1e3;
        let known = error.filter(|e| e.is_finite() && 0.0 <= *e);
        Self { us, error_us: us * known.unwrap_or(unknown) }
    }

    fn against(self, other: Self, least: f64) -> Verdict {
        let gain = other.us - self.us;
        let noise = SIGNIFICANT * self.error_us.hypot(other.error_us);
        let least = noise.max(least * other.us);
        match gain {
            gain if least < gain => Verdict::Better,
            gain if gain < -least => Verdict::Worse,
            _ => Verdict::Same,
        }
    }
}

impl Estimate {
    /// The estimate of one window; none if nothing was measured.
    pub(super) fn of(signal: Option<&FormSignal>) -> Option<Self> {
        let signal = signal.filter(|s| 0 < s.operations && Duration::ZERO < s.latency)?;
        Some(Self {
            mean: Figure::new(signal.latency, signal.latency_error, ERROR),
            tail: Figure::new(signal.tail, signal.tail_error, TAIL_ERROR),
        })
    }

    /// Mean latency in microseconds.
    pub(super) fn mean_us(&self) -> f64 {
        self.mean.us
    }

    /// How it compares with `other`.
    pub(super) fn against(&self, other: &Self, objective: Objective) -> Verdict {
        let mean = self.mean.against(other.mean, GAIN_MIN);
        if objective == Objective::Mean {
            return mean;
        }
        if self.mean.against(other.mean, HARM_MAX) == Verdict::Worse {
            return Verdict::Worse;
        }
        match self.tail.against(other.tail, GAIN_MIN) {
            Verdict::Same if mean == Verdict::Better => Verdict::Better,
            tail => tail,
        }
    }

    /// Whether the mean lies on the better side of `other`'s, significantly or not.
    pub(super) fn leans_better(&self, other: &Self, objective: Objective) -> bool {
        match objective {
            Objective::Mean => self.mean.us < other.mean.us,
            Objective::Tail => self.tail.us < other.tail.us,
        }
    }
}

impl Trial {
    /// A trial that begins now, with what the forms hold.
    pub(super) fn beginning(signal: Option<&FormSignal>) -> Self {
        Self { held: signal.and_then(|s| s.held), ..Self::default() }
    }

    /// How long to wait for forms to convert or to fill, if that is known.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Takes a window in which `asked` should have been in force.
    pub(super) fn observe(&mut self, window: Window, row: &Row<FormSignal, Forms>, asked: Forms) -> Progress {
        self.wait = None;
        if window.length() == Duration::ZERO {
            return Progress::Open;
        }
        let held = row.signal.as_ref().and_then(|s| s.held);
        let before = std::mem::replace(&mut self.held, held);
        if row.in_force != Some(asked) && self.converting < CONVERTING_MAX {
            self.convert(window, row.in_force, asked);
            return Progress::Open;
        }
        if let (Some(before), Some(held)) = (before, held)
            && self.is_filling(window, before, held, asked)
        {
            return Progress::Open;
        }
        let Some(now) = Estimate::of(row.signal.as_ref()) else {
            self.missing = self.missing.saturating_add(1);
            return if MISSING_MAX <= self.missing { Progress::Lost } else { Progress::Open };
        };
        self.missing = 0;
        self.windows += 1;
        let is_full = before.is_some() && held.is_some();
        let settled = self.last.is_some_and(|last| now.mean.against(last.mean, GAIN_MIN) == Verdict::Same);
        if is_full || settled || WINDOWS_MAX <= self.windows {
            return Progress::Done(now);
        }
        self.last = Some(now);
        Progress::Open
    }

    /// Whether forms have grown so much in the window that it does not show what they are worth; works out how long to
    /// wait for the rest.
    fn is_filling(&mut self, window: Window, before: Forms, held: Forms, asked: Forms) -> bool {
        let all = above(asked, Forms::default());
        let (grown, missing) = (above(held, before), above(asked, held));
        if grown <= all / GROWTH_MAX || FILLING_MAX <= self.filling {
            return false;
        }
        self.filling += 1;
        if all / MISSING_BYTES_MAX < missing {
            self.wait = Some(rest_of(window, grown, missing));
        }
        true
    }

    /// Notes how far a conversion has come and works out how long the rest takes.
    fn convert(&mut self, window: Window, in_force: Option<Forms>, asked: Forms) {
        self.converting += 1;
        let left = in_force.map(|now| above(asked, now));
        if let (Some(before), Some(left)) = (std::mem::replace(&mut self.unconverted, left), left)
            && left < before
        {
            self.wait = Some(rest_of(window, before - left, left));
        }
    }
}

/// By how many bytes `a` is above `b`, form by form.
fn above(a: Forms, b: Forms) -> u64 {
    let parts = [(a.write_cache, b.write_cache), (a.memory, b.memory), (a.compressed, b.compressed)];
    parts.iter().map(|(a, b)| a.saturating_sub(*b).0).fold(0, u64::saturating_add)
}

/// How long `left` takes if `done` took the window.
fn rest_of(window: Window, done: u64, left: u64) -> Duration {
    Duration(Bytes(window.length().0).scale(left, done).0.min(WAIT_MAX.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::Claim;
    use units::{Instant, TenantId};

    fn signal(us: u64, tail_us: u64, error: f64) -> FormSignal {
        FormSignal {
            operations: 1_000,
            latency: Duration::from_micros(us),
            tail: Duration::from_micros(tail_us),
            latency_error: Some(error),
            tail_error: Some(error),
            ..FormSignal::default()
        }
    }

    fn estimate(us: u64, tail_us: u64, error: f64) -> Estimate {
        Estimate::of(Some(&signal(us, tail_us, error))).unwrap()
    }

    #[test]
    fn only_what_is_beyond_noise_is_better() {
        use Objective::{Mean, Tail};
        use Verdict::{Better, Same, Worse};
        for (new, old, objective, verdict) in [
            ((900, 0, 0.01), (1_000, 0, 0.01), Mean, Better),
            ((900, 0, 0.05), (1_000, 0, 0.05), Mean, Same),
            ((1_100, 0, 0.01), (1_000, 0, 0.01), Mean, Worse),
            ((995, 0, 0.0), (1_000, 0, 0.0), Mean, Same),
            ((1_000, 500, 0.01), (1_000, 900, 0.01), Tail, Better),
            ((1_100, 500, 0.01), (1_000, 900, 0.01), Tail, Worse),
            ((1_015, 500, 0.0), (1_000, 900, 0.0), Tail, Better),
            ((900, 900, 0.01), (1_000, 900, 0.01), Tail, Better),
            ((900, 1_800, 0.01), (1_000, 900, 0.01), Tail, Worse),
        ] {
            let [new_e, old_e] = [new, old].map(|(us, tail, error)| estimate(us, tail, error));
            assert_eq!(new_e.against(&old_e, objective), verdict, "{new:?} {old:?} {objective:?}");
        }
    }

    #[test]
    fn a_trial_waits_for_conversion_and_until_it_has_settled() {
        let asked = Forms { memory: Bytes(5), ..Forms::default() };
        let mut trial = Trial::default();
        let mut observe = |us: u64, in_force: Forms, secs: u64| {
            let row = Row {
                id: TenantId(0),
                claim: Claim::default(),
                signal: (0 < us).then(|| signal(us, us, 0.01)),
                in_force: Some(in_force),
            };
            let window =
                Window { start: Instant(0), end: Instant(0) + Duration::from_secs(secs), mixed: false };
            trial.observe(window, &row, asked)
        };
        assert_eq!(observe(900, Forms::default(), 30), Progress::Open, "not in force");
        assert_eq!(observe(900, asked, 0), Progress::Open, "no time has passed");
        assert_eq!(observe(900, asked, 30), Progress::Open, "the first window");
        assert_eq!(observe(0, asked, 30), Progress::Open, "no signal");
        assert_eq!(observe(700, asked, 30), Progress::Open, "still falling");
        assert!(matches!(observe(690, asked, 30), Progress::Done(e) if (e.mean_us() - 690.0).abs() < 1e-9));
        let mut lost = Trial::default();
        let row = Row { id: TenantId(0), claim: Claim::default(), signal: None, in_force: Some(asked) };
        let window = Window { end: Instant(1), ..Window::default() };
        for _ in 1..MISSING_MAX {
            assert_eq!(lost.observe(window, &row, asked), Progress::Open);
        }
        for _ in 0..2 * u32::from(u8::MAX) {
            assert_eq!(lost.observe(window, &row, asked), Progress::Lost, "and so it stays");
        }
    }
}
