//! Fixed splits: every tenant's bytes are used in the same parts whatever is measured.
//!
//! Shape:      claims -> amounts -> parts of them; signals are not looked at
//! Invariants: a tenant's parts sum to its amount exactly
//! Source:     PolyEMT §5.2: `dram-extension` (all memory), `write-cache` (all write cache)

use super::amount::divide;
use control::form::{FormSignal, Forms};
use control::{Decision, Law, Policy, Seen, Shares};
use units::{Bytes, Duration, Instant};

/// Time between decisions: the shares change only with claims and capacity.
const PERIOD: Duration = Duration::from_secs(1);
/// The shares hold without a loop.
const LEASE: Duration = Duration::from_secs(3_600);
/// Parts are counted in thousandths.
const WHOLE: u16 = 1_000;

/// Parts of a tenant's bytes by form, in thousandths that sum to 1,000.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    memory: u16,
    compressed: u16,
}

/// A policy that never morphs.
#[derive(Debug)]
pub struct Fixed {
    name: &'static str,
    parts: Parts,
    amounts: Vec<Bytes>,
    shares: Shares<Forms>,
}

impl Parts {
    /// All write cache.
    pub const WRITE_CACHE: Self = Self { memory: 0, compressed: 0 };
    /// All memory.
    pub const MEMORY: Self = Self { memory: WHOLE, compressed: 0 };
    /// All compressed.
    pub const COMPRESSED: Self = Self { memory: 0, compressed: WHOLE };

    /// So many thousandths of memory and of compressed store, the rest write cache; none if they are more than all.
    #[must_use]
    pub fn new(memory: u16, compressed: u16) -> Option<Self> {
        (memory.checked_add(compressed)? <= WHOLE).then_some(Self { memory, compressed })
    }

    /// `amount` in these parts. Bytes lost to rounding go to the write cache if it has a part, else to memory, else to
    /// the compressed store.
    fn of(self, amount: Bytes) -> Forms {
        let part = |thousandths: u16| amount.scale(u64::from(thousandths), u64::from(WHOLE));
        let mut forms = Forms {
            write_cache: part(WHOLE - self.memory - self.compressed),
            memory: part(self.memory),
            compressed: part(self.compressed),
        };
        let rest = amount.saturating_sub(forms.write_cache + forms.memory + forms.compressed);
        let form = match (self.memory, self.compressed) {
            (memory, compressed) if memory + compressed < WHOLE => &mut forms.write_cache,
            (0, _) => &mut forms.compressed,
            _ => &mut forms.memory,
        };
        *form += rest;
        forms
    }
}

impl Fixed {
    /// The policy called `name` that splits into `parts`.
    #[must_use]
    pub fn new(name: &'static str, parts: Parts) -> Self {
        Self { name, parts, amounts: Vec::new(), shares: Shares::default() }
    }
}

impl Policy for Fixed {
    type Signal = FormSignal;
    type Share = Forms;

    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, FormSignal, Forms>) -> Decision<'_, Forms> {
        divide(seen, &mut self.amounts);
        let rows =
            seen.tenants.iter().zip(&self.amounts).map(|(row, &amount)| (row.id, self.parts.of(amount)));
        self.shares.rebuild(Law::AtMost { floor_part: 1.0 }, seen, rows);
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_to_the_amount() {
        for amount in [0, 1, 7, 999, 1_000, (6 << 30) + 1] {
            for (memory, compressed) in [(0, 0), (1_000, 0), (0, 1_000), (333, 333), (500, 500), (1, 998)] {
                let forms = Parts::new(memory, compressed).unwrap().of(Bytes(amount));
                assert_eq!(forms.write_cache + forms.memory + forms.compressed, Bytes(amount));
                assert!(memory + compressed < WHOLE || forms.write_cache == Bytes::ZERO);
            }
        }
        assert!(Parts::new(600, 401).is_none() && Parts::new(u16::MAX, 1).is_none());
    }
}
