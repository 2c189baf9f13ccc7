//! What is late and what is not, by how a hold is waited for.

use super::*;

const US: u64 = 1_000;
const READ: (Access, Bytes, u64) = (Access::SlowRead, Bytes(256), 100);

/// Who spins accesses at once, and what asks next is another request: what is between them is nobody's waiting.
#[test]
fn who_spins_for_the_rest_of_a_delay_is_not_late_whenever_the_next_request_comes() {
    for another_is_parked in [false, true] {
        let (brake, mut pad) = (Brake::default(), Pad::default());
        brake.set(Setting { delay: 10_000, ..Setting::FREE }, Instant(0));
        assert_eq!(brake.after(&mut pad, READ, || Instant(0)), Hold::None);
        let ask = |pad: &mut Pad, (arrived, at): (u64, u64)| {
            brake.before(pad, (READ.0, Instant(arrived)), || Instant(at))
        };
        let due = 100 * US;
        if another_is_parked {
            assert_eq!(ask(&mut pad, (0, 0)), Hold::Until(Instant(due)));
        }
        assert_eq!(ask(&mut pad, (due - 500, due - 500)), Hold::Spin(Instant(due)));
        assert_eq!(brake.after(&mut pad, READ, || Instant(due)), Hold::None);
        let next = due + 5_000 * US;
        let all = Hold::Until(Instant(next + 100 * US));
        assert_eq!(ask(&mut pad, (due, next)), all, "nothing owed is lost: {another_is_parked}");
    }
}

/// Where the next period was not begun its budget is granted in pieces: one access larger than such a piece has to wait, and the budget is not
/// used up by that.
#[test]
fn a_budget_has_not_run_out_where_a_late_piece_has() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    let budget = Budget { cost_ps: 1_000_000, per: Duration(2_000 * US) };
    brake.begin(Setting { budget: Some(budget), ..Setting::FREE }, Instant(0));
    let tenth = (Access::SlowRead, Bytes(4096), 100_000);
    let waits = brake.after(&mut pad, tenth, || Instant(2_200 * US));
    assert!(matches!(waits, Hold::Until(_)), "{waits:?}");
    assert_eq!(brake.take_depleted_at(), None);
    let rest = (tenth.0, tenth.1, budget.cost_ps);
    brake.begin(Setting { budget: Some(budget), ..Setting::FREE }, Instant(2_300 * US));
    brake.after(&mut pad, rest, || Instant(2_400 * US));
    assert_eq!(brake.take_depleted_at(), Some(Instant(2_400 * US)));
}
