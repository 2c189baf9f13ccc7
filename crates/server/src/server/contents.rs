//! The store of a server: opened with its tiers, filled with what is left of the last run, saved at a clean end.

use super::StartError;
use crate::config::Config;
use crate::saved::{self, SavedError, SavedFile};
use crate::shared::Clock;
use crate::sharing::TierModel;
use crate::tenants::Router;
use crate::tiers;
use std::fs::File;
use std::sync::Arc;
use store::{Found, Headway, Options, Store, Worker};

/// The store with its tiers, what is known of the one that is divided, and where a clean end is to save the items.
pub(super) fn open_store(
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<Store>, TierModel, Option<SavedFile>), StartError> {
    let saved = config.saved_at();
    let refused = |cause: SavedError| StartError::Saved { path: saved.clone().unwrap_or_default(), cause };
    // Before tiers are made that nobody is to have.
    saved.as_deref().map_or(Ok(()), saved::check).map_err(refused)?;
    let opened = tiers::open(&config.tiers)?;
    let devices: Vec<_> = opened.iter().map(|tier| Arc::clone(&tier.device)).collect();
    let claimed = saved.as_deref().map(SavedFile::claim).transpose().map_err(refused)?;
    let options = Options {
        memory: config.most_memory(),
        item_max: config.item_max,
        threads: config.threads,
        tenants_max: config.max_tenants.max(1),
        no_evict: config.no_evict,
        seed: secret(config.seed),
    };
    // Opening tiers takes a while, and the store's clock began before.
    let begun = u64::try_from(clock.unix_secs()).unwrap_or(0).saturating_sub(clock.now().whole_secs());
    let store = Store::with_tiers(options, &devices, begun)?;
    // Before anything comes back.
    store.withhold(config.withheld(config.memory));
    store.set_promotion(config.promotion);
    let model = tiers::divide(&store, opened, config);
    let brakes = Arc::clone(clock);
    store.set_brake_time(move || brakes.now());
    Ok((store, model, claimed))
}

/// Where keys go is drawn anew by each process, unless it is asked for: who knew it could choose keys that share a place.
fn secret(seed: u64) -> u64 {
    let mut drawn = [0; 8];
    match rustix::rand::getrandom(&mut drawn, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) if seed == 0 => u64::from_le_bytes(drawn),
        _ => seed,
    }
}

/// What the last run left and this one has, while the next could have it still.
pub(super) struct Contents<'a> {
    worker: Worker,
    found: Found,
    saved: Option<&'a SavedFile>,
}

impl Contents<'_> {
    /// From here on it is this run's alone: what holds no longer once clients change items does not come back. What is returned takes
    /// a while to drop, for which nobody need wait.
    pub(super) fn take(mut self) -> Result<Option<File>, StartError> {
        let path = || self.saved.map(|saved| saved.path().to_owned()).unwrap_or_default();
        let taken = self.worker.begin_serving(self.found);
        self.worker.go_offline();
        taken.map_err(|cause| {
            let cause = SavedError::System { what: "remove what is saved there", cause };
            StartError::Saved { path: path(), cause }
        })
    }
}

/// Brings back what tiers, and the file of a clean end, hold from before; leaves it there.
pub(super) fn recover<'a>(
    store: &Arc<Store>,
    router: &Router,
    saved: Option<&'a SavedFile>,
    headway: &Headway,
) -> Result<Contents<'a>, StartError> {
    let mut worker = store.worker()?;
    let path = saved.map(SavedFile::path);
    if let Some(path) = path.filter(|path| path.metadata().is_ok_and(|meta| meta.len() != 0)) {
        tracing::info!("what was saved in {} comes back", path.display());
    }
    let found = worker.recover(path, &mut |name, own_space| router.adopt(name, own_space), headway);
    let found = found.ok_or(StartError::BrokenOff)?;
    let back = found.restored;
    if let Some((path, why)) = path.zip(back.not_taken) {
        tracing::warn!("what was saved in {} is not taken, or not all of it: {why}", path.display());
    }
    if (store::Restored { not_taken: None, ..back }) != store::Restored::default() {
        let from = if back.from_saved { "a clean end" } else { "an end that was not clean" };
        tracing::info!("{} items are back after {from}, {} were dropped", back.items, back.dropped);
    }
    Ok(Contents { worker, found, saved })
}
