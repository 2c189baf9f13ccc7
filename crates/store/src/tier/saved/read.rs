//! Reading the file of a clean end: items are made again, wherever their values fit now.

use super::{
    AHEAD, CAS, Cursor, Entry, Head, ITEM_MIN, Loaded, NotTaken, PIECE, PIECE_MAX, REMEMBERED_AT, STATE_AT,
};
use crate::Headway;
use crate::hash::Space;
use crate::item::Meta;
use crate::store::Store;
use crate::sync::Ordering;
use crate::tier::NOBODY;
use crate::tier::doors::expiry_of_wall;
use crate::tier::recover::{Made, Restored};
use crate::tier::starts::Told;
use crate::upload::Upload;
use crate::worker::Worker;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use units::TenantId;

/// Reads a file whose mark is wanted; none if there is no file, or nothing in it.
///
/// # Errors
/// If it is no such file.
pub(in crate::tier) fn load(
    worker: &mut Worker,
    path: &Path,
    is_wanted: impl Fn(Told) -> bool,
    adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
    headway: &Headway,
) -> Result<Option<Loaded>, NotTaken> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(NotTaken::Unread),
    };
    let len = file.metadata().map_err(|_| NotTaken::Unread)?.len();
    if len == 0 {
        return Ok(None);
    }
    let mut file = BufReader::with_capacity(PIECE, file);
    let head = Head::read(&mut file)?;
    if !is_wanted(head.told) {
        return Err(NotTaken::Stale);
    }
    worker.store().stamps.fetch_max(head.stamps, Ordering::Relaxed);
    // More than fit into the file are none.
    worker.expect_items(head.items.min(len / ITEM_MIN));
    let mut loaded = Loaded::default();
    if take_pieces(worker, &mut file, adopt, &mut loaded, headway).is_none() {
        loaded.restored.not_taken = Some(NotTaken::Damaged);
    }
    Ok(Some(loaded))
}

/// Makes the items of all pieces again, until it is broken off; none if one is damaged: those before it are there then.
pub(in crate::tier) fn take_pieces(
    worker: &mut Worker,
    file: &mut impl Read,
    adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
    loaded: &mut Loaded,
    headway: &Headway,
) -> Option<()> {
    let mut tenants = None;
    while !headway.is_broken_off() {
        headway.reach(loaded.restored.items);
        let piece = next_piece(file)?;
        if piece.is_empty() {
            loaded.restored.from_saved = true;
            return Some(());
        }
        let mut rest = Cursor(&piece);
        let Some(tenants) = &tenants else {
            tenants = Some(take_tenants(worker.store(), &mut rest, adopt, &mut loaded.flushes)?);
            continue;
        };
        let mut ahead = Cursor(&piece);
        (0..AHEAD).for_each(|_| look_ahead(worker, &mut ahead, tenants));
        while !rest.0.is_empty() {
            look_ahead(worker, &mut ahead, tenants);
            let is_back = take_item(worker, &mut rest, file, tenants)?;
            let Restored { items, dropped, .. } = &mut loaded.restored;
            let count = if is_back { items } else { dropped };
            *count += 1;
        }
    }
    Some(())
}

/// The next piece, empty behind the last; none if it is damaged.
fn next_piece(file: &mut impl Read) -> Option<Vec<u8>> {
    let mut head = [0; 8];
    file.read_exact(&mut head).ok()?;
    let mut head = Cursor(&head);
    let (len, crc) = (head.u32()? as usize, head.u32()?);
    if PIECE_MAX < len {
        return None;
    }
    let mut piece = vec![0; len];
    file.read_exact(&mut piece).ok()?;
    (len == 0 || crc32c::crc32c(&piece) == crc).then_some(piece)
}

fn take_tenants(
    store: &Store,
    rest: &mut Cursor<'_>,
    adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
    flushes: &mut Vec<(TenantId, u32)>,
) -> Option<Vec<Option<TenantId>>> {
    let count = rest.u32()?;
    let mut tenants = Vec::new();
    for _ in 0..count {
        let (bits, flush_wall) = (rest.take(1)?[0], rest.u32()?);
        let len = rest.take(2).map(|b| u16::from_le_bytes([b[0], b[1]]))?;
        let name = std::str::from_utf8(rest.take(usize::from(len))?).ok()?;
        let own_space = bits & 1 != 0;
        let is_gone = bits & 2 != 0;
        let id = store.tenant_named(name, own_space).or_else(|| adopt(name, own_space));
        let id = id.filter(|_| !is_gone);
        flushes.extend(id.filter(|_| flush_wall != 0).map(|id| (id, flush_wall)));
        tenants.push(id);
    }
    Some(tenants)
}

/// Loads the index's lines of the next entry.
fn look_ahead(worker: &Worker, ahead: &mut Cursor<'_>, tenants: &[Option<TenantId>]) {
    let Some(entry) = Entry::take(ahead) else { return };
    let Some(Some(tenant)) = tenants.get(entry.tenant as usize) else { return };
    let space = if entry.own_space() { Space::Own(*tenant) } else { Space::Shared };
    if let Some(key) = worker.key(space, entry.key) {
        worker.prefetch_index(&key);
    }
}

/// Makes the next item again; says whether it could, none if the bytes are no item.
fn take_item(
    worker: &mut Worker,
    rest: &mut Cursor<'_>,
    file: &mut impl Read,
    tenants: &[Option<TenantId>],
) -> Option<bool> {
    let store = Arc::clone(worker.store());
    let entry = Entry::take(rest)?;
    let meta = tenants.get(entry.tenant as usize)?.and_then(|tenant| meta_of(&store, &entry, tenant));
    let is_back = match entry.behind {
        None => meta.is_some_and(|meta| bring_back(worker, &entry, meta)),
        Some(len) => bring_behind(worker, &entry, meta, len, file)?,
    };
    let away = entry.away.filter(|_| !is_back);
    if let Some((away, tier)) = away.and_then(|away| Some((away, store.tiers.get(usize::from(away.tier))?)))
        && tier.holds(away, entry.key.len())
    {
        // Nothing leads there: who looks for records need not.
        tier.give_up(away.at);
    }
    Some(is_back)
}

/// Everything of an item but its stamp, key and value; none if it is not to come back.
fn meta_of(store: &Store, entry: &Entry<'_>, tenant: TenantId) -> Option<Meta> {
    let expires_at = expiry_of_wall(store, entry.expires_wall);
    let is_there = entry.away.is_none_or(|away| {
        let tier = store.tiers.get(usize::from(away.tier));
        tier.is_some_and(|tier| tier.holds(away, entry.key.len()) && tier.owner(tenant) != NOBODY)
    });
    let expired = expires_at != 0 && expires_at <= store.now_secs();
    if !is_there || expired || entry.own_space() != store.has_own_space(tenant) {
        return None;
    }
    Some(Meta {
        tenant,
        own_space: entry.own_space(),
        client_flags: entry.client_flags,
        expiry: (expires_at != 0).then(|| crate::expiry::expiry_at(expires_at, store.now_secs())),
        cas: (entry.bits & CAS != 0).then_some(entry.cas),
        state: entry.bits >> STATE_AT,
        remembered: entry.uses >> REMEMBERED_AT,
        away: entry.away,
        stamp: 0,
        is_apart: false,
    })
}

/// Makes an item again whose value stands in its piece. Returns whether it could.
fn bring_back(worker: &mut Worker, entry: &Entry<'_>, meta: Meta) -> bool {
    if worker.fits_segment(&meta, entry.key.len(), entry.value.len()) {
        return make(worker, entry, meta, entry.value);
    }
    // Segments were larger then.
    let Some(mut upload) = worker.bring_value(&meta, entry.key.len(), entry.value.len()) else {
        return false;
    };
    worker.fill(&mut upload, entry.value) && make(worker, entry, meta, upload.value())
}

/// Where a value goes that is read in parts.
enum Goes {
    Segment(Vec<u8>),
    Pages(Upload),
    /// It is not to come back.
    Nowhere,
}

/// Makes an item again whose value is in the pieces behind. Returns whether it could; none if they are not the value.
fn bring_behind(
    worker: &mut Worker,
    entry: &Entry<'_>,
    meta: Option<Meta>,
    len: usize,
    file: &mut impl Read,
) -> Option<bool> {
    let mut goes = match &meta {
        None => Goes::Nowhere,
        Some(meta) if worker.fits_segment(meta, entry.key.len(), len) => Goes::Segment(Vec::new()),
        Some(meta) => worker.bring_value(meta, entry.key.len(), len).map_or(Goes::Nowhere, Goes::Pages),
    };
    let mut missing = len;
    while 0 < missing {
        let part = next_piece(file)?;
        missing = missing.checked_sub(part.len()).filter(|_| !part.is_empty())?;
        match &mut goes {
            Goes::Segment(value) => value.extend_from_slice(&part),
            Goes::Pages(upload) => {
                if !worker.fill(upload, &part) {
                    goes = Goes::Nowhere;
                }
            }
            Goes::Nowhere => {}
        }
    }
    let value = match &goes {
        Goes::Segment(value) => value,
        Goes::Pages(upload) => upload.value(),
        Goes::Nowhere => return Some(false),
    };
    Some(meta.is_some_and(|meta| make(worker, entry, meta, value)))
}

fn make(worker: &mut Worker, entry: &Entry<'_>, meta: Meta, value: &[u8]) -> bool {
    let tick = worker.store().tick().wrapping_sub(entry.age);
    let uses = entry.uses & crate::slot::USES_MAX;
    worker.make(&Made { meta, key: entry.key, value, stamp: entry.stamp, tick, uses })
}
