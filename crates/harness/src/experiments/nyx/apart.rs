//! Figure 4: what it gains that keys are not in the tier with their values, and that values are stored past the caches.
//!
//! Shape:  one thread's look-ups on an emulated tier, with and without a read of the key's line -> medians of pieces in turns;
//!         costs of both ways to store -> their ratio
//! Units:  nanoseconds by this machine's clock; gains as parts (0.5 is half as much again), of sets as factors

use super::median;
use crate::live::{keys, nanos};
use control::Claim;
use lab::experiment::{ExperimentError, Results, Sweep};
use media::emulated::{Dimms, Emulated};
use media::model::{LINE, Operation};
use media::{Device, Profile, SlowAccess};
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use store::{Fields, Mode, Options, Placement, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Rng, TenantId};

const MEMORY: Bytes = Bytes::mib(16);
const TIER: Bytes = Bytes::mib(64);

/// A store with all values in a tier.
struct Rig {
    worker: Worker,
    tenant: TenantId,
    device: Arc<Emulated>,
    items: u64,
}

/// NyxCache, Figure 4.
pub(super) fn apart(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut rng = Rng::new(sweep.seed);
    let mut gains = Vec::new();
    for size in sweep.list("value_bytes")? {
        let mut rig =
            Rig::filled(size, sweep.count("items")?, sweep.seed).map_err(ExperimentError::failed)?;
        let (gets, key) = (sweep.count("gets")?, Bytes(sweep.count("key_bytes")?));
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..sweep.count("pieces")? {
            without.push(rig.piece(&mut rng, gets, None)?);
            with.push(rig.piece(&mut rng, gets, Some(key))?);
        }
        gains.push((size, median(&mut with) / median(&mut without) - 1.0));
    }
    let most = gains.iter().map(|(_, gain)| *gain).fold(f64::NEG_INFINITY, f64::max);
    results.number("gets_gain_most", most);
    results.number("gets_gain_smallest", gains.first().map_or(f64::NAN, |(_, gain)| *gain));
    results.number("gets_gain_largest", gains.last().map_or(f64::NAN, |(_, gain)| *gain));
    results.series("(a) Gets of one thread", "keys in DRAM", &gains);
    results.axes("(a) Gets of one thread", "value, bytes", "gain");
    sets(sweep, results)
}

/// Part (b), from Table 2 and from what the modelled modules bear.
fn sets(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let profile = Profile::new(&Profile::modelled(&Dimms::Two.system())).map_err(ExperimentError::failed)?;
    let cost = |kind, size| profile.cost_ps(kind, Bytes(size)) as f64;
    let line = cost(SlowAccess::Read, LINE) + cost(SlowAccess::Write, LINE);
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for size in sweep.list("store_bytes")? {
        let bytes = whole(size);
        let interval = |operation: Operation| operation.interval_ns(bytes);
        one.push((size, interval(Operation::Store) / interval(Operation::NonTemporalStore)));
        all.push((size, bytes.0.div_ceil(LINE) as f64 * line / cost(SlowAccess::Write, bytes.0)));
    }
    let most = |gains: &[(f64, f64)]| gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
    results.number("sets_gain_one_thread", most(&one));
    results.number("sets_gain_in_cost", most(&all));
    results.series("(b) Sets", "one thread, Table 2", &one);
    results.series("(b) Sets", "as many as the modules bear", &all);
    results.axes("(b) Sets", "value, bytes", "times as many");
    Ok(())
}

impl Rig {
    fn filled(size: f64, items: u64, seed: u64) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::other(what.to_owned());
        let device = Arc::new(Emulated::new(Dimms::Two, TIER).map_err(io::Error::other)?);
        let options = Options {
            memory: MEMORY,
            item_max: Bytes::mib(1),
            threads: 1,
            tenants_max: 4,
            no_evict: false,
            seed,
        };
        let store = Store::with_tiers(options, &[Arc::clone(&device) as _], 1).map_err(io::Error::other)?;
        let (claim, rank) = (Claim::default(), RankKind::default());
        let spec = TenantSpec { name: "t".to_owned(), own_space: false, claim, rank };
        let tenant = store.add_tenant(spec).ok_or_else(|| wrong("too many tenants"))?;
        store.set_placement(tenant, Placement::Tier(0));
        let mut worker = store.worker().map_err(io::Error::other)?;
        let value = vec![b'v'; whole(size).as_usize()];
        for number in 0..items {
            loop {
                let key = keys::key(u32::try_from(number).unwrap_or(0));
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
        Ok(Self { worker, tenant, device, items })
    }

    /// Nanoseconds of a look-up, in the mean over some; before each so much is read of the tier, if anything.
    fn piece(&mut self, rng: &mut Rng, gets: u64, key: Option<Bytes>) -> Result<f64, ExperimentError> {
        let keys: Vec<_> =
            (0..gets).map(|_| keys::key(u32::try_from(rng.below(self.items)).unwrap_or(0))).collect();
        let hits = self.worker.store().totals(self.tenant).tier_hits;
        let began = nanos();
        for text in &keys {
            if let Some(hashed) = self.worker.key(Space::Shared, text) {
                key.inspect(|size| self.device.take_time(SlowAccess::Read, *size));
                black_box(self.worker.get(self.tenant, &hashed).map(|item| item.value().len()));
            }
            self.worker.quiesce();
        }
        let took = (nanos() - began) as f64 / gets as f64;
        match self.worker.store().totals(self.tenant).tier_hits - hits {
            found if found == gets => Ok(took),
            found => {
                Err(ExperimentError::failed(io::Error::other(format!("{found} of {gets} are in the tier"))))
            }
        }
    }
}

fn whole(size: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size of the sweep")]
    let size = size as u64;
    Bytes(size)
}
