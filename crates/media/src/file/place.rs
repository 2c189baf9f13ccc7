//! Where a durable tier lives: a file that is complete under its name, on the right kind of file system, claimed by one server.
//!
//! Shape:      path, size -> the file, locked, and its superblock, checked or new
//! Invariants: a file appears under its name only once it is complete, where nothing is or in place of an empty one that is claimed;
//!             what cannot be made leaves nothing behind; what another makes at the same time is left alone
//! Failure:    what is there and is not a tier of that size is refused, never overwritten

use super::TIER_MIN;
use super::error::{Damage, Home, TierError};
use super::new_file::{NewFile, identity};
use super::superblock::{PAGE, SIZE_MAX, Superblock};
use crate::Buffer;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock, fstatfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use units::Bytes;

/// How the bytes of the file are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// By direct I/O.
    Direct,
    /// By a mapping.
    Mapped,
}

/// A file that holds a tier.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) file: File,
    pub(crate) block: Superblock,
    /// Whether it was created just now.
    pub(crate) is_new: bool,
}

impl Place {
    /// Opens the tier at `path`, or creates it with `size`, rounded down to whole pages.
    pub(crate) fn open(path: &Path, size: Bytes, reach: Reach) -> Result<Self, TierError> {
        let size = whole_pages(size)?;
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            return Err(TierError::Kind { path: path.to_owned(), wanted: "file" });
        }
        match options(reach).open(path) {
            Ok(file) if file.metadata().is_ok_and(|meta| 0 < meta.len()) => {
                let block = existing(path, &file, size, reach)?;
                Ok(Self { file, block, is_new: false })
            }
            Ok(empty) => {
                claim(path, &empty, reach)?;
                created(&destination(path), size, reach, Some(&empty))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => created(&destination(path), size, reach, None),
            Err(e) => Err(refusal(path, "open", e)),
        }
    }
}

/// Whole pages of what was asked for.
pub(crate) fn whole_pages(size: Bytes) -> Result<Bytes, TierError> {
    if size < TIER_MIN {
        return Err(TierError::TooSmall { size, min: TIER_MIN });
    }
    Ok(Bytes(size.0.min(SIZE_MAX) / PAGE * PAGE))
}

/// How it is opened.
fn options(reach: Reach) -> OpenOptions {
    let flags = if reach == Reach::Direct { OFlags::DIRECT } else { OFlags::empty() };
    #[expect(clippy::cast_possible_wrap, reason = "a set of bits")]
    let flags = flags.bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(flags);
    options
}

/// What an error of the system means here.
pub(crate) fn refusal(path: &Path, what: &'static str, cause: io::Error) -> TierError {
    let path = path.to_owned();
    match cause.kind() {
        io::ErrorKind::NotFound => TierError::NoFolder { path },
        io::ErrorKind::InvalidInput if what == "open" => {
            TierError::NoDirectIo { path, kind: "it refuses O_DIRECT" }
        }
        _ => TierError::System { what, path, cause },
    }
}

/// Makes sure that it is on a disk and this process's; says how long it is.
fn claim(path: &Path, file: &File, reach: Reach) -> Result<u64, TierError> {
    let meta = file.metadata().map_err(|cause| refusal(path, "look at", cause))?;
    let system = fstatfs(file).map_err(|errno| refusal(path, "look at the file system of", errno.into()))?;
    // Some kernels accept O_DIRECT there and copy all the same.
    let in_memory = [(0x0102_1994, "tmpfs"), (0x8584_58F6_u32, "ramfs")];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "magic numbers have 32 bits")]
    let magic = system.f_type as u32;
    if reach == Reach::Direct
        && let Some((_, kind)) = in_memory.into_iter().find(|(number, _)| *number == magic)
    {
        return Err(TierError::NoDirectIo { path: path.to_owned(), kind });
    }
    lock(path, file)?;
    Ok(meta.len())
}

/// Takes the lock that keeps other servers away as long as the file is open.
pub(crate) fn lock(path: &Path, file: &File) -> Result<(), TierError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        Errno::WOULDBLOCK => TierError::InUse { path: path.to_owned() },
        errno => refusal(path, "lock", errno.into()),
    })
}

/// The tier that is there.
fn existing(path: &Path, file: &File, size: Bytes, reach: Reach) -> Result<Superblock, TierError> {
    let len = claim(path, file, reach)?;
    let damaged = |damage| TierError::Damaged { path: path.to_owned(), home: Home::File, damage };
    if len < PAGE {
        return Err(damaged(Damage::Foreign));
    }
    let mut page = Buffer::new(Bytes(PAGE))?;
    file.read_exact_at(page.bytes_mut(), 0).map_err(|cause| refusal(path, "read", cause))?;
    let page = page.bytes().try_into().expect("a page");
    let block = Superblock::from_page(page).map_err(damaged)?;
    if block.size != size {
        return Err(TierError::Size {
            path: path.to_owned(),
            home: Home::File,
            found: block.size,
            asked: size,
        });
    }
    if len < block.end() {
        return Err(damaged(Damage::Truncated { len: Bytes(len), expected: Bytes(block.end()) }));
    }
    Ok(block)
}

/// Symbolic links that lead to one place at most (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// Where a path leads if what it names is, or leads to, a symbolic link: also to a place where nothing is yet.
pub(crate) fn destination(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = path.read_link() else { break };
        path.pop();
        path.push(target);
    }
    path
}

/// A new tier: made beside its place and moved there once it is complete, in the place of nothing or of what is `empty` and claimed.
fn created(path: &Path, size: Bytes, reach: Reach, empty: Option<&File>) -> Result<Place, TierError> {
    let made = NewFile::open(path, &mut options(reach)).map_err(|cause| refusal(path, "open", cause))?;
    claim(path, made.file(), reach)?;
    let block = fill(path, made.file(), size)?;
    let file = publish(made, path, empty).map_err(|cause| refusal(path, "create", cause))?;
    Ok(Place { file, block, is_new: true })
}

fn fill(path: &Path, file: &File, size: Bytes) -> Result<Superblock, TierError> {
    let block = Superblock::new(size, identity());
    let allocated = fallocate(file, FallocateFlags::empty(), 0, block.end());
    allocated.map_err(|errno| refusal(path, "reserve the room for", errno.into()))?;
    let mut page = Buffer::new(Bytes(PAGE))?;
    page.bytes_mut().copy_from_slice(&block.to_page());
    let written = file.write_all_at(page.bytes(), 0).and_then(|()| file.sync_all());
    written.map_err(|cause| refusal(path, "write", cause))?;
    Ok(block)
}

/// Gives the complete file its name, unless a tier has appeared there.
fn publish(made: NewFile, path: &Path, empty: Option<&File>) -> io::Result<File> {
    let is_filled = |file: &File| Ok::<_, io::Error>(0 < file.metadata()?.len());
    let named = match empty {
        // Who has claimed it is the only one to take its place.
        Some(empty) if is_filled(empty)? => Err(io::ErrorKind::AlreadyExists.into()),
        empty => made.take_place_of(empty),
    };
    let file = named.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(e.kind(), "another server has just created it"),
        _ => e,
    })?;
    settle_name(path)?;
    Ok(file)
}

/// Lets what a folder says of a file survive.
pub(crate) fn settle_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
