//! The file that a clean end leaves: everything that is in DRAM, and what leads to tiers.
//!
//! ```text
//! +---------+--------+-------+----------+---------+-------+-----+-----+---------+-----+-----+-----+
//! | magic 8 | mark 8 | run 8 | stamps 8 | items 8 | crc 4 | len | crc | payload |  …  | 0 4 | 0 4 |
//! +---------+--------+-------+----------+---------+-------+-----+-----+---------+-----+-----+-----+
//! ```
//! Little endian; `items` are as many as there may be; `crc` is CRC32C of what is before it, or of the payload behind it. The
//! first payload holds the tenants, with their flushes that wait, the others items, whole.
//!
//! Invariants: a file belongs to the tiers whose notes carry its mark, each in its place; what is behind a damaged piece is not
//!             taken; nobody but the user of the server may read it
//! Units:      seconds since 1970; ticks of age
//! Failure:    a file of another version or mark is not taken, and said not to be; one that is no such file is left as it is

use super::recover::{Made, Restored};
use super::starts::Told;
use super::{REFERENCE, Reference, write_out};
use crate::hash::Space;
use crate::item::{Meta, View};
use crate::limits::SEGMENT_DEFAULT;
use crate::store::Store;
use crate::sync::Ordering;
use crate::tier::doors::expiry_of_wall;
use crate::worker::Worker;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::TenantId;

/// The format, with its version.
const MAGIC: [u8; 8] = *b"COTSAVE4";
/// Bytes of it that every version begins with.
const KIND: usize = 7;
/// Bytes before the first piece.
const HEAD: usize = 44;
/// The mark of a clean end that no file belongs to.
const NO_FILE: u64 = 1;
/// A piece is written once it is as large.
const PIECE: usize = 1 << 20;
/// A piece is at most as large.
const PIECE_MAX: usize = PIECE + (2 << 23);
const _: () = assert!(8 * SEGMENT_DEFAULT.0 <= 2 << 23, "a bucket's items may be beside a piece");

/// Items for which the index's lines are loaded ahead. Guess: as many as a look-up in batches takes together.
const AHEAD: usize = 16;
/// An item is at least as large: all but its key and value.
const ITEM_MIN: u64 = 36;

const OWN_SPACE: u8 = 1;
const CAS: u8 = 1 << 1;
const AWAY: u8 = 1 << 2;
const STATE_AT: u32 = 4;
/// In the byte of the uses, what is remembered of the key.
const REMEMBERED_AT: u32 = 4;

/// What the notes of the tier in a place carry at a clean end whose file has a mark.
pub(super) fn end_of(mark: u64, place: usize) -> u64 {
    units::mix64(mark ^ place as u64) | 1
}

/// Lets what a folder says of a file survive.
pub(super) fn settle_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Why nothing of a file is taken, or not all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotTaken {
    /// The system does not let it be read; it is left as it is.
    #[error("it cannot be read")]
    Unread,
    /// No clean end has written it; it is left as it is.
    #[error("it holds something else than saved items")]
    Foreign,
    /// Another version has.
    #[error("another version of the program has saved them")]
    Version,
    /// A part of it, or its end, is not what was written; what is before that is taken.
    #[error("it is damaged")]
    Damaged,
    /// Its tiers are others, or were used since.
    #[error("it is not of the last end of these tiers")]
    Stale,
}

impl NotTaken {
    /// Whether a clean end has written the file, so that another may.
    pub(super) fn is_ours(self) -> bool {
        !matches!(self, Self::Unread | Self::Foreign)
    }
}

/// Whether a clean end may put its file in the place of what is there: nothing, an empty file, or what another end has saved, whatever
/// became of it.
///
/// # Errors
/// If the system does not let it be read.
pub fn may_replace(path: &Path) -> io::Result<bool> {
    let mut front = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAGIC.len() as u64).read_to_end(&mut front)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(e),
    };
    Ok(front.is_empty() || check_magic(&front).map_or_else(NotTaken::is_ours, |()| true))
}

/// What a file says of its end; none if it is none that this version has saved.
pub(super) fn told(path: &Path) -> Option<Told> {
    let mut file = File::open(path).ok()?;
    Head::read(&mut file).ok().map(|head| head.told)
}

/// What a file brought back.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) restored: Restored,
    /// Flushes that wait: tenants, and seconds since 1970.
    pub(super) flushes: Vec<(TenantId, u32)>,
}

impl Worker {
    /// Writes everything down, so that `restore` brings it back. No other thread works with the store any more. Returns the
    /// number of items.
    ///
    /// # Errors
    /// If the file cannot be written, or a tier fails. What survives in tiers by itself is found without the file, and each tier
    /// whatever becomes of the others.
    pub fn save(&mut self, path: &Path) -> io::Result<u64> {
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
        let saved = self.write_file(&beside, mark).and_then(|items| {
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
    fn write_file(&self, path: &Path, mark: u64) -> io::Result<u64> {
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
        put_piece(&mut file, &mut piece)?;
        let mut items = 0;
        for bucket in 0..store.index.buckets() {
            store.index.each_in(bucket, |slot| {
                let view = store.log.view(&self.reader, slot.place());
                // A value of many pages is not worth the time that the end would take.
                let outlives = view.apart().is_none()
                    && view.away().is_none_or(|away| store.tier(away).notes.survives());
                if store.is_expired(&view) || store.is_flushed(slot.place(), &view) {
                    // Else the next start would look at every record to find whose it is.
                    view.away().inspect(|away| store.tier(*away).notes.clear_live(away.at));
                } else if outlives {
                    let age = store.tick().wrapping_sub(slot.tick());
                    let stamp = store.stamp_of(slot.place(), &view);
                    put_item(store, &view, stamp, (age, slot.uses()), &mut piece);
                    items += 1;
                }
            });
            if PIECE <= piece.len() {
                put_piece(&mut file, &mut piece)?;
            }
        }
        put_piece(&mut file, &mut piece)?;
        file.write_all(&[0; 8])?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(items)
    }
}

fn put_piece(file: &mut impl Write, piece: &mut Vec<u8>) -> io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    file.write_all(&u32::try_from(piece.len()).unwrap_or(u32::MAX).to_le_bytes())?;
    file.write_all(&crc32c::crc32c(piece).to_le_bytes())?;
    file.write_all(piece)?;
    piece.clear();
    Ok(())
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

fn put_item(store: &Store, view: &View<'_>, stamp: u64, (age, uses): (u8, u8), out: &mut Vec<u8>) {
    let meta = view.meta();
    let bits = (u8::from(meta.own_space) * OWN_SPACE)
        | (u8::from(meta.cas.is_some()) * CAS)
        | (u8::from(meta.away.is_some()) * AWAY)
        | (meta.state << STATE_AT);
    out.extend_from_slice(&meta.tenant.0.to_le_bytes());
    out.extend_from_slice(&[bits, u8::try_from(view.key().len()).unwrap_or(0), age]);
    out.push(uses | meta.remembered << REMEMBERED_AT);
    out.extend_from_slice(&meta.client_flags.to_le_bytes());
    out.extend_from_slice(&meta.expiry.map_or(0, |expiry| store.wall_of(expiry.at)).to_le_bytes());
    out.extend_from_slice(&stamp.to_le_bytes());
    out.extend_from_slice(&meta.cas.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(view.key());
    if let Some(away) = meta.away {
        out.extend_from_slice(&away.encode());
    } else {
        out.extend_from_slice(&u32::try_from(view.value().len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(view.value());
    }
}

/// Reads a file whose mark is wanted; none if there is no file, or nothing in it.
///
/// # Errors
/// If it is no such file.
pub(super) fn load(
    worker: &mut Worker,
    path: &Path,
    is_wanted: impl Fn(Told) -> bool,
    adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
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
    if take_pieces(worker, &mut file, adopt, &mut loaded).is_none() {
        loaded.restored.not_taken = Some(NotTaken::Damaged);
    }
    Ok(Some(loaded))
}

/// What is in front of the pieces.
struct Head {
    told: Told,
    stamps: u64,
    items: u64,
}

impl Head {
    fn read(file: &mut impl Read) -> Result<Self, NotTaken> {
        let mut bytes = Vec::with_capacity(HEAD);
        file.take(HEAD as u64).read_to_end(&mut bytes).map_err(|_| NotTaken::Unread)?;
        check_magic(&bytes)?;
        Self::decode(&bytes).ok_or(NotTaken::Damaged)
    }

    /// The numbers behind the magic; none if the checksum is not theirs.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Cursor(bytes);
        rest.take(MAGIC.len())?;
        let told = Told { mark: rest.u64()?, run: rest.u64()? };
        let head = Self { told, stamps: rest.u64()?, items: rest.u64()? };
        (crc32c::crc32c(&bytes[..HEAD - 4]) == rest.u32()?).then_some(head)
    }
}

fn check_magic(front: &[u8]) -> Result<(), NotTaken> {
    match front.get(..MAGIC.len()) {
        Some(magic) if magic == MAGIC => Ok(()),
        Some(magic) if magic[..KIND] == MAGIC[..KIND] => Err(NotTaken::Version),
        _ => Err(NotTaken::Foreign),
    }
}

/// Makes the items of all pieces again; none if one is damaged: those before it are there then.
pub(super) fn take_pieces(
    worker: &mut Worker,
    file: &mut impl Read,
    adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
    loaded: &mut Loaded,
) -> Option<()> {
    let mut tenants = None;
    loop {
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
            let is_back = take_item(worker, &mut rest, tenants)?;
            let Restored { items, dropped, .. } = &mut loaded.restored;
            let count = if is_back { items } else { dropped };
            *count += 1;
        }
    }
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

/// An item as it was saved.
struct Entry<'a> {
    tenant: u32,
    bits: u8,
    age: u8,
    uses: u8,
    client_flags: u32,
    expires_wall: u32,
    stamp: u64,
    cas: u64,
    key: &'a [u8],
    away: Option<Reference>,
    value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The next entry; none if the bytes are none.
    fn take(rest: &mut Cursor<'a>) -> Option<Self> {
        let tenant = rest.u32()?;
        let head = rest.take(4)?;
        let (bits, key_len, age, uses) = (head[0], head[1], head[2], head[3]);
        let (client_flags, expires_wall) = (rest.u32()?, rest.u32()?);
        let (stamp, cas) = (rest.u64()?, rest.u64()?);
        let key = rest.take(usize::from(key_len))?;
        let away = if bits & AWAY == 0 { None } else { Some(Reference::decode(rest.take(REFERENCE)?)) };
        let value =
            if away.is_some() { &[][..] } else { rest.u32().and_then(|len| rest.take(len as usize))? };
        Some(Self { tenant, bits, age, uses, client_flags, expires_wall, stamp, cas, key, away, value })
    }

    fn own_space(&self) -> bool {
        self.bits & OWN_SPACE != 0
    }
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
fn take_item(worker: &mut Worker, rest: &mut Cursor<'_>, tenants: &[Option<TenantId>]) -> Option<bool> {
    let store = Arc::clone(worker.store());
    let entry = Entry::take(rest)?;
    let is_back =
        tenants.get(entry.tenant as usize)?.is_some_and(|tenant| bring_back(worker, &entry, tenant));
    let away = entry.away.filter(|_| !is_back);
    if let Some((away, tier)) = away.and_then(|away| Some((away, store.tiers.get(usize::from(away.tier))?)))
        && tier.holds(away, entry.key.len())
    {
        // Nothing leads there: who looks for records need not.
        tier.notes.clear_live(away.at);
    }
    Some(is_back)
}

/// Makes an item again. Returns whether it could.
fn bring_back(worker: &mut Worker, entry: &Entry<'_>, tenant: TenantId) -> bool {
    let store = Arc::clone(worker.store());
    let expires_at = expiry_of_wall(&store, entry.expires_wall);
    let is_there = entry.away.is_none_or(|away| {
        let tier = store.tiers.get(usize::from(away.tier));
        tier.is_some_and(|tier| tier.holds(away, entry.key.len()) && tier.owner(tenant) != super::NOBODY)
    });
    let expired = expires_at != 0 && expires_at <= store.now_secs();
    if !is_there || expired || entry.own_space() != store.has_own_space(tenant) {
        return false;
    }
    let meta = Meta {
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
    };
    let tick = store.tick().wrapping_sub(entry.age);
    let uses = entry.uses & crate::slot::USES_MAX;
    let Entry { key, value, stamp, .. } = *entry;
    worker.make(&Made { meta, key, value, stamp, tick, uses })
}

/// Bytes that are read from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }
}
