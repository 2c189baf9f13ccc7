//! Two policies about bandwidth that hold at once: every tenant is held back by the tighter of both, lever by lever.
//!
//! Shape:      one input -> two policies, each at its own pace -> the meet of their throttles
//! Invariants: neither policy is loosened by the other; each sees its own share as in force while the whole is
//! Source:     MT² §3.1 (prevention and remedy run together)

use super::paced::Paced;
use control::bandwidth::{BandwidthSignal, Throttle};
use control::{Decision, Law, Note, Policy, Row, Seen, Shares};
use units::{Instant, TenantId};

/// Two policies at once.
#[derive(Debug)]
pub struct Tighter<P, Q>
where
    P: Policy<Signal = BandwidthSignal, Share = Throttle>,
    Q: Policy<Signal = BandwidthSignal, Share = Throttle>,
{
    first: Paced<P>,
    second: Paced<Q>,
    rows: Vec<Row<BandwidthSignal, Throttle>>,
    shares: Shares<Throttle>,
    asked: Vec<(TenantId, Throttle)>,
    moved: [bool; 2],
    notes: Vec<Note>,
}

impl<P, Q> Tighter<P, Q>
where
    P: Policy<Signal = BandwidthSignal, Share = Throttle>,
    Q: Policy<Signal = BandwidthSignal, Share = Throttle>,
{
    /// `first` and `second` at once.
    pub fn new(first: P, second: Q) -> Self {
        Self {
            first: Paced::new(first),
            second: Paced::new(second),
            rows: Vec::new(),
            shares: Shares::default(),
            asked: Vec::new(),
            moved: [false; 2],
            notes: Vec::new(),
        }
    }
}

/// The rows as one of two policies should see them: where all that was asked is in force, so is its own part.
fn own_rows(
    rows: &mut Vec<Row<BandwidthSignal, Throttle>>,
    seen: &Seen<'_, BandwidthSignal, Throttle>,
    asked: &Shares<Throttle>,
    own: &Shares<Throttle>,
) {
    rows.clear();
    rows.extend_from_slice(seen.tenants);
    for row in rows {
        let whole = row.in_force.is_some() && row.in_force.as_ref() == asked.get(row.id);
        if let (true, Some(share)) = (whole, own.get(row.id)) {
            row.in_force = Some(*share);
        }
    }
}

impl<P, Q> Policy for Tighter<P, Q>
where
    P: Policy<Signal = BandwidthSignal, Share = Throttle>,
    Q: Policy<Signal = BandwidthSignal, Share = Throttle>,
{
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        match (self.first.name(), self.second.name()) {
            ("prevention", "remedy") | ("remedy", "prevention") => "prevention+remedy",
            _ => "tighter",
        }
    }

    fn decide(&mut self, now: Instant, seen: &Seen<'_, BandwidthSignal, Throttle>) -> Decision<'_, Throttle> {
        let [first_moved, second_moved] = self.moved;
        own_rows(&mut self.rows, seen, &self.shares, self.first.held(now).shares);
        if let Ok(own) = Seen::new(seen.window, seen.pool, &self.rows) {
            self.moved[0] = self.first.see(now, &own, second_moved);
        }
        own_rows(&mut self.rows, seen, &self.shares, self.second.held(now).shares);
        if let Ok(own) = Seen::new(seen.window, seen.pool, &self.rows) {
            self.moved[1] = self.second.see(now, &own, first_moved);
        }
        let (a, b) = (self.first.held(now), self.second.held(now));
        self.notes.clear();
        self.notes.extend_from_slice(a.notes);
        self.notes.extend_from_slice(b.notes);
        let both = a.shares.rows().iter().zip(b.shares.rows());
        self.asked.clear();
        self.asked.extend(both.map(|((id, x), (_, y))| (*id, x.tighter(*y))));
        self.shares.rebuild(Law::Free, seen, self.asked.iter().copied());
        Decision {
            shares: &self.shares,
            wake: a.wake.min(b.wake),
            lease: a.lease.min(b.lease),
            steady: a.steady && b.steady,
            notes: &self.notes,
        }
    }
}
