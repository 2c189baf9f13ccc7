//! Where a durable tier lives: a file that is complete under its name, on the right kind of file system, claimed by one server.
//!
//! Shape:      path, size -> the file, locked, and its superblock, checked or new
//! Invariants: a file appears under its name only once it is complete, where nothing is or in place of an empty one that is claimed;
//!             what cannot be made leaves nothing behind; what another makes at the same time is left alone
//! Failure:    what is there and is not a tier of that size is refused, never overwritten

use super::TIER_MIN;
use super::error::{Damage, Home, TierError};
use super::superblock::{PAGE, SIZE_MAX, Superblock};
use crate::Buffer;
use rustix::fs::{
    CWD, FallocateFlags, FlockOperation, OFlags, RenameFlags, fallocate, flock, fstatfs, renameat_with,
};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
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
        match open(path, reach, OFlags::empty()) {
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

fn open(path: &Path, reach: Reach, more: OFlags) -> io::Result<File> {
    let flags = more | if reach == Reach::Direct { OFlags::DIRECT } else { OFlags::empty() };
    #[expect(clippy::cast_possible_wrap, reason = "a set of bits")]
    let flags = flags.bits() as i32;
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(path)
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

/// A name beside a path that nobody else has, whatever its process or machine.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:032x}.{ending}", u128::from_le_bytes(identity())));
    PathBuf::from(beside)
}

/// A new tier: made beside its place and moved there once it is complete, in the place of nothing or of what is `empty` and claimed.
fn created(path: &Path, size: Bytes, reach: Reach, empty: Option<&File>) -> Result<Place, TierError> {
    let beside = beside(path, "new");
    let file =
        open(&beside, reach, OFlags::CREATE | OFlags::EXCL).map_err(|cause| refusal(path, "open", cause))?;
    let done = claim(path, &file, reach).and_then(|_len| fill(path, &file, size)).and_then(|block| {
        publish(&beside, path, empty).map_err(|cause| refusal(path, "create", cause))?;
        Ok(block)
    });
    match done {
        Ok(block) => Ok(Place { file, block, is_new: true }),
        Err(e) => {
            // What could not be made is of no use; the error says why.
            let _removed = std::fs::remove_file(&beside);
            Err(e)
        }
    }
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
fn publish(beside: &Path, path: &Path, empty: Option<&File>) -> io::Result<()> {
    let named = match empty {
        // Who has claimed it is the only one to take its place.
        Some(empty) if is_at(empty, path)? => std::fs::rename(beside, path),
        Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        None => name_anew(beside, path),
    };
    named.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(e.kind(), "another server has just created it"),
        _ => e,
    })?;
    settle_name(path)
}

/// Gives a file a name that nothing has.
fn name_anew(beside: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, beside, CWD, path, RenameFlags::NOREPLACE) {
        // Some file systems know no such rename, NFS among them; a link takes nothing's place either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(beside, path)?;
            std::fs::remove_file(beside)
        }
        done => Ok(done?),
    }
}

/// Whether a file is empty and still what the path names.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (file, there) = (file.metadata()?, path.metadata()?);
    Ok(file.len() == 0 && (file.dev(), file.ino()) == (there.dev(), there.ino()))
}

/// Lets what a folder says of a file survive.
pub(crate) fn settle_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

pub(crate) fn identity() -> [u8; 16] {
    let mut identity = [0; 16];
    // The random device does not fail once the system is up; then the name is no secret, only less unique.
    let _filled = rustix::rand::getrandom(&mut identity, rustix::rand::GetRandomFlags::empty());
    identity
}
