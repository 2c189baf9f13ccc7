//! What cannot be read anywhere and is tried: direct I/O in a folder, reads by `io_uring`, and sockets by it.
//!
//! Invariants: in the folder nothing that is there is opened or removed: what is made has a name that nobody knows before

use media::{Engine, FileTier, TIER_MIN, beside};
use std::path::{Path, PathBuf};

/// What came of trying.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// Where.
    pub folder: PathBuf,
    /// Whether a tier could be made there, or why not.
    pub direct_io: Result<(), String>,
    /// Whether reads went by `io_uring`; none if there was no tier to read.
    pub io_uring: Option<bool>,
    /// Whether a server would wait for sockets by `io_uring`, or why not.
    pub sockets: Result<(), String>,
}

impl Tried {
    /// Makes the smallest tier in `folder`, reads from it, and removes it.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        let path = beside(&folder.join(".cotenant-doctor"), "try");
        let made = FileTier::open(&path, TIER_MIN);
        let io_uring = made
            .as_ref()
            .ok()
            .map(|tier| tier.queue(1, Engine::Auto).is_ok_and(|queue| queue.engine_name() == "io_uring"));
        let direct_io = match &made {
            Ok(_) => Ok(()),
            Err(e) => Err(std::iter::successors(Some(e as &dyn std::error::Error), |e| e.source())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": ")),
        };
        drop(made);
        // Where none could be made none is there.
        let _removed = std::fs::remove_file(&path);
        let sockets = server::probe_io_uring().map_err(|e| e.to_string());
        Self { folder: folder.to_owned(), direct_io, io_uring, sockets }
    }
}
