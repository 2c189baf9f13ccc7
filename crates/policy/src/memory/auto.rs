//! First `shared`, to learn what each tenant makes use of; then the idle tax on what was learnt.
//!
//! Shape:      learning: the decisions of `shared`, and each tenant's mean shared memory over time -> taxing: that mean is
//!             its private memory, of which the tax takes the idle part
//! Invariants: private memory sums to the pool at every decision, nobody's is below its floor; while learning, targets sum
//!             to the pool; while taxing, to at most the pool
//! Source:     Memshare §4.3. We differ: floors hold in both parts; the part of a tenant that leaves, and a change of
//!             capacity, are shared out in proportion to what was learnt; who joins while the tax runs starts the
//!             learning anew for all, from what is in force, since nobody knows yet what it needs and from whom to take it
//! Non-goals:  learning again by itself when demand changes: the tax follows by what is idle, and an operator by a restart

use super::credit::Credit;
use super::idle_tax::{Tax, tax_all, taxed};
use super::memshare::{Shared, note, signed};
use super::split::add_by_weight;
use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, Note, Policy, Reason, Seen, Shares};
use units::{Bytes, Duration, Instant, TenantId};

/// Time that the shared policy runs before its mean targets become private memory (§4.3: several hours).
pub const LEARNING: Duration = Duration::from_secs(3 * 3_600);

/// The policy `auto`.
#[derive(Debug)]
pub struct Auto {
    shared: Shared,
    tax: Tax,
    /// Groups that tax their members themselves, sorted.
    spared: Vec<TenantId>,
    learning: Duration,
    phase: Phase,
    learnt: Vec<Learnt>,
    weights: Vec<f64>,
    private: Vec<Bytes>,
    shares: Shares<MemoryShare>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nobody was seen yet, or somebody new.
    Begin,
    Learning {
        since: Instant,
    },
    Taxing,
}

/// What is known of one tenant.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Learnt {
    id: TenantId,
    /// Its shared memory by the last decision.
    shared: Bytes,
    /// Shared memory over time, byte seconds.
    sum: f64,
    /// The time, seconds.
    secs: f64,
}

impl Auto {
    /// The policy: `shared` for at least `learning`, then a `tax` on the means of its targets.
    #[must_use]
    pub fn new(shared: Shared, tax: Tax, learning: Duration) -> Self {
        Self {
            shared,
            tax,
            spared: Vec::new(),
            learning,
            phase: Phase::Begin,
            learnt: Vec::new(),
            weights: Vec::new(),
            private: Vec::new(),
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// The same among the members of a group.
    pub(super) fn in_group(self) -> Self {
        Self { shared: self.shared.in_group(), ..self }
    }

    /// The same where these are not taxed: groups whose own policy takes what their members leave idle.
    #[must_use]
    pub fn sparing(self, spared: Vec<TenantId>) -> Self {
        Self { spared, ..self }
    }

    /// Other options from the next decision on. A tax that runs goes on: what was learnt is not learnt again.
    pub(super) fn retell(&mut self, credit: Credit, tax: Tax, learning: Duration) {
        self.shared.retell(credit);
        (self.tax, self.learning) = (tax, learning);
    }

    /// Whether the tax runs.
    #[must_use]
    pub fn is_taxing(&self) -> bool {
        self.phase == Phase::Taxing
    }

    /// Accounts for the time since the last decision, and for who has come and gone.
    fn look_back(&mut self, now: Instant, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        let is_known = |id| self.learnt.binary_search_by_key(&id, |l| l.id).is_ok();
        if !seen.tenants.iter().all(|row| is_known(row.id)) && self.is_taxing() {
            // What was shared out when the tax began is no more: learning goes on from what is in force.
            self.shared.forget();
            self.phase = Phase::Begin;
        }
        self.learnt.retain(|l| seen.tenants.binary_search_by_key(&l.id, |row| row.id).is_ok());
        match self.phase {
            Phase::Begin => {
                self.learnt.clear();
                self.phase = Phase::Learning { since: now };
            }
            Phase::Learning { .. } => {
                let secs = seen.window.length().as_secs_f64();
                for learnt in &mut self.learnt {
                    learnt.sum += learnt.shared.0 as f64 * secs;
                    learnt.secs += secs;
                }
            }
            Phase::Taxing => {}
        }
    }

    /// Remembers what `shared` has just decided; the rows of both are sorted by tenant.
    fn remember(
        learnt: &mut Vec<Learnt>,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
        shares: &Shares<MemoryShare>,
    ) {
        let floors = seen.floors();
        for (i, (row, (id, share))) in seen.tenants.iter().zip(shares.rows()).enumerate() {
            if learnt.get(i).is_none_or(|l| l.id != *id) {
                learnt.insert(i, Learnt { id: *id, shared: Bytes::ZERO, sum: 0.0, secs: 0.0 });
            }
            learnt[i].shared = share.target.saturating_sub(floors.kept(row.claim.floor).bytes);
        }
    }

    /// Divides the pool: to each its floor, and of the rest its part by what was learnt.
    fn divide(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        let floors = seen.floors();
        self.private.clear();
        self.private.extend(seen.tenants.iter().map(|row| floors.kept(row.claim.floor).bytes));
        let reserved: Bytes = self.private.iter().copied().sum();
        self.weights.clear();
        let mean = |l: &Learnt| if 0.0 < l.secs { l.sum / l.secs } else { l.shared.0 as f64 };
        self.weights.extend(self.learnt.iter().map(mean));
        let rest = seen.pool.capacity.bytes.saturating_sub(reserved);
        add_by_weight(rest, &self.weights, &mut self.private);
    }

    /// Says what the tax makes of what `shared` has decided last, once.
    fn note_switch(&mut self, seen: &Seen<'_, MemorySignal, MemoryShare>) {
        let floors = seen.floors();
        for ((row, learnt), (_, share)) in seen.tenants.iter().zip(&self.learnt).zip(self.shares.rows()) {
            let before = floors.kept(row.claim.floor).bytes + learnt.shared;
            self.notes.push(note(row.id, Reason::Resized, signed(share.target) - signed(before)));
        }
    }
}

impl Policy for Auto {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        "auto"
    }

    fn decide(
        &mut self,
        now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        self.notes.clear();
        self.look_back(now, seen);
        let begins = match self.phase {
            Phase::Learning { since } if now.since(since) < self.learning || seen.tenants.is_empty() => {
                if seen.tenants.is_empty() {
                    // Time in which nobody is there teaches nothing.
                    self.phase = Phase::Begin;
                }
                let decision = self.shared.decide(now, seen);
                Self::remember(&mut self.learnt, seen, decision.shares);
                return decision;
            }
            Phase::Learning { .. } => {
                // Whoever came with this decision has learnt nothing yet: one more by `shared` gives it a share.
                let decision = self.shared.decide(now, seen);
                self.notes.extend_from_slice(decision.notes);
                Self::remember(&mut self.learnt, seen, decision.shares);
                self.phase = Phase::Taxing;
                true
            }
            Phase::Begin | Phase::Taxing => false,
        };
        self.divide(seen);
        tax_all((self.tax, &self.spared), seen, &self.private, &mut self.shares);
        if begins {
            self.note_switch(seen);
        }
        Decision { notes: &self.notes, ..taxed(&self.shares) }
    }
}
