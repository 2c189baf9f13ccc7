//! What must hold of bytes that a tier or a file of saved items may hold, for fuzzers.

use super::record::{Spot, decode, encode, len_of, parse};
use super::saved::{Loaded, take_pieces};
use crate::{Headway, Options, RankKind, Store, TenantSpec};
use control::Claim;
use std::sync::Arc;
use units::Bytes;

/// A header with what it says behind it is a record that comes back from where it is written.
pub(crate) fn record(bytes: &[u8]) {
    let Some(record) = parse(bytes) else { return };
    let spot = Spot { at: 4096, life: 3 };
    let (mut out, halves) = (Vec::new(), record.value.split_at(record.value.len() / 2));
    encode(spot, &record.fields, record.key, [halves.0, halves.1], &mut out);
    assert_eq!(len_of(&out), Some(out.len() as u64));
    assert_eq!(decode(spot, &out), Some(record));
}

/// Pieces of a file whose checksums are right: as many items are there as are said to be, or fewer where others took their places,
/// and the store is whole.
pub(crate) fn saved(bytes: &[u8]) {
    let options = Options {
        memory: Bytes::mib(1),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 4,
        no_evict: false,
        seed: 0,
    };
    let Some(mut worker) = Store::new(options).ok().and_then(|store| store.worker().ok()) else { return };
    let store = Arc::clone(worker.store());
    let adopt = &mut |name: &str, own_space| {
        let spec =
            TenantSpec { name: name.to_owned(), own_space, claim: Claim::default(), rank: RankKind::Lru };
        store.add_tenant(spec)
    };
    let mut file = Vec::new();
    let (tenants, items) = bytes.split_at(bytes.first().map_or(0, |len| usize::from(*len).min(bytes.len())));
    for piece in [tenants.get(1..).unwrap_or_default(), items] {
        file.extend(u32::try_from(piece.len()).unwrap_or(0).to_le_bytes());
        file.extend(crc32c::crc32c(piece).to_le_bytes());
        file.extend(piece);
    }
    let mut loaded = Loaded::default();
    let _any = take_pieces(&mut worker, &mut &file[..], adopt, &mut loaded, &Headway::default());
    assert!(store.memory_use().slots <= loaded.restored.items, "{loaded:?}");
    worker.quiesce();
    worker.check();
}
