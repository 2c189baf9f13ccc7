//! The fields of a line: splitting at commas or spaces, whole numbers, ops.
//!
//! Cost: one pass over the bytes, no allocation but in errors

use super::Op;
use super::error::{TraceError, shown};
use super::lines::Line;

/// A cursor over the comma-separated fields of one line.
pub(super) struct Fields<'a> {
    line: Line<'a>,
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// The fields of `line`.
    pub(super) const fn new(line: Line<'a>) -> Self {
        Self { line, rest: Some(line.bytes) }
    }

    /// The next field, which the format calls `column`.
    pub(super) fn text(&mut self, column: &'static str) -> Result<&'a [u8], TraceError> {
        let Some(rest) = self.rest else {
            return Err(TraceError::MissingColumn { at: self.line.place(), column });
        };
        let (field, rest) = match rest.iter().position(|&b| b == b',') {
            Some(comma) => (&rest[..comma], Some(&rest[comma + 1..])),
            None => (rest, None),
        };
        self.rest = rest;
        Ok(field)
    }

    /// The next field from the end, for formats whose key may contain commas.
    pub(super) fn last_text(&mut self, column: &'static str) -> Result<&'a [u8], TraceError> {
        let Some(rest) = self.rest else {
            return Err(TraceError::MissingColumn { at: self.line.place(), column });
        };
        let (rest, field) = match rest.iter().rposition(|&b| b == b',') {
            Some(comma) => (Some(&rest[..comma]), &rest[comma + 1..]),
            None => (None, rest),
        };
        self.rest = rest;
        Ok(field)
    }

    /// All that is left as one field.
    pub(super) fn remainder(&mut self, column: &'static str) -> Result<&'a [u8], TraceError> {
        self.rest.take().ok_or_else(|| TraceError::MissingColumn { at: self.line.place(), column })
    }

    /// The next field as a number.
    pub(super) fn number(&mut self, column: &'static str) -> Result<u64, TraceError> {
        let text = self.text(column)?;
        parse(self.line, column, text, u64::MAX)
    }

    /// The next field as a number of 32 bits.
    pub(super) fn number_u32(&mut self, column: &'static str) -> Result<u32, TraceError> {
        let text = self.text(column)?;
        parse_u32(self.line, column, text)
    }

    /// The next field as a number, `None` where it is empty.
    pub(super) fn optional(&mut self, column: &'static str, max: u64) -> Result<Option<u64>, TraceError> {
        let text = self.text(column)?;
        if text.is_empty() { Ok(None) } else { parse(self.line, column, text, max).map(Some) }
    }

    /// The next field as an op.
    pub(super) fn op(&mut self) -> Result<Op, TraceError> {
        let text = self.text("op")?;
        parse_op(self.line, text)
    }

    /// Asserts that the line ends here.
    pub(super) fn end(&self, columns: u32) -> Result<(), TraceError> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(TraceError::ExtraColumn { at: self.line.place(), columns }),
        }
    }
}

/// `text` as a whole number of at most `max`.
pub(super) fn parse(line: Line<'_>, column: &'static str, text: &[u8], max: u64) -> Result<u64, TraceError> {
    whole_number(text).filter(|&value| value <= max).ok_or_else(|| TraceError::Number {
        at: line.place(),
        column,
        found: shown(text, 40),
        max,
    })
}

/// `text` as a whole number of 32 bits.
pub(super) fn parse_u32(line: Line<'_>, column: &'static str, text: &[u8]) -> Result<u32, TraceError> {
    let value = parse(line, column, text, u64::from(u32::MAX))?;
    Ok(u32::try_from(value).unwrap_or(u32::MAX))
}

/// `text` as an op.
pub(super) fn parse_op(line: Line<'_>, text: &[u8]) -> Result<Op, TraceError> {
    Op::named(text).ok_or_else(|| TraceError::UnknownOp { at: line.place(), found: shown(text, 40) })
}

/// Decimal digits as a number; `None` if there are none, anything else, or too many.
pub(super) fn whole_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_only() {
        assert_eq!(whole_number(b"0"), Some(0));
        assert_eq!(whole_number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"-1", b"+1", b" 1", b"1.5", b"18446744073709551616", b"0x1", "١".as_bytes()] {
            assert_eq!(whole_number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn fields_come_from_both_ends() {
        let line = Line { bytes: b"1,a,b,2,get", file: "t", number: 3 };
        let mut fields = Fields::new(line);
        assert_eq!(fields.number("time").unwrap(), 1);
        assert_eq!(fields.last_text("op").unwrap(), b"get");
        assert_eq!(fields.last_text("size").unwrap(), b"2");
        assert!(fields.end(4).is_err());
        assert_eq!(fields.remainder("key").unwrap(), b"a,b");
        assert!(fields.end(4).is_ok());
        assert_eq!(fields.text("more").unwrap_err().to_string(), "t:3: the column 'more' is missing");
    }
}
