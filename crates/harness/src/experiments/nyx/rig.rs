//! A store of this process with all values of a tenant in an emulated tier of two modules, and one thread that looks them up.
//!
//! Shape:   values of one size -> pieces of look-ups of drawn keys -> nanoseconds of one, by this machine's clock
//! Failure: a look-up that does not come to the tier is an error

use crate::live::{keys, nanos};
use control::Claim;
use lab::experiment::ExperimentError;
use media::emulated::{Dimms, Emulated};
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use store::{Fields, Mode, Options, Placement, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Rng, TenantId};

const MEMORY: Bytes = Bytes::mib(16);
const TIER: Bytes = Bytes::mib(64);

/// A store with all values in a tier.
pub(super) struct Rig {
    worker: Worker,
    tenant: TenantId,
    device: Arc<Emulated>,
    items: u64,
}

impl Rig {
    /// So many values of one size, all in the tier.
    ///
    /// # Errors
    /// If the store does not take them.
    pub(super) fn filled(size: f64, items: u64, seed: u64) -> io::Result<Self> {
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

    /// Nanoseconds of a look-up, in the mean over some; `beside` is what else is done to the tier before each.
    ///
    /// # Errors
    /// If not every value was found in the tier.
    pub(super) fn piece(
        &mut self,
        rng: &mut Rng,
        gets: u64,
        mut beside: impl FnMut(&Emulated),
    ) -> Result<f64, ExperimentError> {
        let keys: Vec<_> =
            (0..gets).map(|_| keys::key(u32::try_from(rng.below(self.items)).unwrap_or(0))).collect();
        let hits = self.worker.store().totals(self.tenant).tier_hits;
        let began = nanos();
        for text in &keys {
            if let Some(hashed) = self.worker.key(Space::Shared, text) {
                beside(&self.device);
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

/// A size of the sweep.
pub(super) fn whole(size: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size of the sweep")]
    let size = size as u64;
    Bytes(size)
}
