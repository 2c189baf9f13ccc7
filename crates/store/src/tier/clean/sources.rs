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
pub(super) struct Source<'b> {
    pub(super) segment: u32,
    /// What it holds, where that cannot be read in place.
    pub(super) bytes: Option<&'b [u8]>,
    pub(super) entries: Vec<Entry>,
    /// Some record does not say whose it is.
    pub(super) hides: bool,
    /// It could not be read, time and again.
    pub(super) is_lost: bool,
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
pub(super) fn read<'b>(
    store: &Store,
    tier: &Tier,
    segments: Vec<u32>,
    room: &'b mut [u8],
) -> Vec<Source<'b>> {
    let mut pieces = room.chunks_exact_mut(Bytes(tier.segments.bytes()).as_usize());
    let mut sources = Vec::with_capacity(segments.len());
    for segment in segments {
        let (mut bytes, mut is_lost) = (None, false);
        if !tier.is_mapped() && tier.segments.live(segment) != 0 {
            let piece = pieces.next().expect("the room is for as many as a pass takes");
            if tier.device.read(tier.segments.range(segment).start, piece).is_ok() {
                tier.unread.forget(segment);
                bytes = Some(&*piece);
            } else {
                tier.note_unread();
                is_lost = tier.unread.note(segment, store.now_secs());
                if !is_lost {
                    tier.segments.change(segment, State::Cleaning, State::Sealed);
                    continue;
                }
            }
        }
        sources.push(Source { segment, bytes, entries: Vec::new(), hides: false, is_lost });
    }
    sources
}

/// Bytes of a source from one of the tier on.
pub(super) fn bytes_of<'b>(
    tier: &'b Tier,
    reader: &'b Participant,
    source: &'b Source<'_>,
    at: u64,
) -> &'b [u8] {
    let range = tier.segments.range(source.segment);
    let from = usize::try_from(at - range.start).unwrap_or(0);
    let len = usize::try_from(range.end - at).unwrap_or(0);
    match source.bytes {
        Some(bytes) => &bytes[from..],
        None => tier.bytes(reader, at, len).unwrap_or(&[]),
    }
}

/// Segments that the live records of sources fill, one behind the other.
pub(super) fn filled(tier: &Tier, sources: &[Source<'_>]) -> usize {
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
