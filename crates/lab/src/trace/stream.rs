//! One stream of keys without tenants.
//!
//! Shape:  header `t_ms,key,size,op`, then one request per line
//! Key:    as it is, no prefix and no padding
//! Empty:  no `t_ms` is the time of the row before (zero at the start); no `size` is unit size: a value of 1 byte,
//!         which whoever measures in items charges as one item
//! Ops:    all of `Op`, by its names; TTL is always 0

use super::fields::Fields;
use super::format::take_header;
use super::key::as_is;
use super::lines::Lines;
use super::{Request, TraceError, TraceReader};
use units::{Duration, Instant};

/// The header line.
pub(super) const HEADER: &str = "t_ms,key,size,op";

/// Value size where the trace states none.
const UNIT_BYTES: u32 = 1;

/// Reads the format.
pub(super) struct StreamReader {
    lines: Lines,
    now: Instant,
}

impl StreamReader {
    /// A reader after the header.
    pub(super) fn new(mut lines: Lines) -> Result<Self, TraceError> {
        take_header(&mut lines, HEADER)?;
        Ok(Self { lines, now: Instant::ZERO })
    }
}

impl TraceReader for StreamReader {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let mut fields = Fields::new(line);
        let time = fields.optional("t_ms", u64::MAX)?;
        let key = as_is(line, fields.text("key")?)?;
        let size = fields.optional("size", u64::from(u32::MAX))?;
        let op = fields.op()?;
        fields.end(4)?;
        if let Some(t_ms) = time {
            self.now = self.now.max(Instant::ZERO + Duration::from_millis(t_ms));
        }
        let value_bytes = size.map_or(UNIT_BYTES, |size| u32::try_from(size).unwrap_or(u32::MAX));
        Ok(Some(Request { at: self.now, tenant: b"", key, value_bytes, op, ttl_secs: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::{check, check_error};

    #[test]
    fn empty_columns_have_a_meaning() {
        check(
            "t_ms,key,size,op\n,7,,get\n6000,/,7280,get\n,9,,set",
            &["0  7 1 Get 0", "6000  / 7280 Get 0", "6000  9 1 Set 0"],
        );
    }

    #[test]
    fn faults_have_a_line_and_a_cause() {
        for (row, error) in [
            (",7,", "the column 'op' is missing"),
            (",,,get", "the key is empty"),
            (",7,1e3,get", "size is '1e3', not a whole number up to 4294967295"),
            (",7,,", "unknown op ''"),
            (",7,,get,", "more than 4 columns"),
        ] {
            check_error(&format!("t_ms,key,size,op\n{row}\n"), &format!("t:2: {error}"));
        }
    }
}
