//! How an operator names a slow tier: `emulated:6dimm:256MiB`, `file:/var/lib/cotenant/tier:10GiB`, `dax:/dev/dax0.0:1GiB`,
//! `numa:1:4GiB`, `dram:64MiB`.
//!
//! Shape:      text -> `TierSpec` -> an open tier with the name under which things are kept about it
//! Failure:    a text that names no tier is an error that says what would

use crate::emulated::{Emulated, Emulation, EmulationError};
use crate::file::{TIER_MIN, TierError};
use crate::{DaxTier, Device, FileTier, NumaTier, Plain, notes_words};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::Bytes;

/// A slow tier as it is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierSpec {
    /// What it is made of.
    pub medium: TierMedium,
    /// How much.
    pub size: Bytes,
}

/// What a tier is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TierMedium {
    /// DRAM as it is: for comparison.
    Dram,
    /// DRAM with the timing of persistent memory.
    Emulated(Emulation),
    /// A file, by direct I/O.
    File(PathBuf),
    /// The same, which outlives a crash of the machine, too.
    Synced(PathBuf),
    /// Persistent memory: a file on a DAX file system, or a DAX device.
    Dax(PathBuf),
    /// The memory of a NUMA node.
    Numa(u32),
}

/// Why a text names no tier.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{text}' names no tier: {why}")]
pub struct SpecError {
    text: String,
    why: String,
}

/// Times that a tier is tried for which another has, over three seconds (guess: what is under way when a process is killed ends within tens of
/// milliseconds on a disk that works).
const IN_USE_TRIES: u32 = 60;
/// Between two of them.
const IN_USE_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// What would name one.
pub const SPEC_FORMS: &str = "emulated:1dimm|2dimm|6dimm[/SLOWER]:SIZE, file:PATH:SIZE, synced:PATH:SIZE, dax:PATH:SIZE, numa:NODE:SIZE or dram:SIZE";

/// A tier that is open.
#[derive(Debug)]
pub struct OpenTier {
    /// The tier.
    pub device: Box<dyn Device>,
    /// The name under which things are kept about it: another tier has another one.
    pub identity: String,
}

impl TierSpec {
    /// Opens the tier, or creates it. One that another has is waited for some seconds: a process that was killed has it until the system is
    /// through with what it had asked of it.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn open(&self) -> Result<OpenTier, TierError> {
        for _ in 0..IN_USE_TRIES {
            match self.open_once() {
                Err(TierError::InUse { .. }) => std::thread::sleep(IN_USE_PAUSE),
                opened => return opened,
            }
        }
        self.open_once()
    }

    fn open_once(&self) -> Result<OpenTier, TierError> {
        if self.size < TIER_MIN {
            // Of less the store makes no use, whatever it is made of.
            return Err(TierError::TooSmall { size: self.size, min: TIER_MIN });
        }
        let (device, identity): (Box<dyn Device>, String) = match &self.medium {
            TierMedium::Dram => (Box::new(Plain::new(self.size)?), "dram".to_owned()),
            TierMedium::Emulated(emulation) => {
                (Box::new(Emulated::new(*emulation, self.size)?), emulated_identity(*emulation))
            }
            TierMedium::File(path) | TierMedium::Synced(path) => {
                let is_synced = matches!(self.medium, TierMedium::Synced(_));
                let open = if is_synced { FileTier::open_synced } else { FileTier::open };
                let tier = open(path, self.size)?;
                let identity = format!("file:{}", hex(tier.identity()));
                (Box::new(tier), identity)
            }
            TierMedium::Dax(path) => {
                let tier = DaxTier::open(path, self.size)?;
                let identity = format!("dax:{}", hex(tier.identity()));
                (Box::new(tier), identity)
            }
            TierMedium::Numa(node) => (Box::new(NumaTier::new(*node, self.size)?), format!("numa:{node}")),
        };
        Ok(OpenTier { device, identity })
    }

    /// Memory of this process that the notes of what it holds take: those of a file are mapped from it.
    #[must_use]
    pub fn notes_in_memory(&self) -> Bytes {
        match &self.medium {
            TierMedium::Dram | TierMedium::Emulated(_) | TierMedium::Numa(_) => {
                Bytes(notes_words(self.size) as u64 * 8)
            }
            TierMedium::File(_) | TierMedium::Synced(_) | TierMedium::Dax(_) => Bytes::ZERO,
        }
    }

    /// The file that its profile is kept in unless another is named: beside the tier, or in the working folder where the tier has
    /// no place of its own.
    #[must_use]
    pub fn profile_path(&self) -> PathBuf {
        match &self.medium {
            TierMedium::File(path) | TierMedium::Synced(path) | TierMedium::Dax(path)
                if !path.starts_with("/dev") =>
            {
                let mut name = path.as_os_str().to_owned();
                name.push(".profile.json");
                PathBuf::from(name)
            }
            TierMedium::Dax(path) => {
                let name =
                    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                PathBuf::from(format!("dax-{name}.profile.json"))
            }
            medium => PathBuf::from(format!("{}.profile.json", medium.to_string().replace([':', '/'], "-"))),
        }
    }
}

impl FromStr for TierSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fail = |why: String| SpecError { text: text.to_owned(), why };
        let (rest, size) =
            text.rsplit_once(':').ok_or_else(|| fail(format!("it is none of {SPEC_FORMS}")))?;
        let size: Bytes = size.parse().map_err(|e: units::ParseError| fail(e.to_string()))?;
        let (kind, name) = rest.split_once(':').unwrap_or((rest, ""));
        let path = |name: &str| match Path::new(name) {
            path if name.is_empty() => Err(fail(format!("{} has no path", path.display()))),
            path => Ok(path.to_owned()),
        };
        let medium = match (kind, name) {
            ("dram", "") => TierMedium::Dram,
            ("emulated", name) => {
                let parsed = name.parse();
                let fail = |e: EmulationError| fail(format!("'{name}' is {e}"));
                TierMedium::Emulated(parsed.map_err(fail)?)
            }
            ("file", name) => TierMedium::File(path(name)?),
            ("synced", name) => TierMedium::Synced(path(name)?),
            ("dax", name) => TierMedium::Dax(path(name)?),
            ("numa", name) => {
                TierMedium::Numa(name.parse().map_err(|_| fail(format!("'{name}' is no number of a node")))?)
            }
            _ => return Err(fail(format!("it is none of {SPEC_FORMS}"))),
        };
        Ok(Self { medium, size })
    }
}

impl fmt::Display for TierMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dram => write!(f, "dram"),
            Self::Emulated(emulation) => write!(f, "emulated:{emulation}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Synced(path) => write!(f, "synced:{}", path.display()),
            Self::Dax(path) => write!(f, "dax:{}", path.display()),
            Self::Numa(node) => write!(f, "numa:{node}"),
        }
    }
}

impl fmt::Display for TierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole bytes where a larger unit would round.
        let short = self.size.to_string();
        match short.parse::<Bytes>() {
            Ok(size) if size == self.size => write!(f, "{}:{short}", self.medium),
            _ => write!(f, "{}:{}B", self.medium, self.size.0),
        }
    }
}

/// The preset and a checksum of what it stands for: other constants are another tier.
fn emulated_identity(emulation: Emulation) -> String {
    let constants = format!("{:?}{:?}", emulation.dimms.system(), crate::model::SCALARS);
    format!("emulated:{emulation}:{:08x}", crc32c::crc32c(constants.as_bytes()))
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_written_again() {
        for text in [
            "dram:64MiB",
            "emulated:6dimm:256MiB",
            "emulated:1dimm/8:256MiB",
            "file:/a/b:1GiB",
            "file:relative path:1GiB",
            "file:/a:b:1GiB",
            "synced:/a/b:1GiB",
            "dax:/dev/dax0.0:2MiB",
            "numa:1:4GiB",
            "dram:1000001B",
        ] {
            let spec: TierSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
    }

    /// As after a kill: the system lets go of a file a little later.
    #[test]
    fn a_tier_that_another_has_still_is_waited_for() {
        let binary = std::env::current_exe().unwrap();
        let folder = binary.with_file_name(format!("tier-test-waited-for-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let spec = TierSpec { medium: TierMedium::File(folder.join("tier")), size: TIER_MIN };
        let before = spec.open_once().unwrap();
        assert!(matches!(spec.open_once(), Err(TierError::InUse { .. })));
        let waits = std::thread::spawn(move || spec.open());
        std::thread::sleep(std::time::Duration::from_millis(200));
        let identity = before.identity.clone();
        drop(before);
        assert_eq!(waits.join().unwrap().unwrap().identity, identity);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_names_no_tier_is_refused() {
        for text in [
            "",
            "dram",
            "dram:",
            "dram:64",
            "dram:x:64MiB",
            "emulated:3dimm:1MiB",
            "emulated:1dimm/0:1MiB",
            "emulated:1MiB",
            "file::1MiB",
            "file:1MiB",
            "numa:x:1MiB",
            "numa:-1:1MiB",
            "ssd:/a:1MiB",
            ":",
            ":::",
        ] {
            let refused = text.parse::<TierSpec>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("'{text}' names no tier: ")), "{refused}");
        }
    }

    #[test]
    fn a_profile_is_kept_beside_the_tier() {
        let path = |text: &str| text.parse::<TierSpec>().unwrap().profile_path();
        assert_eq!(path("file:/a/tier:1MiB"), Path::new("/a/tier.profile.json"));
        assert_eq!(path("dax:/dev/dax0.0:1MiB"), Path::new("dax-dax0.0.profile.json"));
        assert_eq!(path("emulated:2dimm:1MiB"), Path::new("emulated-2dimm.profile.json"));
        assert_eq!(path("emulated:2dimm/8:1MiB"), Path::new("emulated-2dimm-8.profile.json"));
        assert_eq!(path("numa:1:1MiB"), Path::new("numa-1.profile.json"));
    }

    #[test]
    fn tiers_have_names_of_their_own() {
        let names =
            ["1dimm", "2dimm", "6dimm", "6dimm/8"].map(|name| emulated_identity(name.parse().unwrap()));
        assert!((1..names.len()).all(|i| !names[..i].contains(&names[i])), "{names:?}");
        let open = "dram:1MiB".parse::<TierSpec>().unwrap().open().unwrap();
        assert_eq!((open.identity.as_str(), open.device.size()), ("dram", Bytes::mib(1)));
    }

    #[test]
    fn a_tier_that_is_too_small_is_refused_whatever_it_is_made_of() {
        for medium in
            ["dram", "emulated:1dimm", "file:/none/tier", "synced:/none/tier", "dax:/none/tier", "numa:0"]
        {
            for size in ["0B", "1KiB", "1048575B"] {
                let refused = format!("{medium}:{size}").parse::<TierSpec>().unwrap().open().unwrap_err();
                let is_said = matches!(refused, TierError::TooSmall { min, .. } if min == TIER_MIN);
                assert!(is_said, "{medium}: {refused}");
                assert_eq!(refused.cure().as_deref(), Some("ask for 1MiB or more"));
            }
        }
    }
}
