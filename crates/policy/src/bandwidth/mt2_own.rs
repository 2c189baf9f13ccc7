//! How long an access takes by the doing of those alone who come first: everybody else pauses for a moment.
//!
//! Shape:      when it is due -> a pause of some windows -> the mean of what the medium showed at their ends, per kind
//! Invariants: who comes first is not paused, and nobody is where not all others can be, as groups and processes without a brake; what
//!             was seen of others who came first does not count, nor what was seen long ago, nor, from the next pause on, of those
//!             who did much less or more
//! Units:      time of an access of each kind
//! Cost:       O(tenants); pauses take .5 % of the time on a medium as fast as memory, up to 1.8 % on slower ones, with the looks at their ends
//!             some more, and up to three times as much while those who come first do more and more
//! Failure:    where a window was late, or the pause had not settled, or others were served in it, nothing is learnt; where nothing
//!             was of late, the thresholds hold as they are
//! Source:     MT² §3.2.2: interference is where somebody's throughput has fallen by a tenth below what it has alone. We add: alone
//!             it has its own load, which takes of the medium, too; pauses as in NyxCache §4.1

use super::mt2_interference::Latencies;
use crate::estimate::pause::Pause;
use crate::estimate::stand_alone::REFRESH;
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{GroupId, Pool, Row, Seen};
use units::{Duration, Instant, mix64};

/// Windows of a pause that count, where they are short: each ends with one look at the medium, which is of its moment (guess: one was off
/// by half where it met a burst).
const WINDOWS: u32 = 4;
/// So many samples say something, or one of each window where there are fewer (guess).
const SAMPLES_LEAST: usize = 3;
/// Those of so many pauses count (guess).
const PAUSES: usize = 2;
/// Others are next to nothing up to one part in so many of what those who come first transfer (guess).
const OTHERS_ONE_IN: u64 = 20;
/// What was seen counts no more where those who come first transfer so many times as much as then, or as little (guess).
const CHANGED: f64 = 1.5;
/// How much somebody transfers is known by so many accesses (guess: of fewer a window may have half or twice as many).
const ACCESSES_LEAST: u64 = 64;
/// Where they do more the next pause may come so soon (guess).
const REFRESH_CHANGED: Duration = Duration(REFRESH.0 / 3);
/// There are so many ordinary periods between two pauses, however long those are (guess).
const PERIODS_BETWEEN: u32 = 3;
/// What was seen so long ago counts no more (guess).
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
    /// Ordinary periods since.
    periods: u32,
    /// What those who come first did in the period before the last pause.
    first: Did,
    /// Who they are, as a number.
    firsts: u64,
    /// They are others since the last pause began.
    has_others: bool,
}

/// What somebody did to the slow tier in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Did {
    bytes_per_sec: f64,
    accesses: u64,
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
    ns: [u64; WINDOWS as usize * PAUSES],
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
            periods: PERIODS_BETWEEN,
            first: Did::default(),
            firsts: 0,
            has_others: false,
        }
    }

    /// Takes note of who comes first now.
    pub(super) fn settle(&mut self, seen: &Seen<'_, BandwidthSignal, Throttle>) {
        let first = seen.tenants.iter().filter(|row| !row.claim.class.is_best_effort());
        let firsts = first.fold(0, |number, row| mix64(number ^ (u64::from(row.id.0) + 1)));
        if firsts != self.firsts {
            self.samples = Kinds::default();
            (self.firsts, self.has_others) = (firsts, true);
        }
    }

    /// Begins a pause if it is time for one, and all that are not to come first can be paused.
    pub(super) fn begin(&mut self, now: Instant, seen: &Seen<'_, BandwidthSignal, Throttle>) -> bool {
        let Some(windows) = self.windows() else { return false };
        let passed = self.paused_at.map_or(REFRESH, |at| now.since(at));
        let present = Did::of_first(seen);
        let [is_busier, is_idler] = [present.is_more_than(self.first), self.first.is_more_than(present)];
        let is_due = self.has_others || REFRESH <= passed || (is_busier && REFRESH_CHANGED <= passed);
        if !is_due || self.periods < PERIODS_BETWEEN || !can_be_alone(seen.tenants) {
            return false;
        }
        if is_busier || is_idler {
            self.samples = Kinds::default();
        }
        (self.first, self.has_others) = (present, false);
        let settles = self.pause.is_some_and(Pause::settles);
        self.left = Some(Left { settles, windows });
        true
    }

    /// Windows of a pause that count, if there are pauses.
    fn windows(&self) -> Option<u32> {
        self.pause.map(|pause| WINDOWS.min(pause.most()))
    }

    /// How long the window lasts that begins now, if it is one of a pause, and when the pause ends though nobody decides any more.
    pub(super) fn lasts(&self) -> Option<(Duration, Duration)> {
        let (pause, left) = (self.pause?, self.left?);
        Some((if left.settles { pause.settle() } else { pause.counts() }, pause.lease()))
    }

    /// Takes note of the window that has ended, if it was one of a pause.
    pub(super) fn take(&mut self, now: Instant, seen: &Seen<'_, BandwidthSignal, Throttle>) -> bool {
        let (Some(pause), Some(left)) = (self.pause, self.left) else { return false };
        (self.paused_at, self.periods) = (Some(now), 0);
        if left.settles {
            let goes_on = pause.has_settled(seen.window.length()) && !seen.window.mixed;
            self.left = goes_on.then_some(Left { settles: false, ..left });
            return true;
        }
        // A window that came early or late is of other times, too, one in which others are served all the same says nothing, nor one in
        // which somebody stood still who comes first now.
        let is_seen = pause.is_seen_in(seen.window.length()) && !seen.window.mixed && !self.has_others;
        if is_seen && are_alone(seen.tenants) {
            self.see(now, seen.pool);
        }
        let windows = left.windows - 1;
        self.left = (0 < windows).then_some(Left { windows, ..left });
        true
    }

    fn see(&mut self, now: Instant, pool: &Pool) {
        self.seen_at = now;
        let most = self.windows().map_or(0, |windows| windows as usize * PAUSES);
        for kind in Kind::ALL {
            let Some(latency) = pool.latency.get(kind) else { continue };
            let samples = self.samples.get_mut(kind);
            samples.ns.rotate_right(1);
            samples.ns[0] = latency.0;
            samples.count = (samples.count + 1).min(most);
        }
    }

    /// What an access of each kind takes by their own doing in an ordinary period, where that was seen lately.
    pub(super) fn latencies(&mut self, now: Instant) -> Latencies {
        self.periods = self.periods.saturating_add(1);
        // However long periods are, it counts up to the next pause.
        if OLD < now.since(self.seen_at) && PERIODS_BETWEEN < self.periods {
            self.samples = Kinds::default();
        }
        let least = self.windows().map_or(SAMPLES_LEAST, |windows| SAMPLES_LEAST.min(windows as usize));
        Kinds::from_fn(|kind| self.samples.get(kind).mean(least))
    }
}

impl Did {
    fn of_first(seen: &Seen<'_, BandwidthSignal, Throttle>) -> Self {
        let first = seen.tenants.iter().filter(|row| !row.claim.class.is_best_effort());
        let slow = first.filter_map(|row| row.signal.as_ref()).map(|signal| {
            (signal.slow_bytes().0, signal.accesses.slow_read.saturating_add(signal.accesses.slow_write))
        });
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        let (bytes, accesses) = slow.fold((0, 0), sum);
        Self { bytes_per_sec: seen.window.per_sec(bytes).unwrap_or(0.0), accesses }
    }

    fn is_more_than(self, other: Self) -> bool {
        ACCESSES_LEAST <= self.accesses && CHANGED * other.bytes_per_sec < self.bytes_per_sec
    }
}

impl Samples {
    fn mean(&self, least: usize) -> Option<Duration> {
        let known = &self.ns[..self.count];
        let sum: u128 = known.iter().map(|ns| u128::from(*ns)).sum();
        let mean = u64::try_from(sum / known.len().max(1) as u128).unwrap_or(u64::MAX);
        (least <= known.len()).then_some(Duration(mean))
    }
}

/// Whether others are known to have transferred next to nothing beside those who come first: what was under way, or is moved behind
/// them, is still done.
fn are_alone(rows: &[Row<BandwidthSignal, Throttle>]) -> bool {
    let (mut first, mut others) = (0_u64, 0_u64);
    for row in rows {
        let is_best_effort = row.claim.class.is_best_effort();
        match &row.signal {
            Some(signal) => {
                let sum = if is_best_effort { &mut others } else { &mut first };
                *sum = sum.saturating_add(signal.slow_bytes().0);
            }
            None if is_best_effort => return false,
            None => {}
        }
    }
    others.saturating_mul(OTHERS_ONE_IN) <= first
}

/// Whether somebody comes first, and pausing all others leaves only those on the slow tier. A group that is paused is so with who comes
/// first in it.
fn can_be_alone(rows: &[Row<BandwidthSignal, Throttle>]) -> bool {
    let can_be_paused = |row: &Row<_, _>| {
        let brake = row.claim.levers.brake;
        brake.slow_read && brake.slow_write && GroupId::of_row(row.id).is_none()
    };
    let others = || rows.iter().filter(|row| row.claim.class.is_best_effort());
    others().count() < rows.len() && others().next().is_some() && others().all(can_be_paused)
}
