//! Whose a value in a tier is after a start.

use crate::load::{Folder, TIER, WALL};
use control::Claim;
use media::FileTier;
use std::sync::Arc;
use store::{Fetch, Fields, Mode, Options, Placement, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, TenantId};

const KEYS: u64 = 900;

/// Two tenants of one key space.
fn start(folder: &Folder) -> (Arc<Store>, Worker, [TenantId; 2]) {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 4,
        no_evict: false,
        seed: 1,
    };
    let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
    let store = Store::with_tiers(options, &[device], WALL).unwrap();
    let tenants = ["first", "second"].map(|name| {
        let (name, claim, rank) = (name.to_owned(), Claim::default(), RankKind::default());
        let id = store.add_tenant(TenantSpec { name, own_space: false, claim, rank }).unwrap();
        assert!(store.set_placement(id, Placement::Tier(0)));
        id
    });
    let mut worker = store.worker().unwrap();
    worker.restore(None, &mut |_, _| None);
    (store, worker, tenants)
}

/// Does something with every key, as often as it needs room or a value for that.
fn each(worker: &mut Worker, act: impl Fn(&Worker, u64, &store::Key<'_>) -> Result<(), Refused>) {
    for number in 0..KEYS {
        let text = format!("key {number}");
        let key = worker.key(Space::Shared, text.as_bytes()).unwrap();
        while act(worker, number, &key).is_err() {
            worker.make_room().unwrap();
        }
        worker.quiesce();
    }
}

/// Who touches another's value has it from then on: what becomes of it is the new owner's, over a crash too.
#[test]
fn what_another_tenant_has_touched_is_its_own_after_a_crash() {
    let folder = Folder::new("owners");
    let (store, mut worker, [first, second]) = start(&folder);
    let now = store.now_secs();
    let fields = Fields { expires_at: now + 1_000, ..Fields::default() };
    each(&mut worker, |worker, _, key| worker.set(first, key, Mode::Set, fields, &[7; 1_000]).map(drop));
    // A third is left as it is.
    each(&mut worker, |worker, number, key| match number % 3 {
        0 => Ok(()),
        1 => worker.touch(second, key, now + 2_000).map(drop),
        _ => worker.fetch(second, key, &Fetch { touch: Some(0), ..Fetch::default() }).map(drop),
    });
    let held = [first, second].map(|id| store.tenant_state(id).unwrap().held.0);
    assert!(held[0] < held[1], "{held:?}");
    let after = |folder: &Folder| {
        let (store, worker, _) = start(folder);
        let there = |number: u64| {
            let text = format!("key {number}");
            worker.fetch_plan(&worker.key(Space::Shared, text.as_bytes()).unwrap()).is_some()
        };
        let there = [0, 1, 2].map(|of| (0..KEYS).filter(|number| number % 3 == of && there(*number)).count());
        drop(worker);
        drop(store);
        there
    };
    // What gathers is written.
    store.set_now(now + 5);
    (0..3).for_each(|_| _ = worker.maintain());
    store.flush(second, 0);
    drop((worker, store));
    assert_eq!(after(&folder), [300, 0, 0]);
}
