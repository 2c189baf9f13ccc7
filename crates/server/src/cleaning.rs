//! What cleaning costs the server, and how thoroughly it may choose at that.
//!
//! Shape:      threads that clean say how long it took; after passes, and once a second, the `Governor` compares that with the
//!             CPU time of the process and sets what passes free
//! Invariants: time is charged to cleaning only where passes ran: touching fresh memory in advance is no cleaning
//! Units:      CPU time in nanoseconds, of threads and of the whole process

use crate::shared::{Clock, Shared};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use store::{Effort, Interval, PassKind, Store};
use units::{Bytes, BytesPerSec, Duration, Instant};

/// Between two looks of the governor at least, and at most: a burst of writes is over within seconds.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_millis(900));
/// Passes that make an interval worth a look before that: one pass costs more than another.
const PASSES_MIN: u64 = 3;

/// What is known of cleaning; read by the administration.
#[derive(Debug)]
pub(crate) struct Cleaning {
    governor: Mutex<Governor>,
    cpu_ns: AtomicU64,
    /// Of the CPU time of late, in millionths.
    share: AtomicU64,
    limit: AtomicU64,
    moved_per_sec: AtomicU64,
}

/// Cleaning as a snapshot shows it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CleaningView {
    /// What passes did.
    pub totals: store::CleanerTotals,
    /// Who ran them, and how many at once.
    pub by: store::PassTotals,
    /// CPU time of passes, on whatever thread.
    pub cpu: Duration,
    /// Its part of the process's CPU time of late, 0 to 1.
    pub cpu_share: f64,
    /// What it may be at the write share of late.
    pub cpu_limit: f64,
    /// Bytes of items copied, of late.
    pub moved: BytesPerSec,
    /// Thousandths of what a pass surveys that it marks to go.
    pub pass_marks: usize,
    /// Segments that are half dead are reclaimed before anybody needs room.
    pub reclaims_early: bool,
}

const MILLION: f64 = 1e6;

impl Cleaning {
    /// Lets passes take so much of the CPU time, 0 to 1.
    pub(crate) fn new(limit: f64) -> Self {
        let none = AtomicU64::default;
        let governor = Mutex::new(Governor::new(limit));
        Self { governor, cpu_ns: none(), share: none(), limit: none(), moved_per_sec: none() }
    }

    /// Sets how thorough passes are if it is time to, and nobody does at this moment.
    pub(crate) fn govern(&self, shared: &Shared) {
        let mut governor = match self.governor.try_lock() {
            Ok(governor) => governor,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        governor.step(shared, shared.clock.now());
    }

    /// Runs something that may clean, and charges its CPU time if it did.
    pub(crate) fn timed<T>(&self, clock: &dyn Clock, store: &Store, act: impl FnOnce() -> T) -> T {
        let (passes, before) = (store.cleaner_totals().passes, clock.thread_cpu());
        let done = act();
        if store.cleaner_totals().passes != passes {
            let took = clock.thread_cpu().0.saturating_sub(before.0);
            self.cpu_ns.fetch_add(took, Ordering::Relaxed);
        }
        done
    }

    /// What the administration shows.
    pub(crate) fn view(&self, store: &Store) -> CleaningView {
        let part = |millionths: &AtomicU64| millionths.load(Ordering::Relaxed) as f64 / MILLION;
        CleaningView {
            totals: store.cleaner_totals(),
            by: store.pass_totals(),
            cpu: Duration(self.cpu_ns.load(Ordering::Relaxed)),
            cpu_share: part(&self.share),
            cpu_limit: part(&self.limit),
            moved: BytesPerSec(self.moved_per_sec.load(Ordering::Relaxed)),
            pass_marks: match store.pass_kind() {
                PassKind::Surveyed { marks } => marks,
                PassKind::Fixed(fixed) => 1_000 * fixed.frees / fixed.takes.max(1),
            },
            reclaims_early: store.reclaims_early(),
        }
    }
}

/// Keeps cleaning to its part of the CPU time.
#[derive(Debug)]
struct Governor {
    effort: Effort,
    seen: Seen,
    /// Cores that the process may use.
    cores: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: Instant,
    cleaning_ns: u64,
    process: Duration,
    idle: Option<Duration>,
    passes: u64,
    requests: u64,
    writes: u64,
    put_below: u64,
    moved: u64,
}

/// Has passes do as the controller says.
fn put_in_force(effort: &Effort, store: &Store) {
    store.set_pass_kind(PassKind::Surveyed { marks: effort.marks() });
    store.set_reclaims_early(effort.reclaims_early());
}

impl Governor {
    fn new(limit: f64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        Self { effort: Effort::new(limit), seen: Seen::default(), cores }
    }

    /// Looks at the last interval if it is over, and sets what passes free.
    fn step(&mut self, shared: &Shared, now: Instant) {
        let passed = now.since(self.seen.at);
        let passes = shared.store.cleaner_totals().passes.saturating_sub(self.seen.passes);
        let least = if passes < PASSES_MIN { INTERVAL.1 } else { INTERVAL.0 };
        if passed < least {
            return;
        }
        let seen = look(shared, now);
        let before = std::mem::replace(&mut self.seen, seen);
        self.effort.step(&Interval {
            passed,
            cleaning: Duration(seen.cleaning_ns - before.cleaning_ns),
            total: Duration(seen.process.0.saturating_sub(before.process.0)),
            available: available(passed, self.cores, &before, &seen),
            requests: seen.requests.saturating_sub(before.requests),
            writes: seen.writes.saturating_sub(before.writes),
            put_below: seen.put_below.saturating_sub(before.put_below),
        });
        put_in_force(&self.effort, &shared.store);
        let moved = Bytes(seen.moved.saturating_sub(before.moved));
        let cleaning = &shared.cleaning;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; saturates"
        )]
        let millionths = |part: f64| (part * MILLION) as u64;
        cleaning.share.store(millionths(self.effort.share()), Ordering::Relaxed);
        cleaning.limit.store(millionths(self.effort.limit()), Ordering::Relaxed);
        let per_sec = u128::from(moved.0) * 1_000_000_000 / u128::from(passed.0.max(1));
        cleaning.moved_per_sec.store(u64::try_from(per_sec).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// CPU time that there was for the process: what it used and what nobody did, and no more than its cores have.
fn available(passed: Duration, cores: u64, before: &Seen, after: &Seen) -> Duration {
    let all = passed.0.saturating_mul(cores);
    let (Some(from), Some(to)) = (before.idle, after.idle) else { return Duration(all) };
    let used = after.process.0.saturating_sub(before.process.0);
    Duration(used.saturating_add(to.0.saturating_sub(from.0)).min(all))
}

fn look(shared: &Shared, at: Instant) -> Seen {
    let mut all = shared.store.totals_of_all(false);
    all.add(&shared.store.totals_of_all(true));
    Seen {
        at,
        cleaning_ns: shared.cleaning.cpu_ns.load(Ordering::Relaxed),
        process: shared.clock.process_cpu(),
        idle: shared.clock.idle_cpu(),
        passes: shared.store.cleaner_totals().passes,
        requests: all.asked() + all.cmd_set,
        writes: all.cmd_set,
        put_below: all.demotions,
        moved: all.moved_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use store::{Fields, MARKS_MIN, Mode, Space};

    #[test]
    fn what_was_written_counts_when_another_tenant_has_the_id() {
        let shared = testing::small(1);
        let mut worker = shared.store.worker().unwrap();
        let first = shared.store.add_tenant(testing::tenant("first")).unwrap();
        for _ in 0..10 {
            let key = worker.key(Space::Shared, b"k").unwrap();
            worker.set(first, &key, Mode::Set, Fields::default(), b"v").unwrap();
        }
        testing::replace(&mut worker, first, "second");
        assert_eq!(look(&shared, Instant::ZERO).writes, 10);
    }

    /// Above the limit nothing is reclaimed early any more, and passes mark more; the administration shows both.
    #[test]
    fn what_the_controller_says_is_in_force() {
        let shared = testing::small(1);
        let second = Duration::from_secs(1);
        let mut effort = Effort::new(0.05);
        let view = || {
            let view = shared.cleaning.view(&shared.store);
            (view.reclaims_early, MARKS_MIN < view.pass_marks)
        };
        assert_eq!(view(), (true, false));
        effort.step(&Interval {
            passed: second,
            cleaning: Duration(second.0 / 2),
            total: second,
            available: second,
            requests: 1_000,
            ..Interval::default()
        });
        put_in_force(&effort, &shared.store);
        assert_eq!(view(), (false, true));
    }

    #[test]
    fn what_others_use_is_not_there() {
        let second = Duration::from_secs(1);
        let seen = |process_ms, idle_ms: Option<u64>| Seen {
            process: Duration::from_millis(process_ms),
            idle: idle_ms.map(Duration::from_millis),
            ..Seen::default()
        };
        for (used_ms, idle_ms, available_ms) in [
            (500, Some(1_500), 2_000),
            (500, Some(0), 500),
            (500, Some(250), 750),
            (500, Some(60_000), 2_000),
            (500, None, 2_000),
        ] {
            let (before, after) =
                (seen(7_000, idle_ms.map(|_| 9_000)), seen(7_000 + used_ms, idle_ms.map(|ms| 9_000 + ms)));
            let found = available(second, 2, &before, &after);
            assert_eq!(found, Duration::from_millis(available_ms), "{used_ms} ms used, {idle_ms:?} ms idle");
        }
    }
}
