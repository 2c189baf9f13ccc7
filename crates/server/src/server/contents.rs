//! The store of a server: opened with its tiers, filled with what is left of the last run, saved at a clean end.

use super::StartError;
use crate::config::Config;
use crate::saved::{self, SavedError, SavedFile};
use crate::shared::Clock;
use crate::sharing::TierModel;
use crate::tenants::Router;
use crate::tiers;
use std::sync::Arc;
use store::{Options, Store};

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

/// Brings back what tiers, and the file of a clean end, hold from before.
pub(super) fn restore(
    store: &Arc<Store>,
    router: &Router,
    saved: Option<&SavedFile>,
) -> Result<(), StartError> {
    let mut worker = store.worker()?;
    let path = saved.map(SavedFile::path);
    let back = worker.restore(path, &mut |name, own_space| router.adopt(name, own_space));
    worker.go_offline();
    if let Some((path, why)) = path.zip(back.not_taken) {
        tracing::warn!("what was saved in {} is not taken, or not all of it: {why}", path.display());
    }
    if (store::Restored { not_taken: None, ..back }) != store::Restored::default() {
        let from = if back.from_saved { "a clean end" } else { "an end that was not clean" };
        tracing::info!("{} items are back after {from}, {} were dropped", back.items, back.dropped);
    }
    Ok(())
}
