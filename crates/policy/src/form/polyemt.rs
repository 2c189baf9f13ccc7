//! `morph`: searches for the forms of each tenant's bytes, and searches again when conditions change.
//!
//! Shape:      signals -> one tenant's search at a time -> splits of each tenant's amount
//! Invariants: a tenant's forms sum to its amount exactly, amounts to at most the pool; a split that is only tried is an
//!             experiment (`steady: false`) with a short lease
//! Cost:       O(tenants) per decision, no allocation once the tenants are steady
//! Source:     PolyEMT §3 and §4
//! Failure:    without signals a search gives up, keeps the best split known and begins anew when signals return
//! Non-goals:  several searches at once: tenants share the SSD, so that the trial of one is noise to another. They take
//!             turns of minutes to hours, as forms fill; until its turn a tenant's bytes are write cache, the paper's beginning
//!
//! | Paper | here |
//! |---|---|
//! | EMT capacity of the server | a tenant's amount: its floor and a weighted part of the pool |
//! | full write cache | `Split::default()`, the beginning and, on change, the beginning again (§3.2) |
//! | re-start on SSD latency (§4), on application latency (§3.1) | [`Watch`] |
//! | "a configurable threshold" (§4) | [`Options::change`] |

use super::amount::divide;
use super::estimate::{Estimate, Progress, Trial};
use super::search::{Search, Split, Step};
use control::form::{FormSignal, Forms};
use control::{Class, Decision, Law, Note, Policy, Reason, Row, Seen, Shares};
use units::{Bytes, Duration, Instant, TenantId};

/// Length of a window: five splits, once their forms are full, then take five minutes; Table 2 has 4 to 8. A guess (30 to
/// 120 s): shorter ones are noisier.
const PERIOD: Duration = Duration::from_secs(60);
/// A trial that nobody follows up is undone so long after it should have been.
const TRIAL_LEASE: Duration = Duration::from_secs(180);
/// What was found is safe without a loop.
const LEASE: Duration = Duration::from_secs(3_600);
/// Steps that a tenant's bytes are divided into: half of the paper's fifths (Fig. 12, 13).
const STEPS: u8 = 10;
/// Parts of a coarse step: the paper's figures move in fifths.
const COARSE: u8 = 5;
/// Change of a latency, relative, that starts a search anew; the paper has a threshold without a value. A guess (.2 to .5).
const CHANGE: f64 = 0.3;
/// Windows in a row that must show the change. A guess (1 to 3): two, so that one outlier is none.
const STRIKES: u8 = 2;

/// Which latencies start a search anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Watch {
    /// Those of the medium behind the tier (PolyEMT §4).
    Medium,
    /// The application's own (PolyEMT §3.1).
    Application,
    /// Either.
    #[default]
    Both,
}

/// Into how many steps a tenant's bytes are divided: 2 to 20.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps(u8);

/// How `morph` searches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Steps of a search.
    pub steps: Steps,
    /// Whether the second step (§3.2, compression) is taken.
    pub representation: bool,
    /// What starts a search anew.
    pub watch: Watch,
    /// How much it must change, relative to what it was.
    pub change: Change,
}

/// A relative change of a latency: finite and above zero.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Change(f64);

/// The policy `morph`.
#[derive(Debug)]
pub struct Morph {
    options: Options,
    members: Vec<Member>,
    before: Vec<Member>,
    amounts: Vec<Bytes>,
    /// Whose turn it was last.
    last_turn: Option<TenantId>,
    shares: Shares<Forms>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    id: TenantId,
    amount: Bytes,
    /// The split to return to: the best of the last search.
    home: Split,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Never touched: it keeps the forms that it has.
    Exempt(Forms),
    /// It waits for its turn to search.
    Waiting,
    /// Its turn.
    Searching(Search),
    /// It has found its split.
    Holding(Hold),
}

/// The conditions under which a split was found.
#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    trial: Trial,
    reference: Option<Levels>,
    strikes: u8,
    is_blind: bool,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Levels {
    read: Option<f64>,
    write: Option<f64>,
    application: Option<f64>,
}

impl Steps {
    /// So many steps, if they are 2 to 20.
    #[must_use]
    pub fn new(steps: u8) -> Option<Self> {
        (2..=20).contains(&steps).then_some(Self(steps))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Steps of one coarse step.
    fn stride(self) -> u8 {
        (self.0 / COARSE).max(1)
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self(STEPS)
    }
}

impl Change {
    /// A change, if it is finite and above zero.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        (part.is_finite() && 0.0 < part).then_some(Self(part))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: Steps::default(),
            representation: true,
            watch: Watch::default(),
            change: Change(CHANGE),
        }
    }
}

impl Levels {
    fn of(seen: &Seen<'_, FormSignal, Forms>, application: Option<Estimate>) -> Self {
        let us =
            |latency: Option<Duration>| latency.filter(|l| Duration::ZERO < *l).map(|l| l.0 as f64 / 1e3);
        let latency = &seen.pool.latency;
        Self {
            read: us(latency.slow_read),
            write: us(latency.slow_write),
            application: application.map(|e| e.mean_us()),
        }
    }

    /// Whether what is watched differs by more than `change`.
    fn differs(&self, other: &Self, watch: Watch, change: Change) -> bool {
        let far = |a: Option<f64>, b: Option<f64>| matches!((a, b), (Some(a), Some(b)) if 1.0 + change.0 < (a / b).max(b / a));
        let medium = far(self.read, other.read) || far(self.write, other.write);
        let application = far(self.application, other.application);
        match watch {
            Watch::Medium => medium,
            Watch::Application => application,
            Watch::Both => medium || application,
        }
    }
}

impl Hold {
    /// Takes a window; true if conditions have changed.
    fn observe(
        &mut self,
        seen: &Seen<'_, FormSignal, Forms>,
        row: &Row<FormSignal, Forms>,
        asked: Forms,
        options: Options,
    ) -> bool {
        let estimate = Estimate::of(row.signal.as_ref());
        if self.is_blind {
            // The search was given up for want of signals: they are back.
            return estimate.is_some() && Duration::ZERO < seen.window.length();
        }
        let Some(reference) = self.reference else {
            match self.trial.observe(seen.window, row, asked) {
                Progress::Open => {}
                Progress::Done(worth) => self.reference = Some(Levels::of(seen, Some(worth))),
                // What was found stays; what is usual is looked for again when signals return.
                Progress::Lost => self.trial = Trial::default(),
            }
            return false;
        };
        if seen.window.length() == Duration::ZERO {
            return false;
        }
        let now = Levels::of(seen, estimate);
        let has_changed = now.differs(&reference, options.watch, options.change);
        self.strikes = if has_changed { self.strikes + 1 } else { 0 };
        STRIKES <= self.strikes
    }
}

impl Member {
    /// The forms that it is given now.
    fn forms(&self, steps: Steps) -> Forms {
        match &self.state {
            State::Exempt(forms) => *forms,
            State::Waiting | State::Holding(_) => self.home.of(self.amount, steps.0),
            State::Searching(search) => search.split().of(self.amount, steps.0),
        }
    }

    fn is_at_home(&self) -> bool {
        match &self.state {
            State::Searching(search) => search.split() == self.home,
            State::Exempt(_) | State::Waiting | State::Holding(_) => true,
        }
    }

    /// Takes over another amount; what was found for a different one no longer holds.
    fn resize(&mut self, amount: Bytes, steps: Steps) -> bool {
        let step = self.amount.0 / u64::from(steps.0);
        let has_changed = step < amount.0.abs_diff(self.amount.0);
        self.amount = amount;
        if has_changed && !matches!(self.state, State::Exempt(_)) {
            self.state = State::Waiting;
        }
        has_changed
    }
}

impl Morph {
    /// The policy.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            members: Vec::new(),
            before: Vec::new(),
            amounts: Vec::new(),
            last_turn: None,
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// Takes over who is there and what each has.
    fn settle(&mut self, seen: &Seen<'_, FormSignal, Forms>) {
        divide(seen, &mut self.amounts);
        std::mem::swap(&mut self.members, &mut self.before);
        self.members.clear();
        for (row, &amount) in seen.tenants.iter().zip(&self.amounts) {
            let known = self.before.binary_search_by_key(&row.id, |m| m.id).ok().map(|i| self.before[i]);
            let mut member = known.unwrap_or_else(|| {
                self.notes.push(note(row.id, Reason::Joined, amount));
                Member { id: row.id, amount, home: Split::default(), state: State::Waiting }
            });
            if member.resize(amount, self.options.steps) {
                self.notes.push(note(row.id, Reason::Resized, amount));
            }
            let is_exempt = matches!(row.claim.class, Class::Exempt);
            member.state = match member.state {
                _ if is_exempt => State::Exempt(kept(row, amount, self.options.steps)),
                State::Exempt(_) => State::Waiting,
                state => state,
            };
            self.members.push(member);
        }
        for member in &self.before {
            if self.members.binary_search_by_key(&member.id, |m| m.id).is_err() {
                self.notes.push(note(member.id, Reason::Left, member.amount));
            }
        }
    }

    /// The member whose turn it is, if any.
    fn searching(&self) -> Option<usize> {
        self.members.iter().position(|m| matches!(m.state, State::Searching(_)))
    }

    /// When to look again: after a window, or when the forms of the split on trial will be full.
    fn wake(&self) -> Duration {
        let wait = self.members.iter().find_map(|m| match &m.state {
            State::Searching(search) => search.wait(),
            State::Exempt(_) | State::Waiting | State::Holding(_) => None,
        });
        wait.unwrap_or(PERIOD).max(PERIOD)
    }

    /// Lets the search of member `at` take the window.
    fn search(&mut self, at: usize, seen: &Seen<'_, FormSignal, Forms>) {
        let steps = self.options.steps;
        let member = &mut self.members[at];
        let asked = member.forms(steps);
        let State::Searching(search) = &mut member.state else { return };
        let step = search.observe(seen.window, &seen.tenants[at], asked);
        let split = search.split();
        let id = member.id;
        match step {
            Step::Wait => {}
            Step::Try => {
                let forms = split.of(member.amount, steps.0);
                self.notes.push(note(id, Reason::Experiment, forms.memory + forms.compressed));
            }
            Step::End | Step::Lost => {
                member.home = split;
                let is_blind = step == Step::Lost;
                member.state = State::Holding(Hold { is_blind, ..Hold::default() });
                let forms = split.of(member.amount, steps.0);
                let why = if is_blind { Reason::Fallback("no signals".into()) } else { Reason::Settled };
                self.notes.push(note(id, why, forms.memory + forms.compressed));
                self.forget_references();
            }
        }
    }

    /// What one tenant now does changes the SSD for all: others look anew at what is usual.
    fn forget_references(&mut self) {
        for member in &mut self.members {
            if let State::Holding(hold) = &mut member.state {
                *hold = Hold { is_blind: hold.is_blind, ..Hold::default() };
            }
        }
    }

    /// Looks for changes where nobody searches.
    fn watch(&mut self, seen: &Seen<'_, FormSignal, Forms>) {
        for (member, row) in self.members.iter_mut().zip(seen.tenants) {
            let asked = member.home.of(member.amount, self.options.steps.0);
            if let State::Holding(hold) = &mut member.state
                && hold.observe(seen, row, asked, self.options)
            {
                member.state = State::Waiting;
                self.notes.push(note(member.id, Reason::Restarted, member.amount));
            }
        }
    }

    /// Gives the turn to the next tenant that waits, in the order of ids after the last one.
    fn give_turn(&mut self, seen: &Seen<'_, FormSignal, Forms>) {
        let after = |m: &&mut Member| self.last_turn.is_none_or(|last| last < m.id);
        let waits = |m: &&mut Member| matches!(m.state, State::Waiting) && Bytes::ZERO < m.amount;
        let mut members = self.members.iter_mut();
        let next = members.by_ref().filter(waits).find(after).map(|m| m.id);
        let next = next.or_else(|| self.members.iter_mut().find(waits).map(|m| m.id));
        let Some(id) = next else { return };
        let Options { steps, representation, .. } = self.options;
        if let Some((member, row)) = self.members.iter_mut().zip(seen.tenants).find(|(m, _)| m.id == id) {
            let signal = row.signal.as_ref();
            member.state = State::Searching(Search::new(steps.0, steps.stride(), representation, signal));
            if !member.is_at_home() {
                self.notes.push(note(id, Reason::Experiment, Bytes::ZERO));
            }
            self.last_turn = Some(id);
        }
    }
}

/// The forms that an exempt tenant keeps: those in force if they fit, else write cache.
fn kept(row: &Row<FormSignal, Forms>, amount: Bytes, steps: Steps) -> Forms {
    let all = |f: Forms| f.write_cache.0.saturating_add(f.memory.0).saturating_add(f.compressed.0);
    row.in_force.filter(|f| all(*f) == amount.0).unwrap_or_else(|| Split::default().of(amount, steps.0))
}

fn note(id: TenantId, reason: Reason, amount: Bytes) -> Note {
    Note { tenant: Some(id), reason, amount: i64::try_from(amount.0).unwrap_or(i64::MAX) }
}

impl Policy for Morph {
    type Signal = FormSignal;
    type Share = Forms;

    fn name(&self) -> &'static str {
        if self.options.representation { "morph" } else { "morph-functional" }
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, FormSignal, Forms>) -> Decision<'_, Forms> {
        self.notes.clear();
        self.settle(seen);
        match self.searching() {
            Some(at) => self.search(at, seen),
            None => self.watch(seen),
        }
        if self.searching().is_none() {
            self.give_turn(seen);
        }
        let steps = self.options.steps;
        let rows = self.members.iter().map(|m| (m.id, m.forms(steps)));
        self.shares.rebuild(Law::AtMost { floor_part: 1.0 }, seen, rows);
        let steady = self.members.iter().all(Member::is_at_home);
        let wake = self.wake();
        let lease = if steady { LEASE } else { wake + TRIAL_LEASE };
        Decision { shares: &self.shares, wake, lease, steady, notes: &self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Claim, Pool, Window};

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_usual_is_learnt_after_any_number_of_missing_windows() {
        let asked = Split::default().of(Bytes(1_000), STEPS);
        let signal = FormSignal {
            operations: 1_000,
            latency: Duration::from_micros(100),
            latency_error: Some(0.01),
            ..FormSignal::default()
        };
        for missing in [1, 4, 5, 254, 255, 256, 1_000] {
            let mut hold = Hold::default();
            let pool = Pool::default();
            let mut observe = |signal| {
                let row = Row { id: TenantId(1), claim: Claim::default(), signal, in_force: Some(asked) };
                let window = Window { start: Instant::ZERO, end: Instant::ZERO + MINUTE, mixed: false };
                let rows = [row];
                let seen = Seen::new(window, &pool, &rows).unwrap();
                assert!(!hold.observe(&seen, &rows[0], asked, Options::default()), "{missing}");
                (hold.reference.is_some(), hold.trial == Trial::default())
            };
            for at in 1..=missing {
                let (_, is_untouched) = observe(None);
                assert_eq!(
                    is_untouched,
                    at % 5 == 0,
                    "{missing}: every five missing windows it begins again"
                );
            }
            observe(Some(signal));
            assert!(observe(Some(signal)).0, "{missing}");
        }
    }
}
