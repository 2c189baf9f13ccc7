//! Shares a tier's time by weight, epoch by epoch, and lends what a tenant leaves idle as long as that does not harm it.
//!
//! Shape:      cost used, when budgets ran out, slowdowns -> desired cost per tenant -> weighted filling -> budgets
//! Invariants: budgets sum to at most the tier; a tenant that wants it has its weight's part within an epoch; nobody is
//!             given more than it wants beyond that part
//! Units:      parts of the tier inside, picoseconds per epoch outside
//! Cost:       O(tenants log tenants) per epoch, no allocation once the tenants are steady
//! Failure:    a missing signal leaves a tenant's wish as it was; a mixed window changes nothing; without a slowdown
//!             nothing is lent
//! Source:     NyxCache §3.4, Algorithm 4, §4.5, with both donations. The bound on slowdown is W ÷ wᵢ, W of all who do something,
//!             unless all that is idle is kept. We choose what it leaves open: "allocate proportionally based on weight and
//!             desired resource" is weighted max-min filling; what nobody wants goes back to those below their part; use beyond
//!             a budget is charged to the next epoch; a tenant keeps a hundredth of its part, so that its return can be seen; an
//!             epoch of no use still counts as running out at once where the brake says so.
//!
//! | Paper | here |
//! |---|---|
//! | `TotalResource` | `capacity.cost` of the pool, or the whole tier |
//! | `ResourceAssigned` | `assigned` |
//! | `DesiredResource` | `desired` |
//! | `TimeUseUp` | `depleted_at` as a part of the epoch |
//! | `DonateStep` | [`DonateStep`] |
//! | Option 1, Option 2 | [`Donation::All`], [`Donation::Aware`] |

use super::nyx_limit::{limit, over};
use super::nyx_slowed::Told;
use super::roster::{Roster, note};
use crate::estimate::pause::Pause;
use crate::estimate::stand_alone::{Alone, Performance, Probe, REFRESH, StandAlone, Tally};
use control::bandwidth::{BandwidthSignal, Budget, Cost, Throttle};
use control::{Class, Decision, Law, Note, Policy, Reason, Row, Seen, Shares, Window};
use units::{Duration, Instant, TenantId};

/// Length of an epoch (NyxCache Fig. 11: TimeStep = 2 ms).
const EPOCH: Duration = Duration::from_millis(2);
/// Budgets may go on without a loop: they sum to the tier.
const LEASE: Duration = Duration::from_secs(3_600);
/// The part of its part that a tenant keeps even if it uses nothing (guess): it must be able to run out.
const KEPT_LEAST: f64 = 0.01;
/// Most epochs that an overshoot can take from a tenant, of what it has of the pool: a second's, for a value of 1 MiB takes a quarter of an epoch of a
/// tier of 2 GB/s, and a hundredth of the tier is twenty-five epochs until that is paid (guess; `limit` has ten seconds).
const OWED_EPOCHS_MAX: f64 = 500.0;

/// A pool of so little is none: a millionth of the tier (guess).
const EMPTY: Cost = Cost(Cost::SECOND.0 / 1_000_000);

/// Who did nothing for so long takes no turn, and is not watched alone (guess: two probes of each).
const IDLE: Duration = Duration::from_secs(2);
/// A step is lent only where the slowdown is inside its bound by so many standard errors of the performance alone (guess,
/// as in experiments); it is taken back where the slowdown itself is past it.
const STANDARD_ERRORS: f64 = 2.0;
/// Weight of an epoch in the slowdown that is told (guess: that of about the last second).
const SLOWED_WEIGHT: f64 = 0.02;
/// A slowdown is judged by so many operations (guess: as many come as are expected to a third) ...
const JUDGED_BY: u64 = 8;
/// ... or by what came in so long (guess): an epoch of a tenant that makes few requests holds one or none.
const JUDGED_AFTER: Duration = Duration::from_millis(100);

/// What becomes of what a tenant leaves idle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Donation {
    /// It stays with the tenant.
    Kept,
    /// All of it is lent (Option 1).
    All,
    /// It is lent step by step while the donor's slowdown allows (Option 2).
    Aware(DonateStep),
}

/// The step of a donation, as a part of what the donor has: in 0..1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct DonateStep(f64);

impl DonateStep {
    /// 10 % (NyxCache §3.6, §4.7).
    pub const PAPER: Self = Self(0.1);

    /// A step, if `part` is inside 0..1.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        (0.0 < part && part < 1.0).then_some(Self(part))
    }
}

/// The policy `proportional`.
#[derive(Debug)]
pub struct Proportional {
    donation: Donation,
    members: Roster<Member>,
    probes: StandAlone,
    probing: Option<Probe>,
    pause: Pause,
    order: Vec<usize>,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
    /// Cost per second that the last budgets divide.
    divided: Cost,
}

/// Parts of the pool; `part` is what the weight gives among all who take turns, and to who takes none among all.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    part: f64,
    most: f64,
    assigned: f64,
    desired: f64,
    /// What it used beyond its budgets, in parts of an epoch of the whole tier: a group's pool changes from epoch to epoch.
    owed: f64,
    alone: Alone,
    /// What it did since its slowdown was judged last.
    tally: Tally,
    /// Mean of its slowdown over the last epochs, the older with less weight.
    slowed: Option<f64>,
    told: Told,
    exempt: bool,
    /// How long it has done nothing, and whether that is so long that it takes no turn.
    idle_for: Duration,
    is_out: bool,
}

/// What is known of a slowdown after an epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Judged {
    /// Too little came to say.
    NotYet,
    /// It is not known what the tenant does alone.
    Unknown,
    Slowed(f64),
}

type Input<'a> = Seen<'a, BandwidthSignal, Throttle>;
type Case = Row<BandwidthSignal, Throttle>;

impl Proportional {
    /// The policy with such pauses, whose moments are drawn from `seed`. What settles does so for an epoch at least, for who has just
    /// used up its budget waits for that to end.
    #[must_use]
    pub fn new(donation: Donation, pause: Pause, seed: u64) -> Self {
        Self {
            donation,
            members: Roster::default(),
            probes: StandAlone::new(REFRESH, pause.most(), seed),
            probing: None,
            pause: if pause.settles() { pause.settling(EPOCH) } else { pause },
            order: Vec::new(),
            shares: Shares::default(),
            notes: Vec::new(),
            divided: Cost(0),
        }
    }

    /// Who has done nothing for how long, by the window that has just ended. Who has run out, or had nothing, is not idle.
    fn note_idle(&mut self, seen: &Input<'_>) {
        for (row, (_, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            let Some(signal) = row.signal.as_ref() else { continue };
            let could_do = in_force(row).is_some_and(|budget| Cost(0) < budget.cost);
            let is_idle = could_do && signal.depleted_at.is_none() && member.is_idle(signal, seen.window);
            let idle_for = Duration(member.idle_for.0.saturating_add(seen.window.length().0));
            member.idle_for = if is_idle { idle_for } else { Duration::ZERO };
        }
    }

    /// Everybody's part by weight and most by claim; who has just come, or finds the others changed, starts from its part among all.
    fn entitle(&mut self, seen: &Input<'_>, start_over: bool) {
        let weight = |row: &Case| if row.claim.class == Class::Exempt { 0.0 } else { row.claim.weight.get() };
        let take_all_turns = self.donation == Donation::Kept || start_over;
        for (_, member) in self.members.iter_mut() {
            member.is_out = !take_all_turns && IDLE <= member.idle_for;
        }
        let rows = || seen.tenants.iter().zip(self.members.iter());
        let all: f64 = rows().map(|(row, _)| weight(row)).sum();
        let turns: f64 = rows().filter(|(_, (_, member))| !member.is_out).map(|(row, _)| weight(row)).sum();
        let pool = total_cost(seen).0 as f64;
        for (row, (_, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            member.exempt = row.claim.class == Class::Exempt;
            let among = if member.is_out { all } else { turns };
            member.part = if among <= 0.0 { 0.0 } else { weight(row) / among };
            member.most = limit(&row.claim).map_or(1.0, |cost| (cost.0 as f64 / pool).min(1.0));
            if member.exempt {
                // What it once had is the others': should it be budgeted again, it begins with nothing.
                (member.assigned, member.desired, member.owed) = (0.0, 0.0, 0.0);
            }
            if start_over {
                member.assigned = member.part.min(member.most);
                member.desired = member.assigned;
            }
        }
    }

    /// One epoch: what each used of its budget, hence what it wants.
    fn forecast(&mut self, seen: &Input<'_>) {
        // What was divided in the window; a group may have another share from now on.
        let divided = if self.divided == Cost(0) { total_cost(seen) } else { self.divided };
        let pool = divided.0 as f64 / Cost::SECOND.0 as f64;
        let is_given = EMPTY < divided;
        let epochs = seen.window.length().0 as f64 / EPOCH.0 as f64;
        for at in 0..self.members.len() {
            let row = &seen.tenants[at];
            let exempt = self.members[at].exempt;
            let (Some(signal), Some(budget)) = (row.signal.as_ref().filter(|_| !exempt), in_force(row))
            else {
                continue;
            };
            let used = signal.cost.part_of(seen.window.length()) / pool;
            let member = &mut self.members[at];
            let judged = member.judge(signal, seen);
            if let Some(slowed) = member.slowed.filter(|_| member.alone.is_sure()) {
                member.told.say(row.id, slowed, &mut self.notes);
            }
            let granted = member.assigned;
            let more = (used - granted) * epochs * pool;
            member.owed = (member.owed + more).max(0.0);
            if !is_given {
                // An epoch of a group that had used up what it is given shows nothing of who wants what, nor how much may be owed.
                continue;
            }
            member.owed = member.owed.min(member.part.max(granted) * pool * OWED_EPOCHS_MAX);
            let before = member.desired;
            member.desired = match signal.depleted_at {
                // Where decisions are late, the budget was one epoch's all the same.
                Some(out) => {
                    member.wants_more(used, out.since(seen.window.start), EPOCH.min(seen.window.length()))
                }
                // Of nothing it left nothing idle.
                None if budget.cost == Cost(0) => before,
                None => member.wants_less(used, self.donation, judged),
            };
            self.note_change(row.id, before, at);
        }
    }

    fn note_change(&mut self, id: TenantId, before: f64, at: usize) {
        let member = &self.members[at];
        let below = |desired: f64| desired < member.part;
        let reason = match (below(before), below(member.desired)) {
            (false, true) => Reason::Donated,
            (true, false) => Reason::Revoked,
            _ => return,
        };
        #[expect(clippy::cast_possible_truncation, reason = "parts of a second in ps fit")]
        let amount = ((member.desired - before) * Cost::SECOND.0 as f64) as i64;
        self.notes.push(note(Some(id), reason, amount));
    }

    /// Weighted max-min filling: everybody up to what it wants, the scarce rest by weight. What is left then goes to
    /// those below their part.
    fn fill(&mut self) {
        let Self { members, order, .. } = self;
        order.clear();
        order.extend((0..members.len()).filter(|&at| 0.0 < members[at].part));
        let fullness = |m: &Member| m.desired / m.part;
        order.sort_unstable_by(|&a, &b| {
            fullness(&members[a]).total_cmp(&fullness(&members[b])).then(a.cmp(&b))
        });
        let (mut left, mut weight): (f64, f64) = (1.0, order.iter().map(|&at| members[at].part).sum());
        for &at in order.iter() {
            let member = &mut members[at];
            let fair = if weight <= 0.0 { 0.0 } else { left * (member.part / weight).min(1.0) };
            member.assigned = member.desired.min(fair);
            left = (left - member.assigned).max(0.0);
            weight -= member.part;
        }
        let lacks = |m: &Member| if m.is_out { 0.0 } else { (m.part.min(m.most) - m.assigned).max(0.0) };
        let lacking: f64 = order.iter().map(|&at| lacks(&members[at])).sum();
        if 0.0 < lacking {
            let back = (left / lacking).min(1.0);
            for &at in order.iter() {
                let lack = lacks(&members[at]);
                members[at].assigned += lack * back;
            }
        }
    }

    fn learn(&mut self, seen: &Input<'_>, id: TenantId, usable: bool) {
        let is_seen = usable && self.pause.is_seen_in(seen.window.length());
        let Some(at) = self.members.at(id).filter(|_| is_seen) else { return };
        let signal = seen.tenants[at].signal.as_ref();
        let performance = signal.and_then(|signal| Performance::of(signal, seen.window));
        self.members[at].alone.learn(performance, seen.window.length());
    }

    /// Who is alone in the next window: only a donation that looks at slowdowns has to know.
    fn draw_probe(&mut self, now: Instant) -> Option<TenantId> {
        let Donation::Aware(_) = self.donation else { return None };
        let able = |member: &Member| !member.exempt && member.idle_for < IDLE;
        let able = self.members.iter().filter(|(_, member)| able(member));
        self.probes.next(now, able.map(|(id, member)| (id, member.alone.turn())))
    }

    fn publish(&mut self, now: Instant, seen: &Input<'_>) -> Decision<'_, Throttle> {
        if self.probing.is_none() {
            self.probing = self.draw_probe(now).map(|alone| Probe::new(alone, self.pause));
            let alone = self.probing.map(|probe| probe.alone);
            self.notes.extend(alone.map(|alone| note(Some(alone), Reason::Experiment, 0)));
        }
        let (probing, total) = (self.probing.map(|probe| probe.alone), total_cost(seen));
        self.divided = total;
        let rows = self.members.iter().map(|(id, member)| {
            let throttle = match probing {
                _ if member.exempt => Throttle::FREE,
                Some(alone) if alone == id => Throttle::FREE,
                Some(_) => Throttle::PAUSED,
                None => Throttle { budget: Some(member.budget(total)), ..Throttle::FREE },
            };
            (id, throttle)
        });
        let known = Cost(0) < seen.pool.capacity.cost && probing.is_none();
        let law = if known { Law::AtMost { floor_part: 0.0 } } else { Law::Free };
        self.shares.rebuild(law, seen, rows);
        let steady = probing.is_none();
        Decision {
            shares: &self.shares,
            wake: self.probing.map_or(EPOCH, |probe| probe.lasts(self.pause)),
            lease: if steady { LEASE } else { self.pause.lease() },
            steady,
            notes: &self.notes,
        }
    }
}

impl Member {
    /// It ran out after `lasted` of the epoch: it wants as much as would have lasted (a linear forecast). Whoever has
    /// nothing, for it was exempt until now, counts as having the least.
    fn wants_more(&self, used: f64, lasted: Duration, epoch: Duration) -> f64 {
        let lasted = (lasted.0 as f64 / epoch.0 as f64).min(1.0);
        let least = self.part.min(self.most) * KEPT_LEAST;
        let wants = self.assigned.max(used).max(least) / lasted.max(f64::MIN_POSITIVE);
        wants.min(self.most)
    }

    /// It left something idle: how much of that it lends.
    fn wants_less(&self, used: f64, donation: Donation, judged: Judged) -> f64 {
        let part = self.part.min(self.most);
        let least = used.max(part * KEPT_LEAST);
        let wants = match donation {
            Donation::Kept => part,
            Donation::All => least,
            Donation::Aware(DonateStep(step)) => match judged {
                Judged::Slowed(slowdown) if self.is_out || slowdown * self.doubt() < 1.0 / self.part => {
                    (self.assigned * (1.0 - step)).max(least)
                }
                Judged::Slowed(slowdown) if 1.0 / self.part <= slowdown => {
                    (self.assigned * (1.0 + step)).min(part)
                }
                Judged::Slowed(_) | Judged::NotYet => self.assigned.max(least),
                Judged::Unknown => self.desired.max(part),
            },
        };
        wants.min(self.most)
    }

    /// How much worse its slowdown may be than it seems.
    fn doubt(&self) -> f64 {
        1.0 + STANDARD_ERRORS * self.alone.standard_error()
    }

    fn is_idle(&self, signal: &BandwidthSignal, window: Window) -> bool {
        Performance::of(signal, window).is_some_and(|did| self.alone.is_idle(did))
    }

    /// Takes an epoch into what its slowdown is judged by, and judges if that is enough. Who did nothing for as long is not slowed down, epoch
    /// by epoch until it does something.
    fn judge(&mut self, signal: &BandwidthSignal, seen: &Input<'_>) -> Judged {
        let before = self.tally.sum().1.length();
        let goes_on = self.is_idle(signal, seen.window);
        if JUDGED_AFTER <= before && !goes_on {
            // It had stopped.
            self.tally = Tally::default();
        }
        self.tally.add(signal, seen.window);
        let (sum, span) = self.tally.sum();
        let (is_idle, operations) = (self.is_idle(sum, span), sum.operations);
        let is_uncounted = !is_idle && operations == 0;
        if operations < JUDGED_BY && !is_uncounted && span.length() < JUDGED_AFTER {
            return Judged::NotYet;
        }
        let performance = self.tally.performance();
        let slowdown = performance.and_then(|did| if is_idle { Some(1.0) } else { self.alone.slowdown(did) });
        let epochs = span.length().0 as f64 / EPOCH.0 as f64;
        if !is_idle {
            self.tally = Tally::default();
        }
        let Some(slowdown) = slowdown else { return Judged::Unknown };
        let weight = 1.0 - (1.0 - SLOWED_WEIGHT).powf(epochs);
        self.slowed = Some(self.slowed.map_or(slowdown, |mean| mean + (slowdown - mean) * weight));
        Judged::Slowed(slowdown)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part in 0..=1 of a cost")]
    fn budget(&self, total: Cost) -> Budget {
        let owed = self.owed * Cost::SECOND.0 as f64 / (total.0 as f64).max(1.0);
        let part = (self.assigned - owed).clamp(0.0, 1.0);
        Budget { cost: Cost((over(total, EPOCH).0 as f64 * part) as u64), per: EPOCH }
    }
}

/// What a tenant may use now, if it is held to a budget.
fn in_force(row: &Case) -> Option<Budget> {
    row.in_force.and_then(|throttle| throttle.budget)
}

/// Time of the tier per second that is divided.
fn total_cost(seen: &Input<'_>) -> Cost {
    match seen.pool.capacity.cost {
        Cost(0) => Cost::SECOND,
        cost => cost,
    }
}

impl Policy for Proportional {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "proportional"
    }

    fn decide(&mut self, now: Instant, seen: &Input<'_>) -> Decision<'_, Throttle> {
        self.notes.clear();
        let changed = self.members.settle(seen.tenants, &mut self.notes, |_| Member::default());
        let usable = !changed && !seen.window.mixed && Duration::ZERO < seen.window.length();
        if usable && self.probing.is_none() {
            self.note_idle(seen);
        }
        self.entitle(seen, changed);
        match self.probing.take() {
            Some(probe) if probe.counts() => self.learn(seen, probe.alone, usable),
            Some(probe) => self.probing = probe.next(self.pause, seen.window.length()).filter(|_| usable),
            None if usable => {
                self.forecast(seen);
                self.fill();
            }
            None => {}
        }
        self.publish(now, seen)
    }
}

#[cfg(test)]
mod tests;
