//! A profile as it is kept: JSON that says of which tier, on which machine, and when.
//!
//! Shape:      rows and where they come from <-> text of a file
//! Invariants: a file has its name only once all of it is on the disk; a profile of another tier, another machine or another format is refused, with the command that makes a new one
//! Failure:    a text that is not exactly a profile is refused; nothing of it is used. One of the first format has no table of reads
//!             and writes together; the rest of it holds

use super::Competition;
use crate::file::place::settle_name;
use crate::{NewFile, Profile, ProfileError, ProfileRow};
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};
use std::path::Path;
use units::Bytes;

/// Format that is written and read, and the one before, which is read: it has no `competition`.
const FORMAT: u64 = 2;
const FORMAT_BEFORE: u64 = 1;

/// A profile with where it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct ProfileFile {
    /// The tier as it was asked for: what to hand to `cotenant probe`.
    pub spec: String,
    /// The tier's own name.
    pub identity: String,
    /// The machine's processor and their number.
    pub machine: String,
    /// When it was taken, in seconds since 1970.
    pub taken_unix_secs: i64,
    /// MaxIOPS by size.
    pub rows: Vec<ProfileRow>,
    /// What reads and writes leave each other; none in what an older version has kept.
    pub competition: Option<Competition>,
}

/// Why a file holds no profile of a tier.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFileError {
    /// It cannot be read or written.
    #[error("cannot {what} the profile {path}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// It is no profile of this format.
    #[error("{path} is no profile: {why}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Rows that are no profile.
    #[error("{path} is no profile")]
    Rows {
        /// The file.
        path: String,
        /// What is wrong.
        #[source]
        cause: ProfileError,
    },
    /// What was measured is no profile.
    #[error("what was measured is no profile, and {path} stays as it was: {why}")]
    Unfit {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// It is of another tier.
    #[error("{path} is the profile of another tier ({found}, not {wanted})")]
    Foreign {
        /// The file.
        path: String,
        /// Whose it is.
        found: String,
        /// Whose it should be.
        wanted: String,
    },
    /// It was taken on another machine.
    #[error("{path} is stale: it was taken on another machine ({found}; this is {here})")]
    Stale {
        /// The file.
        path: String,
        /// Where it was taken.
        found: String,
        /// This machine.
        here: String,
    },
}

impl ProfileFileError {
    /// The command that renews the profile of the tier.
    #[must_use]
    pub fn cure(&self, spec: &str) -> String {
        let (Self::System { path, .. }
        | Self::Malformed { path, .. }
        | Self::Rows { path, .. }
        | Self::Unfit { path, .. }
        | Self::Foreign { path, .. }
        | Self::Stale { path, .. }) = self;
        format!("cotenant probe {spec} --profile {path}")
    }
}

impl ProfileFile {
    /// Keeps it at `path`: complete under its name, or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, or what it would hold could not be read again as a profile.
    pub fn save(&self, path: &Path) -> Result<(), ProfileFileError> {
        let fail =
            |cause| ProfileFileError::System { what: "write", path: path.display().to_string(), cause };
        let text = self.to_text();
        let read = Self::from_text(&text);
        let fits = read.and_then(|read| Profile::new(&read.rows).map_err(|e| e.to_string()));
        fits.map_err(|why| ProfileFileError::Unfit { path: path.display().to_string(), why })?;
        let kept = || {
            let new = NewFile::create(path)?;
            // It is on the disk before it has its name.
            new.file().write_all(text.as_bytes())?;
            new.file().sync_all()?;
            new.replace()?;
            settle_name(path)
        };
        kept().map_err(fail)
    }

    /// What is kept at `path` of the tier `identity`, whatever machine it was taken on.
    ///
    /// # Errors
    /// If it is of another tier, or nothing that this version knows.
    pub fn read(path: &Path, identity: &str) -> Result<Self, ProfileFileError> {
        let path_text = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| ProfileFileError::System {
            what: "read",
            path: path_text.clone(),
            cause,
        })?;
        let read = Self::from_text(&text)
            .map_err(|why| ProfileFileError::Malformed { path: path_text.clone(), why })?;
        if read.identity != identity {
            let (found, wanted) = (read.identity, identity.to_owned());
            return Err(ProfileFileError::Foreign { path: path_text, found, wanted });
        }
        Ok(read)
    }

    /// What accesses cost, if it was taken on the machine `here`; `path` is where this was read.
    ///
    /// # Errors
    /// If it was not, or its rows are no profile.
    pub fn profile(&self, path: &Path, here: &str) -> Result<Profile, ProfileFileError> {
        let path = path.display().to_string();
        if self.machine != here {
            let (found, here) = (self.machine.clone(), here.to_owned());
            return Err(ProfileFileError::Stale { path, found, here });
        }
        Profile::new(&self.rows).map_err(|cause| ProfileFileError::Rows { path, cause })
    }

    /// The text that is kept.
    #[must_use]
    pub fn to_text(&self) -> String {
        let row = |row: &ProfileRow| json!({"size_bytes": row.size.0, "read_iops": row.read_iops.round(), "write_iops": row.write_iops.round()});
        let all = json!({
            "format": FORMAT,
            "spec": self.spec,
            "identity": self.identity,
            "machine": self.machine,
            "taken_unix_secs": self.taken_unix_secs,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "competition": self.competition.as_ref().map(competition_json),
        });
        format!("{all:#}\n")
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let all: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let all = all.as_object().ok_or("it is no object")?;
        let format = all.get("format").and_then(Value::as_u64).ok_or("it has no format")?;
        if format != FORMAT && format != FORMAT_BEFORE {
            return Err(format!("its format is {format}, not {FORMAT} or {FORMAT_BEFORE}"));
        }
        let word = |name: &str| {
            all.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(format!("it has no {name}"))
        };
        let rows = all.get("rows").and_then(Value::as_array).ok_or("it has no rows")?;
        Ok(Self {
            spec: word("spec")?,
            identity: word("identity")?,
            machine: word("machine")?,
            taken_unix_secs: all.get("taken_unix_secs").and_then(Value::as_i64).ok_or("it has no time")?,
            rows: rows
                .iter()
                .map(|row| row.as_object().and_then(row_of))
                .collect::<Option<_>>()
                .ok_or("a row lacks a number")?,
            competition: match all.get("competition") {
                _ if format == FORMAT_BEFORE => None,
                None => return Err("it has no competition".to_owned()),
                Some(Value::Null) => None,
                Some(found) => Some(competition_of(found).ok_or("its competition lacks a number")?),
            },
        })
    }
}

fn competition_json(found: &Competition) -> Value {
    let rates = |of: &[f64]| of.iter().map(|rate| rate.round()).collect::<Vec<_>>();
    json!({
        "access_bytes": found.size.0,
        "reads_bytes_per_sec": rates(&found.reads),
        "writes_bytes_per_sec": rates(&found.writes),
        "got_bytes_per_sec": found.got.iter().map(|got| rates(got)).collect::<Vec<_>>(),
    })
}

fn competition_of(value: &Value) -> Option<Competition> {
    let rates = |of: &Value| of.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<_>>>();
    let pair = |of: &Value| rates(of)?.try_into().ok();
    Some(Competition {
        size: Bytes(value.get("access_bytes")?.as_u64()?),
        reads: rates(value.get("reads_bytes_per_sec")?)?,
        writes: rates(value.get("writes_bytes_per_sec")?)?,
        got: value.get("got_bytes_per_sec")?.as_array()?.iter().map(pair).collect::<Option<_>>()?,
    })
}

fn row_of(row: &Map<String, Value>) -> Option<ProfileRow> {
    let rate = |name: &str| row.get(name).and_then(Value::as_f64);
    Some(ProfileRow {
        size: Bytes(row.get("size_bytes")?.as_u64()?),
        read_iops: rate("read_iops")?,
        write_iops: rate("write_iops")?,
    })
}

/// This machine, as far as a profile depends on it: the processor and how many there are.
#[must_use]
pub fn machine_name() -> String {
    let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let cores = described.lines().filter(|line| line.starts_with("processor")).count();
    format!("{cores} × {model}")
}

/// The number of a machine's name, which policies compare; none has zero.
#[must_use]
pub fn machine_id(name: &str) -> u32 {
    crc32c::crc32c(name.as_bytes()).max(1)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    fn file() -> ProfileFile {
        let row = |size, iops| ProfileRow { size: Bytes(size), read_iops: iops * 2.0, write_iops: iops };
        ProfileFile {
            spec: "numa:1:1GiB".to_owned(),
            identity: "numa:1".to_owned(),
            machine: machine_name(),
            taken_unix_secs: 1_800_000_000,
            rows: vec![row(64, 1e7), row(4096, 1e6)],
            competition: Some(Competition {
                size: Bytes(256),
                reads: vec![0.0, 2e9],
                writes: vec![0.0, 1e9],
                got: vec![[0.0; 2], [0.0, 1e9], [2e9, 0.0], [1.5e9, 4e8]],
            }),
        }
    }

    #[test]
    fn what_is_kept_comes_back() {
        let path =
            std::env::current_exe().unwrap().with_file_name(format!("profile-{}.json", std::process::id()));
        let file = file();
        file.save(&path).unwrap();
        let back = ProfileFile::read(&path, "numa:1").unwrap();
        assert_eq!(back, file);
        let profile = back.profile(&path, &machine_name()).unwrap();
        assert_eq!(profile.cost_ps(crate::SlowAccess::Write, Bytes(64)), 100_000);
        let foreign = ProfileFile::read(&path, "numa:2").unwrap_err();
        assert!(matches!(foreign, ProfileFileError::Foreign { .. }), "{foreign:?}");
        assert_eq!(
            foreign.cure("numa:2:1GiB"),
            format!("cotenant probe numa:2:1GiB --profile {}", path.display())
        );
        let stale = back.profile(&path, "another").unwrap_err();
        assert!(matches!(stale, ProfileFileError::Stale { .. }), "{stale:?}");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(ProfileFile::read(&path, ""), Err(ProfileFileError::System { what: "read", .. })));
        assert_ne!(machine_id(&machine_name()), machine_id("another"));
    }

    #[test]
    fn what_no_server_could_read_is_not_kept() {
        let name = format!("unfit-profile-{}.json", std::process::id());
        let path = std::env::current_exe().unwrap().with_file_name(name);
        let good = file();
        good.save(&path).unwrap();
        // A rate that is written as 0, one that is no number, and one that is missing.
        for rate in [0.4, f64::NAN, f64::INFINITY] {
            let mut unfit = file();
            unfit.rows[0].read_iops = rate;
            let refused = unfit.save(&path).unwrap_err();
            assert!(matches!(refused, ProfileFileError::Unfit { .. }), "{refused:?}");
        }
        let mut unfit = file();
        unfit.rows.pop();
        assert!(matches!(unfit.save(&path), Err(ProfileFileError::Unfit { .. })));
        let mut unfit = file();
        unfit.competition.as_mut().unwrap().reads[1] = f64::INFINITY;
        assert!(matches!(unfit.save(&path), Err(ProfileFileError::Unfit { .. })));
        assert_eq!(ProfileFile::read(&path, "numa:1").unwrap(), good);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_kept_leaves_nothing_beside_it() {
        let name = format!("profiles-{}", std::process::id());
        let folder = std::env::current_exe().unwrap().with_file_name(name);
        let taken = folder.join("taken");
        std::fs::create_dir_all(taken.join("by a folder")).unwrap();
        let refused = file().save(&taken).unwrap_err();
        assert!(matches!(refused, ProfileFileError::System { what: "write", .. }), "{refused:?}");
        let left: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["taken"]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_profile_of_the_format_before_has_its_rows_and_no_competition() {
        let mut file = file();
        let old = file.to_text().replacen("\"format\": 2", "\"format\": 1", 1);
        let old = old.replacen("\"competition\"", "\"unknown\"", 1);
        let read = ProfileFile::from_text(&old).unwrap();
        file.competition = None;
        assert_eq!(read, file);
        assert_eq!(
            ProfileFile::from_text(&file.to_text()),
            Ok(file),
            "what was not measured is told as such"
        );
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_reason() {
        let good = file().to_text();
        assert!(ProfileFile::from_text(&good).is_ok());
        for (from, to) in [
            ("{", "["),
            ("\"format\": 2", "\"format\": 3"),
            ("\"format\"", "\"farmat\""),
            ("\"spec\"", "\"spek\""),
            ("\"rows\"", "\"rose\""),
            ("\"read_iops\"", "\"read\""),
            ("\"competition\"", "\"competitors\""),
            ("\"access_bytes\"", "\"bytes\""),
            ("\"got_bytes_per_sec\"", "\"got\""),
            ("400000000.0", "\"a lot\""),
            ("1800000000", "\"today\""),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(ProfileFile::from_text(&good.replacen(from, to, 1)).is_err(), "{from} -> {to}");
        }
    }
}
