//! The traces of the ARC paper: extents of disk blocks, expanded into one `get` per block.
//!
//! Shape:  `.lis`, no header; `start_block number_of_blocks ignored request_number`, between spaces
//! Units:  a block is 512 bytes: it is one item with a value of 512 bytes; the key is its number in decimal
//! Ops:    `get` only: the traces do not tell reads from writes
//! Time:   the format has none, `at` is zero throughout
//! Limit:  an extent of more than 2^20 blocks is an error; one of no blocks is no request
//! Source: Megiddo and Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003

use super::error::TraceError;
use super::fields::parse;
use super::lines::{Line, Lines};
use super::{Op, Request, TraceReader};
use crate::limits::ARC_BLOCKS_PER_LINE_MAX;
use std::io::Write;
use units::Instant;

/// Size of a disk block, the unit of the format.
const BLOCK_BYTES: u32 = 512;

/// Reads the format.
pub(super) struct ArcReader {
    lines: Lines,
    extent: Extent,
    key: Vec<u8>,
}

/// Blocks of one line that are still to be asked for.
#[derive(Clone, Copy, Default)]
struct Extent {
    next_block: u64,
    blocks: u64,
}

impl ArcReader {
    /// A reader from the first line on.
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, extent: Extent::default(), key: Vec::with_capacity(20) }
    }
}

impl TraceReader for ArcReader {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        while self.extent.blocks == 0 {
            match self.lines.next()? {
                Some(line) => self.extent = extent(line)?,
                None => return Ok(None),
            }
        }
        self.key.clear();
        // Writing to a vector cannot fail.
        let _ = write!(self.key, "{}", self.extent.next_block);
        self.extent.blocks -= 1;
        self.extent.next_block = self.extent.next_block.saturating_add(1);
        let key = &self.key;
        let value_bytes = BLOCK_BYTES;
        Ok(Some(Request { at: Instant::ZERO, tenant: b"", key, value_bytes, op: Op::Get, ttl_secs: 0 }))
    }
}

fn extent(line: Line<'_>) -> Result<Extent, TraceError> {
    let mut fields = line.bytes.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let mut number = |column, max| match fields.next() {
        Some(text) => parse(line, column, text, max),
        None => Err(TraceError::MissingColumn { at: line.place(), column }),
    };
    // So that the last block of the longest extent still has a number.
    let next_block = number("start_block", u64::MAX - ARC_BLOCKS_PER_LINE_MAX)?;
    let blocks = number("number_of_blocks", u64::MAX)?;
    number("ignored", u64::MAX)?;
    number("request_number", u64::MAX)?;
    if fields.next().is_some() {
        return Err(TraceError::ExtraColumn { at: line.place(), columns: 4 });
    }
    if blocks > ARC_BLOCKS_PER_LINE_MAX {
        return Err(TraceError::TooManyBlocks { at: line.place(), blocks });
    }
    Ok(Extent { next_block, blocks })
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::{check, check_error};

    #[test]
    fn extents_become_one_get_per_block() {
        check(
            "230027 2 0 0\n5 0 0 1\n  9 1  0 2 \n",
            &["0  230027 512 Get 0", "0  230028 512 Get 0", "0  9 512 Get 0"],
        );
    }

    #[test]
    fn faults_have_a_line_and_a_cause() {
        for (row, error) in [
            ("1 2 0", "the column 'request_number' is missing"),
            ("1 2 0 0 0", "more than 4 columns"),
            ("1 -2 0 0", "number_of_blocks is '-2', not a whole number up to 18446744073709551615"),
            ("1 1048577 0 0", "1048577 blocks in one line, the limit is 1048576"),
            (
                "18446744073709551615 1 0 0",
                "start_block is '18446744073709551615', not a whole number up to 18446744073708503039",
            ),
        ] {
            check_error(&format!("1 1 0 0\n{row}\n"), &format!("t:2: {error}"));
        }
    }
}
