//! Bandwidth: what the loop about a tier's bandwidth takes of a core.
//!
//! Shape:      a store with tenants whose values are in a tier, some of which come to it between two steps; steps of the loop
//!             in virtual time, as often as each policy wants
//! Invariants: only the steps are timed: sensor, policy, brakes and journal, as in a server but for latencies of requests
//! Units:      CPU time of this thread ÷ virtual time, in per cent of a core

use crate::in_process::thread_cpu_nanos;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::{Amount, Claim, Loop};
use media::{Device, Plain};
use policy::bandwidth::{Options, by_name};
use std::sync::Arc;
use store::{BandwidthControl, Fields, Mode, Placement, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Tenants, and the goal in per cent of a core.
const SIZES: [(u32, f64); 2] = [(100, 0.5), (1_000, 3.0)];
/// Policies that a server can choose, but for those that are only compared with.
const POLICIES: [&str; 5] = ["limit", "qos", "fair-slowdown", "proportional", "prevention"];
/// Virtual time of a round.
const ROUND: Duration = Duration::from_secs(2);
/// Tenants that come to the tier between two steps.
const ACTIVE: u64 = 50;
/// Bytes of a value.
const VALUE: usize = 200;
/// Records that a server's journal keeps, and their rows.
const JOURNAL: (usize, usize) = (1_024, 8 * 1_024);

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("sharing");
    for (tenants, goal) in SIZES {
        for name in POLICIES {
            let mut ours = Vec::new();
            for _ in 0..bench.rounds {
                ours.push(one(name, tenants, bench.seed)?);
            }
            let measure = format!("bandwidth loop, {name}, {tenants} tenants");
            bench.add(Row { measure, unit: "% of a core", ours, peer: None, goal: Goal::AtMost(goal) });
        }
    }
    crate::in_force::run(bench)
}

fn one(name: &str, tenants: u32, seed: u64) -> Result<f64, BenchError> {
    let (store, worker) = filled(tenants, seed)?;
    let options = Options { seed, ..Options::default() };
    let policy =
        by_name(name, &options).ok_or_else(|| BenchError::Premise(format!("no policy is called {name}")))?;
    let mut pacer = Loop::new(policy, JOURNAL.0);
    pacer.limit_journal_rows(JOURNAL.1);
    let mut thing = BandwidthControl::new(Arc::clone(&store));
    let mut rng = Rng::new(seed);
    let (mut now, mut spent) = (Instant(1_000_000_000), 0.0);
    // Tables are made, the first decisions taken.
    let warm = now + Duration::from_millis(200);
    let end = warm + ROUND;
    while now < end {
        for _ in 0..ACTIVE {
            touch(&worker, TenantId(u32::try_from(rng.below(u64::from(tenants))).unwrap_or(0)));
        }
        let started = thread_cpu_nanos();
        let wake = pacer.step(now, &mut thing);
        if warm <= now {
            spent += thread_cpu_nanos() - started;
        }
        now += wake.max(Duration::from_micros(100));
    }
    Ok(100.0 * spent / ROUND.0 as f64)
}

fn filled(tenants: u32, seed: u64) -> Result<(Arc<Store>, Worker), BenchError> {
    let options = store::Options {
        memory: Bytes::mib(64),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: tenants as usize,
        no_evict: false,
        seed,
    };
    let device: Arc<dyn Device> = Arc::new(Plain::new(Bytes::mib(64)).map_err(store::StoreError::from)?);
    let store = Store::with_tiers(options, &[device], 0)?;
    let mut worker = store.worker()?;
    for id in 0..tenants {
        let limit = Amount::tier_time(control::bandwidth::Cost(1_000_000_000));
        let spec = TenantSpec {
            name: format!("t{id}"),
            own_space: true,
            claim: Claim { ceiling: Some(limit), ..Claim::default() },
            rank: RankKind::default(),
        };
        let id = store.add_tenant(spec).ok_or_else(|| BenchError::Premise("tenants fit".to_owned()))?;
        store.set_placement(id, Placement::Tier(0));
        put(&mut worker, id)?;
        worker.quiesce();
    }
    Ok((store, worker))
}

/// Stores a tenant's value.
fn put(worker: &mut Worker, tenant: TenantId) -> Result<(), BenchError> {
    while let Some(key) = worker.key(Space::Own(tenant), b"key")
        && worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; VALUE]) == Err(Refused::NoRoom)
    {
        worker.make_room().map_err(|_| BenchError::Premise("values fit".to_owned()))?;
    }
    Ok(())
}

/// A tenant comes to the tier.
fn touch(worker: &Worker, tenant: TenantId) {
    if let Some(key) = worker.key(Space::Own(tenant), b"key") {
        std::hint::black_box(worker.get(tenant, &key));
    }
}
