//! The store of a server: opened with its tiers, filled with what is left of the last run, saved at a clean end.

use super::StartError;
use crate::config::Config;
use crate::shared::Clock;
use crate::sharing::TierModel;
use crate::tenants::Router;
use crate::tiers;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Options, Store};

/// The store with its tiers, what is known of the one that is divided, and where a clean end is to save the items.
pub(super) fn open_store(
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<Store>, TierModel, Option<PathBuf>), StartError> {
    let opened = tiers::open(&config.tiers)?;
    let devices: Vec<_> = opened.iter().map(|tier| Arc::clone(&tier.device)).collect();
    let saved = config.saved_at();
    if let Some(path) = &saved {
        tiers::check_saved(path).map_err(|cause| StartError::Saved { path: path.clone(), cause })?;
    }
    let options = Options {
        memory: config.memory,
        item_max: config.item_max,
        threads: config.threads,
        tenants_max: config.max_tenants.max(1),
        no_evict: config.no_evict,
        seed: secret(config.seed),
    };
    // Opening tiers takes a while, and the store's clock began before.
    let begun = u64::try_from(clock.unix_secs()).unwrap_or(0).saturating_sub(clock.now().whole_secs());
    let store = Store::with_tiers(options, &devices, begun)?;
    store.set_promotion(config.promotion);
    let model = tiers::divide(&store, opened, config);
    let brakes = Arc::clone(clock);
    store.set_brake_time(move || brakes.now());
    Ok((store, model, saved))
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
pub(super) fn restore(store: &Arc<Store>, router: &Router, saved: Option<&Path>) -> Result<(), StartError> {
    let mut worker = store.worker()?;
    let back = worker.restore(saved, &mut |name, own_space| router.adopt(name, own_space));
    worker.go_offline();
    if back != store::Restored::default() {
        let from = if back.from_saved { "a clean end" } else { "an end that was not clean" };
        tracing::info!("{} items are back after {from}, {} were dropped", back.items, back.dropped);
    }
    Ok(())
}

/// Saves the items for the next start.
pub(super) fn save(store: &Arc<Store>, path: &Path) {
    let saved = store.worker().map_err(io::Error::other).and_then(|mut worker| worker.save(path));
    match saved {
        Ok(items) => tracing::info!("{items} items were saved in {}", path.display()),
        Err(e) => tracing::error!("the items could not be saved in {}: {e}", path.display()),
    }
}
