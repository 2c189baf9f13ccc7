//! One pool beyond the floors: what is worth least goes, whosever it is.
//!
//! Shape:      signals (bytes held, shadow hits, hits and what ranks let expect) -> targets that follow what is held, and how much
//!             more each tenant's items are worth than their rank says
//! Invariants: targets sum to the pool; nobody's is below its floor; what shadow hits add to a worth is in 0..=`MORE_MAX`
//!             octaves, what hits add in -`YIELD_LESS_MAX`..=`YIELD_MORE_MAX`; whose items cannot be compared (a group with another
//!             policy inside) has its part by weight, whatever it holds, and no worth.
//!             Inside a group weights count against their mean, and what shadow hits add is in -`MORE_MAX`..=0, 0 for who is hit
//!             most: what the policy among groups says of the group is added to that
//! Cost:       O(tenants) per decision; no allocation once the tenants are steady
//! Source:     our own. A pool that evicts by hit density is Beckmann, Chen, Cidon (LHD, NSDI 2018) over tenants. A density tells
//!             what an item did; shadow hits (Memshare §4.1) tell what its tenant's next items would do: they move worth here, as
//!             they move memory in `shared`, and what one tenant gains all lose alike. Whose items are hit less than their
//!             densities foretell, beside all others', has them held worth so much less: keys that are stored once and
//!             never asked for take nothing from anybody

use super::Credit;
use super::memshare::{note, signed};
use super::split::add_by_weight;
use super::static_split::static_shares;
use control::memory::{MemoryShare, MemorySignal, Worth};
use control::{Decision, Law, Note, Policy, Reason, Row, Seen, Shares};
use units::{Bytes, Duration, Instant, TenantId};

/// Decide again after so long, or sooner when the loop has seen enough shadow hits.
const PERIOD: Duration = Duration::from_secs(1);
/// What a decision says stays right for as long as demand does.
const LEASE: Duration = Duration::from_secs(3_600);
/// Octaves that credits for the whole memory add. In a prototype that learnt once per survey a third of it hits .8209, twice as much
/// .8222, this .8229 of the mixed trace in 245 MiB; in 122 MiB all three .7884 to .7891.
const OCTAVES_PER_MEMORY: f64 = 50.0;
/// Octaves that are added at most: items of a tenant may be held worth four times what they were used.
const MORE_MAX: f64 = 2.0;
/// Octaves that are taken off at most for hits that were expected and did not come. With six and one a neighbour that sprays keys takes
/// nothing of a tenant without a reservation in 16 MiB, which keeps .968 of its hits (.838 beside a quiet one, .759 without).
const YIELD_LESS_MAX: f64 = 6.0;
/// Octaves that hits beyond those expected add at most: what was used more than it foretold may have been a burst.
const YIELD_MORE_MAX: f64 = 1.0;
/// So many hits are believed as many as were expected (guess): of who has few nothing is known.
const HITS_TO_BELIEVE: f64 = 50.0;
/// After so many hits per tenant what was heard counts half (guess: some turnovers of what is asked for most).
const HITS_HALF_LIFE: f64 = 2_000.0;
/// Weights count as octaves within this range.
const WEIGHT_OCTAVES: f64 = 8.0;
/// What changed by less since it was last noted is not: a target by one part in so many of the memory, a worth by eighths of an octave.
const NOTED_PART: u64 = 64;
const NOTED_EIGHTHS: i16 = 4;

/// The policy `pooled`.
#[derive(Debug)]
pub struct Pooled {
    credit: Credit,
    /// Who has its part by weight and competes with nobody, sorted.
    by_weight: Vec<TenantId>,
    /// It divides inside a group, whose own weight and shadow hits the policy among groups knows.
    in_group: bool,
    members: Vec<Member>,
    joined: Vec<Member>,
    weights: Vec<f64>,
    /// Parts of what is not reserved by weight alone, scratch.
    parts: Vec<Bytes>,
    targets: Vec<Bytes>,
    shares: Shares<MemoryShare>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Member {
    id: TenantId,
    /// Octaves by which shadow hits make its items worth more than their rank and its weight say.
    more: f64,
    /// Hits, the latest most.
    hits: f64,
    /// Hits that ranks let expect in the same time.
    expected: f64,
    /// Hits since anything was expected.
    unread: f64,
    /// Target and worth that notes have told of; none before the first.
    noted: Option<(Bytes, i16)>,
}

impl Pooled {
    /// The policy with `credit` per shadow hit.
    #[must_use]
    pub fn new(credit: impl Into<Credit>) -> Self {
        Self {
            credit: credit.into(),
            by_weight: Vec::new(),
            in_group: false,
            members: Vec::new(),
            joined: Vec::new(),
            weights: Vec::new(),
            parts: Vec::new(),
            targets: Vec::new(),
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// Another credit from the next decision on.
    pub(super) fn retell(&mut self, credit: Credit) {
        self.credit = credit;
    }

    /// The same among the members of a group: what they are worth more adds to what their group is.
    pub(super) fn in_group(self) -> Self {
        Self { in_group: true, ..self }
    }

    /// The same where these compete with nobody: each has its floor, and of the rest its part by weight.
    #[must_use]
    pub fn giving_by_weight(self, mut rows: Vec<TenantId>) -> Self {
        rows.sort_unstable();
        Self { by_weight: rows, ..self }
    }

    /// Takes over who is there. Who joins begins with what is in force for it, or with nothing added.
    fn settle(&mut self, rows: &[Row<MemorySignal, MemoryShare>]) {
        std::mem::swap(&mut self.members, &mut self.joined);
        self.members.clear();
        let weight = self.weight_of_all(rows);
        let before = &self.joined;
        let is_gone = |member: &&Member| rows.binary_search_by_key(&member.id, |row| row.id).is_err();
        self.notes.clear();
        self.notes.extend(before.iter().filter(is_gone).map(|member| {
            let (target, _) = member.noted.unwrap_or_default();
            note(member.id, Reason::Left, -signed(target))
        }));
        self.members.extend(rows.iter().map(|row| {
            let known = before.binary_search_by_key(&row.id, |m| m.id).ok().map(|at| before[at]);
            known.unwrap_or_else(|| {
                let in_force = row.in_force.and_then(|share| share.worth);
                let taken_over =
                    in_force.map(|worth| f64::from(worth.more) / 8.0 - (octaves_of(row) - weight));
                let more = taken_over.unwrap_or(0.0).clamp(0.0, MORE_MAX);
                // Who had a share before this policy decided has not just come.
                let noted = row.in_force.map(|share| (share.target, share.worth.map_or(0, |w| w.more)));
                Member { id: row.id, more, noted, ..Member::default() }
            })
        }));
    }

    /// Each shadow hit makes its tenant's items worth more, and everybody's who competes less by as much in all.
    fn learn(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        let bytes = seen.pool.capacity.bytes;
        let capacity = bytes.0.max(1) as f64;
        // What fits all of the memory may be too much for a group.
        let credits = if self.in_group { self.credit.within(bytes) } else { self.credit };
        let gain = |row: &Row<MemorySignal, MemoryShare>| {
            let credit = credits.of(row.claim.credit).0 as f64;
            let signal = row.signal.filter(|_| competes(&self.by_weight, row.id))?;
            Some(signal.shadow_hits as f64 * credit / capacity * OCTAVES_PER_MEMORY)
        };
        let (count, sum) =
            seen.tenants.iter().filter_map(gain).fold((0, 0.0), |(n, sum), g| (n + 1, sum + g));
        let mean = sum / f64::from(count.max(1));
        for (member, gain) in self.members.iter_mut().zip(seen.tenants.iter().map(gain)) {
            let Some(gain) = gain else { continue };
            member.more = (member.more + gain - mean).clamp(0.0, MORE_MAX);
        }
    }

    /// Hears who was hit, and what ranks had let expect.
    fn compare(&mut self, rows: &[Row<MemorySignal, MemoryShare>]) {
        let expected = |row: &Row<MemorySignal, MemoryShare>| row.signal.map_or(0, |s| s.expected_hits);
        for (member, row) in self.members.iter_mut().zip(rows) {
            member.unread += row.signal.map_or(0, |signal| signal.hits) as f64;
        }
        if rows.iter().all(|row| expected(row) == 0) {
            return;
        }
        let heard: f64 = self.members.iter().map(|member| member.unread).sum();
        let kept = (-heard / (HITS_HALF_LIFE * self.members.len() as f64)).exp2();
        for (member, row) in self.members.iter_mut().zip(rows) {
            member.hits = member.hits * kept + std::mem::take(&mut member.unread);
            member.expected = member.expected * kept + expected(row) as f64 / 1e3;
        }
    }

    /// Octaves of the mean weight in a group; none elsewhere, where all are compared with each other only.
    fn weight_of_all(&self, rows: &[Row<MemorySignal, MemoryShare>]) -> f64 {
        if !self.in_group || rows.is_empty() {
            return 0.0;
        }
        let sum: f64 = rows.iter().map(|row| row.claim.weight.get()).sum();
        (sum / rows.len() as f64).log2().clamp(-WEIGHT_OCTAVES, WEIGHT_OCTAVES)
    }

    /// Octaves by which shadow hits raise a whole group, in which nobody is raised above it; none elsewhere.
    fn more_of_all(&self) -> f64 {
        let raised = self.members.iter().filter(|_| self.in_group);
        raised.map(|member| member.more).fold(0.0, f64::max)
    }

    /// Hits per hit expected, of all together who compete.
    fn yield_of_all(&self) -> f64 {
        let members = self.members.iter().filter(|member| competes(&self.by_weight, member.id));
        let (hits, expected) = members
            .fold((0.0, 0.0), |(hits, expected), member| (hits + member.hits, expected + member.expected));
        if expected == 0.0 { 0.0 } else { hits / expected }
    }

    /// Targets say what is so: the floor, and of the rest its part by what it holds beyond; by weight while nobody holds anything. Who
    /// competes with nobody has its part of the rest by weight, the others theirs together.
    fn follow(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        static_shares(seen, &mut self.weights, &mut self.parts);
        let floors = seen.floors();
        let by_weight = &self.by_weight;
        self.targets.clear();
        let mut pooled = Bytes::ZERO;
        for ((row, weight), &part) in seen.tenants.iter().zip(&mut self.weights).zip(&self.parts) {
            let floor = floors.kept(row.claim.floor).bytes;
            if competes(by_weight, row.id) {
                pooled += part - floor;
                self.targets.push(floor);
            } else {
                *weight = 0.0;
                self.targets.push(part);
            }
        }
        let beyond = |(row, &floor): (&Row<MemorySignal, MemoryShare>, &Bytes)| {
            let signal = row.signal.filter(|_| competes(by_weight, row.id));
            signal.map_or(Bytes::ZERO, |signal| signal.held.saturating_sub(floor))
        };
        let beyond = seen.tenants.iter().zip(&self.targets).map(beyond);
        if beyond.clone().any(|bytes| Bytes::ZERO < bytes) {
            self.weights.clear();
            self.weights.extend(beyond.map(|bytes| bytes.0 as f64));
        }
        add_by_weight(pooled, &self.weights, &mut self.targets);
    }
}

impl Member {
    /// Octaves by which it is hit more than others whose items rank alike.
    fn yields(&self, of_all: f64) -> f64 {
        let ratio = (self.hits + HITS_TO_BELIEVE) / (self.expected * of_all + HITS_TO_BELIEVE);
        ratio.log2().clamp(-YIELD_LESS_MAX, YIELD_MORE_MAX)
    }

    /// Notes what has become of it since notes last said so, if that is worth saying.
    fn tell(&mut self, (target, worth): (Bytes, i16), least: Bytes, notes: &mut Vec<Note>) {
        let Some((told_target, told_worth)) = &mut self.noted else {
            notes.push(note(self.id, Reason::Joined, signed(target)));
            self.noted = Some((target, worth));
            return;
        };
        let change = signed(target) - signed(*told_target);
        if signed(least) < change.abs() {
            notes.push(note(self.id, Reason::Resized, change));
            *told_target = target;
        }
        if NOTED_EIGHTHS <= (worth - *told_worth).abs() {
            notes.push(note(self.id, Reason::Revalued, i64::from(worth - *told_worth)));
            *told_worth = worth;
        }
    }
}

fn competes(by_weight: &[TenantId], id: TenantId) -> bool {
    by_weight.binary_search(&id).is_err()
}

/// A weight as octaves of worth: who weighs twice as much keeps what is worth half as much.
fn octaves_of(row: &Row<MemorySignal, MemoryShare>) -> f64 {
    row.claim.weight.get().log2().clamp(-WEIGHT_OCTAVES, WEIGHT_OCTAVES)
}

/// Octaves as a share has them.
fn worth_of(octaves: f64) -> Worth {
    #[expect(clippy::cast_possible_truncation, reason = "at most ten octaves either way; saturates")]
    let more = (octaves * 8.0).round() as i16;
    Worth { more, within_group: false }
}

impl Policy for Pooled {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        "pooled"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        self.settle(seen.tenants);
        self.learn(seen);
        self.compare(seen.tenants);
        self.follow(seen);
        let of_all = self.yield_of_all();
        let common = self.weight_of_all(seen.tenants) + self.more_of_all();
        let least = Bytes(seen.pool.capacity.bytes.0 / NOTED_PART);
        let (notes, by_weight) = (&mut self.notes, &self.by_weight);
        let rows = self.members.iter_mut().zip(seen.tenants).zip(&self.targets);
        let rows = rows.map(|((member, row), &target)| {
            let octaves = member.more + member.yields(of_all) + octaves_of(row) - common;
            let worth = competes(by_weight, member.id).then(|| worth_of(octaves));
            member.tell((target, worth.map_or(0, |worth| worth.more)), least, notes);
            (member.id, MemoryShare { worth, ..MemoryShare::of(target) })
        });
        self.shares.rebuild(Law::Partition, seen, rows);
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim, Pool, Weight, Window};

    /// Floor and held bytes in MiB, shadow hits, weight.
    fn row(id: u32, (floor, held, hits): (u64, u64, u64), weight: f64) -> Row<MemorySignal, MemoryShare> {
        let claim = Claim {
            floor: Amount::memory(Bytes::mib(floor)),
            weight: Weight::new(weight).unwrap(),
            ..Claim::default()
        };
        let signal = MemorySignal { held: Bytes::mib(held), shadow_hits: hits, ..MemorySignal::default() };
        Row { id: TenantId(id), claim, signal: Some(signal), in_force: None }
    }

    fn decide(policy: &mut Pooled, rows: &[Row<MemorySignal, MemoryShare>]) -> Vec<(u64, i16)> {
        let pool = Pool { capacity: Amount::memory(Bytes::mib(100)), ..Pool::default() };
        let window = Window { end: Instant(1_000_000_000), ..Window::default() };
        let seen = Seen::new(window, &pool, rows).unwrap();
        let decision = policy.decide(Instant::ZERO, &seen);
        let rows = decision.shares.rows().iter();
        rows.map(|(_, share)| (share.target.0 >> 20, share.worth.unwrap().more)).collect()
    }

    #[test]
    fn targets_follow_what_is_held_and_keep_floors() {
        let mut policy = Pooled::new(Bytes::kib(64));
        let all = decide(&mut policy, &[row(1, (10, 0, 0), 1.0), row(2, (0, 0, 0), 2.0)]);
        assert_eq!(all, [(40, 0), (60, 8)], "by weight while nothing is held");
        let all = decide(&mut policy, &[row(1, (10, 5, 0), 1.0), row(2, (0, 30, 0), 2.0)]);
        assert_eq!(all, [(10, 0), (90, 8)]);
        let all = decide(&mut policy, &[row(1, (10, 40, 0), 1.0), row(2, (0, 60, 0), 2.0)]);
        assert_eq!(all, [(40, 0), (60, 8)]);
    }

    /// 16 hits of 64 KiB are a hundredth of 100 MiB, half an octave; the mean of both takes half of it back.
    #[test]
    fn a_shadow_hit_moves_worth_from_all_to_one() {
        let mut policy = Pooled::new(Bytes::kib(64));
        let both = |hits| [row(1, (0, 50, hits), 1.0), row(2, (0, 50, 0), 1.0)];
        assert_eq!(decide(&mut policy, &both(16)), [(50, 2), (50, 0)]);
        assert_eq!(decide(&mut policy, &both(0)), [(50, 2), (50, 0)], "who is not hit keeps what it has");
        assert_eq!(decide(&mut policy, &both(10_000)), [(50, 16), (50, 0)], "at most two octaves");
        let mut other = both(0);
        other[1].signal.as_mut().unwrap().shadow_hits = 16;
        assert_eq!(decide(&mut policy, &other), [(50, 14), (50, 2)]);
        assert_eq!(decide(&mut policy, &other[..1]), [(100, 14)], "who is alone has nobody to take from");
    }

    #[test]
    fn credits_of_its_own_make_a_tenant_learn_faster() {
        let mut policy = Pooled::new(Bytes::kib(64));
        let mut both = [row(1, (0, 50, 16), 1.0), row(2, (0, 50, 16), 1.0)];
        both[0].claim.credit = Some(Bytes::kib(192));
        assert_eq!(decide(&mut policy, &both), [(50, 4), (50, 0)]);
    }

    #[test]
    fn who_is_hit_less_than_expected_is_worth_less() {
        let mut policy = Pooled::new(Bytes::kib(64));
        let both = |hits: [u64; 2], expected: [u64; 2]| {
            [1_usize, 2].map(|n| {
                let mut row = row(u32::try_from(n).unwrap(), (0, 50, 0), 1.0);
                let signal = row.signal.as_mut().unwrap();
                (signal.hits, signal.expected_hits) = (hits[n - 1], expected[n - 1] * 1_000);
                row
            })
        };
        let more = |policy: &mut Pooled, rows: [Row<MemorySignal, MemoryShare>; 2]| {
            decide(policy, &rows).iter().map(|(_, more)| *more).collect::<Vec<_>>()
        };
        assert_eq!(more(&mut policy, both([400, 100], [400, 100])), [0, 0]);
        assert_eq!(more(&mut policy, both([100, 400], [0, 0])), [0, 0], "nothing was looked at meanwhile");
        let worth = more(&mut policy, both([100_000, 0], [20_000, 80_000]));
        assert_eq!(worth[0], 8, "an octave at most");
        assert!(worth[1] <= -40, "{worth:?}");
        for _ in 0..10 {
            more(&mut policy, both([2_000, 2_000], [1_000, 1_000]));
        }
        assert!(
            more(&mut policy, both([0, 0], [0, 0])).iter().all(|more| more.abs() <= 2),
            "it is forgotten"
        );
        let few = more(&mut Pooled::new(Bytes::kib(64)), both([1_000, 0], [1_000, 5]));
        assert!(few.iter().all(|more| more.abs() <= 2), "of few hits little is known: {few:?}");
    }

    #[test]
    fn notes_say_who_came_and_went_and_what_changed_much() {
        let mut policy = Pooled::new(Bytes::kib(64));
        let pool = Pool { capacity: Amount::memory(Bytes::mib(100)), ..Pool::default() };
        let mut notes = |rows: &[Row<MemorySignal, MemoryShare>]| {
            let window = Window { end: Instant(1_000_000_000), ..Window::default() };
            let seen = Seen::new(window, &pool, rows).unwrap();
            let notes = policy.decide(Instant::ZERO, &seen).notes;
            notes.iter().map(|n| (n.tenant.unwrap().0, n.reason.word(), n.amount)).collect::<Vec<_>>()
        };
        let both = |held: u64, hits| [row(1, (0, held, hits), 1.0), row(2, (0, 100 - held, 0), 1.0)];
        assert_eq!(notes(&both(50, 0)), [(1, "joined", 50 << 20), (2, "joined", 50 << 20)]);
        assert_eq!(notes(&both(51, 0)), [], "a hundredth of the memory");
        assert_eq!(notes(&both(52, 0)), [(1, "resized", 2 << 20), (2, "resized", -2 << 20)], "in two steps");
        assert_eq!(notes(&both(52, 16)), [], "a quarter of an octave");
        assert_eq!(notes(&both(52, 16)), [(1, "revalued", 4)]);
        assert_eq!(notes(&both(52, 0)[..1]), [(2, "left", -(48 << 20)), (1, "resized", 48 << 20)]);
    }

    #[test]
    fn what_is_in_force_is_taken_over() {
        let mut rows = [row(1, (0, 50, 0), 2.0), row(2, (0, 50, 0), 1.0)];
        let worth = Some(Worth { more: 18, within_group: true });
        rows[0].in_force = Some(MemoryShare { worth, ..MemoryShare::of(Bytes::mib(50)) });
        assert_eq!(decide(&mut Pooled::new(Bytes::kib(64)), &rows), [(50, 18), (50, 0)]);
    }
}
