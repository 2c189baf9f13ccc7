//! What can be wrong with a trace, where, and the likely cure.

use crate::limits::{ARC_BLOCKS_PER_LINE_MAX, KEY_BYTES_MAX, LINE_BYTES_MAX};
use std::fmt;
use std::io;

/// A line of a file, counted from 1. Line 0 is the file as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file's name as the caller gave it.
    pub file: Box<str>,
    /// Line number in the decompressed text.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.file.as_bytes(), 200))?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}

/// Why a trace could not be read. The text is one line; `cure` says what would help.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("{at}: cannot open the trace")]
    Open {
        /// Where.
        at: Place,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The input failed while it was read.
    #[error("{at}: cannot read on")]
    Read {
        /// Last whole line before it.
        at: Place,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The compressed data ends before its end mark.
    #[error("{at}: the compressed data ends early")]
    Truncated {
        /// Last whole line before it.
        at: Place,
    },
    /// The compressed data is damaged, or its window is beyond the limit.
    #[error("{at}: the compressed data cannot be unpacked")]
    Corrupt {
        /// Last whole line before it.
        at: Place,
        /// What the decompressor said.
        #[source]
        cause: io::Error,
    },
    /// There is no line at all.
    #[error("{at}: the trace is empty")]
    Empty {
        /// Where.
        at: Place,
    },
    /// No format was named, and the first line is that of none.
    #[error("{at}: no known trace format begins with '{found}'")]
    UnknownFormat {
        /// Where.
        at: Place,
        /// The beginning of the line, made printable.
        found: String,
    },
    /// The header line is not the format's.
    #[error("{at}: the header is '{found}' instead of '{wanted}'")]
    Header {
        /// Where.
        at: Place,
        /// The header that the format has.
        wanted: &'static str,
        /// The beginning of the line, made printable.
        found: String,
    },
    /// A row ends before a column.
    #[error("{at}: the column '{column}' is missing")]
    MissingColumn {
        /// Where.
        at: Place,
        /// Which column.
        column: &'static str,
    },
    /// A row goes on after its last column.
    #[error("{at}: more than {columns} columns")]
    ExtraColumn {
        /// Where.
        at: Place,
        /// How many the format has.
        columns: u32,
    },
    /// A field is no number, or one beyond the column's range.
    #[error("{at}: {column} is '{found}', not a whole number up to {max}")]
    Number {
        /// Where.
        at: Place,
        /// Which column.
        column: &'static str,
        /// The field, made printable.
        found: String,
        /// Largest number that the column takes.
        max: u64,
    },
    /// The op is none that is known.
    #[error("{at}: unknown op '{found}'")]
    UnknownOp {
        /// Where.
        at: Place,
        /// The field, made printable.
        found: String,
    },
    /// The key is empty.
    #[error("{at}: the key is empty")]
    EmptyKey {
        /// Where.
        at: Place,
    },
    /// The key on the wire is longer than the protocol allows.
    #[error("{at}: the key has {bytes} bytes, the limit is {KEY_BYTES_MAX}")]
    KeyTooLong {
        /// Where.
        at: Place,
        /// Length on the wire: prefix and padding included.
        bytes: u64,
    },
    /// The key contains a byte that the text protocol cannot carry.
    #[error("{at}: the key '{found}' contains a space or a control byte")]
    KeyByte {
        /// Where.
        at: Place,
        /// The key, made printable.
        found: String,
    },
    /// The line is longer than any row can be.
    #[error("{at}: the line is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong {
        /// Where.
        at: Place,
    },
    /// One line of an ARC trace asks for more blocks than the limit.
    #[error("{at}: {blocks} blocks in one line, the limit is {ARC_BLOCKS_PER_LINE_MAX}")]
    TooManyBlocks {
        /// Where.
        at: Place,
        /// How many were asked for.
        blocks: u64,
    },
}

impl TraceError {
    /// What would likely help, one line.
    #[must_use]
    pub fn cure(&self) -> &'static str {
        match self {
            Self::Open { cause, .. } => match cause.kind() {
                io::ErrorKind::NotFound => "check the path",
                io::ErrorKind::PermissionDenied => "make the file readable for this user",
                _ => "check that the path is a readable file",
            },
            Self::Read { .. } => "check the disk or the program that feeds the pipe",
            Self::Truncated { .. } => "fetch the file again; 'zstd -t --long=27 FILE' checks it",
            Self::Corrupt { .. } => {
                "fetch the file again, or compress it with a window of at most 128 MiB (--long=27)"
            }
            Self::Empty { .. } => "check that the download or the pipe delivered anything",
            Self::UnknownFormat { .. } => "name the format: --format mix, stream, twitter or arc",
            Self::Header { .. } => "put the header line first, or name another format",
            Self::MissingColumn { .. } => {
                "complete the row, or name another format if every row has this shape"
            }
            Self::ExtraColumn { .. } => "remove commas from the key, or name another format",
            Self::Number { .. } => "write a whole number without sign, unit or fraction",
            Self::UnknownOp { .. } => {
                "use get, gets, set, add, replace, cas, append, prepend, delete, incr or decr"
            }
            Self::EmptyKey { .. } => "give every row a key, or remove the row",
            Self::KeyTooLong { .. } => "hash the keys, or lower key_bytes; memcached takes at most 250 bytes",
            Self::KeyByte { .. } => "escape or hash the keys; the text protocol ends a key at a space",
            Self::LineTooLong { .. } => "check that the file is a trace with one request per line",
            Self::TooManyBlocks { .. } => "split the extent into several lines",
        }
    }

    /// Where it happened.
    #[must_use]
    pub const fn place(&self) -> &Place {
        match self {
            Self::Open { at, .. }
            | Self::Read { at, .. }
            | Self::Truncated { at }
            | Self::Corrupt { at, .. }
            | Self::Empty { at }
            | Self::UnknownFormat { at, .. }
            | Self::Header { at, .. }
            | Self::MissingColumn { at, .. }
            | Self::ExtraColumn { at, .. }
            | Self::Number { at, .. }
            | Self::UnknownOp { at, .. }
            | Self::EmptyKey { at }
            | Self::KeyTooLong { at, .. }
            | Self::KeyByte { at, .. }
            | Self::LineTooLong { at }
            | Self::TooManyBlocks { at, .. } => at,
        }
    }
}

/// Bytes of an input as one printable line of at most `limit` bytes of the input.
pub(super) fn shown(bytes: &[u8], limit: usize) -> String {
    let cut = &bytes[..bytes.len().min(limit)];
    let mut text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if cut.len() < bytes.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_strangers_is_one_short_line() {
        assert_eq!(shown(b"get", 40), "get");
        assert_eq!(shown(b"a\nb\x1b[2J", 40), "a\u{fffd}b\u{fffd}[2J");
        assert_eq!(shown(&[b'x'; 50], 4), "xxxx…");
    }

    #[test]
    fn the_whole_file_has_no_line_number() {
        let at = Place { file: "t.csv".into(), line: 0 };
        assert_eq!(TraceError::Empty { at }.to_string(), "t.csv: the trace is empty");
    }
}
