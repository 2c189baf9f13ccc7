//! Ends of segments: what is lost there costs nothing that is used, or is within a floor.

use super::{has, held, new_store, set, share_out};
use control::{Amount, Claim};
use store::{FixedPass, MARKS_MAX, MARKS_MIN, PassKind, Worker};
use units::{Bytes, TenantId};

/// A few long items among short ones: what is lost at an end is most often a part of a long one.
fn of_any_length(n: u64) -> Vec<u8> {
    vec![2; if n.is_multiple_of(100) { 60_000 } else { 400 }]
}

/// Look-ups of so many items that miss, after the first round, while as many others come as there are look-ups; who is missed comes back.
fn missed_of_used(
    worker: &mut Worker,
    used: u64,
    look_ups: u64,
    new: impl Fn(u64) -> Vec<u8>,
    value: &[u8],
) -> u64 {
    let mut missed = 0;
    for n in 0..look_ups {
        assert!(set(worker, 0, used + n, &new(n), 0));
        if !has(worker, 0, n % used) {
            missed += u64::from(used <= n);
            assert!(set(worker, 0, n % used, value, 0));
        }
    }
    missed
}

/// A wide pass that frees little has room for what is to stay.
#[test]
fn what_is_lost_at_ends_costs_nothing_that_is_used() {
    let (store, mut worker) = new_store(Bytes::mib(32), false, 1);
    store.set_pass_kind(PassKind::Fixed(FixedPass { takes: 20, frees: 1 }));
    let missed = missed_of_used(&mut worker, 4_000, 80_000, of_any_length, &[1; 1_000]);
    assert!(missed < 76, "{missed} look-ups missed");
}

/// Items that fill segments to the last byte find as many places where a pass copies them to: a CAS value, which they may need
/// elsewhere, is no part of them there.
#[test]
fn items_that_fill_segments_exactly_stay_if_they_are_used() {
    let (_store, mut worker) = new_store(Bytes::mib(8), false, 1);
    // A quarter of a segment with 23 B of key and 10 B of header.
    let value = vec![1; (16 << 10) - 33];
    let missed = missed_of_used(&mut worker, 200, 10_000, |_| value.clone(), &value);
    assert!(missed < 10, "{missed} look-ups missed");
}

/// What does not fit the end of a destination does not go where its tenant is within its floor. Where a fixed pass frees a quarter of what it
/// takes, some does: no server runs such passes where something may be evicted.
#[test]
fn a_pass_that_frees_most_of_what_it_takes_spares_what_is_within_a_floor() {
    let fixed = |frees| PassKind::Fixed(FixedPass { takes: 20, frees });
    let surveyed = |marks| PassKind::Surveyed { marks };
    let kinds =
        [(fixed(5), 5_900), (fixed(16), 6_000), (surveyed(MARKS_MIN), 6_000), (surveyed(MARKS_MAX), 6_000)];
    for ((kind, least), less) in kinds.into_iter().flat_map(|kind| [0, 16, 80].map(|less| (kind, less))) {
        let (store, mut worker) = new_store(Bytes::mib(16) - Bytes::kib(less), false, 2);
        let floor = Bytes::mib(8);
        assert!(store.set_claim(TenantId(0), Claim { floor: Amount::memory(floor), ..Claim::default() }));
        share_out(&store, &[floor.0, store.geometry().divisible.0 - floor.0]);
        store.set_pass_kind(kind);
        let (kept, flood) = (6_000, 60_000);
        assert!((0..kept).all(|n| set(&mut worker, 0, n, &[1; 1_000], 0)));
        assert!(held(&store, 0) < floor.0, "it is within its floor");
        assert!((0..flood).all(|n| set(&mut worker, 1, n, &of_any_length(n), 0)));
        assert!(30_000 < store.totals(TenantId(1)).evictions);
        let left = (0..kept).filter(|n| has(&worker, 0, *n)).count();
        assert!(least <= left, "{left} of {kept} are there with {kind:?}, {less} KiB less");
    }
}
