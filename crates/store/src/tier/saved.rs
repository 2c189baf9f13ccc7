//! The file that a clean end leaves: everything that is in DRAM, and what leads to tiers.
//!
//! ```text
//! +---------+--------+-------+----------+---------+-------+-----+-----+---------+-----+-----+-----+
//! | magic 8 | mark 8 | run 8 | stamps 8 | items 8 | crc 4 | len | crc | payload |  …  | 0 4 | 0 4 |
//! +---------+--------+-------+----------+---------+-------+-----+-----+---------+-----+-----+-----+
//! ```
//! Little endian; `items` are as many as there may be; `crc` is CRC32C of what is before it, or of the payload behind it. The
//! first payload holds the tenants, with their flushes that wait, the others items. A value that lay in pages of its own follows the
//! payload that its item ends, in payloads of its own.
//!
//! Invariants: a file belongs to the tiers whose notes carry its mark, each in its place; what is behind a damaged piece is not
//!             taken; nobody but the user of the server may read it
//! Units:      seconds since 1970; ticks of age
//! Failure:    a file of another version or mark is not taken, and said not to be; one that is no such file is left as it is

mod read;
mod write;

use super::recover::Restored;
use super::starts::Told;
use super::{REFERENCE, Reference};
use crate::limits::SEGMENT_DEFAULT;
pub(super) use read::{load, take_pieces};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use units::TenantId;

/// The format, with its version.
const MAGIC: [u8; 8] = *b"COTSAVE5";
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
/// The value is behind the piece.
const BEHIND: u8 = 1 << 3;
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
    /// Bytes of the value, if it is behind the piece.
    behind: Option<usize>,
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
        let len = if away.is_some() { 0 } else { rest.u32()? as usize };
        let behind = (bits & BEHIND != 0).then_some(len);
        let value = rest.take(if behind.is_some() { 0 } else { len })?;
        Some(Self {
            tenant,
            bits,
            age,
            uses,
            client_flags,
            expires_wall,
            stamp,
            cas,
            key,
            away,
            value,
            behind,
        })
    }

    fn own_space(&self) -> bool {
        self.bits & OWN_SPACE != 0
    }
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
