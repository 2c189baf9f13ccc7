//! Why there is no tier: what an operator can act on.

use std::io;
use std::path::{Path, PathBuf};
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
    /// The program does not know how this processor makes a store to persistent memory durable.
    #[error("{} cannot be kept: what makes persistent memory durable is known for x86-64 and not for {name}", path.display())]
    Processor {
        /// The path.
        path: PathBuf,
        /// The processor's architecture.
        name: &'static str,
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
        /// What is there.
        home: Home,
        /// What is wrong.
        damage: Damage,
    },
    /// The tier has another size.
    #[error("{} holds a tier of {found}, not of {asked}", path.display())]
    Size {
        /// The path.
        path: PathBuf,
        /// What is there.
        home: Home,
        /// How much it holds.
        found: Bytes,
        /// What was asked for.
        asked: Bytes,
    },
    /// The device is too small for a tier of that size.
    #[error("{} has {has}, and the tier needs {needs}", path.display())]
    Room {
        /// The device.
        path: PathBuf,
        /// Its size.
        has: Bytes,
        /// What the tier takes, with what is known of it.
        needs: Bytes,
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

/// What a tier lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// A file, which is created where there is none.
    File,
    /// A device, which is new where its first page is zero.
    Device,
}

/// What is wrong with a tier's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// It does not begin as a tier does.
    #[error("it is no tier")]
    Foreign,
    /// Another version wrote it.
    #[error("format version {0} is not this program's {ours}", ours = super::superblock::VERSION)]
    Version(u32),
    /// The first page is damaged.
    #[error("its first page is damaged")]
    Checksum,
    /// The file is shorter than it says.
    #[error("it is {len} long instead of {expected}")]
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
            Self::TooSmall { min, .. } => Some(format!("ask for {min} or more")),
            Self::NoFolder { path } => {
                let folder = path.parent().map(|folder| folder.display().to_string())?;
                Some(format!("mkdir -p {folder}"))
            }
            Self::NoDax { .. } => Some("cotenant doctor shows what this machine offers".to_owned()),
            Self::Processor { path, .. } => {
                Some(format!("keep the tier in a file, if that is on a disk: file:{}:SIZE", path.display()))
            }
            Self::InUse { .. } => Some("give each server a tier of its own".to_owned()),
            Self::Size { path, home, found, .. } => {
                Some(format!("ask for {}B, or {}", found.0, home.begin_anew(path)))
            }
            Self::Room { .. } => Some("ask for less: what is known of a tier takes some of it".to_owned()),
            Self::Damaged { path, home, damage } => {
                let anew = home.begin_anew(path);
                Some(match damage {
                    Damage::Foreign => format!("{anew}, or choose another path"),
                    Damage::Version(_) => format!("{anew}, or run the program that made it"),
                    Damage::Checksum | Damage::Truncated { .. } => format!("{anew}: its content is lost"),
                })
            }
            Self::NoNode { .. } => Some("cotenant doctor lists the nodes".to_owned()),
            _ => None,
        }
    }
}

impl Home {
    /// What lets the next start begin with nothing there.
    fn begin_anew(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::File => format!("remove {path}"),
            // Such a device can be mapped, not written to: `dd` fails there.
            Self::Device => format!("clear its first page: daxio --zero --len=4096 --output={path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(home: Home, path: &str, damage: Damage) -> String {
        TierError::Damaged { path: path.into(), home, damage }.cure().unwrap()
    }

    #[test]
    fn a_file_is_to_be_removed_and_a_device_to_be_cleared() {
        for damage in [
            Damage::Foreign,
            Damage::Version(7),
            Damage::Checksum,
            Damage::Truncated { len: Bytes(1), expected: Bytes(2) },
        ] {
            let cure = damaged(Home::File, "/data/tier", damage);
            assert!(cure.starts_with("remove /data/tier"), "{cure}");
            let cure = damaged(Home::Device, "/dev/dax0.0", damage);
            assert!(cure.contains("--output=/dev/dax0.0") && !cure.contains("remove"), "{cure}");
        }
        let size = |home| TierError::Size {
            path: "/dev/dax0.0".into(),
            home,
            found: Bytes(4096),
            asked: Bytes(8192),
        };
        let cure = size(Home::Device).cure().unwrap();
        assert!(cure.starts_with("ask for 4096B, or clear its first page"), "{cure}");
        assert!(size(Home::File).cure().unwrap().ends_with("or remove /dev/dax0.0"));
    }
}
