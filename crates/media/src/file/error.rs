//! Why there is no tier: what an operator can act on.

use std::io;
use std::path::PathBuf;
use units::Bytes;

/// Why there is no tier.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    /// Smaller than a tier can be.
    #[error("a tier of {size} is too small: {min} at least")]
    TooSmall {
        /// What was asked for.
        size: Bytes,
        /// The least.
        min: Bytes,
    },
    /// The folder is not there.
    #[error("there is no folder for {}", path.display())]
    NoFolder {
        /// The tier's path.
        path: PathBuf,
    },
    /// Something else than a file is there.
    #[error("{} is no {wanted}", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What should be there.
        wanted: &'static str,
    },
    /// The file system keeps its files in memory or cannot bypass its cache.
    #[error("{} is on a file system without direct I/O ({kind}): use one on a disk", path.display())]
    NoDirectIo {
        /// The path.
        path: PathBuf,
        /// What the file system is.
        kind: &'static str,
    },
    /// Stores to the mapping would not be durable once they left the caches.
    #[error("{} is not on a DAX file system (mount -o dax) and no DAX device", path.display())]
    NoDax {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// Another process has it.
    #[error("{} is in use by another server", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Its content is not what was written.
    #[error("{} cannot be used as it is: {damage}", path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        damage: Damage,
    },
    /// The tier has another size.
    #[error("{} holds a tier of {found}, not of {asked}", path.display())]
    Size {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: Bytes,
        /// What was asked for.
        asked: Bytes,
    },
    /// The NUMA node is not there or has no memory.
    #[error("NUMA node {node} has no memory here")]
    NoNode {
        /// The node.
        node: u32,
    },
    /// The system refused something.
    #[error("cannot {what} {}", path.display())]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// The system refused the mapping.
    #[error(transparent)]
    Map(#[from] crate::MapError),
}

/// What is wrong with a tier's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// It does not begin as a tier does.
    #[error("it is no tier (remove it, or choose another path)")]
    Foreign,
    /// Another version wrote it.
    #[error("format version {0} is not this program's {ours} (remove it, or run the program that made it)", ours = super::superblock::VERSION)]
    Version(u32),
    /// The first page is damaged.
    #[error("its first page is damaged (remove it: its content is lost)")]
    Checksum,
    /// The file is shorter than it says.
    #[error("it is {len} long instead of {expected} (remove it: its content is lost)")]
    Truncated {
        /// What is there.
        len: Bytes,
        /// What should be.
        expected: Bytes,
    },
}

impl TierError {
    /// What the operator can do about it, where that is not in the text.
    #[must_use]
    pub fn cure(&self) -> Option<String> {
        match self {
            Self::NoFolder { path } => {
                let folder = path.parent().map(|folder| folder.display().to_string())?;
                Some(format!("mkdir -p {folder}"))
            }
            Self::NoDax { .. } => Some("cotenant doctor shows what this machine offers".to_owned()),
            Self::InUse { .. } => Some("give each server a tier of its own".to_owned()),
            Self::Size { path, found, .. } => {
                Some(format!("ask for {}B, or remove {}", found.0, path.display()))
            }
            Self::NoNode { .. } => Some("cotenant doctor lists the nodes".to_owned()),
            _ => None,
        }
    }
}
