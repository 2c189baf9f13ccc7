//! What a DAX tier is refused for anywhere, and what it keeps where there is persistent memory.

use super::*;
use crate::faults::Recorder;
use crate::file::Damage;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use units::Rng;

fn refused(path: &Path) -> TierError {
    DaxTier::open(path, Bytes::mib(4)).unwrap_err()
}

#[test]
fn a_processor_whose_instructions_are_not_known_is_refused() {
    let open = |is_known| DaxTier::open_where(is_known, Path::new("/nonexistent/tier"), Bytes::mib(4));
    let refused = open(false).unwrap_err();
    assert!(
        matches!(refused, TierError::Processor { name, .. } if name == std::env::consts::ARCH),
        "{refused:?}"
    );
    assert!(refused.cure().is_some());
    assert!(matches!(open(true), Err(TierError::NoFolder { .. })));
}

#[test]
fn a_file_system_without_dax_is_refused_and_left_as_it_was() {
    let binary = std::env::current_exe().unwrap();
    for folder in [binary.parent().unwrap(), Path::new("/dev/shm")] {
        let path = folder.join(format!("dax-test-{}", std::process::id()));
        match DaxTier::open(&path, Bytes::mib(4)) {
            Err(refused) => {
                assert!(matches!(refused, TierError::NoDax { .. }), "{refused:?}");
                assert!(refused.cure().is_some());
                assert!(!path.exists());
            }
            Ok(_) => {
                println!("not checked: {} is on a DAX file system", folder.display());
                std::fs::remove_file(&path).unwrap();
            }
        }
        let mine = |name: &std::ffi::OsStr| {
            name.to_string_lossy().starts_with(&path.file_name().unwrap().to_string_lossy()[..])
        };
        let left =
            std::fs::read_dir(folder).unwrap().filter(|entry| mine(&entry.as_ref().unwrap().file_name()));
        assert_eq!(left.count(), 0, "nothing is left in {}", folder.display());
    }
}

#[test]
fn other_devices_and_missing_folders_are_refused() {
    assert!(matches!(refused(Path::new("/dev/null")), TierError::Kind { .. }));
    assert!(matches!(refused(Path::new("/nonexistent/folder/tier")), TierError::NoFolder { .. }));
    assert!(matches!(DaxTier::open(Path::new("/dev/shm/x"), Bytes(1)), Err(TierError::TooSmall { .. })));
}

#[test]
fn notes_that_nobody_settled_have_survived_once_everything_was_settled() {
    let tier = DaxTier::recorded(Bytes::mib(1), Recorder::default()).unwrap();
    let (notes, acts) = (tier.notes().unwrap(), tier.acts());
    notes.words()[9].store(7, Ordering::Release);
    tier.settle_all().unwrap();
    let kept = |moment, seed| {
        let crash = acts.crash(moment, &mut Rng::new(seed));
        u64::from_le_bytes(crash.bytes(notes.region(), 9 * 8, 8).try_into().unwrap())
    };
    let all = acts.moments();
    assert!((0..40).all(|seed| kept(all, seed) == 7), "whatever a crash leaves");
    assert!((0..40).any(|seed| kept(1, seed) == 0), "it was in the caches alone before");
}

#[test]
fn a_tier_of_instructions_keeps_what_is_written() {
    let tier = DaxTier::recorded(Bytes::mib(1), Instructions::new()).unwrap();
    crate::device::write_alone(&tier, 128, &[3; 192]).unwrap();
    tier.settle().unwrap();
    let mut back = [0; 256];
    tier.read(64, &mut back).unwrap();
    assert!(back[..64] == [0; 64] && back[64..] == [3; 192]);
    assert!(crate::device::write_alone(&tier, 32, &[0; 64]).is_err(), "not in lines");
    assert!(crate::device::write_alone(&tier, 1 << 20, &[0; 64]).is_err(), "beyond the end");
}

/// Names places of persistent memory, separated by commas: files on DAX file systems, which are removed, and DAX devices, which are
/// emptied. `tests/vm/test_dax.py` has both.
const PLACES: &str = "COTENANT_TEST_DAX";

/// Held by the test that uses the places.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `check` on every place, new.
fn on_persistent_memory(check: impl Fn(&Path)) {
    let Ok(places) = std::env::var(PLACES) else {
        println!("not checked: {PLACES} names no persistent memory");
        return;
    };
    let _alone = ALONE.lock();
    for place in places.split(',').map(Path::new) {
        if place.is_file() {
            std::fs::remove_file(place).unwrap();
        } else if place.exists() {
            change_front(place, &[0; PAGE_LEN]);
        }
        check(place);
    }
}

/// Puts bytes where a tier begins.
fn change_front(place: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().read(true).write(true).open(place).unwrap();
    // A device is mapped in huge pages.
    let front = WordRegion::of(Region::of_file(&file, 0, Bytes::mib(2), true).unwrap());
    for (word, bytes) in front.words().iter().zip(bytes.chunks(8)) {
        let mut whole = word.load(Ordering::Relaxed).to_ne_bytes();
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    }
}

fn is_mapped(place: &Path) -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains(&*place.to_string_lossy())
}

#[test]
fn persistent_memory_keeps_what_was_settled() {
    // Sizes that end with a huge page, within one, and with a page of 4 KiB.
    for size in [Bytes::mib(4), Bytes::mib(1), Bytes(Bytes::mib(3).0 + PAGE)] {
        on_persistent_memory(|place| {
            let tier = DaxTier::open(place, size).unwrap();
            assert!(tier.is_new() && tier.size() == size && is_mapped(place));
            let noted = tier.notes().unwrap().words()[9].load(Ordering::Acquire);
            assert_eq!(noted, 0, "nothing is known of what was there before");
            crate::device::write_alone(&tier, size.0 - 64, &[7; 64]).unwrap();
            tier.settle().unwrap();
            tier.notes().unwrap().words()[9].store(11, Ordering::Release);
            tier.settle_notes(9..10);
            assert!(matches!(DaxTier::open(place, size), Err(TierError::InUse { .. })));
            let identity = tier.identity();
            drop(tier);
            assert!(!is_mapped(place), "all of it is unmapped");
            let again = DaxTier::open(place, size).unwrap();
            assert!(!again.is_new() && again.identity() == identity);
            let mut back = [0; 128];
            again.read(size.0 - 128, &mut back).unwrap();
            assert!(back[..64] == [0; 64] && back[64..] == [7; 64]);
            assert_eq!(again.notes().unwrap().words()[9].load(Ordering::Acquire), 11);
        });
    }
}

#[test]
fn persistent_memory_of_another_size_or_content_is_refused() {
    on_persistent_memory(|place| {
        drop(DaxTier::open(place, Bytes::mib(4)).unwrap());
        assert!(
            matches!(DaxTier::open(place, Bytes::mib(5)), Err(TierError::Size { found, .. }) if found == Bytes::mib(4))
        );
        let larger = DaxTier::open(place, Bytes::mib(1 << 20));
        assert!(matches!(larger, Err(TierError::Size { .. } | TierError::Room { .. })), "{larger:?}");
        change_front(place, b"COTENANT\x01\0\0\0");
        drop(DaxTier::open(place, Bytes::mib(4)).unwrap());
        for (front, damage) in [
            (&b"COTENANT\x02"[..], Damage::Version(2)),
            (b"COTENANT\x01\0\0\0\0\0\0\0", Damage::Checksum),
            (b"x", Damage::Foreign),
        ] {
            change_front(place, front);
            let refused = DaxTier::open(place, Bytes::mib(4)).unwrap_err();
            assert!(
                matches!(refused, TierError::Damaged { damage: found, .. } if found == damage),
                "{refused:?}"
            );
        }
    });
}
