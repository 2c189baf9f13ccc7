//! Opens a trace: plain or zstd, in the format that was named or that its first line shows.

use super::arc::ArcReader;
use super::error::{Place, TraceError};
use super::lines::Lines;
use super::mix::MixReader;
use super::stream::StreamReader;
use super::twitter::TwitterReader;
use super::{Format, TraceReader};
use crate::limits::ZSTD_WINDOW_LOG_MAX;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::ops::RangeInclusive;
use std::path::Path;

/// What a frame of zstd begins with (RFC 8878, 3.1.1).
const ZSTD_MAGIC: u32 = 0xFD2F_B528;
/// What a frame begins with that decoders skip (RFC 8878, 3.1.2): pzstd's archives begin with one.
const SKIPPABLE_MAGIC: RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;

/// The trace in the file at `path`.
///
/// # Errors
/// If the file cannot be opened or read, is empty, or does not begin as its format does.
pub fn open(path: &Path, format: Option<Format>) -> Result<Box<dyn TraceReader + Send>, TraceError> {
    let name = path.to_string_lossy();
    let file = File::open(path).map_err(|cause| TraceError::Open { at: whole(&name), cause })?;
    open_reader(Box::new(BufReader::new(file)), &name, format)
}

/// The trace that `input` delivers, called `name` in errors.
///
/// # Errors
/// As `open`.
pub fn open_reader(
    input: Box<dyn BufRead + Send>,
    name: &str,
    format: Option<Format>,
) -> Result<Box<dyn TraceReader + Send>, TraceError> {
    let mut lines = unpacked(input, name)?;
    let format = match (lines.peek()?, format) {
        (None, _) => return Err(TraceError::Empty { at: whole(name) }),
        (Some(_), Some(format)) => format,
        (Some(first), None) => Format::recognise(name, first)?,
    };
    Ok(match format {
        Format::Mix => Box::new(MixReader::new(lines)?),
        Format::Stream => Box::new(StreamReader::new(lines)?),
        Format::Twitter => Box::new(TwitterReader::new(lines)),
        Format::Arc => Box::new(ArcReader::new(lines)),
    })
}

fn unpacked(mut input: Box<dyn BufRead + Send>, name: &str) -> Result<Lines, TraceError> {
    let read_error = |cause| TraceError::Read { at: whole(name), cause };
    let head = head(&mut input).map_err(read_error)?;
    let compressed = zstd_magic(&head).is_some();
    let input = Cursor::new(head).chain(input);
    if !compressed {
        return Ok(Lines::new(Box::new(input), name, false));
    }
    let mut decoder = zstd::Decoder::with_buffer(input).map_err(read_error)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(read_error)?;
    Ok(Lines::new(Box::new(decoder), name, true))
}

/// Unpacks a zstd archive, however long its window; for a process of its own, so that the decoder's window is no part
/// of the memory of the one that replays.
///
/// # Errors
/// If the archive is damaged or ends early, or `output` takes no more.
pub fn unpack(input: impl Read, output: &mut impl io::Write) -> io::Result<u64> {
    let mut decoder = zstd::Decoder::new(input)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    io::copy(&mut decoder, output)
}

/// The first bytes, as many as a magic number has or the input delivers.
///
/// # Errors
/// If the input cannot be read.
pub fn head(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(size_of_val(&ZSTD_MAGIC));
    input.take(size_of_val(&ZSTD_MAGIC) as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The magic number of an archive of zstd that begins so; none if it is no archive.
#[must_use]
pub fn zstd_magic(head: &[u8]) -> Option<u32> {
    let magic = u32::from_le_bytes(head.try_into().ok()?);
    (magic == ZSTD_MAGIC || SKIPPABLE_MAGIC.contains(&magic)).then_some(magic)
}

#[cold]
fn whole(name: &str) -> Place {
    Place { file: name.into(), line: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::{read_all, read_bytes};

    const TEXT: &str = "t_ms,key,size,op\n,1,2,get\n,3,4,set\n";

    fn packed(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    fn failure(bytes: &[u8]) -> TraceError {
        read_bytes(bytes.to_vec(), None).unwrap_err()
    }

    #[test]
    fn plain_and_compressed_read_the_same() {
        let plain = read_all(TEXT).unwrap();
        assert_eq!(read_bytes(packed(TEXT.as_bytes()), None).unwrap(), plain);
        let two_frames = [packed(&TEXT.as_bytes()[..20]), packed(&TEXT.as_bytes()[20..])].concat();
        assert_eq!(read_bytes(two_frames, None).unwrap(), plain);
    }

    #[test]
    fn frames_that_are_skipped_come_before_others() {
        let plain = read_all(TEXT).unwrap();
        // As pzstd writes it: the length of the frame that follows, in a frame of its own.
        let framed = |magic: u32, text: &str| {
            let frame = packed(text.as_bytes());
            let (len, size) = (4_u32.to_le_bytes(), u32::try_from(frame.len()).unwrap().to_le_bytes());
            [&magic.to_le_bytes()[..], &len, &size, &frame].concat()
        };
        for magic in [0x184D_2A50, 0x184D_2A5F] {
            let archive = [framed(magic, &TEXT[..20]), framed(magic, &TEXT[20..])].concat();
            assert_eq!(read_bytes(archive.clone(), None).unwrap(), plain);
            let mut unpacked = Vec::new();
            unpack(&archive[..], &mut unpacked).unwrap();
            assert_eq!(unpacked, TEXT.as_bytes());
        }
        assert_eq!(zstd_magic(&0x184D_2A60_u32.to_le_bytes()), None);
        assert_eq!(zstd_magic(b"a,b"), None);
    }

    #[test]
    fn a_long_window_is_unpacked() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        io::Write::write_all(&mut encoder, TEXT.as_bytes()).unwrap();
        assert_eq!(read_bytes(encoder.finish().unwrap(), None).unwrap(), read_all(TEXT).unwrap());
    }

    #[test]
    fn truncated_and_damaged_archives_say_so() {
        let rows: String = (0..50_000).map(|i| format!(",{},{i},get\n", i * 7_919 % 10_007)).collect();
        let archive = packed(format!("t_ms,key,size,op\n{rows}").as_bytes());
        let truncated = failure(&archive[..archive.len() / 2]);
        assert!(matches!(truncated, TraceError::Truncated { .. }), "{truncated}");
        assert!(truncated.place().line > 1, "{truncated}");
        assert!(truncated.cure().contains("zstd -t"));
        let mut damaged = archive;
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0xFF);
        let damaged = failure(&damaged);
        assert!(!matches!(damaged, TraceError::Read { .. }), "{damaged}");
    }

    #[test]
    fn what_is_no_trace_says_so() {
        assert_eq!(failure(b"").to_string(), "t: the trace is empty");
        assert_eq!(failure(b"\n\n").to_string(), "t: the trace is empty");
        assert_eq!(failure(&packed(b"")).to_string(), "t: the trace is empty");
        assert_eq!(failure(&[b'x'; 5000]).to_string(), "t:1: the line is longer than 4096 bytes");
        assert!(matches!(failure(b"\x7fELF\x02\x01\n"), TraceError::UnknownFormat { .. }));
        let error = read_bytes(b"a,b\n".to_vec(), Some(Format::Stream)).unwrap_err();
        assert_eq!(error.to_string(), "t:1: the header is 'a,b' instead of 't_ms,key,size,op'");
    }

    #[test]
    fn a_missing_file_says_so() {
        let Err(error) = open(Path::new("no-such-trace.csv"), None) else { panic!("it exists") };
        assert_eq!(error.to_string(), "no-such-trace.csv: cannot open the trace");
        assert_eq!(error.cure(), "check the path");
        let Err(error) = open(Path::new("src"), None) else { panic!("a folder is a trace") };
        assert!(matches!(error, TraceError::Read { .. }), "{error}");
    }
}
