//! Lines of an input, one at a time from one buffer that is reused.
//!
//! Invariants: `start <= end <= buf.len()`; the line handed out lies in `buf` until the next call
//! Failure:    an input error or an over-long line ends the reading: later calls say that there is no more
//! Cost:       one `memchr` per line; the rest of a line is moved once per refill

use super::error::{Place, TraceError, shown};
use crate::limits::{LINE_BYTES_MAX, READ_BUFFER_BYTES};
use std::io::{self, Read};
use std::ops::Range;

/// The line splitter that every reader sits on.
pub(super) struct Lines {
    input: Box<dyn Read + Send>,
    compressed: bool,
    file: Box<str>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    number: u64,
    peeked: Option<Range<usize>>,
    ended: bool,
}

/// One line without its end, and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) file: &'a str,
    pub(super) number: u64,
}

impl Line<'_> {
    /// The place for an error about this line.
    #[cold]
    pub(super) fn place(&self) -> Place {
        Place { file: self.file.into(), line: self.number }
    }

    /// The beginning of the line, printable.
    #[cold]
    pub(super) fn shown(&self) -> String {
        shown(self.bytes, 60)
    }
}

impl Lines {
    /// Lines of `input`; `compressed` tells what an input error means.
    pub(super) fn new(input: Box<dyn Read + Send>, file: &str, compressed: bool) -> Self {
        Self {
            input,
            compressed,
            file: file.into(),
            buf: vec![0; READ_BUFFER_BYTES],
            start: 0,
            end: 0,
            number: 0,
            peeked: None,
            ended: false,
        }
    }

    /// The place for an error about the file as a whole.
    #[cold]
    pub(super) fn whole_file(&self) -> Place {
        Place { file: self.file.clone(), line: 0 }
    }

    /// The next line that is not blank, `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        let range = match self.peeked.take() {
            Some(range) => Some(range),
            None => self.advance()?,
        };
        Ok(range.map(|range| self.line(range)))
    }

    /// What `next` will return, without taking it.
    pub(super) fn peek(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        if self.peeked.is_none() {
            self.peeked = self.advance()?;
        }
        Ok(self.peeked.clone().map(|range| self.line(range)))
    }

    fn line(&self, range: Range<usize>) -> Line<'_> {
        Line { bytes: &self.buf[range], file: &self.file, number: self.number }
    }

    fn advance(&mut self) -> Result<Option<Range<usize>>, TraceError> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buf[self.start..self.end]) {
                let range = self.start..self.start + length;
                self.start += length + 1;
                self.number += 1;
                if length > LINE_BYTES_MAX {
                    return Err(self.too_long());
                }
                let range = self.without_return(range);
                if !range.is_empty() {
                    return Ok(Some(range));
                }
            } else if self.end - self.start > LINE_BYTES_MAX {
                self.number += 1;
                return Err(self.too_long());
            } else if self.ended {
                return Ok(self.last());
            } else {
                self.fill()?;
            }
        }
    }

    /// The rest of an input that does not end with a line end.
    fn last(&mut self) -> Option<Range<usize>> {
        let range = self.start..self.end;
        self.start = self.end;
        self.number += u64::from(!range.is_empty());
        let range = self.without_return(range);
        (!range.is_empty()).then_some(range)
    }

    fn without_return(&self, range: Range<usize>) -> Range<usize> {
        if self.buf[range.clone()].last() == Some(&b'\r') { range.start..range.end - 1 } else { range }
    }

    fn fill(&mut self) -> Result<(), TraceError> {
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // There is room: what remains is at most one line, which is shorter than the buffer.
        match self.input.read(&mut self.buf[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(n) => self.end = (self.end + n).min(self.buf.len()),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(self.failed(cause)),
        }
        Ok(())
    }

    #[cold]
    fn failed(&mut self, cause: io::Error) -> TraceError {
        self.stop();
        let at = Place { file: self.file.clone(), line: self.number };
        match (self.compressed, cause.kind()) {
            (true, io::ErrorKind::UnexpectedEof) => TraceError::Truncated { at },
            // The decompressor's own errors have no kind of the system's.
            (true, io::ErrorKind::Other) => TraceError::Corrupt { at, cause },
            _ => TraceError::Read { at, cause },
        }
    }

    #[cold]
    fn too_long(&mut self) -> TraceError {
        self.stop();
        TraceError::LineTooLong { at: Place { file: self.file.clone(), line: self.number } }
    }

    fn stop(&mut self) {
        self.ended = true;
        self.start = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static [u8]) -> Lines {
        Lines::new(Box::new(text), "t", false)
    }

    fn check(text: &'static [u8], expected: &[(&[u8], u64)]) {
        let mut lines = lines(text);
        for (bytes, number) in expected {
            let line = lines.next().unwrap().unwrap();
            assert_eq!((line.bytes, line.number), (*bytes, *number));
        }
        assert!(lines.next().unwrap().is_none());
        assert!(lines.next().unwrap().is_none());
    }

    #[test]
    fn lines_end_in_any_way() {
        check(b"", &[]);
        check(b"\n\n\r\n", &[]);
        check(b"a", &[(b"a", 1)]);
        check(b"a\r\nb\n\nc\r", &[(b"a", 1), (b"b", 2), (b"c", 4)]);
    }

    #[test]
    fn peeking_takes_nothing() {
        let mut lines = lines(b"a\nb\n");
        assert_eq!(lines.peek().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.peek().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"a");
        assert_eq!(lines.next().unwrap().unwrap().number, 2);
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_beyond_does_not() {
        for (length, passes) in [(LINE_BYTES_MAX, true), (LINE_BYTES_MAX + 1, false)] {
            for end in ["\n", ""] {
                let text = format!("{}{end}", "x".repeat(length));
                let mut lines = Lines::new(Box::new(io::Cursor::new(text)), "t", false);
                assert_eq!(lines.next().is_ok(), passes, "{length} {end:?}");
            }
        }
    }

    #[test]
    fn many_lines_cross_the_buffer() {
        let text: String = (0..100_000).map(|i| format!("line {i}\n")).collect();
        let mut lines = Lines::new(Box::new(io::Cursor::new(text)), "t", false);
        for i in 0..100_000 {
            assert_eq!(lines.next().unwrap().unwrap().bytes, format!("line {i}").as_bytes());
        }
        assert!(lines.next().unwrap().is_none());
    }
}
