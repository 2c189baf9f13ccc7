//! A live server's journal holds the whole input of its decisions: a fresh policy repeats them.

use crate::live::{config, serve};
use crate::load::Minute;
use control::journal::Record;
use control::memory::{MemoryShare, MemorySignal};
use control::{Policy, Seen};
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use policy::memory::{Credit, Shared};
use server::MemoryPolicy;

/// Few enough that the journal reaches back to the first decision.
const REQUESTS: u64 = 150_000;

#[test]
fn a_live_journal_replays_to_the_same_decisions() {
    let minute = Minute::small(7);
    let settings = config(minute.memory, MemoryPolicy::Shared);
    let (credit, seed) = (Credit::fitting(settings.credit, settings.memory), settings.seed);
    let (server, address) = serve(settings);
    let options = ReplayOptions { limit: Some(REQUESTS), ..minute.options("shared") };
    over_tcp(&options, &address, &mut [&mut minute.mix()], &mut |_| {}, None).unwrap();
    let replayed = server.view().replay_journal().unwrap().expect("the journal reaches back to its start");
    let lines = server.view().journal_lines();
    server.shut_down().unwrap();
    println!("{replayed} decisions replayed, {} lines", lines.len());
    assert!(0 < replayed && replayed <= lines.len());

    let mut policy = Shared::new(credit, seed);
    let mut moved = 0;
    let mut before = Vec::new();
    for (number, line) in (1..).zip(&lines) {
        let record: Record<MemorySignal, MemoryShare> = Record::of_line(number, line).unwrap();
        let rows = record.rows.to_vec();
        let seen = Seen::new(record.window, &record.pool, &rows).unwrap();
        let decision = policy.decide(record.at, &seen);
        assert_eq!(decision.shares.rows(), record.shares, "line {number}");
        assert_eq!((decision.wake, decision.lease), (record.wake, record.lease), "line {number}");
        moved += usize::from(before != record.shares);
        before = record.shares;
    }
    println!("{moved} decisions changed a share");
    assert!(10 < moved, "a journal of decisions that move nothing proves nothing");
}
