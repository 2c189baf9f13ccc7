//! Sweeps of one setting: the width of a cleaning pass (M7), the private part of the memory (M8), tenants' own credits.

use crate::load::{Minute, replay};
use crate::rig::divisible;
use harness::Report;
use harness::replay::ReplayOptions;
use store::{FixedPass, PassKind};
use units::Bytes;

/// Differences of hit ratios below this are noise: seeds differ by as much in a memory so small.
const NOISE: f64 = 0.003;

/// A credit is this part of the memory: 64 KiB are so much of what the paper's three applications had (158 MB).
const CREDIT_PART: u64 = 2_400;

fn mean(reports: &[Report]) -> f64 {
    reports.iter().map(Report::hit_ratio).sum::<f64>() / reports.len() as f64
}

/// Three seeds of a generated minute that suits `memory`.
fn minutes(memory: Bytes, options: impl Fn(Minute) -> ReplayOptions) -> Vec<Report> {
    let minutes = (1..=3).map(|seed| Minute { memory, seed });
    minutes.map(|minute| replay(options(minute), &mut minute.mix())).collect()
}

/// Each pass frees one segment, as in the paper. 8 MiB have 128 segments.
#[test]
fn m7_wider_passes_copy_more_and_keep_better_items_until_that_saturates() {
    let widths = [2, 8, 16, 32];
    let mut found = Vec::new();
    for width in widths {
        let reports = minutes(Bytes::mib(8), |minute| ReplayOptions {
            pass_kind: Some(PassKind::Fixed(FixedPass { takes: width, frees: 1 })),
            ..minute.options("shared")
        });
        let moved: u64 = reports.iter().map(|r| r.cleaner_moved_bytes.unwrap()).sum();
        println!("n = {width:2}: hit ratio {:.4}, moved {}", mean(&reports), Bytes(moved));
        found.push((mean(&reports), moved));
    }
    for pair in found.windows(2) {
        assert!(pair[0].1 < pair[1].1, "copied bytes rise with n: {found:?}");
        assert!(pair[0].0 <= pair[1].0 + NOISE, "the hit ratio does not fall: {found:?}");
    }
    assert!(found[0].0 < found[1].0, "a few segments more are a gain: {found:?}");
    let (first, last) = (found[1].0 - found[0].0, found[3].0 - found[2].0);
    assert!(last <= first / 2.0 + NOISE, "the gain saturates: {found:?}");
}

#[test]
fn m8_the_combined_hit_ratio_falls_slowly_with_the_private_part() {
    let mut found = Vec::new();
    for percent in [0, 25, 50, 75, 100] {
        let reports = minutes(Bytes::mib(16), |minute| {
            let part = divisible(minute.memory).scale(percent, 100 * minute.tenants().len() as u64);
            let credit = minute.memory.scale(1, CREDIT_PART);
            ReplayOptions { reserved: vec![(None, part)], credit, ..minute.options("shared") }
        });
        println!("{percent:3} % private: {:.4}", mean(&reports));
        found.push(mean(&reports));
    }
    for pair in found.windows(2) {
        assert!(pair[1] <= pair[0] + NOISE, "private memory gains nothing: {found:?}");
    }
    let all = found[0] - found[4];
    assert!(0.0 < all, "sharing everything beats dividing it: {found:?}");
    assert!(found[0] - found[2] <= all / 2.0 + NOISE, "the first half costs at most half: {found:?}");
}

/// In a memory that 64 KiB do not fit, by far.
#[test]
fn who_claims_the_credit_that_all_have_is_treated_as_who_claims_none() {
    let hits = |own: Option<Bytes>| {
        let minute = Minute { memory: Bytes::mib(8), seed: 1 };
        let credits = minute.tenants().into_iter().filter_map(|name| Some((name, own?))).collect();
        let options = ReplayOptions { credits, ..minute.options("shared") };
        assert_eq!(options.credit, Bytes::kib(64));
        let report = replay(options, &mut minute.mix());
        report.tenants.iter().map(|tenant| tenant.hits).collect::<Vec<_>>()
    };
    let common = hits(None);
    assert_eq!(hits(Some(Bytes::kib(64))), common);
    assert_ne!(hits(Some(Bytes::kib(512))), common, "a larger one counts");
}
