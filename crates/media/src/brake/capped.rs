//! A tenant's cap on bytes per second of one kind: when what has passed is due, and what somebody else let pass for the tenant, a cleaner.
//!
//! Shape:      bytes that pass -> the time at which they would have at the cap's rate; beside them what is owed is paid
//! Invariants: nobody has less than half of its cap for what others pass for it
//! Units:      bytes; bytes per second; nanoseconds
//! Source:     MT² §3 (caps by kind); that they are kept as a time, and what is owed, are ours

use units::{BytesPerSec, Duration, Instant};

/// Time's worth of bytes that a thread takes at once.
const PIECE: Duration = Duration::from_micros(50);
/// How far the bytes that passed may be ahead of their time: what a thread was late can be made up for within this.
const AHEAD: Duration = Duration::from_millis(1);
/// Bytes that passed for a tenant, and not by it, may be owed: so long's worth (guess).
const OWED_TIME_MAX: Duration = Duration::from_secs(1);
/// Who can wait with passing more does so while so long's worth of bytes is owed (guess: a cap is to hold within 5 % of .3 s, whatever comes on top).
const OWED_TIME: Duration = Duration::from_millis(5);

/// Bytes of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Capped {
    /// When what has passed would have passed at the cap's rate.
    due: Instant,
    /// Somebody else let so many pass for the tenant, and they are not paid.
    owed: u64,
}

impl Capped {
    /// The cap changes: what has passed is due at the new rate; under none, nothing is.
    pub(super) fn change(&mut self, old: Option<BytesPerSec>, new: Option<BytesPerSec>, now: Instant) {
        let (Some(old), Some(new)) = (old, new) else {
            *self = Self::default();
            return;
        };
        self.idle(old, now);
        self.due = now + time_of(bytes_of(self.due.since(now), old), new);
        self.owed = self.owed.min(bytes_of(OWED_TIME_MAX, new));
    }

    /// Until when nothing may pass, by what has.
    pub(super) fn until(&self) -> Instant {
        Instant(self.due.0.saturating_sub(AHEAD.0))
    }

    /// Somebody lets bytes pass for the tenant.
    pub(super) fn owe(&mut self, bytes: u64, cap: BytesPerSec, now: Instant) {
        self.idle(cap, now);
        self.owed = self.owed.saturating_add(bytes).min(bytes_of(OWED_TIME_MAX, cap));
    }

    /// Lets `short` bytes pass and takes a piece beside them; says how much that is, and until when the cap holds.
    pub(super) fn pass(&mut self, short: u64, cap: BytesPerSec, now: Instant) -> (u64, Instant) {
        self.idle(cap, now);
        self.take(short, cap);
        if now + AHEAD < self.due {
            return (0, self.until());
        }
        let piece = bytes_of(PIECE, cap);
        self.take(piece, cap);
        (piece, Instant::ZERO)
    }

    /// Until when who can wait with letting more pass for the tenant is to: what is owed is paid by then. None if it need not, or if as much is owed
    /// as may be: others let so much pass that no wait makes up for it.
    pub(super) fn owes_until(&mut self, cap: BytesPerSec, now: Instant) -> Option<Instant> {
        self.idle(cap, now);
        let pays = time_of(self.owed, cap);
        // Beside as much that the tenant lets pass itself, if it does; not before it may.
        let beside = if self.due <= now { Duration::ZERO } else { pays };
        let helps = OWED_TIME < pays && self.owed < bytes_of(OWED_TIME_MAX, cap);
        helps.then(|| (now + pays + beside).max(self.until()))
    }

    /// So many bytes pass. What is owed is paid beside them, byte by byte.
    fn take(&mut self, bytes: u64, cap: BytesPerSec) {
        let pays = bytes.min(self.owed);
        self.owed -= pays;
        self.due += time_of(bytes.saturating_add(pays), cap);
    }

    /// Time in which nothing passes pays what is owed, and is lost else.
    fn idle(&mut self, cap: BytesPerSec, now: Instant) {
        let pays = bytes_of(now.since(self.due), cap).min(self.owed);
        self.owed -= pays;
        // What is less than a byte's time counts the next time.
        self.due = if self.owed == 0 { self.due.max(now) } else { self.due + time_of(pays, cap) };
    }
}

/// Time that bytes take at a rate, rounded up; a rate of zero lets nothing pass.
fn time_of(bytes: u64, rate: BytesPerSec) -> Duration {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.0.max(1)));
    Duration(u64::try_from(ns).unwrap_or(u64::MAX))
}

fn bytes_of(time: Duration, rate: BytesPerSec) -> u64 {
    u64::try_from(u128::from(rate.0) * u128::from(time.0) / 1_000_000_000).unwrap_or(u64::MAX)
}
