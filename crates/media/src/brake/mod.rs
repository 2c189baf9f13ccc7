//! Holds a tenant's accesses back: a delay for each, a pause, a budget of cost per period, caps on bytes per second.
//!
//! Shape:      one `Brake` per tenant, which the control loop sets; one `Pad` per thread and held tenant, which takes from the
//!             brake in pieces. Before an access the brake says whether the tenant may make it, after it what a budget or a cap asks for
//! Invariants: a free tenant needs no pad and pays one load and one comparison; nobody else's accesses wait for a tenant's brake; what was
//!             taken too much of a budget or a cap counts against what comes next. Of long periods' budgets a part is kept for cleaners
//! Units:      nanoseconds; picoseconds of cost; bytes per second
//! Cost:       under a budget or a cap a lock is taken and time is asked for once per piece, a thousandth of a period's budget
//! Source:     NyxCache §3.3 (delay of n × 10 ns per access, pause as infinite delay), Algorithm 1 (a tenant that used up its
//!             assignment is paused until the epoch ends). We add: delays are owed until they are worth waiting for, and waited for from
//!             when the next access is asked for, as if its thread stood still then, less what it had nothing to ask for before; of budgets and caps
//!             a hold of up to 1 µs is spun; a longer one is the caller's to wait out without the thread, and what it waits too long
//!             for a delay counts for the next ones; the access at which a budget runs out is charged in full
//! Non-goals:  reading a clock, deciding who is held back

mod aside;
#[cfg(test)]
#[cfg(not(miri))]
mod aside_tests;
mod capped;
#[cfg(test)]
#[cfg(not(miri))]
mod capped_tests;
mod ledger;
#[cfg(test)]
#[cfg(not(miri))]
mod nothing_tests;

use crate::Access;
use ledger::Ledger;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{Bytes, BytesPerSec, Duration, Instant};

/// Delays are waited for once they sum to so much (guess: twice what the end of a sleep is off by). A thread that spun for each would hold
/// back all its tenants, and one that did something else meanwhile would come back after a round, much later than a delay of microseconds
/// asks for: two tenants of one worker whose slowdowns were to be equal went to and fro between a half and a quarter of what one wanted.
pub const OWED_MAX: Duration = Duration::from_micros(100);
/// What somebody waited beyond a delay comes off the next ones up to so much (guess: some rounds of a worker whose tier is slow; with
/// 100 µs who was due while another's requests were served, some 300 µs each time, did what that one's rounds let it do, whatever its delay).
const LATE_MAX: Duration = Duration::from_millis(1);
/// Longest hold of a budget or a cap that a thread spins for; others park the connection.
pub const SPIN_MAX: Duration = Duration::from_micros(1);
/// One step of the delay, and in nanoseconds owed.
pub const DELAY_STEP: Duration = Duration::from_nanos(10);
const OWED_STEP: i64 = 10;
const _: () = assert!(OWED_STEP as u64 == DELAY_STEP.0);
/// Shortest period of a budget; shorter ones count as this.
pub const PERIOD_MIN: Duration = Duration::from_micros(100);

/// Of shorter periods nothing is kept for cleaners, and they wait for none (guess: a cleaner's pass takes some 10 ms, and comes once in many
/// of those).
const LONG: Duration = Duration::from_millis(100);

/// Cost granted per period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The cost, in ps of the tier.
    pub cost_ps: u64,
    /// The period.
    pub per: Duration,
}

/// How a tenant is held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// So many times 10 ns for each access to the slow tier, on each thread, before the next one that is asked for.
    pub delay: u32,
    /// No access to the slow tier at all.
    pub paused: bool,
    /// So much cost per period.
    pub budget: Option<Budget>,
    /// So many bytes per second of each kind, in the order of [`Access::ALL`].
    pub cap: [Option<BytesPerSec>; 4],
}

/// What a thread is to do before the tenant's next access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Go on.
    None,
    /// Spin until then; at most [`SPIN_MAX`].
    Spin(Instant),
    /// Do something else; look again then.
    Until(Instant),
    /// Do something else; look again when the brake has changed.
    Paused,
}

/// A tenant's brake, for all threads.
#[derive(Debug, Default)]
pub struct Brake {
    /// Grows with each change; odd while the tenant is held back. Release by who sets, Acquire by who accesses.
    version: AtomicU64,
    ledger: Mutex<Ledger>,
}

/// A thread's part of a tenant's brake.
#[derive(Debug)]
pub struct Pad {
    /// The version that this was made for.
    version: u64,
    setting: Setting,
    /// Cost that the thread may still spend without asking.
    left_ps: u64,
    /// The same in bytes, by kind.
    left_bytes: [u64; 4],
    /// When the thread may access again.
    ready_at: Instant,
    /// The same by kind, as caps have it: one on writes holds no reads.
    capped_until: [Instant; 4],
    /// Somebody was told to wait until then, and to ask again.
    is_awaited: bool,
    /// Delays that were not waited for, in ns; below zero if more was waited than owed.
    owed_ns: i64,
    /// When the last access ended that made them worth a wait.
    owed_since: Instant,
}

/// The bit of a version that says that the tenant is held back.
const HELD: u64 = 1;

impl Budget {
    /// Whether its period is longer than what a cleaner does at once.
    fn is_long(&self) -> bool {
        LONG <= self.per
    }
}

impl Setting {
    /// Not held back.
    pub const FREE: Self = Self { delay: 0, paused: false, budget: None, cap: [None; 4] };

    /// Whether somebody else who spends for the tenant may wait for it: it has a budget of a long period, or caps.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.budget.is_some_and(|budget| budget.is_long()) || self.is_capped()
    }

    /// Whether it has a cap on bytes to or from a slow tier.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        Access::ALL.iter().any(|access| access.is_slow() && self.cap[*access as usize].is_some())
    }

    /// Whether its delay is shorter than that of `before`, or a pause has ended with it.
    const fn lets_go(self, before: Self) -> bool {
        self.delay < before.delay || (before.paused && !self.paused)
    }
}

impl Brake {
    /// Puts `setting` in force at `now`. A budget with the same period runs on, with what was used of it. Says whether that lets the tenant
    /// go: who waits for a delay or a pause has waited long enough, and is to ask again.
    pub fn set(&self, setting: Setting, now: Instant) -> bool {
        let mut ledger = self.lock();
        let lets_go = setting.lets_go(*ledger.setting());
        if *ledger.setting() != setting {
            ledger.set(setting, now);
            self.publish(setting);
        }
        lets_go
    }

    /// The same, and a budget's period begins now with nothing used of it: for who keeps accounts of what was used, and has
    /// charged what was used beyond the budget before.
    pub fn begin(&self, setting: Setting, now: Instant) -> bool {
        if setting.budget.is_none() {
            return self.set(setting, now);
        }
        let mut ledger = self.lock();
        let lets_go = setting.lets_go(*ledger.setting());
        ledger.begin(setting, now);
        self.publish(setting);
        lets_go
    }

    /// Charges an access of `size` and `cost_ps` that somebody else makes for the tenant, a cleaner: the tenant's next accesses wait
    /// for it, as far as its budget and its caps say. Pieces that threads have taken are theirs.
    pub fn owe(&self, (access, size, cost_ps): (Access, Bytes, u64), now: impl FnOnce() -> Instant) {
        if !self.is_free() {
            self.lock().owe((access, size, cost_ps), now());
        }
    }

    /// Until when who can wait with spending `cost_ps` for the tenant is to, for less is left of its budget; none if it need not.
    pub fn postpones(&self, cost_ps: u64, now: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.is_free() { None } else { self.lock().postpones(cost_ps, now()) }
    }

    /// Says that `cost_ps` are about to be spent for the tenant, and so owed: so much of the period's budget is kept for that, as far as it is left.
    pub fn announce(&self, cost_ps: u64) {
        if !self.is_free() {
            self.lock().announce(cost_ps);
        }
    }

    /// Until when who can wait with letting more bytes pass for the tenant, to and from a slow tier, is to, for what was owed is not paid of its caps
    /// yet; none if it need not.
    pub fn owes_until(&self, now: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.is_free() { None } else { self.lock().owes_until(now()) }
    }

    /// Lets pads see that something has changed. Under the lock.
    fn publish(&self, setting: Setting) {
        let version = self.version.load(Ordering::Relaxed);
        let next = (version | HELD) + 1 + u64::from(setting != Setting::FREE);
        self.version.store(next, Ordering::Release);
    }

    /// Whether the tenant is not held back at all.
    #[inline]
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.version.load(Ordering::Acquire) & HELD == 0
    }

    /// What is in force.
    #[must_use]
    pub fn setting(&self) -> Setting {
        *self.lock().setting()
    }

    /// Grows whenever the brake changes: who waits for a pause to end looks at this.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// When the budget ran out for the first time since this was asked last.
    pub fn take_depleted_at(&self) -> Option<Instant> {
        self.lock().take_depleted_at()
    }

    /// Whether the tenant may access now: for a request that is about to, and that has been there since `arrived`.
    #[inline]
    pub fn before(
        &self,
        pad: &mut Pad,
        (access, arrived): (Access, Instant),
        now: impl FnOnce() -> Instant,
    ) -> Hold {
        if self.is_free() { Hold::None } else { self.may(pad, (access, arrived), now) }
    }

    /// Charges an access of `size` and `cost_ps` that was made, and says what its budget and its cap ask for before the next one; what delays do
    /// is said when that is asked for.
    #[inline]
    pub fn after(
        &self,
        pad: &mut Pad,
        (access, size, cost_ps): (Access, Bytes, u64),
        now: impl FnOnce() -> Instant,
    ) -> Hold {
        if self.is_free() {
            return Hold::None;
        }
        self.charge(pad, (access, size, cost_ps), now)
    }

    #[inline(never)]
    fn may(
        &self,
        pad: &mut Pad,
        (access, arrived): (Access, Instant),
        now: impl FnOnce() -> Instant,
    ) -> Hold {
        self.renew(pad);
        if pad.setting.paused && access.is_slow() {
            return Hold::Paused;
        }
        let capped = pad.capped_until[access as usize];
        if pad.ready_at == Instant::ZERO && capped == Instant::ZERO && pad.owes(access).is_none() {
            return Hold::None;
        }
        let now = now();
        if capped <= now {
            pad.capped_until[access as usize] = Instant::ZERO;
        }
        if pad.ready_at != Instant::ZERO && pad.ready_at <= now {
            // Who did not ask meanwhile did not wait.
            if std::mem::take(&mut pad.is_awaited) {
                let most = i64::try_from(LATE_MAX.0).unwrap_or(0);
                let late = i64::try_from(now.since(pad.ready_at).0).unwrap_or(most);
                pad.owed_ns = pad.owed_ns.saturating_sub(late).max(-most);
            }
            pad.ready_at = Instant::ZERO;
            if pad.left_ps == 0 && pad.setting.budget.is_some() {
                (pad.left_ps, pad.ready_at) = self.lock().ask(now);
            }
        }
        if let Some(owed) = pad.owes(access) {
            // While it had nothing to ask for it has waited.
            let left = Duration(owed.0.saturating_sub(arrived.since(pad.owed_since).0));
            if Duration::ZERO < left {
                pad.ready_at = pad.ready_at.max(now) + left;
            }
            pad.owed_ns = 0;
        }
        let hold = hold(pad.ready_at.max(capped), now);
        if now < pad.ready_at {
            // Who spins does not ask again, and is not late.
            pad.is_awaited = matches!(hold, Hold::Until(_));
        }
        hold
    }

    #[inline(never)]
    fn charge(
        &self,
        pad: &mut Pad,
        (access, size, cost_ps): (Access, Bytes, u64),
        now: impl FnOnce() -> Instant,
    ) -> Hold {
        self.renew(pad);
        let Setting { delay, paused, budget, cap } = pad.setting;
        if access.is_slow() && paused {
            return Hold::Paused;
        }
        if access.is_slow() {
            pad.owed_ns = pad.owed_ns.saturating_add(i64::from(delay) * OWED_STEP);
        }
        let cost_short =
            if access.is_slow() && budget.is_some() { take(&mut pad.left_ps, cost_ps) } else { None };
        let left = &mut pad.left_bytes[access as usize];
        let bytes_short = if cap[access as usize].is_some() { take(left, size.0) } else { None };
        let owes = pad.owes(access).is_some();
        if cost_short.is_none() && bytes_short.is_none() && !owes {
            return Hold::None;
        }
        let (now, mut ready) = (now(), pad.ready_at);
        if owes {
            pad.owed_since = now;
        }
        let capped = &mut pad.capped_until[access as usize];
        if let Some(short) = cost_short {
            let (granted, until) = self.lock().spend(short, now);
            (pad.left_ps, ready) = (granted, ready.max(until));
        }
        if let Some(short) = bytes_short {
            let (granted, until) = self.lock().pass(access, short, now);
            (pad.left_bytes[access as usize], *capped) = (granted, until);
        }
        pad.ready_at = ready;
        hold(ready.max(*capped), now)
    }

    /// Brings a pad up to date with the brake. What was taken before a change is given up.
    fn renew(&self, pad: &mut Pad) {
        let version = self.version.load(Ordering::Acquire);
        if pad.version == version {
            return;
        }
        let ledger = self.lock();
        // Read under the lock: it changes there only.
        let version = self.version.load(Ordering::Acquire);
        let setting = *ledger.setting();
        let ready_at = ledger.nothing_until();
        let capped_until = ledger.capped_until();
        *pad = Pad { version, setting, ready_at, capped_until, ..Pad::default() };
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        // What panicked inside was arithmetic on a consistent ledger.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pad {
    /// What is to be waited for now before such an access; none while it is not worth a wait.
    fn owes(&self, access: Access) -> Option<Duration> {
        let owed = u64::try_from(self.owed_ns).map(Duration).ok();
        owed.filter(|owed| access.is_slow() && OWED_MAX <= *owed)
    }
}

impl Default for Pad {
    fn default() -> Self {
        Self {
            version: 0,
            setting: Setting::FREE,
            left_ps: 0,
            left_bytes: [0; 4],
            ready_at: Instant::ZERO,
            capped_until: [Instant::ZERO; 4],
            is_awaited: false,
            owed_ns: 0,
            owed_since: Instant::ZERO,
        }
    }
}

/// Takes `amount` off what is left; says what is missing, and nothing is left then.
fn take(left: &mut u64, amount: u64) -> Option<u64> {
    let short = amount.saturating_sub(*left);
    *left = left.saturating_sub(amount);
    (0 < short).then_some(short)
}

fn hold(ready: Instant, now: Instant) -> Hold {
    if ready <= now {
        Hold::None
    } else if ready.since(now) <= SPIN_MAX {
        Hold::Spin(ready)
    } else {
        Hold::Until(ready)
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod late_tests;
#[cfg(test)]
#[cfg(not(miri))]
mod tests;
