//! What must hold of a parser wherever a stream is cut.
//!
//! Shape: a stream, a parser -> the parser's word of every beginning of what is left of the stream

use std::fmt::Debug;

/// What a parser says of the front of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front<T> {
    /// It means this, and takes so many bytes of the stream, perhaps more than are here.
    Means(T, u64),
    /// More bytes are needed: so many in all, as far as is known.
    Incomplete(usize),
    /// This is nothing, and nothing behind it will be read.
    Hopeless,
}

/// Reads a stream to its end.
///
/// # Panics
/// Unless the parser gets on with everything that it takes, and says of every beginning of what is left the same as of the
/// whole or that it is incomplete, asking for more than there is and no more than is taken in the end.
pub(crate) fn read_at_every_cut<'b, T: PartialEq + Debug>(
    stream: &'b [u8],
    parse: impl Fn(&'b [u8]) -> Front<T>,
) {
    let mut rest = stream;
    while !rest.is_empty() {
        let whole = parse(rest);
        let takes = if let Front::Means(_, takes) = whole { Some(takes) } else { None };
        for cut in 0..rest.len() {
            match parse(&rest[..cut]) {
                Front::Incomplete(needed) => {
                    assert!(cut < needed, "at {cut} of {rest:?} it asks for {needed}");
                    let is_modest = takes.is_none_or(|takes| needed as u64 <= takes);
                    assert!(is_modest, "at {cut} of {rest:?} it asks for {needed} and takes {takes:?}");
                }
                early => assert_eq!(early, whole, "{rest:?} cut at {cut}"),
            }
        }
        let Some(takes) = takes else { return };
        assert!(0 < takes, "nothing of {rest:?} is taken");
        rest = &rest[usize::try_from(takes).unwrap_or(usize::MAX).min(rest.len())..];
    }
}
