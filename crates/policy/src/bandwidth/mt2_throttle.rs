//! Dynamic bandwidth throttling: caps kept beforehand, and noisy neighbours held back once they disturb others.
//!
//! Shape:      prevention: caps per kind -> levers; remedy: latency of the medium, traffic -> one tenant one step
//! Invariants: remedy holds back only best-effort tenants, one step of one tenant per period but for pauses of all of them, and
//!             undoes its steps in the opposite order, past whoever has to wait longer; the two know nothing of each other and
//!             hold together as the tighter of both
//! Cost:       O(tenants) per decision, no allocation once the tenants are steady
//! Failure:    without a signal a tenant keeps its throttle; without any latency remedy keeps all throttles
//! Source:     MT² §3.1, §3.3.2, §4
//!
//! | Paper | here |
//! |---|---|
//! | TGroup, priority low, high | tenant, best-effort, critical or exempt |
//! | limit file | `Claim::caps` |
//! | INTERVAL | `PERIOD` |
//! | THRESHOLD | [`Thresholds`] |
//! | most NVM writes, then NVM reads, then DRAM accesses | a score: 9, 2 and 1 per byte |
//!
//! We differ: the order of noisy neighbours is a score, so that a heavy reader comes before a tenant with a trickle of
//! writes. A tenant is scored by what it would do with all its CPU time; else the next would pay as soon as the noisiest
//! is held back, while in the paper (Table 6) only the writer pays. DRAM writes count like DRAM reads ("DRAM accesses"). Where
//! somebody comes first, but transfers nothing, nobody is disturbed: the medium counts as quiet (Fig. 9: the background has all of it while the
//! foreground sleeps). An
//! interference that comes back within three periods of a relaxation undoes that relaxation, and each time the next one of
//! that tenant waits twice as long: without that the loop swings.
//!
//! Scarce hardware is an ordinary case. Classes of service hold percentages and not tenants (MT² §4), so any number of
//! tenants share eight; on a machine with fewer, `Levers::mba` has fewer levels, the steps are coarser, and with none CPU
//! time does all. Tenants beyond the monitoring ids have no signal: prevention keeps their throttle and says so; remedy
//! turns to them last, when interference stays and everybody who is measured is at the end of its levers.

use super::mt2_cap::CapKeeper;
use super::mt2_held::{Heed, Held};
use super::mt2_interference::{Detector, Thresholds, Weather};
use super::mt2_own::OwnDoing;
use super::regulator::{self, Step};
use super::roster::{Roster, note};
use crate::estimate::pause::Pause;
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Decision, Law, Levers, Note, Policy, Reason, Row, Seen, Shares, Window};
use units::{Bytes, Duration, Instant, TenantId};

/// Decide again after so long (MT² §4).
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// What a pause leaves of a period is no shorter (guess: half of one).
const SOONEST: Duration = Duration(PERIOD.0 / 2);
/// A throttle that nobody renews holds for so long (guess: ten periods).
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// Quiet periods before the first relaxation (our choice, the paper leaves "disappeared" open).
const QUIET_PERIODS: u32 = 3;
/// Doublings of that wait at most: 9.6 s at 100 ms (guess).
const STRIKES_MAX: u32 = 5;
/// How noisy a byte per second of each kind makes a tenant (from the interference table, MT² Fig. 1).
const NOISE: Kinds<f64> = Kinds { dram_read: 1.0, dram_write: 1.0, slow_read: 2.0, slow_write: 9.0 };

type Signals = BandwidthSignal;

/// The policy `prevention`: nobody goes beyond its caps.
#[derive(Debug, Default)]
pub struct Prevention {
    keeper: CapKeeper,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

impl Policy for Prevention {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "prevention"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, Signals, Throttle>) -> Decision<'_, Throttle> {
        self.notes.clear();
        self.keeper.hold(seen, |_, row| row.claim.caps, &mut self.notes);
        self.shares.rebuild(Law::Free, seen, self.keeper.asked());
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}

/// Which levers a remedy may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Means {
    /// Every lever that a tenant has, as MT² does.
    #[default]
    All,
    /// Memory bandwidth allocation alone.
    MbaOnly,
    /// CPU time alone.
    CpuOnly,
}

/// The policy `remedy`: whoever disturbs others is held back until the disturbance is gone.
#[derive(Debug)]
pub struct Remedy {
    means: Means,
    detector: Detector,
    own: OwnDoing,
    roster: Roster<Restricted>,
    /// Steps taken so far: the order in which tenants were held back.
    steps: u64,
    quiet: u32,
    /// Who was relaxed last, and how many periods ago.
    relaxed: Option<(TenantId, u32)>,
    /// When the period ends; a pause is a part of one.
    period_ends: Instant,
    /// What could not be done in it.
    incident: Option<&'static str>,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

/// What is remembered of one tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Restricted {
    held: Held,
    heed: Option<Heed>,
    /// When it was last held back further, in steps of all.
    last_step: u64,
    /// How often letting it go brought the interference back.
    strikes: u32,
}

/// A step that could be taken.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: usize,
    score: f64,
    /// None while its actuator is late.
    next: Option<Throttle>,
}

impl Remedy {
    /// The policy that takes a latency above `thresholds` for interference.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self::with_means(thresholds, Means::All)
    }

    /// The policy restricted to some of the levers: what shows that all are needed (MT² §6.3).
    #[must_use]
    pub fn with_means(thresholds: Thresholds, means: Means) -> Self {
        Self {
            means,
            detector: Detector::new(thresholds),
            own: OwnDoing::new(None),
            roster: Roster::default(),
            steps: 0,
            quiet: 0,
            relaxed: None,
            period_ends: Instant::ZERO,
            incident: None,
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// Where there is interference all but those who come first pause as `pause` says, once a second or up to three times as they do more:
    /// what those do to themselves is none.
    #[must_use]
    pub fn pausing(self, pause: Pause) -> Self {
        Self { own: OwnDoing::new(Some(pause)), ..self }
    }

    /// Takes over who is there, which actuators follow, and lets go whoever is best-effort no more.
    fn settle(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        let are_others = self.roster.settle(seen.tenants, &mut self.notes, |_| Restricted::default());
        self.own.settle(seen);
        for (at, row) in seen.tenants.iter().enumerate() {
            let tenant = &mut self.roster[at];
            if !row.claim.class.is_best_effort() {
                *tenant = Restricted::default();
                continue;
            }
            if are_others {
                tenant.strikes = 0;
            }
            tenant.heed = Some(tenant.held.heed(row.in_force));
            if tenant.held.gave_up_now() {
                self.notes.push(note(Some(row.id), Reason::Incident("an actuator refuses".into()), 0));
            }
        }
    }

    /// One step, or a pause that shows what those who come first do themselves.
    fn step(&mut self, now: Instant, seen: &Seen<'_, Signals, Throttle>) {
        let incident = self.incident.take();
        self.age();
        self.detector.observe(seen.pool);
        let is_asleep = are_first_asleep(seen);
        // What is above the thresholds for whatever reason.
        let is_above = self.detector.weather(&Kinds::default()) == Weather::Interference;
        let begins = is_above && !is_asleep && self.own.begin(now, seen);
        if begins {
            self.notes.push(note(None, Reason::Experiment, 0));
        }
        let own = self.own.latencies(now);
        if begins && own == Kinds::default() {
            // Nobody pays before it is known for what; what could not be done before cannot be yet.
            self.incident = incident;
            return;
        }
        match self.detector.weather(&own) {
            Weather::Interference | Weather::Between if is_asleep => self.relax(seen),
            Weather::Interference => self.tighten(seen),
            Weather::Quiet => self.relax(seen),
            // One period that is neither, or not seen, does not undo all that were quiet.
            Weather::Between => self.quiet = self.quiet.saturating_sub(1),
            Weather::Unknown => {
                self.quiet = self.quiet.saturating_sub(1);
                let why = "latency of the medium not measured: throttles stay";
                self.notes.push(note(None, Reason::Fallback(why.into()), 0));
            }
        }
    }

    /// One step against interference.
    fn tighten(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        self.quiet = 0;
        let Some(pick) = self.undone(seen).or_else(|| self.noisiest(seen)) else {
            let anybody = self.roster.iter().any(|(_, tenant)| tenant.held.is_stepped());
            let why = if anybody { "everybody is at the end of its levers" } else { "nobody to hold back" };
            self.incident = Some(why);
            self.notes.push(note(None, Reason::Incident(why.into()), 0));
            return;
        };
        let Some(next) = pick.next else { return };
        self.steps += 1;
        let tenant = &mut self.roster[pick.at];
        tenant.held.asked = next;
        tenant.last_step = self.steps;
        self.notes.push(note(Some(seen.tenants[pick.at].id), Reason::Tightened, 0));
    }

    /// The tenant whose relaxation brought the interference back.
    fn undone(&mut self, seen: &Seen<'_, Signals, Throttle>) -> Option<Candidate> {
        let (id, ago) = self.relaxed.take()?;
        let at = self.roster.at(id)?;
        if QUIET_PERIODS < ago {
            return None;
        }
        let tenant = &mut self.roster[at];
        tenant.strikes = (tenant.strikes + 1).min(STRIKES_MAX);
        let candidate = self.candidate(at, &seen.tenants[at], seen.window, 0.0)?;
        candidate.next.is_some().then_some(candidate)
    }

    /// The noisiest tenant that can be held back further; those that are not measured come last.
    fn noisiest(&self, seen: &Seen<'_, Signals, Throttle>) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for (at, row) in seen.tenants.iter().enumerate() {
            let least = best.map_or(f64::NEG_INFINITY, |best| best.score);
            best = self.candidate(at, row, seen.window, least).or(best);
        }
        best
    }

    /// The step that a tenant can take, if it scores above `least`.
    fn candidate(
        &self,
        at: usize,
        row: &Row<Signals, Throttle>,
        window: Window,
        least: f64,
    ) -> Option<Candidate> {
        let tenant = &self.roster[at];
        let heed = tenant.heed?;
        let traffic = row.signal.as_ref().map(|signal| (signal, window));
        // Not measured: below everybody who is.
        let terms = traffic.map_or(Some(Kinds::default()), |(signal, window)| noise(signal, window))?;
        // What it would do if it were not held back.
        let delay = row.in_force.map_or(0, |now| now.delay);
        let freed = traffic.map_or(1.0, |traffic| regulator::freed_by(&row.claim.levers, delay, traffic));
        let all = terms.iter().map(|(_, term)| term).sum::<f64>() / cpu_part(row) * freed;
        let score = if traffic.is_none() { -1.0 } else { all };
        let silent = traffic.is_some() && score <= 0.0;
        if silent || score <= least {
            return None;
        }
        if heed == Heed::NotYet {
            return Some(Candidate { at, score, next: None });
        }
        let levers = self.levers(&tenant.held.levers(&row.claim.levers, row.in_force, heed));
        let base = tenant.held.base(row.in_force);
        // A lever that acts only on what the tenant does not do has no effect.
        let done = |kind: &Kind| traffic.is_none() || 0.0 < *terms.get(*kind);
        let tightened = |kind| regulator::tighten(&levers, base, kind, Step::One, traffic);
        let next = noisiest_first(terms).into_iter().filter(done).find_map(tightened)?;
        // What a refusing lever was asked stays asked.
        let next = next.tighter(tenant.held.asked);
        Some(Candidate { at, score, next: Some(next) })
    }

    /// One step back, if the medium has been quiet for long enough.
    fn relax(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        self.quiet = self.quiet.saturating_add(1);
        let quiet = self.quiet;
        let may_go =
            |tenant: &Restricted| tenant.held.is_stepped() && QUIET_PERIODS << tenant.strikes <= quiet;
        let held = self.roster.iter().enumerate().filter(|(_, (_, tenant))| may_go(tenant));
        let Some((at, (id, tenant))) = held.max_by_key(|(_, (_, tenant))| tenant.last_step) else { return };
        let row = &seen.tenants[at];
        let levers = self.levers(&row.claim.levers);
        let traffic = row.signal.as_ref().map(|signal| (signal, seen.window));
        let relaxed = |kind| regulator::relax(&levers, tenant.held.asked, kind, Step::One, traffic);
        // Nothing to relax although something is asked: the lever is gone.
        let next = Kind::ALL.into_iter().find_map(relaxed).unwrap_or(Throttle::FREE);
        self.roster[at].held.asked = next;
        self.relaxed = Some((id, 0));
        self.notes.push(note(Some(id), Reason::Relaxed, 0));
    }

    /// A relaxation that has stood for three periods makes the next ones wait less.
    fn age(&mut self) {
        let Some((id, ago)) = &mut self.relaxed else { return };
        *ago = ago.saturating_add(1);
        if *ago == QUIET_PERIODS + 1
            && let Some(at) = self.roster.at(*id)
        {
            let tenant = &mut self.roster[at];
            tenant.strikes = tenant.strikes.saturating_sub(1);
        }
    }

    fn levers(&self, levers: &Levers) -> Levers {
        match self.means {
            Means::All => *levers,
            Means::MbaOnly => Levers { mba: levers.mba, ..Levers::default() },
            Means::CpuOnly => Levers { cpu: levers.cpu, ..Levers::default() },
        }
    }
}

impl Policy for Remedy {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        match self.means {
            Means::All => "remedy",
            Means::MbaOnly => "mba-only",
            Means::CpuOnly => "cpu-only",
        }
    }

    fn decide(&mut self, now: Instant, seen: &Seen<'_, Signals, Throttle>) -> Decision<'_, Throttle> {
        self.notes.clear();
        self.settle(seen);
        // Where no time has passed there is nothing new to learn.
        let is_new = Duration::ZERO < seen.window.length();
        if is_new && self.own.take(now, seen) {
            // What could not be done before the pause cannot be yet.
            self.notes.extend(self.incident.map(|why| note(None, Reason::Incident(why.into()), 0)));
        } else {
            self.period_ends = now + PERIOD;
            if is_new {
                self.step(now, seen);
            }
        }
        let pause = self.own.lasts();
        let shares = self.roster.iter().zip(seen.tenants).map(|((id, tenant), row)| {
            let is_paused = pause.is_some() && row.claim.class.is_best_effort();
            (id, Throttle { paused: is_paused || tenant.held.asked.paused, ..tenant.held.asked })
        });
        self.shares.rebuild(Law::Free, seen, shares);
        let (wake, lease) = pause.unwrap_or((self.period_ends.since(now).max(SOONEST), LEASE));
        Decision { shares: &self.shares, wake, lease, steady: pause.is_none(), notes: &self.notes }
    }
}

/// Whether tenants come first, and all of them are known to ask for nothing: what is moved behind them is none of their doing, so that where
/// operations are counted those say it.
fn are_first_asleep(seen: &Seen<'_, Signals, Throttle>) -> bool {
    let signals = || seen.tenants.iter().filter_map(|row| row.signal.as_ref());
    let are_counted = signals().any(|signal| 0 < signal.operations);
    let is_asleep = |signal: &Signals| match are_counted {
        true => signal.operations == 0,
        false => signal.bytes_total() == Bytes::ZERO,
    };
    let mut first = seen.tenants.iter().filter(|row| !row.claim.class.is_best_effort()).peekable();
    first.peek().is_some() && first.all(|row| row.signal.as_ref().is_some_and(is_asleep))
}

/// What each kind of a tenant's traffic adds to its score; none if no time has passed.
fn noise(signal: &Signals, window: Window) -> Option<Kinds<f64>> {
    let per_byte = window.per_sec(1)?;
    Some(Kinds::from_fn(|kind| signal.bytes.get(kind).0 as f64 * per_byte * NOISE.get(kind)))
}

/// The part of its CPU time that a tenant is left, above 0.
fn cpu_part(row: &Row<Signals, Throttle>) -> f64 {
    let quota = row.claim.levers.cpu.map(|quota| quota.most);
    let left = row.in_force.and_then(|now| now.cpu);
    match (quota, left) {
        (Some(quota), Some(left)) => (f64::from(left.max(1)) / f64::from(quota.max(1))).min(1.0),
        _ => 1.0,
    }
}

/// The kinds by what they add to the score, the largest first.
fn noisiest_first(terms: Kinds<f64>) -> [Kind; 4] {
    let mut kinds = [Kind::SlowWrite, Kind::SlowRead, Kind::DramRead, Kind::DramWrite];
    kinds.sort_by(|a, b| terms.get(*b).total_cmp(terms.get(*a)));
    kinds
}
