//! What a joint policy knows of its tenants: who is there, what holds of them, what they would bid.
//!
//! Shape:      signals (bandwidth used, curve or samples or profile) -> bids
//! Invariants: one bid per tenant, in the order of the tenants
//! Units:      parts of the pool
//! Cost:       at most one curve in five is taken over per epoch; no allocation once the tenants are steady
//! Failure:    a missing signal leaves what was known; a tenant of whom nothing is known stays at its static share
//! Source:     Spirit §4 (windows, estimates), §7 (stateful credits)

use super::auction::{Bundle, Terms};
use super::bidder::{Bid, Range, STEPS, Stance, Use, Value};
use super::book::Book;
use super::options::Options;
use crate::estimate::access_histogram::{Fitter, Method};
use control::joint::{Accesses, Joint, JointSignal, Table, Utility};
use control::{Curve, Note, Reason, Row, Seen};
use units::{Bytes, BytesPerSec, TenantId};

/// Up to so many curves are taken over in one epoch, however few tenants there are.
const REFITS_LEAST: usize = 64;
/// Credits saved weigh at most so much more than a tenant's weight when unspent credits are passed on. A guess.
const SAVED_MOST: f64 = 10.0;

/// Tenants and their bids.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) options: Options,
    pub(super) bids: Vec<Bid>,
    pub(super) book: Book,
    pub(super) notes: Vec<Note>,
    pub(super) capacity: Joint,
    members: Vec<Member>,
    fitter: Fitter,
    epoch: u32,
}

/// What is remembered of a tenant beside its bid.
#[derive(Clone, Debug)]
struct Member {
    id: TenantId,
    /// Epochs that it has been here.
    age: u32,
    /// Whether its curve has to be taken over as soon as may be.
    stale: bool,
    /// Credits that it has left to others, in parts of all credits of an epoch.
    saved: f64,
    /// What it holds and uses, once that is known; what it used fades as fast as shares go.
    used: Option<Joint>,
}

impl Member {
    /// Takes over what it holds and uses now.
    fn note_use(&mut self, signal: &JointSignal, ease: f64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of what was")]
        let faded = |before: u64| (before as f64 * (1.0 - ease)) as u64;
        let before = self.used.unwrap_or_default();
        self.used = Some(Joint {
            bytes: Bytes(signal.held.0.max(faded(before.bytes.0))),
            bandwidth: BytesPerSec(signal.bandwidth.0.max(faded(before.bandwidth.0))),
        });
    }

    /// Below what it is not taken, if `home` is its static share of a pool.
    fn kept(&self, home: Bundle, pool: Joint, options: &Options) -> Bundle {
        let usual = home.times(options.floor_part);
        let (Some(used), Some(idle)) = (self.used, options.idle_floor_part) else { return usual };
        // Who had no more than it uses would be saturated, or hold a little less each time.
        let part = |used: u64, all: u64| used as f64 / (all as f64).max(1.0) / options.headroom;
        let wanted = Bundle {
            memory: part(used.bytes.0, pool.bytes.0),
            bandwidth: part(used.bandwidth.0, pool.bandwidth.0),
        };
        usual.least(wanted.most(home.times(idle)))
    }
}

impl Desk {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options: options.bounded(),
            bids: Vec::new(),
            book: Book::default(),
            notes: Vec::new(),
            capacity: Joint::default(),
            members: Vec::new(),
            fitter: Fitter::default(),
            epoch: 0,
        }
    }

    /// Brings everything up to date; says whether tenants came or went.
    pub(super) fn open(&mut self, seen: &Seen<'_, JointSignal, Joint>) -> bool {
        self.notes.clear();
        let changed = self.settle(seen);
        self.learn(seen);
        self.epoch = self.epoch.wrapping_add(1);
        changed
    }

    /// Takes over who is there.
    fn settle(&mut self, seen: &Seen<'_, JointSignal, Joint>) -> bool {
        let capacity = Joint { bytes: seen.pool.capacity.bytes, bandwidth: seen.pool.capacity.bandwidth };
        if self.capacity != capacity {
            self.capacity = capacity;
            // Ranges are parts of the pool.
            self.members.iter_mut().for_each(|member| member.stale = true);
        }
        let same = self.members.len() == seen.tenants.len()
            && self.members.iter().zip(seen.tenants).all(|(member, row)| member.id == row.id);
        if !same {
            self.enrol(seen.tenants);
        }
        if !seen.window.mixed {
            for (member, row) in self.members.iter_mut().zip(seen.tenants) {
                row.signal.iter().for_each(|signal| member.note_use(signal, self.options.ease));
            }
        }
        let kept = |place: usize, home| self.members[place].kept(home, capacity, &self.options);
        self.book.settle(seen, kept);
        for (bid, terms) in self.bids.iter_mut().zip(self.book.terms()) {
            bid.terms = *terms;
        }
        !same
    }

    /// Brings members and bids in line with `rows`; both rise by tenant.
    fn enrol(&mut self, rows: &[Row<JointSignal, Joint>]) {
        let mut known =
            std::mem::take(&mut self.members).into_iter().zip(std::mem::take(&mut self.bids)).peekable();
        for row in rows {
            while let Some((left, _)) = known.next_if(|(member, _)| member.id < row.id) {
                self.notes.push(note(Some(left.id), Reason::Left, 0));
            }
            let (member, bid) = known.next_if(|(member, _)| member.id == row.id).unwrap_or_else(|| {
                self.notes.push(note(Some(row.id), Reason::Joined, 0));
                (Member { id: row.id, age: 0, stale: true, saved: 0.0, used: None }, unknown(&self.options))
            });
            self.members.push(member);
            self.bids.push(bid);
        }
        for (left, _) in known {
            self.notes.push(note(Some(left.id), Reason::Left, 0));
        }
    }

    /// Takes over what was measured.
    fn learn(&mut self, seen: &Seen<'_, JointSignal, Joint>) {
        let every = self.options.refit_every;
        // Who asks for everybody's curve each time has them for nothing: others would never have their turn.
        let most = if every == 1 { self.members.len() } else { self.members.len().div_ceil(5) };
        let mut refits = most.max(REFITS_LEAST);
        for (i, row) in seen.tenants.iter().enumerate() {
            let (member, bid) = (&mut self.members[i], &mut self.bids[i]);
            let is_turn = self.epoch.wrapping_add(row.id.0).is_multiple_of(every);
            member.stale |= is_turn;
            let profile = self.options.profiles.binary_search_by_key(&row.id, |(id, _)| *id).ok();
            let signal = if seen.window.mixed { None } else { row.signal.as_ref() };
            let ours = profile.map(|at| &self.options.profiles[at].1);
            if 0 < refits && member.stale {
                let taken = match (ours, signal.and_then(|s| s.utility.as_ref())) {
                    (Some(table), _) | (None, Some(Utility::Table(table))) => {
                        take_profile(bid, table, self.capacity)
                    }
                    (None, Some(Utility::Curve(curve))) => take_curve(bid, curve, self.capacity),
                    (None, Some(Utility::Accesses(accesses))) => {
                        take_accesses(bid, accesses, self.capacity, &mut self.fitter, self.options.method)
                    }
                    (None, None) => false,
                };
                member.stale = !taken;
                refits -= usize::from(taken);
            }
            stand(bid, row, signal, self.capacity, self.options.headroom);
            bid.stance = if member.age < self.options.static_epochs { Stance::Stays } else { stance(bid) };
            bid.window = window(bid, row, self.capacity, self.options.window);
            bid.terms.step = bid.range.step;
            if self.options.stateful {
                bid.terms.unspent_weight += bid.terms.weight * member.saved.clamp(0.0, SAVED_MOST);
            }
            member.age = member.age.saturating_add(1);
        }
    }

    /// Remembers that the tenant at `place` left so many of its credits, in parts of its budget; negative takes back.
    pub(super) fn save(&mut self, place: usize, left: f64) {
        let member = &mut self.members[place];
        member.saved = (member.saved + left).clamp(0.0, SAVED_MOST);
    }
}

pub(super) fn note(tenant: Option<TenantId>, reason: Reason, amount: i64) -> Note {
    Note { tenant, reason, amount }
}

/// A bid of somebody of whom nothing is known.
fn unknown(options: &Options) -> Bid {
    let terms = Terms {
        endowment: Bundle::default(),
        floor: Bundle::default(),
        ceiling: Bundle::default(),
        step: 0.0,
        weight: 1.0,
        unspent_weight: 1.0,
    };
    Bid {
        terms,
        range: Range::default(),
        window: (0, 0),
        stance: Stance::Stays,
        worth: options.indifferent,
        ratios: vec![0.0; STEPS + 1].into(),
        value: Value::Unknown,
    }
}

/// The range of memory from the floor to `useful` bytes, within the limits.
fn own_range(bid: &Bid, useful: f64, capacity: Joint) -> Range {
    let useful = useful / (capacity.bytes.0 as f64).max(1.0);
    let floor = bid.terms.floor.memory;
    Range::new(floor, useful.min(bid.terms.ceiling.memory).min(1.0).max(floor))
}

fn tabulate(bid: &mut Bid, useful: f64, capacity: Joint, ratio: impl Fn(f64) -> f64) {
    bid.range = own_range(bid, useful, capacity);
    let range = bid.range;
    let bytes = capacity.bytes.0 as f64;
    if !matches!(bid.value, Value::Misses(_)) {
        bid.value = Value::Misses(Use { miss_ratio: 1.0, used: 0.0, granted: 0.0, headroom: 1.0 });
    }
    for (k, place) in bid.ratios.iter_mut().enumerate() {
        #[expect(clippy::cast_possible_truncation, reason = "a ratio")]
        let value = ratio(range.at(k) * bytes) as f32;
        *place = value;
    }
}

fn take_curve(bid: &mut Bid, curve: &Curve, capacity: Joint) -> bool {
    let points = curve.points();
    // Beyond the last point at which the curve still falls memory gains nothing.
    let flat = points.windows(2).rev().take_while(|pair| pair[0].1 <= pair[1].1).count();
    let useful = points.get(points.len() - 1 - flat).map_or(0.0, |(size, _)| size.0 as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in the pool")]
    let at = |bytes: f64| curve.miss_ratio(Bytes(bytes as u64));
    tabulate(bid, useful, capacity, at);
    true
}

fn take_accesses(
    bid: &mut Bid,
    accesses: &Accesses,
    capacity: Joint,
    fitter: &mut Fitter,
    method: Method,
) -> bool {
    let Some(law) = fitter.fit(accesses, method) else { return false };
    let page = accesses.page().0 as f64;
    tabulate(bid, accesses.pages() as f64 * page, capacity, |bytes| law.miss_ratio(bytes / page));
    true
}

fn take_profile(bid: &mut Bid, table: &Table, capacity: Joint) -> bool {
    let most = table.most();
    let scale = Bundle {
        memory: capacity.bytes.0 as f64 / most.bytes.0 as f64,
        bandwidth: capacity.bandwidth.0 as f64 / most.bandwidth.0 as f64,
    };
    bid.range = own_range(bid, most.bytes.0 as f64, capacity);
    bid.value = Value::Profile { table: table.clone(), scale };
    true
}

/// What the tenant holds and uses now becomes what its speed is compared with.
fn stand(
    bid: &mut Bid,
    row: &Row<JointSignal, Joint>,
    signal: Option<&JointSignal>,
    capacity: Joint,
    headroom: f64,
) {
    let (range, home) = (bid.range, bid.terms.endowment);
    let Value::Misses(use_) = &mut bid.value else { return };
    let Some(signal) = signal else { return };
    let bandwidth = (capacity.bandwidth.0 as f64).max(1.0);
    let memory =
        row.in_force.map_or(home.memory, |held| held.bytes.0 as f64 / (capacity.bytes.0 as f64).max(1.0));
    let granted = row.in_force.map_or(home.bandwidth, |held| held.bandwidth.0 as f64 / bandwidth);
    let used = (signal.bandwidth.0 as f64 / bandwidth).min(granted);
    *use_ = Use { miss_ratio: range.read(&bid.ratios, memory), used, granted, headroom };
}

fn stance(bid: &Bid) -> Stance {
    if matches!(bid.value, Value::Unknown) {
        return Stance::Stays;
    }
    let most =
        Bundle { memory: bid.terms.ceiling.memory.min(1.0), bandwidth: bid.terms.ceiling.bandwidth.min(1.0) };
    if bid.speed(most) <= bid.speed(bid.terms.floor) * (1.0 + bid.worth) {
        Stance::Indifferent
    } else {
        Stance::Bids
    }
}

/// The steps that may be bid for: at or above the floor and, with a window, near what is in force.
fn window(bid: &Bid, row: &Row<JointSignal, Joint>, capacity: Joint, width: Option<usize>) -> (usize, usize) {
    let floor = bid.terms.floor.memory;
    let mut least = bid.range.nearest(floor);
    if bid.range.at(least) < floor && least < STEPS {
        least += 1;
    }
    let Some(width) = width else { return (least, STEPS) };
    let home = bid.terms.endowment.memory;
    let now = row.in_force.map_or(home, |held| held.bytes.0 as f64 / (capacity.bytes.0 as f64).max(1.0));
    let now = bid.range.nearest(now);
    (now.saturating_sub(width).max(least), (now + width).clamp(least, STEPS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim, Pool, Weight, Window};
    use units::{Duration, Instant};

    const POOL: Joint = Joint { bytes: Bytes(1_000_000), bandwidth: BytesPerSec(1_000_000) };

    /// Two tenants of weights 1 and 3 that miss nothing more with so many bytes.
    fn rows(useful: u64, used: u64) -> Vec<Row<JointSignal, Joint>> {
        let curve = Curve::new([(Bytes(0), 1.0), (Bytes(useful), 0.1)]).unwrap();
        let signal = JointSignal {
            held: Bytes(used),
            bandwidth: BytesPerSec(used),
            operations: 1_000,
            utility: Some(Utility::Curve(curve)),
        };
        let row = |(id, weight)| Row {
            id: TenantId(id),
            claim: Claim { weight: Weight::new(weight).unwrap(), ..Claim::default() },
            signal: Some(signal.clone()),
            in_force: None,
        };
        [(1, 1.0), (2, 3.0)].map(row).to_vec()
    }

    /// What everybody bids after a window.
    fn open(desk: &mut Desk, rows: &[Row<JointSignal, Joint>], pool: Joint, mixed: bool) -> String {
        let window = Window { start: Instant::ZERO, end: Instant::ZERO + Duration::from_secs(30), mixed };
        let capacity = Amount { bytes: pool.bytes, bandwidth: pool.bandwidth, ..Amount::default() };
        let pool = Pool { capacity, ..Pool::default() };
        desk.open(&Seen::new(window, &pool, rows).unwrap());
        format!("{:?}", desk.bids)
    }

    fn options() -> Options {
        Options { static_epochs: 0, idle_floor_part: Some(Bundle::default()), ..Options::default() }
    }

    #[test]
    fn a_window_of_more_than_one_setting_changes_no_bid() {
        let mut desk = Desk::new(Options { refit_every: 1, ..options() });
        let before = open(&mut desk, &rows(700_000, 100_000), POOL, false);
        assert_eq!(open(&mut desk, &rows(300_000, 400_000), POOL, true), before);
        assert_ne!(open(&mut desk, &rows(300_000, 400_000), POOL, false), before);
    }

    #[test]
    fn a_pool_that_changes_gives_curves_read_anew() {
        let mut desk = Desk::new(Options { refit_every: 1_000, ..options() });
        let before = open(&mut desk, &rows(700_000, 100_000), POOL, false);
        assert_eq!(open(&mut desk, &rows(300_000, 100_000), POOL, false), before, "it is not their turn");
        let larger = Joint { bytes: Bytes(2 * POOL.bytes.0), ..POOL };
        open(&mut desk, &rows(300_000, 100_000), larger, false);
        let ends = desk.bids.iter().map(|bid| bid.range.at(STEPS));
        assert!(ends.clone().all(|end| (end - 0.15).abs() < 1e-9), "{:?}", ends.collect::<Vec<_>>());
    }

    #[test]
    fn credits_that_were_saved_weigh_by_the_tenant_s_weight() {
        let mut desk = Desk::new(Options { stateful: true, ..options() });
        let unspent = |desk: &mut Desk| {
            open(desk, &rows(700_000, 100_000), POOL, false);
            desk.bids.iter().map(|bid| bid.terms.unspent_weight / bid.terms.weight).collect::<Vec<_>>()
        };
        assert_eq!(unspent(&mut desk), [1.0, 1.0]);
        (0..2).for_each(|place| desk.save(place, 0.5));
        desk.save(1, 1.5);
        assert_eq!(unspent(&mut desk), [1.5, 3.0]);
        assert!((desk.bids[1].terms.weight - 3.0 * desk.bids[0].terms.weight).abs() < 1e-9);
        desk.save(1, -1.0);
        assert_eq!(unspent(&mut desk), [1.5, 2.0]);
    }
}
