//! The project's own format: several tenants, with sizes, ops and TTLs.
//!
//! Shape:  header `t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s`, then one request per line
//! Key:    `tenant:key`, padded at the end with `.` to `key_bytes`; the key alone where the tenant is empty
//! Ops:    all of `Op`, by its names; `get` is look-aside with `value_bytes` and `ttl_s` for the set after a miss
//! Units:  `t_ms` milliseconds since the trace's start, sizes in bytes, `ttl_s` seconds (0 is for ever)

use super::fields::Fields;
use super::format::take_header;
use super::key::WireKey;
use super::lines::Lines;
use super::{Request, TraceError, TraceReader};
use units::{Duration, Instant};

/// The header line.
pub(super) const HEADER: &str = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s";

/// Reads the format.
pub(super) struct MixReader {
    lines: Lines,
    key: WireKey,
    now: Instant,
}

impl MixReader {
    /// A reader after the header.
    pub(super) fn new(mut lines: Lines) -> Result<Self, TraceError> {
        take_header(&mut lines, HEADER)?;
        Ok(Self { lines, key: WireKey::new(), now: Instant::ZERO })
    }
}

impl TraceReader for MixReader {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let mut fields = Fields::new(line);
        let time = Duration::from_millis(fields.number("t_ms")?);
        let tenant = fields.text("tenant")?;
        let key = fields.text("key")?;
        let key_bytes = fields.number_u32("key_bytes")?;
        let value_bytes = fields.number_u32("value_bytes")?;
        let op = fields.op()?;
        let ttl_secs = fields.number_u32("ttl_s")?;
        fields.end(7)?;
        let key = self.key.build(line, tenant, key, key_bytes)?;
        self.now = self.now.max(Instant::ZERO + time);
        Ok(Some(Request { at: self.now, tenant, key, value_bytes, op, ttl_secs }))
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::{check, check_error};

    const HEADER: &str = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n";

    #[test]
    fn rows_become_requests() {
        check(
            &format!("{HEADER}0,orm17,8579,24,127,get,0\n7,web,/a,4,9,delete,60\n5,,k,3,1,set,0\n"),
            &["0 orm17 orm17:8579.............. 127 Get 0", "7 web web:/a 9 Delete 60", "7  k.. 1 Set 0"],
        );
        check(HEADER, &[]);
    }

    #[test]
    fn faults_have_a_line_and_a_cause() {
        for (row, error) in [
            ("x,a,k,4,1,get,0", "t_ms is 'x', not a whole number up to 18446744073709551615"),
            ("0,a", "the column 'key' is missing"),
            ("0,a,k,4,1,get", "the column 'ttl_s' is missing"),
            ("0,a,k,4,-1,get,0", "value_bytes is '-1', not a whole number up to 4294967295"),
            ("0,a,k,4,4294967296,get,0", "value_bytes is '4294967296', not a whole number up to 4294967295"),
            ("0,a,k,4,1,GET,0", "unknown op 'GET'"),
            ("0,a,k,4,1,get,0,9", "more than 7 columns"),
            ("0,a,,4,1,get,0", "the key is empty"),
            ("0,a b,k,4,1,get,0", "the key 'a b:k' contains a space or a control byte"),
            ("0,a,k,251,1,get,0", "the key has 251 bytes, the limit is 250"),
        ] {
            check_error(&format!("{HEADER}0,a,k,4,1,get,0\n{row}\n"), &format!("t:3: {error}"));
        }
    }
}
