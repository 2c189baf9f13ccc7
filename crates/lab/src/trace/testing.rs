//! The helper through which the tests of the formats read: text in, requests as text out.

use super::{Format, TraceError, TraceReader, open_reader};

/// Every request of `text`, as `t_ms tenant key value_bytes op ttl_secs`.
pub(super) fn read_all(text: &str) -> Result<Vec<String>, TraceError> {
    read_bytes(text.as_bytes().to_vec(), None)
}

/// Every request of `bytes`.
pub(super) fn read_bytes(bytes: Vec<u8>, format: Option<Format>) -> Result<Vec<String>, TraceError> {
    let mut reader = open_reader(Box::new(std::io::Cursor::new(bytes)), "t", format)?;
    let mut all = Vec::new();
    while let Some(r) = reader.next()? {
        let (tenant, key) = (String::from_utf8_lossy(r.tenant), String::from_utf8_lossy(r.key));
        let t_ms = r.at.0 / 1_000_000;
        all.push(format!("{t_ms} {tenant} {key} {} {:?} {}", r.value_bytes, r.op, r.ttl_secs));
    }
    Ok(all)
}

/// Asserts that `text` reads as `expected`.
#[track_caller]
pub(super) fn check(text: &str, expected: &[&str]) {
    assert_eq!(read_all(text).unwrap(), expected);
}

/// Asserts that reading `text` ends with `expected`.
#[track_caller]
pub(super) fn check_error(text: &str, expected: &str) {
    assert_eq!(read_all(text).unwrap_err().to_string(), expected);
}
