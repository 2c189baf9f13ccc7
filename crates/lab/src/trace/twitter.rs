//! The public Twitter cache traces.
//!
//! Shape:  no header; `timestamp,key,key_size,value_size,client_id,operation,ttl`
//! Key:    padded at the end with `.` to `key_size`, never cut; it may contain commas, so rows are split from both ends
//! Ops:    get gets set add replace cas append prepend delete incr decr, as in the protocol; a `get` of the trace
//!         is look-aside here. The trace states the TTL of writes only: what a miss stores lives for ever
//! Units:  `timestamp` and `ttl` in seconds, sizes in bytes; `client_id` is not used
//! Tenant: empty; `with_tenant` gives one to a whole trace
//! Source: Yang, Yue, Rashmi, A large scale analysis of hundreds of in-memory cache clusters at Twitter, OSDI 2020

use super::fields::{Fields, parse_op, parse_u32};
use super::key::WireKey;
use super::lines::Lines;
use super::{Request, TraceError, TraceReader};
use units::{Duration, Instant};

/// Reads the format.
pub(super) struct TwitterReader {
    lines: Lines,
    key: WireKey,
    now: Instant,
}

impl TwitterReader {
    /// A reader from the first line on.
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, key: WireKey::new(), now: Instant::ZERO }
    }
}

impl TraceReader for TwitterReader {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let mut fields = Fields::new(line);
        let time = Duration::from_secs(fields.number("timestamp")?);
        let ttl = fields.last_text("ttl")?;
        let op = fields.last_text("operation")?;
        let _client_id = fields.last_text("client_id")?;
        let value_size = fields.last_text("value_size")?;
        let key_size = fields.last_text("key_size")?;
        let key = fields.remainder("key")?;
        let ttl_secs = parse_u32(line, "ttl", ttl)?;
        let op = parse_op(line, op)?;
        let value_bytes = parse_u32(line, "value_size", value_size)?;
        let key_size = parse_u32(line, "key_size", key_size)?;
        let key = self.key.build(line, b"", key, key_size)?;
        self.now = self.now.max(Instant::ZERO + time);
        Ok(Some(Request { at: self.now, tenant: b"", key, value_bytes, op, ttl_secs }))
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::{check, check_error};

    #[test]
    fn rows_become_requests() {
        check(
            "0,q:q:1:8WTf,17,213,4,get,0\n3,a,b,5,10,1,incr,60\n",
            &["0  q:q:1:8WTf....... 213 Get 0", "3000  a,b.. 10 Incr 60"],
        );
    }

    #[test]
    fn faults_have_a_line_and_a_cause() {
        for (row, error) in [
            ("0", "the column 'ttl' is missing"),
            ("0,17,213,4,get,0", "the column 'key' is missing"),
            ("0,k,1,213,4,get,soon", "ttl is 'soon', not a whole number up to 4294967295"),
            ("0,k,1,213,4,touch,0", "unknown op 'touch'"),
            ("0,k,999,213,4,get,0", "the key has 999 bytes, the limit is 250"),
        ] {
            check_error(&format!("0,k,1,213,4,get,0\n\n{row}\n"), &format!("t:3: {error}"));
        }
    }
}
