//! What of a tier is there after a start.

use super::*;
use crate::tier::Notes;
use crate::{Fields, Mode, Options, Placement, RankKind, TenantSpec};
use control::Claim;
use media::faults::{Faulty, Recorder};
use media::{DaxTier, Device, FileTier};
use units::{Bytes, Rng};

const ITEMS: u32 = 3_000;

fn options() -> Options {
    Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 2,
        no_evict: false,
        seed: 1,
    }
}

fn start<D: Device + 'static>(device: &Arc<D>, saved: &Path) -> (Worker, TenantId, Restored) {
    let store = Store::with_tiers(options(), &[Arc::clone(device) as _], 1_000_000_000).unwrap();
    let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
    let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
    assert!(store.set_placement(tenant, Placement::Tier(0)));
    let mut worker = store.worker().unwrap();
    let restored = worker.restore(Some(saved), &mut |_, _| None);
    (worker, tenant, restored)
}

fn fill(worker: &mut Worker, tenant: TenantId) {
    for number in 0..ITEMS {
        let text = format!("key {number}");
        let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        while worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 2_000]).is_err() {
            worker.make_room().unwrap();
        }
        worker.quiesce();
    }
}

/// A record that no item leads to yet.
fn append(store: &Store, tenant: TenantId, key: &[u8]) -> Reference {
    let tier = &store.tiers[0];
    let owner = tier.owner(tenant);
    let (own_space, stamp, cas, client_flags, expires_wall, state) = (true, 1, None, 0, 0, 0);
    let fields = record::Fields { owner, own_space, stamp, cas, client_flags, expires_wall, state };
    tier.append(&store.epochs, (0, 0), &fields, key, [&[7; 2_000], &[]]).unwrap()
}

#[test]
fn a_record_that_was_written_out_before_an_item_led_there_is_noted_as_live() {
    let folder = std::env::temp_dir().join(format!("cotenant-noted-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let device = Arc::new(Faulty::new(FileTier::open(&folder.join("tier"), Bytes::mib(16)).unwrap()));
    let (worker, tenant, _) = start(&device, &folder.join("saved"));
    let (store, tier) = (&worker.store, &worker.store.tiers[0]);
    let append = |key: &[u8]| append(store, tenant, key);
    let [early, late] = [append(b"early"), append(b"late")];
    tier.hold(early);
    assert!(!tier.notes.is_live(early.at), "it is not on the device yet");
    while let Some(mut head) = tier.take_late(1_000) {
        assert!(tier.write_out(&head, 1_000));
        tier.note_written(&mut head, |_, _| ());
        tier.park(head);
    }
    tier.hold(late);
    assert!(tier.notes.is_live(late.at), "nobody else notes it any more");
    let next = append(b"next");
    tier.hold(next);
    assert!(!tier.notes.is_live(next.at), "behind what was written");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_record_whose_segment_was_sealed_before_an_item_led_there_survives_once_it_is_noted() {
    let device = Arc::new(DaxTier::recorded(Bytes::mib(16), Recorder::default()).unwrap());
    let (worker, tenant, _) = start(&device, Path::new("/nonexistent"));
    let (store, tier) = (&worker.store, &worker.store.tiers[0]);
    let [early, late] = [&b"early"[..], b"late"].map(|key| append(store, tenant, key));
    tier.hold(early);
    tier.seal_parked();
    tier.hold(late);
    for seed in 0..20 {
        let crash = device.acts().crash(device.acts().moments(), &mut Rng::new(seed));
        let (after, segment) = (crash.tier(&device).unwrap(), Bytes(tier.segments.bytes()));
        let notes = Notes::new(Arc::new(after), segment, options().tenants_max).unwrap();
        assert!(notes.is_live(early.at) && notes.is_live(late.at), "seed {seed}");
    }
}

/// A start that is ended while its tiers begin has changed nothing: those that had begun and those that had not are both of the run before.
#[test]
fn a_start_that_ends_halfway_leaves_every_tier_what_it_has() {
    let folder = std::env::temp_dir().join(format!("cotenant-halfway-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tier = |name: &str| Arc::new(FileTier::open(&folder.join(name), Bytes::mib(16)).unwrap()) as _;
    let devices = [tier("a"), tier("b")];
    let items = |ends_halfway: bool| {
        let store = Store::with_tiers(options(), &devices, 1_000_000_000).unwrap();
        if ends_halfway {
            store.tiers[0].notes.begin(store.wall(), u64::MAX / 2);
            return 0;
        }
        let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
        let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
        assert!(store.set_placement(tenant, Placement::Tier(1)));
        let mut worker = store.worker().unwrap();
        let restored = worker.restore(None, &mut |_, _| None);
        fill(&mut worker, tenant);
        restored.items
    };
    assert_eq!(items(false), 0);
    items(true);
    items(true);
    assert!(u64::from(ITEMS) / 2 < items(false));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_tenant_that_was_removed_is_not_there_after_a_start() {
    let folder = std::env::temp_dir().join(format!("cotenant-gone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let saved = folder.join("saved");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.join("tier"), Bytes::mib(16)).unwrap()));
    let names_found = |is_removed: bool| {
        let (mut worker, tenant, _) = start(&device, &saved);
        fill(&mut worker, tenant);
        if is_removed {
            assert!(worker.store.remove_tenant(tenant));
            // Until nobody can write for it any more, and nothing of it is left.
            while worker.store.departing.load(Ordering::Relaxed) != 0 {
                worker.quiesce();
                worker.maintain();
            }
        }
        drop(worker);
        let store = Store::with_tiers(options(), &[Arc::clone(&device) as _], 1_000_000_000).unwrap();
        let mut names = Vec::new();
        let mut note = |name: &str, _| {
            names.push(name.to_owned());
            None
        };
        store.worker().unwrap().restore(Some(&saved), &mut note);
        names
    };
    assert_eq!(names_found(false), ["t"]);
    assert_eq!(names_found(true), [""; 0]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_outlives_the_process_alone_goes_with_the_machine_unless_the_end_was_clean() {
    let folder = std::env::temp_dir().join(format!("cotenant-boot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let saved = folder.join("saved");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.join("tier"), Bytes::mib(16)).unwrap()));
    let mut boot = 1;
    let mut start_again = |is_clean: bool, is_machine: bool| {
        device.set_boot(boot);
        let (mut worker, tenant, _) = start(&device, &saved);
        fill(&mut worker, tenant);
        if is_clean {
            worker.save(&saved).unwrap();
        }
        drop(worker);
        boot += u64::from(is_machine);
        device.set_boot(boot);
        let (worker, _, restored) = start(&device, &saved);
        drop(worker);
        restored.items
    };
    assert!(
        u64::from(ITEMS) / 2 < start_again(false, false),
        "what was written before the process was killed"
    );
    assert_eq!(start_again(false, true), 0, "nobody knows what of it the machine wrote down");
    assert_eq!(start_again(true, true), u64::from(ITEMS));
    std::fs::remove_dir_all(folder).unwrap();
}
