//! Shared memory with private floors: a shadow hit moves a credit from a random donor to the tenant that missed.
//!
//! Shape:      signals (shadow hits per tenant) -> credits moved -> targets
//! Invariants: targets sum to the pool; target = floor + shared with shared ≥ 0, for everybody and always
//! Cost:       O(1) per shadow hit, at most O(tenants) per tenant that hits; no allocation once the tenants are steady
//! Source:     Memshare §4.1, Algorithm 2. We differ: a tenant never donates to itself; without a donor nothing is
//!             given (as printed, the credit would come from nowhere); hits arrive as counts and are drawn together.
//!
//! | Paper | here |
//! |---|---|
//! | privateMem | `floor` |
//! | sharedMem | `shared` |
//! | targetMem | `floor + shared` |
//! | credit | `credit`, per tenant (§4.1, priorities) |

use super::Credit;
use super::split::add_by_weight;
use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, Law, Note, Policy, Reason, Seen, Shares};
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Decide again after so long, or sooner when the loop has seen enough shadow hits.
const PERIOD: Duration = Duration::from_secs(1);
/// Without a loop the targets stay as they are: they are safe, only no longer the best.
const LEASE: Duration = Duration::from_secs(3_600);
/// So many credits of one tenant, or as many as there are tenants, are drawn one by one; more are drawn together, donor by
/// donor, which costs as much as there are tenants.
const DRAWN_SINGLY_MIN: usize = 32;
/// Members drawn in search of a donor before the donors are counted and give all that is left to find together (with half of the
/// members able to give, one search in 256 ends so).
const DRAWS_PER_DONOR: u32 = 8;

/// The policy `shared`.
#[derive(Debug)]
pub struct Shared {
    credit: Credit,
    rng: Rng,
    members: Vec<Member>,
    joined: Vec<Member>,
    weights: Vec<f64>,
    parts: Vec<Bytes>,
    shares: Shares<MemoryShare>,
    notes: Vec<Note>,
    capacity: Bytes,
    /// It divides inside a group, which may be any part of the memory that the credit fits.
    in_group: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Member {
    id: TenantId,
    floor: Bytes,
    shared: Bytes,
    /// Its target when tenants, floors or the capacity last changed; none for who came with that.
    before: Option<Bytes>,
    /// Donated in this decision.
    given: Bytes,
}

impl Member {
    fn is_new(&self) -> bool {
        self.before.is_none()
    }
}

impl Shared {
    /// The policy with `credit` per shadow hit.
    #[must_use]
    pub fn new(credit: impl Into<Credit>, seed: u64) -> Self {
        Self {
            credit: credit.into(),
            rng: Rng::new(seed),
            members: Vec::new(),
            joined: Vec::new(),
            weights: Vec::new(),
            parts: Vec::new(),
            shares: Shares::default(),
            notes: Vec::new(),
            capacity: Bytes::ZERO,
            in_group: false,
        }
    }

    /// Another credit from the next decision on.
    pub(super) fn retell(&mut self, credit: Credit) {
        self.credit = credit;
    }

    /// The same among the members of a group: its credit is what fits the group's memory.
    pub(super) fn in_group(self) -> Self {
        Self { in_group: true, ..self }
    }

    /// Knows nobody any more: the next decision is a first one.
    pub(super) fn forget(&mut self) {
        self.members.clear();
    }

    /// Takes over who is there, their floors and the capacity. Who joins gets its weighted part of the unreserved
    /// memory, taken from the others in proportion to what they have of it; who leaves gives back the same way. The first
    /// decision takes shares that are in force over, so that nothing jumps where another policy decided before.
    fn settle(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        let floors = seen.floors();
        let unchanged = self.capacity == seen.pool.capacity.bytes
            && self.members.len() == seen.tenants.len()
            && self
                .members
                .iter()
                .zip(seen.tenants)
                .all(|(m, row)| m.id == row.id && m.floor == floors.kept(row.claim.floor).bytes);
        if unchanged {
            return;
        }
        self.note_departures(seen);
        let is_first = self.members.is_empty();
        self.capacity = seen.pool.capacity.bytes;
        std::mem::swap(&mut self.members, &mut self.joined);
        self.members.clear();
        for row in seen.tenants {
            let known = self.joined.binary_search_by_key(&row.id, |m| m.id).ok().map(|i| self.joined[i]);
            let floor = floors.kept(row.claim.floor).bytes;
            let taken_over = row.in_force.filter(|_| is_first).map(|share| share.target);
            let before = known.map(|m| m.floor + m.shared).or(taken_over);
            let shared = known.map(|m| m.shared).or(taken_over.map(|target| target.saturating_sub(floor)));
            let shared = shared.unwrap_or(Bytes::ZERO);
            self.members.push(Member { id: row.id, floor, shared, before, given: Bytes::ZERO });
        }
        let reserved: Bytes = self.members.iter().map(|m| m.floor).sum();
        let unreserved = self.capacity.saturating_sub(reserved);
        let weight_total: f64 = seen.tenants.iter().map(|row| row.claim.weight.get()).sum();
        let mut given = Bytes::ZERO;
        for (member, row) in self.members.iter_mut().zip(seen.tenants).filter(|(m, _)| m.is_new()) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part in 0..=1 of a size"
            )]
            let part = (unreserved.0 as f64 * (row.claim.weight.get() / weight_total)) as u64;
            member.shared = Bytes(part.min((unreserved - given).0));
            given += member.shared;
        }
        self.rescale(unreserved - given);
    }

    /// Scales the shared memory of those who were there before to `total`; with none of them, or none of theirs
    /// left, everybody gets an equal part of it. Notes what that makes of each target.
    fn rescale(&mut self, total: Bytes) {
        let stayed: Bytes = self.members.iter().filter(|m| !m.is_new()).map(|m| m.shared).sum();
        self.weights.clear();
        self.weights.extend(self.members.iter().map(|m| match (stayed, m.is_new()) {
            (Bytes::ZERO, _) => 1.0,
            (_, true) => 0.0,
            (_, false) => m.shared.0 as f64,
        }));
        self.parts.clear();
        self.parts.extend(self.members.iter().map(|m| if m.is_new() { m.shared } else { Bytes::ZERO }));
        add_by_weight(total, &self.weights, &mut self.parts);
        for (member, &part) in self.members.iter_mut().zip(&self.parts) {
            member.shared = part;
            let target = member.floor + part;
            match member.before {
                Some(before) if before == target => {}
                Some(before) => {
                    self.notes.push(note(member.id, Reason::Resized, signed(target) - signed(before)));
                }
                None => self.notes.push(note(member.id, Reason::Joined, signed(target))),
            }
        }
    }

    fn note_departures(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        for member in &self.members {
            if seen.tenants.binary_search_by_key(&member.id, |row| row.id).is_err() {
                let amount = -signed(member.floor + member.shared);
                self.notes.push(note(member.id, Reason::Left, amount));
            }
        }
    }

    /// Moves up to `hits` credits of `credit` bytes to member `to`, each from a donor drawn uniformly among those
    /// who can give one.
    fn move_credits(&mut self, to: usize, hits: u64, credit: Bytes) {
        let singly = self.members.len().max(DRAWN_SINGLY_MIN) as u64;
        let mut left = hits;
        while 0 < left {
            let drawn = if left <= singly { self.draw_donor(to, credit) } else { None };
            let found = match drawn {
                Some(donor) => self.take(donor, 1, credit),
                None => self.take_together(to, left, credit),
            };
            if found == 0 {
                self.notes.push(note(self.members[to].id, Reason::NoDonor, signed(credit)));
                break;
            }
            left -= found;
        }
        let moved = (hits - left) * credit.0;
        if 0 < moved {
            self.members[to].shared.0 += moved;
            self.notes.push(note(self.members[to].id, Reason::Credit, signed(Bytes(moved))));
        }
    }

    fn can_give(&self, member: usize, to: usize, credit: Bytes) -> bool {
        member != to && credit <= self.members[member].shared
    }

    fn donors(&self, to: usize, credit: Bytes) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(move |i| self.can_give(*i, to, credit))
    }

    /// A member who can give, every one alike: any member, drawn again if it cannot; none after some draws.
    fn draw_donor(&mut self, to: usize, credit: Bytes) -> Option<usize> {
        for _ in 0..DRAWS_PER_DONOR {
            let drawn = self.rng.index(self.members.len());
            if self.can_give(drawn, to, credit) {
                return Some(drawn);
            }
        }
        None
    }

    /// Takes up to `wanted` credits from a member and returns how many it had.
    fn take(&mut self, donor: usize, wanted: u64, credit: Bytes) -> u64 {
        let donor = &mut self.members[donor];
        let give = wanted.min(donor.shared.count_of(credit));
        donor.shared.0 -= give * credit.0;
        donor.given.0 += give * credit.0;
        give
    }

    /// Draws `wanted` credits over all donors at once (a multinomial, donor by donor) and returns how many were found:
    /// at least one if there is a donor.
    fn take_together(&mut self, to: usize, wanted: u64, credit: Bytes) -> u64 {
        let mut chances = self.donors(to, credit).count() as u64;
        let mut undrawn = wanted;
        let mut found = 0;
        for i in 0..self.members.len() {
            if !self.can_give(i, to, credit) {
                continue;
            }
            let drawn = match chances {
                0 | 1 => undrawn,
                n => self.rng.binomial(undrawn, 1.0 / n as f64),
            };
            chances = chances.saturating_sub(1);
            undrawn -= drawn;
            found += self.take(i, drawn, credit);
        }
        found
    }

    /// Notes what each donor gave in this decision, and starts anew.
    fn note_donors(&mut self) {
        for member in self.members.iter_mut().filter(|m| Bytes::ZERO < m.given) {
            self.notes.push(note(member.id, Reason::Donor, -signed(member.given)));
            member.given = Bytes::ZERO;
        }
    }
}

pub(super) fn note(id: TenantId, reason: Reason, amount: i64) -> Note {
    Note { tenant: Some(id), reason, amount }
}

pub(super) fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX)
}

impl Policy for Shared {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        "shared"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        self.notes.clear();
        self.settle(seen);
        let count = self.members.len();
        let credits = if self.in_group { self.credit.within(self.capacity) } else { self.credit };
        // A random first tenant: whoever comes first in a batch finds more donors.
        let first = self.rng.index(count.max(1));
        for i in (first..count).chain(0..first) {
            let row = &seen.tenants[i];
            let hits = row.signal.map_or(0, |s| s.shadow_hits);
            let credit = credits.of(row.claim.credit);
            if 0 < hits && Bytes::ZERO < credit {
                self.move_credits(i, hits, credit);
            }
        }
        self.note_donors();
        let rows = self.members.iter();
        let rows = rows.map(|m| (m.id, MemoryShare::of(m.floor + m.shared)));
        self.shares.rebuild(Law::Partition, seen, rows);
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim, Pool, Row, Window};

    /// Of a thousand tenants one has something to give. A walk over all follows some draws that find nobody: of a thousand hits by
    /// one tenant few draws are made, and so fewer walks.
    #[test]
    fn who_can_give_is_looked_for_once_for_all_hits_of_a_tenant() {
        let row = |id| Row {
            id: TenantId(id),
            claim: Claim { credit: Some(Bytes(1)), ..Claim::default() },
            signal: Some(MemorySignal {
                shadow_hits: if id == 1 { 1_000 } else { 0 },
                ..MemorySignal::default()
            }),
            in_force: Some(MemoryShare::of(Bytes(if id == 7 { 1_000_000 } else { 0 }))),
        };
        let rows: Vec<_> = (0..1_000).map(row).collect();
        let pool = Pool { capacity: Amount::memory(Bytes(1_000_000)), ..Pool::default() };
        let mut policy = Shared::new(Bytes(1), 1);
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let target = policy.decide(Instant::ZERO, &seen).shares.get(TenantId(1)).map(|share| share.target);
        assert_eq!(target, Some(Bytes(1_000)));
        let (next, mut draws) = (policy.rng.next_u64(), Rng::new(1));
        assert!((0..64).any(|_| draws.next_u64() == next), "one search draws {DRAWS_PER_DONOR} times");
    }
}
