//! What a tenant wants at given prices, from what is known of it.
//!
//! Shape:      miss ratios at 200 steps of the tenant's own range, or a profile -> utility -> best bundle on a budget line
//! Invariants: a demand never costs more than the budget and keeps floor and ceiling; its endowment is always a candidate
//! Units:      parts of the pool; miss ratios in 0..=1
//! Cost:       one pass over at most 201 steps in 32-bit floats per demand; no allocation once a table has its size
//! Source:     Spirit §4.1. We differ: the search runs along the budget line (money not spent on one thing is spent on the
//!             other), ε is a step of what the tenant can use and not of the pool, and who is indifferent asks for
//!             little instead of anything.

use super::auction::{Bidder, Bundle, Prices, Terms};
use crate::estimate::slowdown::{GAMMA, LEAST_RATIO, STARVED_MOST, Spot, saturation, speed_up};
use control::joint::Table;

/// Steps of a tenant's own range: 1/ε (Spirit §4.1).
pub const STEPS: usize = 200;
/// A bundle that loses less than this part of the utility is as good; money is saved for those who gain.
const AS_GOOD: f64 = 1e-5;
/// Halvings when looking for the least bandwidth that does.
const HALVINGS: u32 = 20;

/// A tenant as a bidder.
#[derive(Clone, Debug)]
pub struct Bid {
    /// What holds whatever it wants.
    pub terms: Terms,
    /// Its own range of memory.
    pub range: Range,
    /// Which steps of the range may be bid for.
    pub window: (usize, usize),
    /// Whether it bids at all.
    pub stance: Stance,
    /// It leaves its endowment only for a gain of more than this part: estimates of equal tenants differ by noise.
    pub worth: f64,
    /// Miss ratios at the `STEPS + 1` steps of its range; used where its value is one of misses.
    pub ratios: Box<[f32]>,
    /// What is known of it.
    pub value: Value,
}

/// How a tenant takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    /// It stays at its endowment: it is new, or nothing is known of it.
    Stays,
    /// It asks for as little as it may: more of either hardly helps.
    Indifferent,
    /// It bids.
    Bids,
}

/// Equal steps of memory.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Range {
    /// Its begin.
    pub first: f64,
    /// Width of a step.
    pub step: f64,
}

/// What is known of a bidder.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing yet.
    Unknown,
    /// Its miss ratios, and how it stands now.
    Misses(Use),
    /// A profile; `scale` turns parts of the pool into parts of the profile's range.
    Profile {
        /// Its speeds.
        table: Table,
        /// Pool ÷ range of the profile.
        scale: Bundle,
    },
}

/// How a tenant stands now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Use {
    /// Its miss ratio.
    pub miss_ratio: f64,
    /// Bandwidth that it uses.
    pub used: f64,
    /// Bandwidth that it was granted.
    pub granted: f64,
    /// Part of a grant up to which an unsaturated tenant is not slowed down.
    pub headroom: f64,
}

impl Range {
    /// `STEPS` equal steps from `first` to `last`.
    #[must_use]
    pub fn new(first: f64, last: f64) -> Self {
        Self { first, step: ((last - first) / STEPS as f64).max(0.0) }
    }

    /// The memory at step `k`.
    #[must_use]
    pub fn at(&self, k: usize) -> f64 {
        self.first + self.step * k as f64
    }

    /// The step nearest to `memory`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=STEPS")]
    pub fn nearest(&self, memory: f64) -> usize {
        (self.place(memory) + 0.5) as usize
    }

    /// Where `memory` lies in steps, clamped to the range.
    fn place(&self, memory: f64) -> f64 {
        if self.step <= 0.0 { 0.0 } else { ((memory - self.first) / self.step).clamp(0.0, STEPS as f64) }
    }

    /// The last step at or below `memory`; none if the range begins above.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=STEPS")]
    fn below(&self, memory: f64) -> Option<usize> {
        (self.first <= memory).then(|| (self.place(memory) + 1e-9) as usize)
    }

    /// The value at `memory` of `points`, one per step, linear between them.
    pub(super) fn read(&self, points: &[f32], memory: f64) -> f64 {
        let place = self.place(memory);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=STEPS")]
        let k = (place as usize).min(STEPS - 1);
        let (low, high) = (f64::from(points[k]), f64::from(points[k + 1]));
        low + (high - low) * (place - k as f64)
    }
}

impl Use {
    /// Part of a grant that counts: an unsaturated tenant keeps some room, or it would be saturated by its next bid.
    fn counts(&self) -> f64 {
        self.headroom + (1.0 - self.headroom) * saturation(self.used, self.granted)
    }

    fn speed_up(&self, miss_ratio: f64, bandwidth: f64) -> f64 {
        let now = Spot { miss_ratio: self.miss_ratio, bandwidth: self.granted };
        speed_up(GAMMA, self.used, now, Spot { miss_ratio, bandwidth: bandwidth * self.counts() })
    }

    /// [`Use::speed_up`] at many steps at once, in 32 bits: `ratios` and bandwidths falling from `most` by `slope` a step
    /// but at most `cap`; the best step and its value.
    fn best(&self, ratios: &[f32], most: f64, slope: f64, cap: f64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "24 bits of a part of the pool are enough")]
        let narrow = |x: f64| x as f32;
        let counts = self.counts();
        let (most, slope, cap) = (narrow(most * counts), narrow(slope * counts), narrow(cap * counts));
        let saturation = narrow(saturation(self.used, self.granted));
        let used = narrow(self.used);
        let misses_now = narrow(1.0 / self.miss_ratio.max(LEAST_RATIO));
        let granted = narrow(1.0 / self.granted.max(1.0 / STARVED_MOST));
        let cost_now = narrow(self.miss_ratio * GAMMA);
        let gamma = narrow(GAMMA);
        let mut values = [0.0_f32; STEPS + 1];
        for (k, (value, ratio)) in values.iter_mut().zip(ratios).enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "at most STEPS")]
            let bandwidth = (most - slope * k as f32).min(cap).max(1e-9);
            let wanted = (used + saturation * (bandwidth - used).max(0.0)) * ratio * misses_now;
            let now = 1.0 + cost_now * (wanted * granted).max(1.0);
            let then = 1.0 + ratio * gamma * (wanted / bandwidth).max(1.0);
            *value = now / then;
        }
        first_largest(&values[..ratios.len()])
    }
}

/// The first of the largest values.
fn first_largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (k, value) in values.iter().enumerate() {
        if values[best] < *value {
            best = k;
        }
    }
    best
}

impl Bid {
    /// What is known of the speed with `bundle`, whatever the stance.
    pub fn speed(&self, bundle: Bundle) -> f64 {
        match &self.value {
            Value::Unknown => 1.0,
            Value::Misses(use_) => {
                use_.speed_up(self.range.read(&self.ratios, bundle.memory), bundle.bandwidth)
            }
            Value::Profile { table, scale } => {
                // Beyond the pool nothing was measured: doubling both is taken to double the speed.
                let beyond = bundle.memory.max(bundle.bandwidth).max(1.0);
                let (memory, bandwidth) = (bundle.memory / beyond, bundle.bandwidth / beyond);
                beyond * table.speed(memory * scale.memory, bandwidth * scale.bandwidth)
            }
        }
    }

    /// The best bundle on the budget line among the steps of the window.
    fn best(&self, prices: Prices, budget: f64) -> Option<Bundle> {
        let (floor, ceiling) = (self.terms.floor, self.terms.ceiling);
        let (price, other) = (prices.memory(), prices.bandwidth());
        let affordable = (budget - other * floor.bandwidth) / price.max(f64::MIN_POSITIVE);
        let most = affordable.min(ceiling.memory);
        let range = self.stretched(most);
        let last = range.below(most)?.min(self.window.1);
        let first = self.window.0;
        if last < first {
            return None;
        }
        let other = other.max(f64::MIN_POSITIVE);
        let bandwidth =
            |memory: f64| ((budget - price * memory) / other).clamp(floor.bandwidth, ceiling.bandwidth);
        let at = |memory: f64| Bundle { memory, bandwidth: bandwidth(memory) };
        let step = match &self.value {
            Value::Unknown => return None,
            Value::Misses(use_) => {
                let start = (budget - price * self.range.at(first)) / other;
                let slope = price * self.range.step / other;
                use_.best(&self.ratios[first..=last], start, slope, ceiling.bandwidth)
            }
            Value::Profile { .. } => {
                let mut values = [0.0_f32; STEPS + 1];
                for (k, value) in (first..=last).zip(&mut values) {
                    #[expect(clippy::cast_possible_truncation, reason = "a profile holds 32 bits")]
                    let utility = self.utility(at(range.at(k))) as f32;
                    *value = utility;
                }
                first_largest(&values[..=last - first])
            }
        };
        let best = at(range.at(first + step).min(most));
        // The corner of the budget line lies between two steps.
        let corner = at(most.min(range.at(self.window.1)));
        Some(if self.utility(best) < self.utility(corner) { corner } else { best })
    }

    /// The range, wider where a profile's tenant can pay for more than there is: only bids beyond the pool show that a
    /// price is too low.
    fn stretched(&self, most: f64) -> Range {
        let whole = self.window == (0, STEPS) && matches!(self.value, Value::Profile { .. });
        if whole && 1.0 < most && 1.0 <= self.range.at(STEPS) {
            Range::new(self.range.first, most)
        } else {
            self.range
        }
    }

    /// The cheapest bundle that is as good as `bundle`: less bandwidth first, then less memory.
    fn thrifty(&self, bundle: Bundle) -> Bundle {
        let floor = self.terms.floor;
        let enough = self.utility(bundle) * (1.0 - AS_GOOD);
        let does = |memory: f64, bandwidth: f64| enough <= self.utility(Bundle { memory, bandwidth });
        let mut kept = bundle;
        let span = kept.bandwidth - floor.bandwidth;
        // A look before the search: most tenants would miss what they bought.
        if 0.0 < span && does(kept.memory, kept.bandwidth - span / 64.0) {
            kept.bandwidth = least(floor.bandwidth, kept.bandwidth, |b| does(kept.memory, b));
        }
        let low = self.range.at(self.window.0).max(floor.memory);
        if low < kept.memory && does((kept.memory - self.range.step).max(low), kept.bandwidth) {
            kept.memory = least(low, kept.memory, |m| does(m, kept.bandwidth));
        }
        kept
    }
}

/// The least value in `low..=high` that does, if more always does where less does; `high` does.
fn least(low: f64, high: f64, does: impl Fn(f64) -> bool) -> f64 {
    if does(low) {
        return low;
    }
    let (mut not, mut least) = (low, high);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(not, least);
        if does(middle) { least = middle } else { not = middle }
    }
    least
}

impl Bidder for Bid {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn utility(&self, bundle: Bundle) -> f64 {
        match self.stance {
            Stance::Stays => {
                let home = self.terms.endowment;
                let kept = (bundle.memory / home.memory.max(f64::MIN_POSITIVE))
                    .min(bundle.bandwidth / home.bandwidth.max(f64::MIN_POSITIVE));
                kept.min(1.0)
            }
            Stance::Indifferent => 1.0,
            Stance::Bids => self.speed(bundle),
        }
    }

    fn demand(&self, prices: Prices, budget: f64) -> Bundle {
        let home = self.terms.endowment;
        match self.stance {
            Stance::Stays => home,
            Stance::Indifferent => {
                let low = self.range.at(self.window.0).max(self.terms.floor.memory).min(home.memory);
                Bundle { memory: low, bandwidth: self.terms.floor.bandwidth }
            }
            Stance::Bids => match self.best(prices, budget) {
                Some(best) if self.utility(home) * (1.0 + self.worth) < self.utility(best) => {
                    self.thrifty(best)
                }
                _ => self.thrifty(home),
            },
        }
    }
}
