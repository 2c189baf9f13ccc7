//! Threads that write, read, delete and clean at once: every value read belongs to its key.

use super::{Below, new_store};
use std::sync::Arc;
use store::{Fields, Mode};
use units::{Bytes, Rng};

/// Threads write, read, delete and clean at once; every value read belongs to its key.
fn threads_never_see_another_value(below: Below) {
    let (store, tenants) = new_store(Bytes::mib(2), Bytes::kib(64), 5, below);
    // More than fits, of those below as well.
    let keys = if below == Below::Nothing { 6_000 } else { 12_000 };
    let run = |seed: u64| {
        let store = Arc::clone(&store);
        let tenants = tenants.clone();
        move || {
            let mut worker = store.worker().unwrap();
            let mut rng = Rng::new(seed);
            for turn in 0..60_000_u64 {
                let n = rng.below(keys);
                let (tenant, space) = tenants[usize::try_from(n % 3).unwrap()];
                let text = format!("key-{n}");
                let key = worker.key(space, text.as_bytes()).unwrap();
                match rng.below(10) {
                    0..6 => {
                        if let Some(item) = worker.get(tenant, &key) {
                            assert!(item.value().chunks(8).all(|c| c == &n.to_le_bytes()[..c.len()]));
                        }
                    }
                    6..9 => {
                        let value = n.to_le_bytes().repeat(usize::try_from(rng.below(100)).unwrap());
                        while worker.set(tenant, &key, Mode::Set, Fields::default(), &value).is_err() {
                            worker.make_room().unwrap();
                        }
                    }
                    _ => {
                        worker.delete(tenant, &key);
                    }
                }
                if turn % 16 == 0 {
                    worker.quiesce();
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(run(seed));
        }
    });
    let mut worker = store.worker().unwrap();
    worker.check();
    // Who holds less than its share loses nothing.
    assert!(0 < tenants.iter().map(|(t, _)| store.totals(*t).evictions).sum::<u64>());
}

#[test]
fn threads_never_see_a_value_of_another_key() {
    threads_never_see_another_value(Below::Nothing);
}

#[test]
fn threads_never_see_a_value_of_another_key_below_dram() {
    threads_never_see_another_value(Below::All);
    threads_never_see_another_value(Below::Some);
}
