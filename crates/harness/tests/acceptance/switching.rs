//! The policy changes while clients work: no item is lost for it, and shares go on where the new policy lets them.

use crate::live::{config, serve, tenant};
use server::memcache::client::Client;
use server::{
    Config, GroupConfig, GroupSettings, MemoryPolicy, MemorySettings, Running, Settings, TenantConfig,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Bytes;

const KEYS: usize = 6_000;
const NAMES: [&str; 3] = ["a", "b", "c"];

fn key(n: usize) -> String {
    format!("{}:{n}", NAMES[n % NAMES.len()])
}

/// Stores every key again and again until told to stop; returns the rounds.
fn rewrite(address: &str, stop: &AtomicBool) -> usize {
    let mut client = Client::connect(address).unwrap();
    let mut rounds = 0;
    while rounds < 1 || !stop.load(Ordering::Relaxed) {
        for chunk in (0..KEYS).collect::<Vec<_>>().chunks(200) {
            for n in chunk {
                client.queue_store("set", key(*n).as_bytes(), 0, &[7; 400]);
            }
            client.send().unwrap();
            for _ in chunk {
                assert_eq!(client.read_line().unwrap(), b"STORED");
            }
        }
        rounds += 1;
    }
    rounds
}

fn targets(server: &Running) -> Vec<Bytes> {
    server.view().snapshot().tenants.iter().map(|t| t.state.share.target).collect()
}

/// Another policy is in charge and has decided.
fn switch(server: &Running, kind: MemoryPolicy) {
    let noted = |line: &String| line.contains("\"switched\"") && line.contains(kind.name());
    let count = || server.view().journal_lines().iter().filter(|line| noted(line)).count();
    let before = count();
    assert!(server.operator().set_policy(kind));
    // Some thousand looks, a millisecond each: the control thread is rung at once.
    for _ in 0..20_000 {
        if before < count() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("no decision of {} is in the journal", kind.name());
}

fn close(a: &[Bytes], b: &[Bytes]) -> bool {
    // Connection buffers come and go and are no part of what is divided.
    a.iter().zip(b).all(|(a, b)| a.0.abs_diff(b.0) <= Bytes::kib(512).0)
}

#[test]
fn switching_the_policy_under_load_loses_nothing() {
    let tenants = NAMES.map(|name| TenantConfig {
        reserved: if name == "a" { Bytes::mib(4) } else { Bytes::ZERO },
        weight: if name == "b" { 3.0 } else { 1.0 },
        ..tenant(name)
    });
    let settings = config(Bytes::mib(32), MemoryPolicy::Partitioned);
    let (server, address) = serve(Config { tenants: tenants.to_vec(), ..settings });
    rewrite(&address, &AtomicBool::new(true));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (address, stop) = (address.clone(), Arc::clone(&stop));
        std::thread::spawn(move || rewrite(&address, &stop))
    };
    let divisible: Bytes = targets(&server).into_iter().sum();
    let before = targets(&server);
    switch(&server, MemoryPolicy::Shared);
    assert!(close(&before, &targets(&server)), "shared takes over what partitioned gave");
    // A weight is where a tenant of `shared` begins; once it is there, nothing jumps, also not under the next policy.
    let weight = Settings { weight: Some(9.0), ..Settings::default() };
    assert_eq!(server.operator().put("c", &weight), Ok(false));
    switch(&server, MemoryPolicy::Auto);
    assert!(close(&before, &targets(&server)), "auto learns from where shared was");
    switch(&server, MemoryPolicy::IdleTax);
    let taxed = targets(&server);
    assert!(
        before[3] < taxed[3] && taxed.iter().copied().sum::<Bytes>() <= divisible,
        "by weight: {taxed:?}"
    );
    // The same policy is told something else, and replayed as who has been told so.
    let told = MemorySettings { tax: Some(0.9), credit: Some(Bytes::kib(1)), ..MemorySettings::default() };
    tell(&server, &told);
    assert_eq!(server.operator().divide(&told), Ok(false), "the same again is no change");
    assert_eq!((server.operator().policy(), server.operator().terms().tax), (MemoryPolicy::IdleTax, 0.9));
    let taxed = targets(&server);
    switch(&server, MemoryPolicy::Shared);
    assert!(close(&taxed, &targets(&server)), "and back to shared");
    for kind in MemoryPolicy::ALL.into_iter().cycle().take(12) {
        switch(&server, kind);
        let sum: Bytes = targets(&server).into_iter().sum();
        assert!(sum <= divisible + Bytes::mib(1), "{sum} of {divisible} under {}", kind.name());
        assert!(divisible <= sum + Bytes::mib(1) || kind == MemoryPolicy::IdleTax, "{sum} of {divisible}");
    }
    stop.store(true, Ordering::Relaxed);
    let rounds = writer.join().unwrap();
    let mut client = Client::connect(&address).unwrap();
    let mut hits = 0;
    for n in 0..KEYS {
        client.queue_get(key(n).as_bytes());
        client.send().unwrap();
        hits += usize::from(client.read_get(|value| assert_eq!(value, [7; 400])).unwrap().is_some());
    }
    let evictions: u64 = server.view().snapshot().tenants.iter().map(|t| t.totals.evictions).sum();
    let replayed = server.view().replay_journal().unwrap();
    println!(
        "{rounds} rounds of writes, {hits} of {KEYS} keys, {evictions} evictions, {replayed:?} decisions replayed"
    );
    assert_eq!((hits, evictions), (KEYS, 0));
    assert!(replayed.is_some_and(|decisions| 16 < decisions), "the journal replays across policies");
    assert!(!server.operator().set_policy(server.operator().policy()), "the same again is no change");
    server.shut_down().unwrap();
}

/// The policy in charge is told something else, and has decided.
fn tell(server: &Running, told: &MemorySettings) {
    let before = server.view().snapshot().decisions_total;
    assert_eq!(server.operator().divide(told), Ok(true));
    next_decision(server, before);
}

/// `auto` that taxes by what it has learnt goes on with that when it is told another tax, and is replayed so; who was replaced and came
/// back without a decision between, if none comes in time (`in_charge.rs` has that for certain), has forgotten it, and is replayed so, too.
#[test]
fn a_replay_knows_who_went_on_and_who_began_anew() {
    let tenants =
        NAMES.map(|name| TenantConfig { weight: if name == "b" { 3.0 } else { 1.0 }, ..tenant(name) });
    let settings = config(Bytes::mib(32), MemoryPolicy::Auto);
    let learning = units::Duration::from_secs(1);
    let (server, address) = serve(Config { tenants: tenants.to_vec(), learning, ..settings });
    rewrite(&address, &AtomicBool::new(true));
    let idle = |tax| MemorySettings {
        tax: Some(tax),
        idle_time: Some(units::Duration::from_secs(1)),
        ..MemorySettings::default()
    };
    let replays = || server.view().replay_journal().unwrap().expect("it reaches back to the first");
    let decided = || server.view().snapshot().decisions_total;
    // One by which it begins, and one by which it has learnt.
    next_decision(&server, 1);
    tell(&server, &idle(0.7));
    tell(&server, &idle(0.4));
    let (went_on, decisions) = (replays(), decided());
    assert!(4 <= went_on && went_on as u64 <= decisions, "{went_on} of {decisions}");
    let operator = server.operator();
    assert!(operator.set_policy(MemoryPolicy::Shared) && operator.set_policy(MemoryPolicy::Auto));
    tell(&server, &idle(0.5));
    assert!(went_on < replays(), "{} after {went_on}", replays());
    server.shut_down().unwrap();
}

/// Who has all the memory when `partitioned` comes loses nothing for it; when others come it gives, down to its share.
#[test]
fn a_full_server_that_is_partitioned_loses_what_others_come_to_need() {
    let settings = config(Bytes::mib(32), MemoryPolicy::Shared);
    let (server, address) = serve(Config { tenants: NAMES.map(tenant).to_vec(), ..settings });
    let mut client = Client::connect(&address).unwrap();
    let mut store = |name: &str, keys: std::ops::Range<usize>| {
        for n in keys {
            client.queue_store("set", format!("{name}:{n}").as_bytes(), 0, &[7; 400]);
            if n % 100 == 99 {
                client.send().unwrap();
                (0..100).for_each(|_| assert_eq!(client.read_line().unwrap(), b"STORED"));
            }
        }
    };
    let of = |name: &str| {
        let tenants = server.view().snapshot().tenants;
        let one = tenants.iter().find(|t| t.state.name == name).unwrap();
        (one.totals.evictions, one.state.held, one.state.share)
    };
    store("a", 0..100_000);
    // The cleaner fills its reserve behind the last write.
    let decisions = |count: usize| {
        (0..count).for_each(|_| next_decision(&server, server.view().snapshot().decisions_total));
    };
    let (mut before, mut held, _) = of("a");
    for _ in 0..20 {
        decisions(1);
        let (evictions, now, _) = of("a");
        if (evictions, now) == (before, held) {
            break;
        }
        (before, held) = (evictions, now);
    }
    assert!(0 < before && Bytes::mib(16) < held, "{held}");
    switch(&server, MemoryPolicy::Partitioned);
    decisions(3);
    assert_eq!(of("a").0, before, "nothing goes for the change");
    assert!(Some(held) <= of("a").2.ceiling && of("a").2.target < held);
    // Another comes to its share, in steps that decisions follow.
    for step in 0..6 {
        store("b", step * 5_000..(step + 1) * 5_000);
        decisions(1);
    }
    let ((_, a, share), (_, b, other)) = (of("a"), of("b"));
    assert!(other.target.0 * 9 / 10 < b.0, "{b} of {}", other.target);
    assert!(a < held && share.ceiling.unwrap() < held, "{a} of {share:?}, after {held}");
    store("a", 100_000..130_000);
    // Above its ceiling there is the store's slack, a 64th, and what is written till a cleaner comes.
    assert!(
        of("a").1.0 <= share.ceiling.unwrap().0 * 33 / 32 + Bytes::mib(1).0,
        "{} of {share:?}",
        of("a").1
    );
    assert!(other.target.0 * 9 / 10 < of("b").1.0, "who has its share keeps it");
    server.shut_down().unwrap();
}

/// Waits until a decision has been made after `before`.
fn next_decision(server: &Running, before: u64) {
    for _ in 0..20_000 {
        if before < server.view().snapshot().decisions_total {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("no decision is made");
}

#[test]
fn groups_come_change_and_go_under_load_and_the_journal_replays() {
    let group = |name: &str, mib| GroupConfig {
        name: name.to_owned(),
        reserved: Bytes::mib(mib),
        weight: 2.0,
        policy: Some(MemoryPolicy::Partitioned),
        bandwidth: server::TierClaim::default(),
    };
    let member = |name, group: Option<&str>| TenantConfig { group: group.map(str::to_owned), ..tenant(name) };
    let settings = config(Bytes::mib(32), MemoryPolicy::Shared);
    let (server, address) = serve(Config {
        tenants: vec![member("a", Some("g")), member("b", Some("g")), member("c", None)],
        groups: vec![group("g", 6)],
        ..settings
    });
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (address, stop) = (address.clone(), Arc::clone(&stop));
        std::thread::spawn(move || rewrite(&address, &stop))
    };
    let operator = server.operator();
    let change = |act: &dyn Fn()| {
        let before = server.view().snapshot().decisions_total;
        act();
        next_decision(&server, before);
        let g = operator.group("g").unwrap();
        let is_kept = g.members.is_empty() || Bytes::mib(6) <= g.target;
        // The idle tax may take from a reservation what is idle of it.
        assert!(is_kept || operator.policy() == MemoryPolicy::IdleTax, "{g:?}");
    };
    let to = |group: Option<&str>| Settings { group: Some(group.map(str::to_owned)), ..Settings::default() };
    change(&|| assert_eq!(operator.put("c", &to(Some("g"))), Ok(false)));
    let h = GroupSettings { reserved: Some(Bytes::mib(3)), ..GroupSettings::default() };
    change(&|| assert_eq!(operator.put_group("h", &h), Ok(true)));
    change(&|| assert_eq!(operator.put("a", &to(Some("h"))), Ok(false)));
    change(&|| assert!(operator.set_policy(MemoryPolicy::IdleTax)));
    let inside = GroupSettings { policy: Some(Some(MemoryPolicy::Auto)), ..GroupSettings::default() };
    change(&|| assert_eq!(operator.put_group("g", &inside), Ok(false)));
    change(&|| assert!(operator.set_policy(MemoryPolicy::Partitioned)));
    change(&|| assert_eq!(operator.put("a", &to(None)), Ok(false)));
    change(&|| assert_eq!(operator.remove_group("h"), Ok(())));
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    let evictions: u64 = server.view().snapshot().tenants.iter().map(|t| t.totals.evictions).sum();
    assert_eq!(evictions, 0, "nothing is lost for it");
    let replayed = server.view().replay_journal().unwrap();
    assert!(replayed.is_some_and(|decisions| 8 <= decisions), "{replayed:?}");
    server.shut_down().unwrap();
}
