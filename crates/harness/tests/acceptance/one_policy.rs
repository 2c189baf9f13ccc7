//! One policy object decides on a modelled machine first and in a live server then; both journals together replay to the same
//! decisions.

use crate::live::{config, serve_with};
use crate::load::Minute;
use control::journal::{Record, replay};
use control::memory::{MemoryShare, MemorySignal};
use control::{Amount, Claim, Curve, Loop};
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use lab::machine::cache::{CurveCaches, CurveTenant, drive};
use policy::memory::{MemoryOptions, MemoryPolicy};
use units::{Bytes, Duration, Instant};

const REQUESTS: u64 = 100_000;
const JOURNAL: usize = 100_000;

fn shared() -> MemoryPolicy {
    MemoryPolicy::by_name("shared", MemoryOptions { seed: 11, ..MemoryOptions::default() }).unwrap()
}

/// Tenants whose curves fall at different sizes.
fn tenant(i: u64) -> CurveTenant {
    let curve = vec![(Bytes::ZERO, 1.0), (Bytes::mib(2 * i), 0.3), (Bytes::mib(8 * i), 0.1)];
    CurveTenant {
        claim: Claim { floor: Amount::memory(Bytes::kib(512)), ..Claim::default() },
        curve: Curve::new(curve).unwrap(),
        gets_per_sec: 2_000.0,
        item: Bytes(400),
        active: Bytes::mib(64),
        arrives: Instant::ZERO,
        leaves: None,
    }
}

#[test]
fn one_policy_object_steps_in_the_model_and_in_the_live_server() {
    let minute = Minute::small(5);
    let tenants = (1..=4).map(tenant).collect();
    let mut caches = CurveCaches::new(minute.memory, Bytes::mib(1), tenants, 5);
    let mut modelled = Loop::new(shared(), JOURNAL);
    drive(&mut caches, &mut modelled, Instant::ZERO + Duration::from_secs(120));
    let mut records: Vec<Record<MemorySignal, MemoryShare>> = modelled.journal().records().cloned().collect();
    let in_model = records.len();

    let (server, address) =
        serve_with(config(minute.memory, server::MemoryPolicy::Shared), modelled.into_policy());
    let options = ReplayOptions { limit: Some(REQUESTS), ..minute.options("shared") };
    over_tcp(&options, &address, &mut [&mut minute.mix()], &mut |_| {}, None).unwrap();
    let lines = server.view().journal_lines();
    server.shut_down().unwrap();
    records.extend((1..).zip(&lines).map(|(number, line)| Record::of_line(number, line).unwrap()));
    println!("{in_model} decisions in the model, {} in the server", lines.len());
    assert!(100 < in_model && 2 < lines.len());
    let moved = records[in_model..].windows(2).filter(|pair| pair[0].shares != pair[1].shares).count();
    assert!(0 < moved, "the server's load moved memory");

    // Notes are words of a journal and not read back from lines; a replay compares them where they are known.
    let mut fresh = shared();
    assert_eq!(replay(&mut fresh, records[..in_model].iter()), Ok(in_model));
    for (number, record) in (1..).zip(&records[in_model..]) {
        let rows = record.rows.to_vec();
        let seen = control::Seen::new(record.window, &record.pool, &rows).unwrap();
        let decision = control::Policy::decide(&mut fresh, record.at, &seen);
        assert_eq!(decision.shares.rows(), record.shares, "decision {number} of the server");
    }
    // A policy that did not decide in the model draws other donors: the comparison can fail.
    let mut other = shared();
    let differs = records[in_model..].iter().any(|record| {
        let rows = record.rows.to_vec();
        let seen = control::Seen::new(record.window, &record.pool, &rows).unwrap();
        control::Policy::decide(&mut other, record.at, &seen).shares.rows() != record.shares
    });
    assert!(differs);
}
