//! What a probe keeps and covers. Rates are the machine's and are not judged here.

use super::*;
use crate::{Plain, Profile};

#[test]
fn sizes_step_by_the_access_unit() {
    assert_eq!(sizes(Bytes(64)).count(), 64);
    assert_eq!(sizes(Bytes(256)).collect::<Vec<_>>().len(), 16);
    assert_eq!(sizes(Bytes(4096)).collect::<Vec<_>>(), [Bytes(4096)]);
    assert_eq!(sizes(Bytes(1 << 20)).collect::<Vec<_>>(), [Bytes(4096)]);
}

fn content(device: &dyn Device) -> Vec<u8> {
    let mut all = vec![0; device.size().as_usize()];
    device.read(0, &mut all).unwrap();
    all
}

#[test]
fn a_probe_covers_every_size_and_leaves_the_content() {
    let file = std::env::current_exe().unwrap().with_file_name(format!("probe-{}", std::process::id()));
    for (spec, rows) in [("dram:4MiB".to_owned(), 64), (format!("file:{}:4MiB", file.display()), 1)] {
        let spec: TierSpec = spec.parse().unwrap();
        let tier = spec.open().unwrap();
        let filled: Vec<u8> = (0..4 << 20).map(|i: u32| (i / 64 % 251) as u8).collect();
        crate::device::write_alone(&*tier.device, 0, &filled).unwrap();
        let told = std::cell::RefCell::new(Vec::new());
        let found = probe(&spec, &*tier.device, Duration::from_millis(60), &|done, of| {
            told.borrow_mut().push((done, of))
        });
        let Probed { rows: found, competition } = found.unwrap();
        assert_eq!(found.len(), rows);
        assert!(Profile::new(&found).is_ok(), "{found:?}");
        let (reads, writes) = (&competition.reads, &competition.writes);
        assert!(reads.len() >= 2 && reads.is_sorted(), "{competition:?}");
        assert!(writes.len() >= 2 && writes.is_sorted(), "{competition:?}");
        assert_eq!(competition.got.len(), reads.len() * writes.len());
        assert!(content(&*tier.device) == filled, "content has changed");
        assert_eq!(told.borrow().last(), Some(&(2 * rows + RUNS, 2 * rows + RUNS)));
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_tier_that_is_too_small_is_refused() {
    let spec: TierSpec = "dram:4KiB".parse().unwrap();
    let device = Plain::new(spec.size).unwrap();
    // One page for two threads or more; a machine with one core can.
    let found = probe(&spec, &device, Duration::from_millis(1), &|_, _| ());
    if std::thread::available_parallelism().map_or(1, usize::from) > 1 {
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
