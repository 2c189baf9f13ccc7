//! Shared memory with private floors: a shadow hit moves a credit from a random donor to the tenant that missed.
//!
//! Shape:      signals (shadow hits per tenant) -> credits moved -> targets
//! Invariants: targets sum to the pool; target = floor + shared with shared ≥ 0, for everybody and always
//! Cost:       O(tenants) per batch of shadow hits of one tenant, no allocation once the tenants are steady
//! Source:     Memshare §4.1, Algorithm 2. We differ: a tenant never donates to itself; without a donor nothing is
//!             given (as printed, the credit would come from nowhere); hits arrive as counts and are drawn together.
//!
//! | Paper | here |
//! |---|---|
//! | privateMem | `floor` |
//! | sharedMem | `shared` |
//! | targetMem | `floor + shared` |
//! | credit | `credit`, per tenant (§4.1, priorities) |

use super::split::add_by_weight;
use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, Law, Note, Policy, Reason, Seen, Shares};
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Decide again after so long, or sooner when the loop has seen enough shadow hits.
const PERIOD: Duration = Duration::from_secs(1);
/// Without a loop the targets stay as they are: they are safe, only no longer the best.
const LEASE: Duration = Duration::from_secs(3_600);
/// Up to so many credits are drawn one by one; more are drawn together, donor by donor.
const DRAWN_SINGLY_MAX: u64 = 32;

/// The policy `shared`.
#[derive(Debug)]
pub struct Shared {
    credit: Bytes,
    rng: Rng,
    members: Vec<Member>,
    joined: Vec<Member>,
    weights: Vec<f64>,
    parts: Vec<Bytes>,
    shares: Shares<MemoryShare>,
    notes: Vec<Note>,
    capacity: Bytes,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Member {
    id: TenantId,
    floor: Bytes,
    shared: Bytes,
    new: bool,
}

impl Shared {
    /// The policy with `credit` bytes per shadow hit for tenants that claim no size of their own.
    #[must_use]
    pub fn new(credit: Bytes, seed: u64) -> Self {
        Self {
            credit,
            rng: Rng::new(seed),
            members: Vec::new(),
            joined: Vec::new(),
            weights: Vec::new(),
            parts: Vec::new(),
            shares: Shares::default(),
            notes: Vec::new(),
            capacity: Bytes::ZERO,
        }
    }

    /// Takes over who is there, their floors and the capacity. Who joins gets its weighted part of the unreserved
    /// memory, taken from the others in proportion to what they have of it; who leaves gives back the same way.
    fn settle(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        let unchanged = self.capacity == seen.pool.capacity.bytes
            && self.members.len() == seen.tenants.len()
            && self
                .members
                .iter()
                .zip(seen.tenants)
                .all(|(m, row)| m.id == row.id && m.floor == seen.kept_floor(row).bytes);
        if unchanged {
            return;
        }
        self.note_departures(seen);
        self.capacity = seen.pool.capacity.bytes;
        std::mem::swap(&mut self.members, &mut self.joined);
        self.members.clear();
        for row in seen.tenants {
            let before = self.joined.binary_search_by_key(&row.id, |m| m.id).ok().map(|i| self.joined[i]);
            let floor = seen.kept_floor(row).bytes;
            let shared = before.map_or(Bytes::ZERO, |m| m.shared);
            self.members.push(Member { id: row.id, floor, shared, new: before.is_none() });
        }
        let reserved: Bytes = self.members.iter().map(|m| m.floor).sum();
        let unreserved = self.capacity.saturating_sub(reserved);
        let weight_total: f64 = seen.tenants.iter().map(|row| row.claim.weight.get()).sum();
        let mut given = Bytes::ZERO;
        for (member, row) in self.members.iter_mut().zip(seen.tenants).filter(|(m, _)| m.new) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part in 0..=1 of a size"
            )]
            let part = (unreserved.0 as f64 * (row.claim.weight.get() / weight_total)) as u64;
            member.shared = Bytes(part.min((unreserved - given).0));
            given += member.shared;
            self.notes.push(note(member.id, Reason::Joined, signed(member.floor + member.shared)));
        }
        self.rescale(unreserved - given);
    }

    /// Scales the shared memory of those who were there before to `total`; with none of them, or none of theirs
    /// left, everybody gets an equal part of it.
    fn rescale(&mut self, total: Bytes) {
        let stayed: Bytes = self.members.iter().filter(|m| !m.new).map(|m| m.shared).sum();
        self.weights.clear();
        self.weights.extend(self.members.iter().map(|m| match (stayed, m.new) {
            (Bytes::ZERO, _) => 1.0,
            (_, true) => 0.0,
            (_, false) => m.shared.0 as f64,
        }));
        self.parts.clear();
        self.parts.extend(self.members.iter().map(|m| if m.new { m.shared } else { Bytes::ZERO }));
        add_by_weight(total, &self.weights, &mut self.parts);
        for (member, &part) in self.members.iter_mut().zip(&self.parts) {
            if !member.new && member.shared != part {
                self.notes.push(note(member.id, Reason::Resized, signed(part) - signed(member.shared)));
            }
            member.shared = part;
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
        let mut left = hits;
        while 0 < left {
            let donors = self.donors(to, credit);
            if donors == 0 {
                self.notes.push(note(self.members[to].id, Reason::NoDonor, signed(credit)));
                break;
            }
            if left <= DRAWN_SINGLY_MAX {
                let pick = self.rng.index(donors);
                self.take(to, pick, credit);
                left -= 1;
            } else {
                left -= self.take_together(to, left, donors, credit);
            }
        }
        let moved = (hits - left) * credit.0;
        if 0 < moved {
            self.members[to].shared.0 += moved;
            self.notes.push(note(self.members[to].id, Reason::Credit, signed(Bytes(moved))));
        }
    }

    fn donors(&self, to: usize, credit: Bytes) -> usize {
        self.members.iter().enumerate().filter(|(i, m)| *i != to && credit <= m.shared).count()
    }

    /// Takes one credit from the `pick`th donor.
    fn take(&mut self, to: usize, pick: usize, credit: Bytes) {
        let mut donors = self.members.iter_mut().enumerate().filter(|(i, m)| *i != to && credit <= m.shared);
        if let Some((_, donor)) = donors.nth(pick) {
            donor.shared -= credit;
            let id = donor.id;
            drop(donors);
            self.note_donor(id, signed(credit));
        }
    }

    /// Draws `wanted` credits over `donors` donors at once (a multinomial, donor by donor) and returns how many were
    /// found: at least one.
    fn take_together(&mut self, to: usize, wanted: u64, donors: usize, credit: Bytes) -> u64 {
        let mut undrawn = wanted;
        let mut chances = donors as u64;
        let mut found = 0;
        for i in 0..self.members.len() {
            if i == to || self.members[i].shared < credit {
                continue;
            }
            let drawn = match chances {
                0 | 1 => undrawn,
                n => self.rng.binomial(undrawn, 1.0 / n as f64),
            };
            chances = chances.saturating_sub(1);
            undrawn -= drawn;
            let give = drawn.min(self.members[i].shared.count_of(credit));
            self.members[i].shared.0 -= give * credit.0;
            found += give;
            if 0 < give {
                self.note_donor(self.members[i].id, signed(Bytes(give * credit.0)));
            }
        }
        found
    }

    /// Notes a donation; several of one donor in one decision are one note.
    fn note_donor(&mut self, id: TenantId, amount: i64) {
        let known = self.notes.iter_mut().find(|n| n.tenant == Some(id) && n.reason == Reason::Donor);
        match known {
            Some(known) => known.amount -= amount,
            None => self.notes.push(note(id, Reason::Donor, -amount)),
        }
    }
}

fn note(id: TenantId, reason: Reason, amount: i64) -> Note {
    Note { tenant: Some(id), reason, amount }
}

fn signed(bytes: Bytes) -> i64 {
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
        // A random first tenant: whoever comes first in a batch finds more donors.
        let first = self.rng.index(count.max(1));
        for i in (first..count).chain(0..first) {
            let row = &seen.tenants[i];
            let hits = row.signal.map_or(0, |s| s.shadow_hits);
            let credit = row.claim.credit.unwrap_or(self.credit);
            if 0 < hits && Bytes::ZERO < credit {
                self.move_credits(i, hits, credit);
            }
        }
        let rows = self.members.iter();
        let rows = rows.map(|m| (m.id, MemoryShare { target: m.floor + m.shared, ceiling: None }));
        self.shares.rebuild(Law::Partition, seen, rows);
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}
