//! From the best to the worst: a step per epoch from the tenant that does best against its first epochs to the one that does
//! worst.
//!
//! Shape:      operations per second against those at the static share -> a step taken into the spare, or given from it
//! Invariants: shares and spare sum to the pool; floors and ceilings hold
//! Source:     Spirit §6 (Harvest, after PARTIES) and its released code. We differ: margins are relative (there they
//!             compare ratios with absolute bandwidth), there is one spare for all tenants of the pool, and who does nothing takes
//!             nothing.

use super::auction::Bundle;
use super::book::Book;
use super::desk::note;
use super::options::Options;
use control::joint::{Joint, JointSignal};
use control::{Decision, Note, Policy, Reason, Seen};
use units::{Instant, TenantId};

/// What one action moves: a step of the pool (Spirit §4.1).
const STEP: f64 = 1.0 / 200.0;
/// A gift that speeds up by less than this was of the wrong kind (released code).
const MARGIN: f64 = 0.01;
/// A donor that slows down by more than this gets back what it gave (released code).
const REVOKE: f64 = 0.1;

/// One of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Memory,
    Bandwidth,
}

/// What is remembered of a tenant.
#[derive(Clone, Debug)]
struct Member {
    id: TenantId,
    /// Its static share.
    home: Bundle,
    held: Bundle,
    /// Operations per second at the static share; none before the first were seen.
    baseline: Option<f64>,
    /// Operations per second now ÷ the baseline.
    ratio: f64,
    /// What it is due next.
    due: Kind,
}

/// The last action: who gave or got, what, and how it did before.
#[derive(Clone, Copy, Debug)]
struct Action {
    place: usize,
    kind: Kind,
    gave: bool,
    ratio: f64,
}

/// The policy `harvest`.
#[derive(Debug)]
pub struct Harvest {
    options: Options,
    book: Book,
    members: Vec<Member>,
    spare: Bundle,
    last: Option<Action>,
    notes: Vec<Note>,
    capacity: Joint,
    epochs: u32,
}

impl Bundle {
    fn of(self, kind: Kind) -> f64 {
        match kind {
            Kind::Memory => self.memory,
            Kind::Bandwidth => self.bandwidth,
        }
    }

    fn part(&mut self, kind: Kind) -> &mut f64 {
        match kind {
            Kind::Memory => &mut self.memory,
            Kind::Bandwidth => &mut self.bandwidth,
        }
    }
}

impl Harvest {
    /// The policy; its options' epoch, first epochs and floors matter.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options: options.bounded(),
            book: Book::default(),
            members: Vec::new(),
            spare: Bundle::default(),
            last: None,
            notes: Vec::new(),
            capacity: Joint::default(),
            epochs: 0,
        }
    }

    /// Starts again at the static shares when tenants or their weights change. In a pool of another size, as a group's is ever again,
    /// everybody has its part of that, as far as limits let it.
    fn settle(&mut self, seen: &Seen<'_, JointSignal, Joint>) {
        let capacity = Joint { bytes: seen.pool.capacity.bytes, bandwidth: seen.pool.capacity.bandwidth };
        let resized = std::mem::replace(&mut self.capacity, capacity) != capacity;
        let same = self.members.len() == seen.tenants.len()
            && self.members.iter().zip(seen.tenants).all(|(member, row)| member.id == row.id);
        let floor_part = self.options.floor_part;
        let terms = self.book.settle(seen, |_, home| home.times(floor_part));
        // Other weights are other static shares.
        let is_home = self.members.iter().zip(terms).all(|(member, terms)| member.home == terms.endowment);
        let held = self.members.iter_mut().map(|member| (member.home, &mut member.held));
        let goes_on = same && if resized { self.book.follow(held) } else { is_home };
        let terms = self.book.terms();
        if goes_on {
            self.members.iter_mut().zip(terms).for_each(|(member, terms)| member.home = terms.endowment);
            self.epochs = self.epochs.saturating_add(1);
            return;
        }
        (self.epochs, self.last, self.spare) = (0, None, Bundle::default());
        self.members.clear();
        self.members.extend(seen.tenants.iter().zip(terms).map(|(row, terms)| Member {
            id: row.id,
            home: terms.endowment,
            held: terms.endowment,
            baseline: None,
            ratio: 1.0,
            due: Kind::Bandwidth,
        }));
    }

    fn learn(&mut self, seen: &Seen<'_, JointSignal, Joint>) {
        for (member, row) in self.members.iter_mut().zip(seen.tenants) {
            let rate = row.signal.as_ref().and_then(|signal| seen.window.per_sec(signal.operations));
            let Some(rate) = rate.filter(|_| !seen.window.mixed) else { continue };
            // Who does nothing at first has its rate from its first steps, as long as it has its static share.
            let is_early = self.epochs <= self.options.static_epochs || member.baseline.is_none();
            if is_early && 0.0 < rate && member.held == member.home {
                member.baseline = Some(rate);
            }
            member.ratio = member.baseline.map_or(1.0, |baseline| rate / baseline);
        }
    }

    /// Takes a gift back from the spare for a donor that suffers; turns to the other kind where a gift did nothing.
    fn look_back(&mut self) -> bool {
        let Some(last) = self.last else { return false };
        let member = &mut self.members[last.place];
        if !last.gave {
            if member.ratio < last.ratio * (1.0 + MARGIN) {
                member.due = if last.kind == Kind::Memory { Kind::Bandwidth } else { Kind::Memory };
            }
            return false;
        }
        let suffers =
            member.ratio < last.ratio * (1.0 - REVOKE) && STEP <= self.spare.of(last.kind) + f64::EPSILON;
        if suffers {
            *member.held.part(last.kind) += STEP;
            *self.spare.part(last.kind) -= STEP;
            self.notes.push(note(Some(member.id), Reason::Revoked, 0));
            self.last = None;
        }
        suffers
    }

    /// One action: gives a step from the spare to the worst, or takes one from the best.
    fn act(&mut self) {
        let rested = |place: usize, last: Option<Action>| last.is_none_or(|last| last.place != place);
        let terms = self.book.terms();
        let can_take = |place: &usize| {
            let member = &self.members[*place];
            // Who does nothing needs nothing.
            member.baseline.is_some()
                && 0.0 < member.ratio
                && rested(*place, self.last)
                && member.held.of(member.due) + STEP <= terms[*place].ceiling.of(member.due)
        };
        let by_ratio = |a: &usize, b: &usize| self.members[*a].ratio.total_cmp(&self.members[*b].ratio);
        let Some(worst) = (0..self.members.len()).filter(can_take).min_by(by_ratio) else { return };
        let kind = self.members[worst].due;
        if STEP <= self.spare.of(kind) + f64::EPSILON {
            *self.spare.part(kind) -= STEP;
            *self.members[worst].held.part(kind) += STEP;
            self.notes.push(note(Some(self.members[worst].id), Reason::Donated, 0));
            self.last = Some(Action { place: worst, kind, gave: false, ratio: self.members[worst].ratio });
            return;
        }
        let can_give = |place: &usize| {
            let member = &self.members[*place];
            *place != worst
                && member.baseline.is_some()
                && rested(*place, self.last)
                && terms[*place].floor.of(kind) + STEP <= member.held.of(kind)
                && self.members[worst].ratio * (1.0 + MARGIN) < member.ratio
        };
        let best = (0..self.members.len()).filter(can_give).max_by(by_ratio);
        self.last = best.map(|place| Action { place, kind, gave: true, ratio: self.members[place].ratio });
        if let Some(best) = best {
            *self.members[best].held.part(kind) -= STEP;
            *self.spare.part(kind) += STEP;
            self.notes.push(note(Some(self.members[best].id), Reason::Donor, 0));
        }
    }
}

impl Policy for Harvest {
    type Signal = JointSignal;
    type Share = Joint;

    fn name(&self) -> &'static str {
        "harvest"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, JointSignal, Joint>) -> Decision<'_, Joint> {
        self.notes.clear();
        self.settle(seen);
        self.learn(seen);
        if self.options.static_epochs <= self.epochs && !self.look_back() {
            self.act();
        }
        self.book.grant(seen, self.members.iter().map(|member| member.held));
        let (wake, lease) = (self.options.epoch, self.options.lease());
        Decision { shares: self.book.shares(), wake, lease, steady: true, notes: &self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim, Pool, Row, Window};
    use units::{Bytes, BytesPerSec, Duration};

    /// Everybody's parts of memory and bandwidth after epochs in which the pool grows by so many bytes: tenants do a thousand operations
    /// in each of the first ones, then as many as said. The first reserves memory.
    fn after(epochs: u32, grows: u64, tenants: &[u64]) -> Vec<(f64, f64)> {
        let mut policy = Harvest::new(Options::default());
        let mut parts = Vec::new();
        for epoch in 0..epochs {
            let bytes = 1_000_000 + grows * u64::from(epoch);
            let capacity =
                Amount { bytes: Bytes(bytes), bandwidth: BytesPerSec(1_000_000), ..Amount::default() };
            let row = |(id, &then): (u32, &u64)| {
                let operations = if epoch < 4 { 1_000 } else { then };
                let floor = Amount::memory(Bytes(if id == 0 { 400_000 } else { 0 }));
                let claim = Claim { floor, ..Claim::default() };
                let signal = JointSignal { operations, ..JointSignal::default() };
                Row { id: TenantId(id), claim, signal: Some(signal), in_force: None }
            };
            let rows: Vec<_> = (0..).zip(tenants).map(row).collect();
            let pool = Pool { capacity, ..Pool::default() };
            let end = Instant::ZERO + Duration::from_secs(30);
            let seen = Seen::new(Window { end, ..Window::default() }, &pool, &rows).unwrap();
            let shares = policy.decide(end, &seen).shares.rows();
            let part = |(_, share): &(TenantId, Joint)| {
                (share.bytes.0 as f64 / bytes as f64, share.bandwidth.0 as f64 / 1e6)
            };
            parts = shares.iter().map(part).collect();
        }
        parts
    }

    /// The static share of the first is what it reserves, a smaller part of a pool that grows.
    #[test]
    fn harvests_outlast_a_change_of_the_pool() {
        let tenants = [1_000, 500, 2_000];
        let (home, steady) = (after(3, 0, &tenants), after(20, 0, &tenants));
        let growing = after(20, 1_000, &tenants);
        assert!(home[1].1 + 0.01 < steady[1].1, "the worst has got something: {home:?} {steady:?}");
        for (steady, growing) in steady.iter().zip(&growing) {
            assert!((steady.1 - growing.1).abs() < 1e-5, "{steady:?} {growing:?}");
            assert!((steady.0 - growing.0).abs() < 0.01, "{steady:?} {growing:?}");
        }
    }

    #[test]
    fn who_does_nothing_is_fed_nothing() {
        let tenants = [1_000, 500, 2_000, 0];
        let (home, now) = (after(3, 0, &tenants), after(30, 0, &tenants));
        assert!(now[3].0 <= home[3].0 + 1e-5 && now[3].1 <= home[3].1 + 1e-5, "{home:?} {now:?}");
        assert!(home[1].0 + home[1].1 + 0.02 < now[1].0 + now[1].1, "{home:?} {now:?}");
    }
}
