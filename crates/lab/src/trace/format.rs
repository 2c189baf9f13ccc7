//! The trace formats by name, and how one is recognised.

use super::Op;
use super::error::TraceError;
use super::fields::whole_number;
use super::lines::Line;
use super::{mix, stream};
use std::fmt;

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Several tenants with sizes, ops and TTLs: `t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s`.
    Mix,
    /// One stream of keys: `t_ms,key,size,op`.
    Stream,
    /// The public Twitter cache traces: seven columns without a header.
    Twitter,
    /// The traces of the ARC paper, `.lis`: extents of disk blocks.
    Arc,
}

impl Format {
    /// Every format with its name.
    pub const NAMES: [(Self, &'static str); 4] =
        [(Self::Mix, "mix"), (Self::Stream, "stream"), (Self::Twitter, "twitter"), (Self::Arc, "arc")];

    /// The format of a file called `file` that begins with `first`.
    pub(super) fn recognise(file: &str, first: Line<'_>) -> Result<Self, TraceError> {
        if first.bytes == mix::HEADER.as_bytes() {
            Ok(Self::Mix)
        } else if first.bytes == stream::HEADER.as_bytes() {
            Ok(Self::Stream)
        } else if is_lis(file) || is_extent(first.bytes) {
            Ok(Self::Arc)
        } else if is_twitter(first.bytes) {
            Ok(Self::Twitter)
        } else if first.bytes.starts_with(b"t_ms,") {
            let wanted = if first.bytes.starts_with(b"t_ms,tenant") { mix::HEADER } else { stream::HEADER };
            Err(TraceError::Header { at: first.place(), wanted, found: first.shown() })
        } else {
            Err(TraceError::UnknownFormat { at: first.place(), found: first.shown() })
        }
    }
}

/// Takes the header line, which must be `wanted`.
pub(super) fn take_header(lines: &mut super::lines::Lines, wanted: &'static str) -> Result<(), TraceError> {
    match lines.next()? {
        Some(line) if line.bytes == wanted.as_bytes() => Ok(()),
        Some(line) => Err(TraceError::Header { at: line.place(), wanted, found: line.shown() }),
        None => Err(TraceError::Empty { at: lines.whole_file() }),
    }
}

fn is_lis(file: &str) -> bool {
    let name = file.strip_suffix(".zst").unwrap_or(file);
    std::path::Path::new(name).extension().is_some_and(|ext| ext.eq_ignore_ascii_case("lis"))
}

fn is_extent(line: &[u8]) -> bool {
    let mut numbers = 0;
    for field in line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()) {
        if whole_number(field).is_none() {
            return false;
        }
        numbers += 1;
    }
    numbers == 4
}

fn is_twitter(line: &[u8]) -> bool {
    let mut from_end = line.rsplit(|&b| b == b',');
    let ttl = from_end.next().and_then(whole_number);
    let op = from_end.next().and_then(Op::named);
    let time = line.split(|&b| b == b',').next().and_then(whole_number);
    ttl.is_some() && op.is_some() && time.is_some()
}

/// The name that was given is no format's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no trace format (mix, stream, twitter, arc)")]
pub struct UnknownFormat(String);

impl std::str::FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let named = Self::NAMES.iter().find(|(_, name)| *name == text);
        named.map(|(format, _)| *format).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mix => "mix",
            Self::Stream => "stream",
            Self::Twitter => "twitter",
            Self::Arc => "arc",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for (format, name) in Format::NAMES {
            assert_eq!(format.to_string(), name);
            assert_eq!(name.parse::<Format>().unwrap(), format);
        }
        let error = "msr".parse::<Format>().unwrap_err();
        assert_eq!(error.to_string(), "'msr' is no trace format (mix, stream, twitter, arc)");
    }

    #[test]
    fn formats_are_recognised_by_name_or_first_line() {
        for (file, first, format) in [
            ("a.csv", "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s", Format::Mix),
            ("-", "t_ms,key,size,op", Format::Stream),
            ("-", "0,q:q:1:8WTfjZU14ee,17,213,4,get,0", Format::Twitter),
            ("P3.lis", "anything", Format::Arc),
            ("P3.LIS.zst", "anything", Format::Arc),
            ("-", "230027 8 0 0", Format::Arc),
        ] {
            let line = Line { bytes: first.as_bytes(), file, number: 1 };
            assert_eq!(Format::recognise(file, line).unwrap(), format, "{file} {first}");
        }
        for (first, error) in [
            (
                "t_ms,tenant,key",
                "t:1: the header is 't_ms,tenant,key' instead of 't_ms,tenant,key,key_bytes,value_bytes,op,ttl_s'",
            ),
            ("t_ms,key,op", "t:1: the header is 't_ms,key,op' instead of 't_ms,key,size,op'"),
            ("PK\x03\x04", "t:1: no known trace format begins with 'PK\u{fffd}\u{fffd}'"),
        ] {
            let line = Line { bytes: first.as_bytes(), file: "t", number: 1 };
            assert_eq!(Format::recognise("t", line).unwrap_err().to_string(), error);
        }
    }
}
