//! The file that a clean end saves the items in: one server's as long as it runs.
//!
//! Shape:      a path -> what is there is looked at -> `PATH.lock` beside it, locked; its owner removes it
//! Invariants: what no clean end has written is never touched; a lock's file is removed by whoever holds its lock, so a lock
//!             counts only if its file is there still
//! Failure:    why the file cannot be had is why the server does not start; a save that fails is told at the end

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Headway, Store};

/// Why a file cannot keep the items.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// It is a folder, or a device.
    #[error("it is no file")]
    Kind,
    /// Something else is in it.
    #[error("it holds something else than saved items")]
    Foreign,
    /// Another process has it.
    #[error("it is in use by another server")]
    InUse,
    /// The system refused something.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
}

impl SavedError {
    /// What would likely help.
    #[must_use]
    pub fn cure(&self) -> &'static str {
        match self {
            Self::Kind => "name a file: -e FILE",
            Self::Foreign => "name another file, -e FILE, or remove this one",
            Self::InUse => "give each server a file of its own: -e FILE",
            Self::System { .. } => "name a file in a folder that the server may write to: -e FILE",
        }
    }
}

/// The items are lost by this end, but for what tiers keep by themselves.
#[derive(Debug, thiserror::Error)]
#[error("the items could not be saved in {}", path.display())]
pub struct NotSaved {
    path: PathBuf,
    #[source]
    cause: io::Error,
}

/// A file that is this server's.
#[derive(Debug)]
pub(crate) struct SavedFile {
    path: PathBuf,
    lock_path: PathBuf,
    /// Keeps other servers away.
    _lock: File,
}

impl SavedFile {
    /// Makes it this server's, and sure that an end can write it.
    pub(crate) fn claim(path: &Path) -> Result<Self, SavedError> {
        check(path)?;
        // What an end writes first, and renames.
        if check(&beside(path, "new")).is_err() {
            let cause = io::Error::new(io::ErrorKind::AlreadyExists, "something else is called so");
            return Err(SavedError::System { what: "write its '.new' beside it", cause });
        }
        let lock_path = beside(path, "lock");
        let fail = |what| move |cause| SavedError::System { what, cause };
        let lock = loop {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&lock_path).map_err(fail("make a lock beside it"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(SavedError::InUse),
                // Some network file systems have no locks: who keeps items there sees to it that servers do not meet.
                Err(TryLockError::Error(cause)) if has_no_locks(&cause) => {
                    tracing::warn!("{} cannot be locked against other servers: {cause}", path.display());
                }
                Err(TryLockError::Error(cause)) => return Err(fail("lock it")(cause)),
            }
            let there = lock_path.metadata().ok();
            let ours = file.metadata().map_err(fail("look at the lock beside it"))?;
            if ours.len() != 0 {
                let cause = io::Error::new(io::ErrorKind::AlreadyExists, "what is there is no lock");
                return Err(fail("make a lock beside it")(cause));
            }
            // Else another server has just removed it at its end, and whoever comes makes a new one.
            if there.is_some_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                break file;
            }
        };
        let claimed = Self { path: path.to_owned(), lock_path, _lock: lock };
        // A lock that is left from before says nothing of what the folder allows now.
        let tried = beside(path, &format!("{}.try", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&tried) {
            // A server of the same number was killed here.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.and_then(|_| std::fs::remove_file(&tried)).map_err(fail("write beside it"))?,
        }
        Ok(claimed)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the items for the next start.
    pub(crate) fn save(&self, store: &Arc<Store>, headway: &Headway) -> Result<(), NotSaved> {
        // Somebody else may have put a file there meanwhile.
        let saved = check(&self.path).map_err(io::Error::other);
        let saved = saved.and_then(|()| store.worker().map_err(io::Error::other));
        let saved = saved.and_then(|mut worker| worker.save_told(&self.path, headway));
        let items = saved.map_err(|cause| NotSaved { path: self.path.clone(), cause })?;
        tracing::info!("{items} items were saved in {}", self.path.display());
        Ok(())
    }
}

impl Drop for SavedFile {
    fn drop(&mut self) {
        // One that stays is taken over by the next server.
        let _gone = std::fs::remove_file(&self.lock_path);
    }
}

/// Whether a file system refuses to lock anything.
fn has_no_locks(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::Unsupported
        || cause.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
}

/// Whether an end may put its file there.
///
/// # Errors
/// Why not.
pub(crate) fn check(path: &Path) -> Result<(), SavedError> {
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(SavedError::Kind);
    }
    match store::may_replace(path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(SavedError::Foreign),
        Err(cause) => Err(SavedError::System { what: "read it", cause }),
    }
}

/// Everything that a server writes where it saves its items, by the path that it was told.
pub(crate) fn written_at(path: &Path) -> [PathBuf; 3] {
    // The store writes the whole of it beside its place first.
    [path.to_owned(), beside(path, "new"), beside(path, "lock")]
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of one test, removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("cotenant-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let names = self.0.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_one_server_s_until_it_ends() {
        let folder = Folder::new("claimed");
        let path = folder.0.join("items");
        let claimed = SavedFile::claim(&path).unwrap();
        assert_eq!(claimed.path(), path);
        assert!(matches!(SavedFile::claim(&path), Err(SavedError::InUse)));
        assert_eq!(folder.names(), ["items.lock"], "it stays its owner's");
        drop(claimed);
        assert_eq!(folder.names(), [""; 0]);
        // A server that was killed leaves its lock.
        std::fs::write(folder.0.join("items.lock"), "").unwrap();
        drop(SavedFile::claim(&path).unwrap());
        assert_eq!(folder.names(), [""; 0]);
    }

    #[test]
    fn what_is_something_else_is_refused_and_left_as_it_is() {
        let folder = Folder::new("else");
        let path = folder.0.join("items");
        std::fs::write(&path, "hello").unwrap();
        assert!(matches!(SavedFile::claim(&path), Err(SavedError::Foreign)));
        assert!(matches!(SavedFile::claim(&folder.0), Err(SavedError::Kind)));
        let nowhere = folder.0.join("none/items");
        assert!(matches!(SavedFile::claim(&nowhere), Err(SavedError::System { .. })));
        assert_eq!(folder.names(), ["items"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"hello");
        std::fs::remove_file(&path).unwrap();
        let lock = folder.0.join("items.lock");
        std::fs::write(&lock, "hello").unwrap();
        assert!(matches!(SavedFile::claim(&path), Err(SavedError::System { .. })));
        assert_eq!(std::fs::read(&lock).unwrap(), b"hello");
    }
}
