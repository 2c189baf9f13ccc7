//! The shared traces read in full, and the reference simulators reach their published hit ratios on them.
//! Skipped with a message where the traces are absent; the variable `COTENANT_TRACES` says where they are.

use lab::reference::{Gdsf, Lru, Reference, apply};
use lab::{Tally, TraceReader, open};
use std::path::{Path, PathBuf};
use units::{Bytes, Instant};

fn trace(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("COTENANT_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    let path = folder.join(format!("{name}.csv.zst"));
    path.is_file().then_some(path)
}

#[test]
fn lru_and_gdsf_reach_their_published_hit_ratios() {
    let Some(path) = trace("mix-dev") else {
        println!("skipped: the shared traces are absent");
        return;
    };
    let mut reader = open(&path, None).unwrap();
    let (capacity, per_item) = (Bytes::mib(256), Bytes(48));
    let mut lru = Lru::new(capacity, per_item);
    let mut gdsf = Gdsf::new(capacity, per_item);
    let (mut with_lru, mut with_gdsf) = (Tally::default(), Tally::default());
    while let Some(request) = reader.next().unwrap() {
        with_lru.count(request.op, apply(&request, &mut lru));
        with_gdsf.count(request.op, apply(&request, &mut gdsf));
    }
    assert_eq!(with_lru.requests, 6_820_061);
    println!(
        "lru {:.4} {} items, gdsf {:.4} {} items",
        with_lru.hit_ratio(),
        lru.items(),
        with_gdsf.hit_ratio(),
        gdsf.items()
    );
    lru.check();
    gdsf.check();
    // The tolerances cover ties, and whether a charge counts as size.
    assert!((with_lru.hit_ratio() - 0.716).abs() < 0.003, "{with_lru:?}");
    assert!((with_gdsf.hit_ratio() - 0.824).abs() < 0.004, "{with_gdsf:?}");
}

#[test]
fn every_single_stream_reads_to_its_end() {
    for (name, requests) in [
        ("orm-busy", 5_000_000),
        ("web12", 95_607),
        ("scarab-recs-h1", 622_592),
        ("cloudphysics-w106", 5_292_456),
        ("arc-P3", 238_578),
        ("arc-P6", 519_711),
        ("http-nasa-19950801", 33_240),
        ("llmkv-conversation-h1", 146_464),
    ] {
        let Some(path) = trace(name) else {
            println!("skipped {name}: the shared traces are absent");
            continue;
        };
        let mut reader = open(&path, None).unwrap();
        let (mut count, mut now) = (0, Instant::ZERO);
        while let Some(request) = reader.next().unwrap() {
            count += 1;
            assert!(now <= request.at);
            now = request.at;
        }
        assert_eq!(count, requests, "{name}");
    }
}

#[test]
fn mix_dev_reads_to_its_end() {
    let Some(path) = trace("mix-dev") else {
        println!("skipped: the shared traces are absent");
        return;
    };
    let mut reader = open(&path, None).unwrap();
    let mut count = 0;
    while reader.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 6_820_061);
}
