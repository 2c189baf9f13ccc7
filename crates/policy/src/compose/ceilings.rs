//! A group's ceiling, kept by its members together.
//!
//! Shape:      what a group must not hold beyond, what its members hold -> a ceiling for each
//! Invariants: no ceiling is above the group's or above the member's own, none below a target (of who competes by worth: a floor);
//!             while the group holds more than its own, whoever has something beyond that has a ceiling below what it holds
//! Units:      bytes
//! Cost:       O(members), no allocation
//! Failure:    until the next decision members grow at once into what the group leaves free, so that they may hold more together;
//!             of a member that was not measured nothing is known, and each is held to the group's ceiling only
//! Source:     our own. Who has a target goes back to it when another comes to its own. Who competes by worth has a target that
//!             follows what it holds, which as a ceiling would freeze the group: it gives in proportion to what it holds and to how
//!             much less its items are worth

use super::share_out::ShareOut;
use control::memory::{MemoryShare, MemorySignal, Worth};
use control::{Row, Window};
use units::{Bytes, TenantId};

/// The slack that the store leaves around a ceiling, as its part. Members that compete by worth may pass the ceiling of a full group by
/// so much from one decision to the next, and come as far below it: what is less than the slack, a store does not take.
const SLACK_PART: u64 = 64;

type Member = Row<MemorySignal, MemoryShare>;

impl ShareOut<MemorySignal> for MemoryShare {
    fn share_out(&self, _window: Window, rows: &[Member], shares: &mut [(TenantId, Self)]) {
        let Some(most) = self.ceiling else { return };
        let held = |row: &Member| row.signal.map(|signal| signal.held);
        let Some(all) = rows.iter().map(held).sum::<Option<Bytes>>() else { return };
        let slack = Bytes(most.0 / SLACK_PART);
        let (over, free) = (all.saturating_sub(most), most.saturating_sub(all));
        let beyond = |row: &Member, share: &Self| {
            held(row).unwrap_or_default().saturating_sub(row.claim.floor.bytes.min(share.target))
        };
        let gives =
            |row: &Member, share: &Self| beyond(row, share).0 as f64 * share.worth.map_or(1.0, how_readily);
        let all_give: f64 = rows.iter().zip(shares.iter()).map(|(row, (_, share))| gives(row, share)).sum();
        for (row, (_, share)) in rows.iter().zip(shares) {
            let held = held(row).unwrap_or_default();
            let own = match share.worth {
                None => share.target.max((held + free).saturating_sub(over)),
                Some(_) if over == Bytes::ZERO => held + free.max(slack),
                Some(_) => held - part(over + slack, gives(row, share), all_give).min(beyond(row, share)),
            };
            share.ceiling = share.ceiling.map(|ceiling| ceiling.min(own));
        }
    }
}

/// By how much more than others a member of a worth gives of what it holds: who has what is worth half as much, twice as much.
fn how_readily(worth: Worth) -> f64 {
    (-f64::from(worth.more) / 8.0).exp2()
}

/// The part of `total` that `some` is of `all`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part in 0..=1 of a size")]
fn part(total: Bytes, some: f64, all: f64) -> Bytes {
    if some <= 0.0 { Bytes::ZERO } else { Bytes((total.0 as f64 * (some / all).min(1.0)) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim};

    /// The ceilings in a group that must not hold beyond 100, of members with floor, target, bytes held and worth.
    fn ceilings(members: &[(u64, u64, u64, Option<i16>)]) -> Vec<u64> {
        let row = |(id, &(floor, _, held, _)): (u32, &(u64, u64, u64, Option<i16>))| Row {
            id: TenantId(id),
            claim: Claim { floor: Amount::memory(Bytes(floor)), ..Claim::default() },
            signal: Some(MemorySignal { held: Bytes(held), ..MemorySignal::default() }),
            in_force: None,
        };
        let share = |&(_, target, _, more): &(u64, u64, u64, Option<i16>)| MemoryShare {
            ceiling: Some(Bytes(100)),
            worth: more.map(|more| Worth { more, within_group: true }),
            ..MemoryShare::of(Bytes(target))
        };
        let rows: Vec<_> = (0..).zip(members).map(row).collect();
        let mut shares: Vec<_> = (0..).map(TenantId).zip(members.iter().map(share)).collect();
        let group = MemoryShare { ceiling: Some(Bytes(100)), ..MemoryShare::of(Bytes(100)) };
        group.share_out(Window::default(), &rows, &mut shares);
        shares.iter().map(|(_, share)| share.ceiling.unwrap().0).collect()
    }

    #[test]
    fn who_has_a_target_lends_and_gives_back() {
        for (held, expected) in
            [([30, 0], [100, 70]), ([100, 0], [100, 50]), ([100, 20], [80, 50]), ([60, 50], [50, 50])]
        {
            assert_eq!(ceilings(&[(0, 50, held[0], None), (0, 50, held[1], None)]), expected, "{held:?}");
        }
    }

    #[test]
    fn who_competes_gives_by_what_its_items_are_worth_and_keeps_its_floor() {
        let both = |held: [u64; 2], floor, more| {
            let [a, b] = held;
            ceilings(&[(floor, a, a, Some(0)), (0, b, b, Some(more))])
        };
        assert_eq!(both([30, 30], 0, 0), [70, 70], "what is free is there for either");
        assert_eq!(both([50, 50], 0, 0), [51, 51], "a full group goes on changing");
        assert_eq!(both([60, 60], 0, 0), [50, 50]);
        assert_eq!(both([60, 60], 0, -16), [56, 44], "a quarter of the worth, four times as much");
        assert_eq!(both([60, 60], 60, 0), [60, 39]);
        let three = [(0, 75, 75, Some(0)), (0, 75, 75, Some(0)), (0, 8, 8, Some(-48))];
        assert_eq!(ceilings(&three), [69, 69, 0], "no more than it has");
    }

    #[test]
    fn of_whom_nothing_is_known_nothing_is_said() {
        let row = Row { id: TenantId(1), claim: Claim::default(), signal: None, in_force: None };
        let group = MemoryShare { ceiling: Some(Bytes(100)), ..MemoryShare::of(Bytes(100)) };
        let mut shares = [(TenantId(1), MemoryShare { target: Bytes(10), ..group })];
        group.share_out(Window::default(), std::slice::from_ref(&row), &mut shares);
        assert_eq!(shares[0].1.ceiling, Some(Bytes(100)));
        let free = MemoryShare { ceiling: None, ..group };
        let signal = Some(MemorySignal { held: Bytes(500), ..MemorySignal::default() });
        free.share_out(Window::default(), &[Row { signal, ..row }], &mut shares);
        assert_eq!(shares[0].1.ceiling, Some(Bytes(100)), "a group that may borrow");
    }
}
