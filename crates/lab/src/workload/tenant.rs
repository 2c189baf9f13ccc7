//! What is known of one tenant, read from a table of facts.
//!
//! Shape: a table of comma-separated columns; `#` begins a comment line; the last column names the source

use super::phase::Phase;
use super::value::ValueSizes;
use crate::limits::{GENERATED_KEYS_MAX, KEY_BYTES_MAX};

/// The facts of the built-in tenants.
const DEMO: &str = include_str!("demo.csv");

/// The columns of a table of tenants.
const HEADER: &str = "name,key_bytes,value_bytes_mean,value_sigma,keys,skew,get,set,add,delete,ttl_s,requests_per_mille,phase,source";

/// One tenant of a generated mix.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Its name, which begins its keys.
    pub name: String,
    /// Length of its keys on the wire.
    pub key_bytes: u32,
    /// Mean of its value sizes.
    pub value_bytes_mean: f64,
    /// Standard deviation of the logarithm of its value sizes.
    pub value_sigma: f64,
    /// Keys of its usual working set at scale 1.
    pub keys: u32,
    /// Zipf exponent of its popularity.
    pub skew: f64,
    /// Shares of its ops; what is left of 1 by the others is `get`.
    pub ops: OpShares,
    /// Time to live of what it stores, 0 for ever.
    pub ttl_secs: u32,
    /// Its part of all requests.
    pub requests_per_mille: u32,
    /// How its demand changes.
    pub phase: Phase,
    /// Where the facts come from.
    pub source: String,
}

/// Parts of a tenant's requests, which sum to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OpShares {
    /// Look-aside look-ups.
    pub get: f64,
    /// Unconditional stores.
    pub set: f64,
    /// Stores if absent.
    pub add: f64,
    /// Removals.
    pub delete: f64,
}

/// A row of a table of tenants is not what the header says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tenants table, line {line}: {column} is missing or out of range")]
pub struct TableError {
    /// Line number, from 1.
    pub line: usize,
    /// Which column.
    pub column: &'static str,
}

impl Tenant {
    /// Its value sizes.
    #[must_use]
    pub fn value_sizes(&self) -> ValueSizes {
        ValueSizes::new(self.value_bytes_mean, self.value_sigma)
    }
}

/// The built-in tenants. A minute of 50,000 requests per second asks for about 192 MiB, three times 64 MiB.
#[must_use]
pub fn demo_tenants() -> Vec<Tenant> {
    parse_tenants(DEMO).expect("the table is part of the program and a test parses it")
}

/// The tenants of a table.
///
/// # Errors
/// If the header or a row is not as this module describes.
pub fn parse_tenants(table: &str) -> Result<Vec<Tenant>, TableError> {
    let mut rows =
        (1..).zip(table.lines()).filter(|(_, text)| !text.trim().is_empty() && !text.starts_with('#'));
    match rows.next() {
        Some((_, header)) if header == HEADER => rows.map(|(line, text)| tenant(line, text)).collect(),
        other => Err(TableError { line: other.map_or(1, |(line, _)| line), column: "the header" }),
    }
}

fn tenant(line: usize, text: &str) -> Result<Tenant, TableError> {
    let mut fields = text.splitn(HEADER.split(',').count(), ',').map(str::trim);
    let mut next = |column| fields.next().ok_or(TableError { line, column });
    let tenant = Tenant {
        name: next("name")?.to_owned(),
        key_bytes: number(line, "key_bytes", next("key_bytes")?)?,
        value_bytes_mean: number(line, "value_bytes_mean", next("value_bytes_mean")?)?,
        value_sigma: number(line, "value_sigma", next("value_sigma")?)?,
        keys: number(line, "keys", next("keys")?)?,
        skew: number(line, "skew", next("skew")?)?,
        ops: OpShares {
            get: number(line, "get", next("get")?)?,
            set: number(line, "set", next("set")?)?,
            add: number(line, "add", next("add")?)?,
            delete: number(line, "delete", next("delete")?)?,
        },
        ttl_secs: number(line, "ttl_s", next("ttl_s")?)?,
        requests_per_mille: number(line, "requests_per_mille", next("requests_per_mille")?)?,
        phase: Phase::parse(next("phase")?).ok_or(TableError { line, column: "phase" })?,
        source: next("source")?.to_owned(),
    };
    match out_of_range(&tenant) {
        None => Ok(tenant),
        Some(column) => Err(TableError { line, column }),
    }
}

fn number<T: std::str::FromStr>(line: usize, column: &'static str, text: &str) -> Result<T, TableError> {
    text.parse().map_err(|_| TableError { line, column })
}

/// The first column whose value makes no sense.
pub(super) fn out_of_range(tenant: &Tenant) -> Option<&'static str> {
    let OpShares { get, set, add, delete } = tenant.ops;
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    // Room for the colon and the digits of the largest key number.
    let digits = 10;
    let longest_name = KEY_BYTES_MAX - 1 - digits;
    [
        (
            "name",
            !tenant.name.is_empty() && tenant.name.len() <= longest_name && tenant.name.bytes().all(is_name),
        ),
        ("key_bytes", tenant.key_bytes as usize <= KEY_BYTES_MAX),
        ("value_bytes_mean", (1.0..1e9).contains(&tenant.value_bytes_mean)),
        ("value_sigma", (0.0..=3.0).contains(&tenant.value_sigma)),
        ("keys", (1..=GENERATED_KEYS_MAX).contains(&tenant.keys)),
        ("skew", (0.0..=5.0).contains(&tenant.skew)),
        (
            "ops",
            [get, set, add, delete].into_iter().all(is_share)
                && (get + set + add + delete - 1.0).abs() < 1e-6,
        ),
        ("requests_per_mille", (1..=1_000).contains(&tenant.requests_per_mille)),
    ]
    .into_iter()
    .find(|(_, fine)| !fine)
    .map(|(column, _)| column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_complete() {
        let tenants = demo_tenants();
        assert!((8..=10).contains(&tenants.len()));
        assert_eq!(tenants.iter().map(|t| t.requests_per_mille).sum::<u32>(), 1_000);
        assert!(tenants.iter().all(|t| !t.source.is_empty()));
        for course in ["Burst", "Scan", "Late", "Steady"] {
            assert!(tenants.iter().any(|t| format!("{:?}", t.phase).starts_with(course)), "{course}");
        }
    }

    #[test]
    fn bad_tables_say_where() {
        let row = "a,20,273,0.5,100,1.0,0.9,0.1,0,0,0,10,steady,guess";
        assert_eq!(parse_tenants(&format!("# note\n{HEADER}\n{row}\n")).unwrap().len(), 1);
        for (find, replace, column) in [
            ("a,20", ",20", "name"),
            ("a,20", "a:b,20", "name"),
            (",20,", ",251,", "key_bytes"),
            (",273,", ",NaN,", "value_bytes_mean"),
            (",100,", ",0,", "keys"),
            (",0.1,", ",0.2,", "ops"),
            ("steady", "sleepy", "phase"),
            (",steady,guess", "", "phase"),
            (",guess", "", "source"),
        ] {
            let error = parse_tenants(&format!("{HEADER}\n{}\n", row.replace(find, replace))).unwrap_err();
            assert_eq!(error, TableError { line: 2, column });
        }
        assert_eq!(parse_tenants("").unwrap_err().column, "the header");
    }
}
