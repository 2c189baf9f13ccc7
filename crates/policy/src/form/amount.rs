//! How many bytes of the tier each tenant has: its floor and a part of the rest by weight, up to its ceiling.
//!
//! Shape:      claims and the pool -> one amount per tenant
//! Invariants: amounts sum to at most the pool; nobody is below the floor that can be kept or above its ceiling
//! Cost:       O(tenants) without ceilings; each round of [`ROUNDS_MAX`] ends when no further ceiling is met

use control::Seen;
use units::Bytes;

/// Rounds in which what ceilings leave is given to the others; what is left then stays unused. A guess: each round meets
/// a ceiling, and tenants with the same ceiling per weight meet it together.
const ROUNDS_MAX: usize = 32;

/// Fills `amounts` with what each tenant of `seen` has.
pub(super) fn divide<S, A>(seen: &Seen<'_, S, A>, amounts: &mut Vec<Bytes>) {
    let floors = seen.floors();
    let ceiling = |i: usize| seen.tenants[i].claim.ceiling_of(seen.pool.capacity).bytes;
    amounts.clear();
    amounts.extend(seen.tenants.iter().map(|row| floors.kept(row.claim.floor).bytes));
    for _ in 0..ROUNDS_MAX {
        let given: Bytes = amounts.iter().copied().sum();
        let rest = seen.pool.capacity.bytes.saturating_sub(given);
        let open = |i: usize, amounts: &[Bytes]| amounts[i] < ceiling(i);
        let weights: f64 = (0..amounts.len())
            .filter(|&i| open(i, amounts))
            .map(|i| seen.tenants[i].claim.weight.get())
            .sum();
        if rest == Bytes::ZERO || weights <= 0.0 {
            return;
        }
        let (mut left, mut met) = (rest, false);
        for i in 0..amounts.len() {
            if !open(i, amounts) {
                continue;
            }
            let part = part_of(rest, seen.tenants[i].claim.weight.get() / weights).min(left);
            let room = ceiling(i).saturating_sub(amounts[i]);
            met |= room < part;
            let more = part.min(room);
            amounts[i] += more;
            left = left.saturating_sub(more);
        }
        if !met {
            return;
        }
    }
}

fn part_of(bytes: Bytes, part: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part in 0..=1 of a size")]
    Bytes((bytes.0 as f64 * part.clamp(0.0, 1.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim, Pool, Row, Weight, Window};
    use units::TenantId;

    #[test]
    fn a_ceiling_of_something_else_leaves_the_bytes() {
        let pool = Pool { capacity: Amount::memory(Bytes(100)), ..Pool::default() };
        let of = |ceiling| Claim { ceiling: Some(ceiling), ..Claim::default() };
        for ceiling in [
            Amount::tier_time(control::bandwidth::Cost(5)),
            Amount { bandwidth: units::BytesPerSec(5), ..Amount::default() },
        ] {
            let row =
                |id| Row::<(), ()> { id: TenantId(id), claim: of(ceiling), signal: None, in_force: None };
            let rows = [row(1), row(2)];
            let mut amounts = Vec::new();
            divide(&Seen::new(Window::default(), &pool, &rows).unwrap(), &mut amounts);
            assert_eq!(amounts, [Bytes(50), Bytes(50)], "{ceiling:?}");
        }
    }

    /// Floor, weight, ceiling of tenants; the pool; what each has.
    #[test]
    fn a_pool_is_divided_by_weight_above_floors_and_below_ceilings() {
        type T = (u64, f64, Option<u64>);
        let cases: [(u64, &[T], &[u64]); 8] = [
            (100, &[], &[]),
            (100, &[(0, 1.0, None)], &[100]),
            (100, &[(0, 1.0, None), (0, 3.0, None)], &[25, 75]),
            (100, &[(40, 1.0, None), (0, 1.0, None)], &[70, 30]),
            (100, &[(0, 1.0, Some(10)), (0, 1.0, None)], &[10, 90]),
            (100, &[(0, 1.0, Some(10)), (0, 1.0, Some(20))], &[10, 20]),
            (100, &[(150, 1.0, None), (50, 1.0, None)], &[75, 25]),
            (0, &[(0, 1.0, None), (5, 1.0, None)], &[0, 0]),
        ];
        for (capacity, tenants, expected) in cases {
            let pool = Pool { capacity: Amount::memory(Bytes(capacity)), ..Pool::default() };
            let row = |(id, t): (usize, &T)| Row::<(), ()> {
                id: TenantId(u32::try_from(id).unwrap()),
                claim: Claim {
                    floor: Amount::memory(Bytes(t.0)),
                    weight: Weight::new(t.1).unwrap(),
                    ceiling: t.2.map(|c| Amount::memory(Bytes(c))),
                    ..Claim::default()
                },
                signal: None,
                in_force: None,
            };
            let rows: Vec<_> = tenants.iter().enumerate().map(row).collect();
            let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
            let mut amounts = Vec::new();
            divide(&seen, &mut amounts);
            let amounts: Vec<u64> = amounts.iter().map(|b| b.0).collect();
            assert_eq!(amounts, expected, "{capacity} {tenants:?}");
        }
    }
}
