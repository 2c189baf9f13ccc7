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
