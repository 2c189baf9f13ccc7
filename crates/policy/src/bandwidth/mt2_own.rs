//! How long an access takes by the doing of those alone who come first: everybody else pauses for a moment.
//!
//! Shape:      when it is due -> a pause of some windows -> the mean of what the medium showed in them, per kind
//! Invariants: only best-effort tenants are paused, and only where all of them can be; a pause that nobody ended ends by its
//!             lease; what was seen long ago does not count
//! Units:      time of an access of each kind
//! Cost:       O(tenants) in a period with interference, O(1) else; pauses take .5 % of the time on a medium as fast as memory,
//!             1.5 % on slower ones, thrice as much while those who come first do more and more
//! Failure:    where tenants have no brake, or a window was late, nothing is known, and the thresholds hold as they are
//! Source:     MT² §3.2.2: interference is where somebody's throughput has fallen by a tenth below what it has alone. We add: alone
//!             it has its own load, which takes of the medium, too; pauses as in NyxCache §4.1

use super::mt2_interference::Latencies;
use super::mt2_throttle::is_best_effort;
use crate::estimate::pause::Pause;
use crate::estimate::stand_alone::REFRESH;
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Pool, Row, Seen};
use units::{Duration, Instant};

/// Windows of a pause that count, where they are short: each ends with one look at the medium, which is of that moment (guess).
const WINDOWS: u32 = 4;
/// What two pauses saw counts: one may have met a burst (guess).
const SAMPLES: usize = 2 * WINDOWS as usize;
/// Fewer say nothing.
const SAMPLES_LEAST: usize = 3;
/// Others are next to nothing below one part in so many of what those who come first transfer.
const OTHERS_ONE_IN: u64 = 20;
/// What was seen counts no more where those who come first transfer so many times as much as then (guess).
const CHANGED: f64 = 1.5;
/// Then the next pause may come so soon.
const REFRESH_CHANGED: Duration = Duration(REFRESH.0 / 3);
/// What was seen so long ago counts no more.
const OLD: Duration = Duration(3 * REFRESH.0);

/// What those who come first make an access take.
#[derive(Clone, Debug)]
pub(super) struct OwnDoing {
    /// None where nobody is to be paused.
    pause: Option<Pause>,
    /// The windows of the pause that is on.
    left: Option<Left>,
    samples: Kinds<Samples>,
    /// When the last of them was taken.
    seen_at: Instant,
    /// When a window of a pause has ended last.
    paused_at: Option<Instant>,
    /// What those who come first transferred in the windows of the last pause.
    first: Transferred,
}

/// Bytes in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Transferred {
    bytes: u64,
    time: Duration,
}

/// What is left of a pause.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// What was under way is still being done in this window.
    settles: bool,
    windows: u32,
}

/// The newest samples of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    ns: [u64; SAMPLES],
    count: usize,
}

impl OwnDoing {
    /// Pauses as `pause` says; with none it knows nothing.
    pub(super) fn new(pause: Option<Pause>) -> Self {
        Self {
            pause,
            left: None,
            samples: Kinds::default(),
            seen_at: Instant::ZERO,
            paused_at: None,
            first: Transferred::default(),
        }
    }

    /// Begins a pause if it is time for one, and all that are not to come first can be paused.
    pub(super) fn begin(&mut self, now: Instant, seen: &Seen<'_, BandwidthSignal, Throttle>) -> bool {
        let Some(pause) = self.pause else { return false };
        let passed = self.paused_at.map_or(REFRESH, |at| now.since(at));
        let present = Transferred { bytes: slow_bytes(seen.tenants, false), time: seen.window.length() };
        let is_busier = CHANGED * self.first.per_sec() < present.per_sec();
        let is_due = REFRESH <= passed || (is_busier && REFRESH_CHANGED <= passed);
        if !is_due || !can_be_alone(seen.tenants) {
            return false;
        }
        if is_busier {
            self.samples = Kinds::default();
        }
        self.first = Transferred::default();
        self.left = Some(Left { settles: pause.settles(), windows: WINDOWS.min(pause.most()) });
        true
    }

    /// How long the window lasts that begins now, if it is one of a pause, and when the pause ends though nobody decides any more.
    pub(super) fn lasts(&self) -> Option<(Duration, Duration)> {
        let (pause, left) = (self.pause?, self.left?);
        Some((if left.settles { pause.settle() } else { pause.counts() }, pause.lease()))
    }

    /// Takes note of the window that has ended, if it was one of a pause.
    pub(super) fn take(&mut self, now: Instant, seen: &Seen<'_, BandwidthSignal, Throttle>) -> bool {
        let (Some(pause), Some(left)) = (self.pause, self.left) else { return false };
        self.paused_at = Some(now);
        if left.settles {
            self.left = Some(Left { settles: false, ..left });
            return true;
        }
        // A window that came early or late is of other times, too, and one in which others are served all the same says nothing.
        if pause.is_seen_in(seen.window.length()) && !seen.window.mixed && are_alone(seen.tenants) {
            self.see(now, seen.pool);
        }
        self.first.bytes = self.first.bytes.saturating_add(slow_bytes(seen.tenants, false));
        self.first.time = self.first.time + seen.window.length();
        let windows = left.windows - 1;
        self.left = (0 < windows).then_some(Left { windows, ..left });
        true
    }

    fn see(&mut self, now: Instant, pool: &Pool) {
        self.seen_at = now;
        for kind in Kind::ALL {
            let Some(latency) = pool.latency.get(kind) else { continue };
            let samples = self.samples.get_mut(kind);
            samples.ns.rotate_right(1);
            samples.ns[0] = latency.0;
            samples.count = (samples.count + 1).min(SAMPLES);
        }
    }

    /// What an access of each kind takes by their own doing, where that was seen lately.
    pub(super) fn latencies(&mut self, now: Instant) -> Latencies {
        if OLD < now.since(self.seen_at) {
            self.samples = Kinds::default();
        }
        Kinds::from_fn(|kind| self.samples.get(kind).mean())
    }
}

impl Transferred {
    fn per_sec(self) -> f64 {
        if self.time == Duration::ZERO { 0.0 } else { self.bytes as f64 / self.time.as_secs_f64() }
    }
}

impl Samples {
    fn mean(&self) -> Option<Duration> {
        let known = &self.ns[..self.count];
        let sum: u128 = known.iter().map(|ns| u128::from(*ns)).sum();
        let mean = u64::try_from(sum / known.len().max(1) as u128).unwrap_or(u64::MAX);
        (SAMPLES_LEAST <= known.len()).then_some(Duration(mean))
    }
}

/// Whether others transferred next to nothing beside those who come first: what was under way, or is moved behind them, is still done.
fn are_alone(rows: &[Row<BandwidthSignal, Throttle>]) -> bool {
    slow_bytes(rows, true).saturating_mul(OTHERS_ONE_IN) <= slow_bytes(rows, false)
}

/// What best-effort tenants transferred to and from the slow tier, or all others.
fn slow_bytes(rows: &[Row<BandwidthSignal, Throttle>], best_effort: bool) -> u64 {
    let wanted = rows.iter().filter(|row| is_best_effort(row) == best_effort);
    let bytes = wanted.filter_map(|row| row.signal.as_ref()).map(|signal| signal.slow_bytes().0);
    bytes.fold(0, u64::saturating_add)
}

/// Whether somebody comes first, and pausing all others leaves only those on the slow tier.
fn can_be_alone(rows: &[Row<BandwidthSignal, Throttle>]) -> bool {
    let brakes = |row: &Row<_, _>| {
        let brake = row.claim.levers.brake;
        brake.slow_read && brake.slow_write
    };
    let others = || rows.iter().filter(|row| is_best_effort(row));
    others().count() < rows.len() && others().next().is_some() && others().all(brakes)
}
