//! Look-ups of values of one size, in DRAM and in a tier that is read in place: what is counted by instructions.
//!
//! Shape:      a store with a tier of plain memory -> every value put there -> drawn keys looked up by a tenant that is free
//! Invariants: the system is left alone while look-ups run, so that an instruction counter sees these alone
//! Units:      nanoseconds of this thread's CPU time; the instructions are an outside counter's (`docs/tiers.md`)

use crate::in_process::thread_cpu_nanos;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::Claim;
use harness::live::keys;
use media::model::MemorySystem;
use media::{Device, Plain, Profile};
use std::hint::black_box;
use std::sync::Arc;
use store::{Fields, Mode, Options, Placement, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Rng, TenantId};

/// Values; those of 64 B stay in DRAM, as every tier takes only larger ones.
const SIZES: [usize; 4] = [64, 256, 1024, 4000];
const ITEMS: u32 = 10_000;
const MEMORY: Bytes = Bytes::mib(64);
const TIER: Bytes = Bytes::mib(128);
/// Look-ups of one size in a round.
const LOOKED_UP: usize = 400_000;

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("look-ups by size");
    for size in SIZES {
        let (mut worker, tenant) = filled(bench, size)?;
        let mut rng = Rng::new(bench.seed);
        let count = LOOKED_UP / usize::try_from(bench.less).unwrap_or(1);
        let keys: Vec<_> =
            (0..count).map(|_| keys::key(u32::try_from(rng.below(u64::from(ITEMS))).unwrap_or(0))).collect();
        let mut nanos = Vec::new();
        for _ in 0..bench.rounds {
            let began = thread_cpu_nanos();
            let found = look_up(&mut worker, tenant, &keys);
            nanos.push((thread_cpu_nanos() - began) / count as f64);
            if found != count {
                return Err(BenchError::Premise(format!("{found} of {count} values were found")));
            }
        }
        let in_tier = worker.store().totals(tenant).tier_hits;
        let measure = format!("look-up of {size} B, in {}", if 0 < in_tier { "a tier" } else { "DRAM" });
        bench.add(Row { measure, unit: "ns", ours: nanos, peer: None, goal: Goal::None("-") });
    }
    Ok(())
}

fn filled(bench: &Bench, size: usize) -> Result<(Worker, TenantId), BenchError> {
    let wrong = |what: &str| BenchError::Premise(what.to_owned());
    let device: Arc<dyn Device> = Arc::new(Plain::new(TIER).map_err(|e| wrong(&e.to_string()))?);
    let options = Options {
        memory: MEMORY,
        item_max: Bytes::mib(1),
        threads: 1,
        tenants_max: 16,
        no_evict: false,
        seed: bench.seed,
    };
    let store = Store::with_tiers(options, &[device], 1)?;
    // As where its time is divided: every access has a cost from a profile.
    let profile =
        Profile::new(&Profile::modelled(&MemorySystem::nyx())).map_err(|e| wrong(&e.to_string()))?;
    if !store.set_profile(0, profile) || !store.divide_tier(0) {
        return Err(wrong("the tier is not there"));
    }
    let spec = TenantSpec {
        name: "t".to_owned(),
        own_space: false,
        claim: Claim::default(),
        rank: RankKind::default(),
    };
    let tenant = store.add_tenant(spec).ok_or_else(|| wrong("too many tenants"))?;
    store.set_placement(tenant, Placement::Tier(0));
    let mut worker = store.worker()?;
    let value = vec![b'v'; size];
    for number in 0..ITEMS {
        let key = keys::key(number);
        loop {
            let hashed = worker.key(Space::Shared, &key).ok_or_else(|| wrong("a key is no key"))?;
            match worker.set(tenant, &hashed, Mode::Set, Fields::default(), &value) {
                Ok(_) => break,
                Err(Refused::NoRoom | Refused::Away) => {
                    worker.make_room().map_err(|_| wrong("the store found no room"))?;
                }
                Err(why) => return Err(wrong(&format!("a value is refused: {why:?}"))),
            }
        }
        worker.quiesce();
    }
    Ok((worker, tenant))
}

/// Looks keys up; a function of its own, so that a counter can be told to count here.
#[inline(never)]
fn look_up(worker: &mut Worker, tenant: TenantId, keys: &[[u8; keys::KEY]]) -> usize {
    let mut found = 0;
    for key in keys {
        if let Some(hashed) = worker.key(Space::Shared, key)
            && let Some(item) = worker.get(tenant, &hashed)
        {
            found += usize::from(!black_box(item.value()).is_empty());
        }
        worker.quiesce();
    }
    found
}
