//! Traces of every format: read to the end, past rows that are wrong.

use lab::limits::ARC_BLOCKS_PER_LINE_MAX;
use lab::{Format, TraceReader, open_reader};
use std::io::Cursor;

/// Requests of a line that are read.
const SHORT: u64 = 1000;

/// The first byte chooses the format, or none: then the bytes behind it tell.
pub(crate) fn fuzzed(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let format = Format::NAMES.get(usize::from(*choice)).map(|(format, _)| *format);
    let Ok(mut reader) = open_reader(Box::new(Cursor::new(bytes.to_vec())), "trace", format) else { return };
    // A line of the ARC traces stands for as many requests as it says.
    for _ in 0..bytes.len() as u64 * ARC_BLOCKS_PER_LINE_MAX.min(SHORT) {
        match reader.next() {
            Ok(Some(request)) => assert!(!request.key.is_empty() && request.key.len() <= 250),
            Ok(None) => return,
            Err(error) => assert!(!error.to_string().contains('\n') && !error.cure().is_empty(), "{error}"),
        }
    }
}
