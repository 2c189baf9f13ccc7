//! Every tenant's speed at every share of DRAM and of a tier's time, as an operator has measured it: what `ideal` divides by.
//!
//! Shape:      JSON of a file -> a table per tenant, by its name
//! Invariants: a file is taken over whole or not at all; every tenant that it names is there when it is read
//! Units:      bytes of DRAM; parts of the tier's time, of which all is 1; speeds in any unit, by equal steps from nothing to the most
//! Failure:    a file that is not there, is no such file, or names who is not there is refused with its reason
//! Source:     Spirit §6 (Ideal)

use super::BandwidthKind;
use control::joint::{Joint, Table, TableError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use units::{Bytes, BytesPerSec};

/// Points of a tenant's table at most (guess: Spirit's own profiles have 20 by 20).
const POINTS_MAX: usize = 4096;
/// All of a tier's time as bandwidth: a byte is a nanosecond.
const WHOLE: f64 = 1e9;

/// Tenants' tables, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Speeds(BTreeMap<String, Table>);

/// Why `ideal` has nothing to divide by.
#[derive(Debug, thiserror::Error)]
pub enum SpeedsError {
    /// No file is named.
    #[error(
        "the policy 'ideal' needs every tenant's speed at every share, measured beforehand, and bandwidth_speeds names no file"
    )]
    NoFile,
    /// It cannot be read.
    #[error("cannot read the speeds of tenants in {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// It is no such file.
    #[error("{} has no speeds of tenants: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A table is none.
    #[error("{} has no speeds of tenant '{tenant}'", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Whose table.
        tenant: String,
        /// What is wrong.
        #[source]
        cause: TableError,
    },
    /// It names a tenant that is not there.
    #[error("{} names tenant '{tenant}', which is not there", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Whom it names.
        tenant: String,
    },
}

impl SpeedsError {
    /// Whether settings alone show that `kind` has no speeds to divide by: whatever a file has, one is named where it is needed.
    ///
    /// # Errors
    /// If none is.
    pub fn of_settings(kind: BandwidthKind, file: Option<&Path>) -> Result<(), Self> {
        if kind.needs_speeds() && file.is_none() { Err(Self::NoFile) } else { Ok(()) }
    }

    /// What would likely help.
    #[must_use]
    pub fn cure(&self) -> &'static str {
        match self {
            Self::NoFile => {
                "name one, bandwidth_speeds = \"FILE\", or choose symbiosis, which estimates them"
            }
            Self::Read { .. } => "name a file that the server may read",
            Self::Malformed { .. } | Self::Table { .. } => {
                "write {\"tenants\": {\"NAME\": {\"memory_bytes\": MOST, \"tier_part\": MOST, \"speeds\": [[…], …]}}}: a row per \
                 amount of DRAM, a column per part of the tier's time, both in equal steps from none to the most"
            }
            Self::Unknown { .. } => "add the tenant, or take it out of the file",
        }
    }
}

impl Speeds {
    /// What the policy `kind` needs of them: the file at `path`, whose tenants `is_there` knows; none for a policy that looks at none.
    ///
    /// # Errors
    /// If it needs them and they cannot be had.
    pub(crate) fn of_policy(
        kind: BandwidthKind,
        path: Option<&Path>,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Self, SpeedsError> {
        if !kind.needs_speeds() {
            return Ok(Self::default());
        }
        let path = path.ok_or(SpeedsError::NoFile)?;
        let text = std::fs::read_to_string(path)
            .map_err(|cause| SpeedsError::Read { path: path.to_owned(), cause })?;
        let speeds = Self::of_text(&text, path)?;
        match speeds.0.keys().find(|name| !is_there(name)) {
            Some(tenant) => Err(SpeedsError::Unknown { path: path.to_owned(), tenant: tenant.clone() }),
            None => Ok(speeds),
        }
    }

    /// The table of a tenant, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&Table> {
        self.0.get(name)
    }

    fn of_text(text: &str, path: &Path) -> Result<Self, SpeedsError> {
        let malformed = |why: String| SpeedsError::Malformed { path: path.to_owned(), why };
        let all: Value = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
        let tenants = all.get("tenants").and_then(Value::as_object);
        let tenants = tenants.ok_or_else(|| malformed("it has no tenants".to_owned()))?;
        let table = |(name, value): (&String, &Value)| {
            let own = value.as_object().ok_or_else(|| malformed(format!("tenant '{name}' is no object")))?;
            let (most, rows) = parsed(own).map_err(|why| malformed(format!("tenant '{name}' {why}")))?;
            let columns = rows.first().map_or(0, Vec::len);
            let table = Table::new(most, rows.len(), columns, rows.concat())
                .map_err(|cause| SpeedsError::Table { path: path.to_owned(), tenant: name.clone(), cause })?;
            Ok((name.clone(), table))
        };
        tenants.iter().map(table).collect::<Result<_, _>>().map(Self)
    }
}

/// The share at the last point and the rows of a tenant's table, all of one length.
fn parsed(own: &Map<String, Value>) -> Result<(Joint, Vec<Vec<f32>>), String> {
    if let Some(unknown) =
        own.keys().find(|key| !["memory_bytes", "tier_part", "speeds"].contains(&key.as_str()))
    {
        return Err(format!("has {unknown}, which is nothing that is known"));
    }
    let bytes = own.get("memory_bytes").and_then(Value::as_u64).ok_or("has no memory_bytes")?;
    let part = own.get("tier_part").and_then(Value::as_f64).ok_or("has no tier_part")?;
    if !(0.0 < part && part <= 1.0) {
        return Err(format!("has a tier_part of {part}, which is not above 0 and at most 1"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a billion")]
    let bandwidth = BytesPerSec((part * WHOLE).ceil() as u64);
    let rows = own.get("speeds").and_then(Value::as_array).ok_or("has no speeds")?;
    #[expect(clippy::cast_possible_truncation, reason = "speeds are compared with each other only")]
    let speed = |value: &Value| value.as_f64().map(|speed| speed as f32);
    let row = |value: &Value| value.as_array()?.iter().map(speed).collect::<Option<Vec<f32>>>();
    let rows: Vec<Vec<f32>> =
        rows.iter().map(row).collect::<Option<_>>().ok_or("has a speed that is no number")?;
    if rows.iter().any(|row| row.len() != rows[0].len()) {
        return Err("has rows of different lengths".to_owned());
    }
    let points: usize = rows.iter().map(Vec::len).sum();
    if POINTS_MAX < points {
        return Err(format!("has {points} speeds, {POINTS_MAX} are possible"));
    }
    Ok((Joint { bytes: Bytes(bytes), bandwidth }, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"tenants": {
        "a": {"memory_bytes": 1000, "tier_part": 0.5, "speeds": [[1, 2, 3], [2, 4, 6]]},
        "b": {"memory_bytes": 500, "tier_part": 1, "speeds": [[0, 0], [7, 7]]}}}"#;

    fn of(text: &str) -> Result<Speeds, String> {
        let told = |e: SpeedsError| match std::error::Error::source(&e) {
            Some(cause) => format!("{e}: {cause}"),
            None => e.to_string(),
        };
        Speeds::of_text(text, Path::new("/speeds")).map_err(told)
    }

    #[test]
    fn rows_are_amounts_of_memory_and_columns_parts_of_the_tier() {
        let speeds = of(GOOD).unwrap();
        let table = speeds.get("a").unwrap();
        assert_eq!(table.most(), Joint { bytes: Bytes(1000), bandwidth: BytesPerSec(500_000_000) });
        for (memory, bandwidth, speed) in [(0.0, 0.0, 1.0), (0.0, 1.0, 3.0), (1.0, 0.0, 2.0), (0.5, 0.5, 3.0)]
        {
            assert!((table.speed(memory, bandwidth) - speed).abs() < 1e-6, "{memory} {bandwidth}");
        }
        assert_eq!(speeds.get("c"), None);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_reason() {
        for (from, to, why) in [
            ("{\"tenants\"", "[\"tenants\"", "has no speeds of tenants: "),
            ("tenants", "users", "it has no tenants"),
            ("memory_bytes", "memory", "tenant 'a' has memory, which is nothing that is known"),
            ("1000", "\"1 KB\"", "tenant 'a' has no memory_bytes"),
            ("1000", "0", "tenant 'a': a table needs two rows, two columns and a range of both"),
            ("0.5", "1.5", "tenant 'a' has a tier_part of 1.5"),
            ("0.5", "0", "tenant 'a' has a tier_part of 0"),
            ("[1, 2, 3]", "[1, 2]", "tenant 'a' has rows of different lengths"),
            ("[1, 2, 3]", "[1, 2, \"3\"]", "tenant 'a' has a speed that is no number"),
            ("[1, 2, 3]", "[1, 2, -3]", "tenant 'a': speed 2 of the table is no speed"),
            ("[2, 4, 6]", "[2, 4, 3]", "tenant 'a': more of one slows down at point 5 of the table"),
            ("[1, 2, 3], ", "", "a table needs two rows"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let told = of(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(told.starts_with("/speeds ") && told.contains(why), "{from} -> {to}: {told}");
        }
        let many = format!("[{}]", vec!["1"; POINTS_MAX].join(", "));
        let told = of(&GOOD.replacen("[1, 2, 3]", &many, 1).replacen("[2, 4, 6]", &many, 1)).unwrap_err();
        assert!(told.contains("8192 speeds, 4096 are possible"), "{told}");
    }

    #[test]
    fn a_file_is_asked_for_by_ideal_alone_and_names_who_is_there() {
        let kind = |name| BandwidthKind::of_word(name).unwrap();
        let nobody = |_: &str| false;
        assert_eq!(Speeds::of_policy(kind("symbiosis"), None, nobody).unwrap(), Speeds::default());
        let ideal = |path: Option<&Path>, is_there: &dyn Fn(&str) -> bool| {
            Speeds::of_policy(kind("ideal"), path, is_there)
        };
        assert!(matches!(ideal(None, &nobody), Err(SpeedsError::NoFile)));
        assert!(matches!(SpeedsError::of_settings(kind("ideal"), None), Err(SpeedsError::NoFile)));
        assert!(SpeedsError::of_settings(kind("ideal"), Some(Path::new("/nowhere"))).is_ok());
        assert!(SpeedsError::of_settings(kind("symbiosis"), None).is_ok());
        let path = std::env::current_exe().unwrap().with_file_name(format!("speeds-{}", std::process::id()));
        assert!(matches!(ideal(Some(&path), &nobody), Err(SpeedsError::Read { .. })));
        std::fs::write(&path, GOOD).unwrap();
        let told = ideal(Some(&path), &|name| name == "a").unwrap_err();
        assert!(matches!(&told, SpeedsError::Unknown { tenant, .. } if tenant == "b"), "{told}");
        assert!(ideal(Some(&path), &|_| true).is_ok());
        std::fs::remove_file(&path).unwrap();
    }
}
