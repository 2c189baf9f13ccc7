//! Which segments a pass over a tier empties, and what they hold.
//!
//! Shape:      sealed segments, half those with the least alive, half random, or the former alone where nothing alive goes -> claimed
//!             -> what they hold, read into memory where it cannot be read in place
//! Failure:    what cannot be read is no source for a while; when that was tried a few times it is given up

use super::Entry;
use crate::epoch::Participant;
use crate::limits;
use crate::segment::State;
use crate::store::Store;
use crate::tier::Tier;
use units::{Bytes, Rng};

/// A segment that a pass empties.
pub(super) struct Source {
    pub(super) segment: u32,
    /// Where what it holds was read into the room for that, where it cannot be read in place.
    read_at: Option<usize>,
    pub(super) entries: Vec<Entry>,
    /// So many of them were dealt with.
    pub(super) handled: usize,
    /// Some record does not say whose it is.
    pub(super) hides: bool,
    /// It could not be read, time and again.
    pub(super) is_lost: bool,
}

impl Source {
    /// Records that were not dealt with, as far as they are alive still.
    pub(super) fn left<'a>(&'a self, tier: &'a Tier) -> impl Iterator<Item = &'a Entry> {
        self.entries[self.handled..].iter().filter(|entry| entry.is_alive(tier))
    }
}

impl Tier {
    /// Segments that a pass takes of so many.
    pub(super) fn width(&self, of: usize) -> usize {
        let most = if self.is_mapped() { limits::TIER_PASS_WIDTH } else { limits::TIER_PASS_WIDTH_UNMAPPED };
        most.min(of.div_ceil(2))
    }

    /// Segments that a pass may take.
    pub(super) fn candidates(&self, now_secs: u32) -> impl Iterator<Item = u32> + '_ {
        self.segments.sealed().filter(move |segment| !self.unread.rests(*segment, now_secs))
    }
}

/// Claims sources: half of them have the least alive, half are random; where such were of no use in turns before all are random. Where
/// nothing alive goes, all of them have the least.
pub(super) fn choose(rng: &mut Rng, tier: &Tier, turn: u32, now_secs: u32) -> Vec<u32> {
    let mut all: Vec<u32> = tier.candidates(now_secs).collect();
    let width = tier.width(all.len());
    all.sort_by_cached_key(|segment| tier.segments.live(*segment));
    let best = match turn {
        _ if tier.keeps_all => width,
        0 => width.div_ceil(2),
        _ => 0,
    };
    for i in best..width {
        let j = i + rng.index(all.len() - i);
        all.swap(i, j);
    }
    all.truncate(width);
    all.retain(|segment| tier.segments.change(*segment, State::Sealed, State::Cleaning));
    all
}

/// Reads what segments hold into `room`, where it cannot be read in place. One that cannot be read is no source, or is lost.
pub(super) fn read(store: &Store, tier: &Tier, segments: Vec<u32>, room: &mut [u8]) -> Vec<Source> {
    let piece_bytes = Bytes(tier.segments.bytes()).as_usize();
    let mut pieces = room.chunks_exact_mut(piece_bytes).enumerate();
    let mut sources = Vec::with_capacity(segments.len());
    for segment in segments {
        let (mut read_at, mut is_lost) = (None, false);
        if !tier.is_mapped() && tier.segments.live(segment) != 0 {
            let (number, piece) = pieces.next().expect("the room is for as many as a pass takes");
            if tier.device.read(tier.segments.range(segment).start, piece).is_ok() {
                tier.unread.forget(segment);
                read_at = Some(number * piece_bytes);
            } else {
                tier.note_unread();
                is_lost = tier.unread.note(segment, store.now_secs());
                if !is_lost {
                    tier.segments.change(segment, State::Cleaning, State::Sealed);
                    continue;
                }
            }
        }
        sources.push(Source { segment, read_at, entries: Vec::new(), handled: 0, hides: false, is_lost });
    }
    sources
}

/// Bytes of a source from one of the tier on.
pub(super) fn bytes_of<'b>(
    tier: &'b Tier,
    (reader, room): (&'b Participant, &'b [u8]),
    source: &Source,
    at: u64,
) -> &'b [u8] {
    let range = tier.segments.range(source.segment);
    let from = usize::try_from(at - range.start).unwrap_or(0);
    let len = usize::try_from(range.end - at).unwrap_or(0);
    match source.read_at {
        Some(read_at) => room.get(read_at + from..read_at + from + len).unwrap_or(&[]),
        None => tier.bytes(reader, at, len).unwrap_or(&[]),
    }
}

/// Segments that the live records of sources fill, one behind the other.
pub(super) fn filled(tier: &Tier, sources: &[Source]) -> usize {
    let (mut filled, mut left) = (0, 0);
    for entry in sources.iter().flat_map(|source| &source.entries) {
        let stride = tier.area.stride(entry.footprint);
        if left < stride {
            (filled, left) = (filled + 1, tier.segments.bytes());
        }
        left -= stride;
    }
    filled
}
