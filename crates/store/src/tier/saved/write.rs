//! Writing the file of a clean end.

use super::{
    AWAY, BEHIND, CAS, MAGIC, NO_FILE, OWN_SPACE, PIECE, REMEMBERED_AT, STATE_AT, end_of, settle_name,
};
use crate::Headway;
use crate::item::View;
use crate::slot::Slot;
use crate::store::Store;
use crate::sync::Ordering;
use crate::tier::write_out;
use crate::worker::Worker;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Worker {
    /// Writes everything down, so that `restore` brings it back. No other thread works with the store any more. Returns the
    /// number of items.
    ///
    /// # Errors
    /// If the file cannot be written, or a tier fails. What survives in tiers by itself is found without the file, and each tier
    /// whatever becomes of the others.
    pub fn save(&mut self, path: &Path) -> io::Result<u64> {
        self.save_told(path, &Headway::default())
    }

    /// As [`Worker::save`], for somebody who wants to know how far it is.
    ///
    /// # Errors
    /// As there.
    pub fn save_told(&mut self, path: &Path, headway: &Headway) -> io::Result<u64> {
        let store = Arc::clone(&self.store);
        for tier in &store.tiers {
            tier.seal_parked();
            // There is no later to wait for: each has its turn, and those that fail another one.
            for _ in 0..2 * tier.full_count() {
                tier.end_rest();
                write_out(&store, &mut self.reader, tier);
            }
        }
        let mark = units::mix64(store.stamps.load(Ordering::Relaxed) ^ units::mix64(store.wall())) | 1;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let saved = self.write_file(&beside, mark, headway).and_then(|items| {
            std::fs::rename(&beside, path)?;
            settle_name(path)?;
            Ok(items)
        });
        if saved.is_err() {
            let _none_there = std::fs::remove_file(&beside);
        }
        let mut failed = Ok(());
        for (place, tier) in store.tiers.iter().enumerate().filter(|(_, tier)| tier.is_begun()) {
            let ended = tier.device.settle_all().and_then(|()| {
                tier.notes.end(if saved.is_ok() { end_of(mark, place) } else { NO_FILE });
                tier.device.settle_all()
            });
            failed = failed.and(ended);
        }
        self.reader.quiesce();
        failed.and(saved)
    }

    /// Writes everything into a file. What is dead by now is dead in its tier, too.
    fn write_file(&self, path: &Path, mark: u64, headway: &Headway) -> io::Result<u64> {
        let store = &self.store;
        let stamps = store.stamps.load(Ordering::Relaxed);
        // One that is left from before may be open to others.
        let _none_there = std::fs::remove_file(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut file = BufWriter::new(file);
        let mut head = MAGIC.to_vec();
        for number in [mark, store.run.load(Ordering::Relaxed), stamps, store.index.len()] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        file.write_all(&head)?;
        file.write_all(&crc32c::crc32c(&head).to_le_bytes())?;
        let mut piece = Vec::new();
        put_tenants(store, &mut piece);
        put_piece(&mut file, &piece)?;
        piece.clear();
        let mut items = 0;
        let mut apart = Vec::new();
        for bucket in 0..store.index.buckets() {
            store.index.each_in(bucket, |slot| {
                let view = store.log.view(&self.reader, slot.place());
                let outlives = view.away().is_none_or(|away| store.tier(away).notes.survives());
                if store.is_expired(&view) || store.is_flushed(slot.place(), &view) {
                    // Else the next start would look at every record to find whose it is.
                    view.away().inspect(|away| store.tier(*away).notes.clear_live(away.at));
                } else if view.apart().is_some() {
                    apart.push(slot);
                } else if outlives {
                    put_item(store, &view, slot, &mut piece);
                    items += 1;
                }
            });
            for slot in apart.drain(..) {
                let view = store.log.view(&self.reader, slot.place());
                put_item(store, &view, slot, &mut piece);
                put_piece(&mut file, &piece)?;
                piece.clear();
                view.value().chunks(PIECE).try_for_each(|part| put_piece(&mut file, part))?;
                items += 1;
            }
            if PIECE <= piece.len() {
                put_piece(&mut file, &piece)?;
                piece.clear();
                headway.reach(items);
            }
        }
        put_piece(&mut file, &piece)?;
        file.write_all(&[0; 8])?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(items)
    }
}

fn put_piece(file: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    file.write_all(&u32::try_from(piece.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    file.write_all(&crc32c::crc32c(piece).to_le_bytes())?;
    file.write_all(piece)
}

fn put_tenants(store: &Store, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(store.tenant_count()).unwrap_or(u32::MAX).to_le_bytes());
    for tenant in store.tenants() {
        let spec = tenant.spec();
        let name = if tenant.is_gone() { "" } else { &spec.name };
        let len = u16::try_from(name.len()).unwrap_or(0);
        out.push(u8::from(spec.own_space) | u8::from(tenant.is_gone()) << 1);
        out.extend_from_slice(&store.flush_of(tenant.id).map_or(0, |secs| store.wall_of(secs)).to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&name.as_bytes()[..usize::from(len)]);
    }
}

/// Writes an item down: a value in pages of its own by its length only.
fn put_item(store: &Store, view: &View<'_>, slot: Slot, out: &mut Vec<u8>) {
    let meta = view.meta();
    let bits = (u8::from(meta.own_space) * OWN_SPACE)
        | (u8::from(meta.cas.is_some()) * CAS)
        | (u8::from(meta.away.is_some()) * AWAY)
        | (u8::from(meta.is_apart) * BEHIND)
        | (meta.state << STATE_AT);
    let age = store.tick().wrapping_sub(slot.tick());
    out.extend_from_slice(&meta.tenant.0.to_le_bytes());
    out.extend_from_slice(&[bits, u8::try_from(view.key().len()).unwrap_or(0), age]);
    out.push(slot.uses() | meta.remembered << REMEMBERED_AT);
    out.extend_from_slice(&meta.client_flags.to_le_bytes());
    out.extend_from_slice(&meta.expiry.map_or(0, |expiry| store.wall_of(expiry.at)).to_le_bytes());
    out.extend_from_slice(&store.stamp_of(slot.place(), view).to_le_bytes());
    out.extend_from_slice(&meta.cas.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(view.key());
    if let Some(away) = meta.away {
        out.extend_from_slice(&away.encode());
        return;
    }
    out.extend_from_slice(&u32::try_from(view.value().len()).unwrap_or(u32::MAX).to_le_bytes());
    if !meta.is_apart {
        out.extend_from_slice(view.value());
    }
}
