//! Every limit of the store, with its name.

use units::{Bytes, Duration};

/// Smallest segment.
pub const SEGMENT_MIN: Bytes = Bytes::kib(64);
/// Segment of ordinary memories (Memshare §5: 1 MiB).
pub const SEGMENT_DEFAULT: Bytes = Bytes::mib(1);
/// Largest item: what memcached's `-I` goes up to. An item that does not fit a segment has its value in pages of its own.
pub const ITEM_MAX: Bytes = Bytes(1 << 30);
/// The largest item takes this part of the memory at most, one in so many: others must have a place beside it.
pub const ITEM_PART: u64 = 2;
/// Items that a segment is to have room for at least: larger ones have their values in pages of their own, and leave no segment half empty. Above tiers
/// one is enough, since only what fits a segment goes there.
pub const PER_SEGMENT_LEAST: u64 = 2;
/// An item of so many bytes does not stand at the very start of a segment but behind a gap: the head of the reply to a `get` is four bytes longer
/// than what stands before the value, and some processors take three times as long to copy to where bytes are 1 to 15 further in their
/// page than they were (docs/decisions/2026-11-29-where-large-items-stand.md).
pub const GAP_FROM: usize = 32 << 10;
/// That gap, an item that is gone.
pub const GAP: usize = 64;
/// Pages of such values that are gone are kept for the next, up to this part of the memory, one in so many (guess: what a pass
/// evicts of them at once).
pub const WARM_PART: u64 = 16;
/// Tenants that come by themselves take this part of the memory at most, one in so many: the rest is for items (guess: a thousand of them fit in
/// 64 MiB).
pub const TENANTS_PART: u64 = 3;
/// Values in pages of their own come in these units, the system's.
pub const VALUE_PAGE: Bytes = Bytes::kib(4);
/// Addresses for such values, as many times the memory: a range in a row is found while there is memory, whatever the sizes
/// were (guess; addresses cost nothing, and what finds no range makes others go).
pub const VALUE_ADDRESSES: u64 = 4;
/// Values that are on their way in have this part of those addresses at most, one in so many: who announces much and sends nothing takes
/// none from what is there and grows.
pub const ANNOUNCED_PART: usize = 2;
/// Values that are on their way in take this part of the memory at most, one in so many: nobody can evict them. The largest item
/// fits.
pub const UPLOADS_PART: u64 = 2;
/// Values in pages of their own that one survey or pass compares with what is in segments, at most.
pub const LARGE_SAMPLES_MAX: usize = 1_024;
/// Bytes of them at most: a census counts to 4 GiB.
pub const LARGE_SAMPLED_MAX: Bytes = Bytes(1 << 30);
/// Values in pages of their own that one turn of a background cleaner looks at for dead ones.
pub const LARGE_SWEPT: usize = 256;
/// Bytes of a key at most: one byte of header, memcached's limit is 250.
pub const KEY_MAX: usize = 250;
/// Tenants at most: two bytes of header; the upper values stay free.
pub const TENANTS_MAX: usize = 65_000;
/// Threads that may be registered with a store at once: workers, cleaners, readers of the administration.
pub const THREADS_MAX: usize = 320;
/// Segments that writers leave to the cleaner.
pub const RESERVE_SEGMENTS: u32 = 3;
/// A background cleaner starts when one segment in so many is left beyond the reserve, at the latest when a single one is
/// (Memshare §5.3 starts at 1 % of the memory; ours at a fifth of that, since what lies free holds nothing).
pub const LOW_WATER_PART: u32 = 512;
/// It starts no earlier than when so many are left per writing thread: at full speed a thread fills one in about the time
/// of a pass (15 ms and 25 ms for items of 48 B on this machine).
pub const LOW_WATER_PER_WRITER: u32 = 2;
/// Free memory that a helping thread has touched before a writer takes it: one of the system's huge pages.
pub const TOUCHED_AHEAD: Bytes = Bytes::mib(2);
/// The same at most, where much is in use: as much as a writer of large items fills while the first of it is touched (guess).
pub const TOUCHED_AHEAD_MOST: Bytes = Bytes::mib(8);
/// One segment of so many that are in use, beyond the least.
pub const TOUCHED_AHEAD_OF_USED: u32 = 64;
/// One segment in so many at most, but two.
pub const TOUCHED_AHEAD_PART: u32 = 3;
/// Segments that a survey looks at, at most: random ones of all. On the mixed trace 1,024 gave fewer hits in 245 MiB,
/// where thresholds were older, and 128 took a quarter more CPU time than 512 (`docs/decisions`).
pub const SURVEY_SEGMENTS: usize = 256;
/// Items of each of them that it looks at, where it marks least.
pub const SURVEY_ITEMS: usize = 128;
/// It serves passes until they have gained one segment in so many of those surveyed.
pub const SURVEY_SERVES_PART: usize = 16;
/// Or until one in so many of them is taken.
pub const SURVEY_TAKES_PART: usize = 2;
/// Segments that a pass expects to gain: what is free holds nothing.
pub const PASS_GAINS: usize = 2;
/// Thousandths of the bytes surveyed that a survey marks to go where there is time: a little more than it serves for.
pub const MARKS_MIN: usize = 75;
/// Where what is dead makes up so many thousandths more of the best segments than a survey would mark, nothing alive goes: what
/// fits in the memory stays there, at up to three bytes copied for each that is freed; where more is marked to save time, more has to be
/// dead.
pub const DEAD_BEYOND_MARKS: usize = 175;
/// However much is marked, from here on nothing alive goes: a twentieth of a byte is copied for each that is freed (guess; `docs/decisions`).
pub const DEAD_ENOUGH_MAX: usize = 950;
/// Thousandths that it marks at most, where many writes leave no other way to keep to the limit (`docs/decisions`).
pub const MARKS_MAX: usize = 840;
/// Segments that a pass of Memshare's kind takes unless it is told otherwise (§3.2: n; Table 7 saturates at about 20).
pub const PASS_WIDTH: usize = 20;
/// Segments that any pass takes at most (Table 7 ends there).
pub const PASS_WIDTH_MAX: usize = 100;
/// It frees one segment in so many that it takes (at least one), unless it is told otherwise.
pub const PASS_FREES_PART: usize = 4;
/// Items that a pass deals with, some 100 µs, before it lets others run as long as writers find segments: who wakes up where it
/// runs would wait for the end of its time slice, milliseconds. With 128 the p99 of others is no better, and passes take a
/// quarter longer.
pub const GIVES_WAY_ITEMS: usize = 1024;
/// Background cleaners at most.
pub const CLEANERS_MAX: usize = 8;
/// Items that a pass over known sources ranks to know what it has, at most about; smaller sources are ranked whole.
pub const CENSUS_SAMPLES: usize = 65_536;
/// A sample is off by some thousandths: so small a part of the room is left, one in so many. What is not used stays open.
pub const CENSUS_SLACK_PART: u64 = 128;
/// Segments looked at to choose sources by their rows in the table; more are sampled.
pub const PASS_CANDIDATES_MAX: usize = 512;
/// Least number of segments that a store is divided into, down to `SEGMENT_MIN`: what is free, open or lost at ends counts in
/// segments, and small ones differ more in what cleaning them frees (`docs/decisions`).
pub const SEGMENTS_MIN: u64 = 256;
/// The same above tiers: a value that fits no segment goes to none of them.
pub const SEGMENTS_MIN_ABOVE_TIERS: u64 = 128;
/// The same for each writing thread, and each segment that is held beside their heads (guess).
pub const SEGMENTS_PER_WRITER: u64 = 4;
/// Bytes of items that a shadow queue represents. Memshare §6 has 10 MB of a gigabyte; on the mixed trace in 256 MiB
/// the gradient right behind the cache's end says more: .8105 with 1 MiB, .7898 with 10 MiB (`docs/decisions`).
pub const SHADOW_REPRESENTS: Bytes = Bytes::mib(1);
/// Shadow queues and miss ratio curves together take this part of the memory: one in so many.
pub const WATCHING_MEMORY_PART: u64 = 100;
/// Of that the curves take one part in so many.
pub const CURVES_PART: u64 = 4;
/// Ghosts take this part of the memory: one in so many. With a 256th the mixed trace misses the same within .0004.
pub const GHOSTS_MEMORY_PART: u64 = 512;

/// Ticks of the rank clock that the cleaner holds an item's age back to when it moves it: three and a half times the memory
/// written. Items that no pass looks at are held back by `sweep`.
pub const AGE_MAX: u8 = 224;

/// Tiers below DRAM at most: one byte of a reference names them.
pub const TIERS_MAX: usize = 8;
/// Least number of segments that a tier is divided into, down to `SEGMENT_MIN`; another number would be another layout.
pub const TIER_SEGMENTS_MIN: u64 = 64;
/// A segment that is to hold whatever a segment of DRAM does is no larger than leaves so many; another number would be another layout.
pub const TIER_SEGMENTS_LEAST: u64 = 24;
/// Values below this stay in DRAM: a record has 40 B of its own, its place in DRAM ten, and one access to a slow tier costs
/// about as much for 64 B as for 256 B (a guess between 64 B, which extstore and Dragonfly take, and 1 KiB).
pub const TIER_VALUE_MIN: usize = 128;
/// A tier is no larger than references tell: 40 bits of places of 64 B.
pub const TIER_MAX: Bytes = Bytes(1 << 46);
/// Segments of a tier that only its cleaning fills.
pub const TIER_RESERVE: u32 = 2;
/// A tier is cleaned when fewer segments than this are free beyond the reserve, or about to be: passes over DRAM fill as many while
/// one is cleaned (`docs/decisions/2026-11-24-room-below-before-choosing.md`).
pub const TIER_LOW_WATER: u32 = 4;
/// The same where passes may wait for tenants' budgets and caps: one in so many of a tier's segments, or so many. Meanwhile those tenants fill what is
/// left to them, and others fill more (16 of 256 in a second in `nyx/live_traces`; with six passes could not wait for a period's end).
pub const TIER_LOW_WATER_LIMITS: (u32, u32) = (16, 6);
/// They wait as long as so many segments are free beyond the reserve, or about to be: with fewer a pass is due where there are no budgets.
pub const TIER_POSTPONES_MIN: u32 = TIER_LOW_WATER;
/// And no longer than so from when it began (guess: what it knows of its records becomes old): then it gives its sources back.
pub const TIER_PASS_WAITS_MAX: Duration = Duration::from_secs(10);
/// Segments of a tier that are gathered, written or read there at once, where the device is not mapped.
pub const TIER_BUFFERS: u64 = 8;
/// The same at least: one is written while others are gathered.
pub const TIER_BUFFERS_MIN: u64 = 4;
/// They take one part in so many of the memory, at most.
pub const TIER_GATHERS_PART: u64 = 16;
/// Segments that a cleaning pass of a tier takes.
pub const TIER_PASS_WIDTH: usize = 16;
/// The same where they have to be read into memory first.
pub const TIER_PASS_WIDTH_UNMAPPED: usize = 4;
/// A cleaning pass of a tier frees one segment in so many that it takes, at least one.
pub const TIER_PASS_FREES_PART: usize = 3;
/// Sources that a pass over a tier looks at one after the other where they hold nothing but what is within floors, before the tier is left
/// alone for a moment (guess: it reads so many times what a pass does).
pub const TIER_TRIES: u32 = 4;
/// Where nothing alive goes, and a pass over a tier has gained nothing, another follows once a segment's part in so many more is dead
/// (guess: sixteen passes for nothing per segment at most).
pub const TIER_DEAD_PART: u64 = 16;
/// Room that a pass of a tier leaves for the ends of segments, one part in so many.
pub const TIER_SLACK_PART: u64 = 64;
/// Seconds after which what is gathered in a segment is written though the segment is not full (a guess: as often as a cleaner
/// looks, so that a crash forgets about twice as much).
pub const TIER_GATHER_SECS: u32 = 1;
/// Seconds for which nothing is written to a tier that failed.
pub const TIER_REST_SECS: u32 = 1;
/// Times in a row that passes fail to read a segment before what it holds is given up. Between them it is left alone for as long as a
/// tier that failed, and twice as long each time, so that a disk that is gone for a quarter of a minute loses nothing (a guess).
pub const TIER_READS_MAX: u32 = 5;
/// Times in a row that it fails to write which double that: about a minute at most.
pub const TIER_REST_DOUBLINGS: u32 = 6;

/// Longest text of a rank, in characters (guess: ranks in use have some 30).
pub const RANK_LENGTH_MAX: usize = 256;
/// Most steps of a rank's expression, so that a pass, which ranks some 100,000 items, stays within milliseconds (guess).
pub const RANK_STEPS_MAX: usize = 100;
/// Deepest nesting of parentheses, functions and signs in a rank's expression: the parser recurses so deep.
pub const RANK_NESTING_MAX: usize = 32;

const _: () =
    assert!(TIER_PASS_WIDTH_UNMAPPED as u64 <= TIER_BUFFERS_MIN, "a pass reads no more than is gathered");
const _: () = assert!(TIERS_MAX <= u8::MAX as usize);
const _: () = assert!(KEY_MAX <= u8::MAX as usize);
const _: () = assert!(TENANTS_MAX < u16::MAX as usize);
const _: () = assert!(0 < MARKS_MIN && MARKS_MIN < MARKS_MAX && MARKS_MAX < 1_000);
const _: () = assert!(SEGMENT_DEFAULT.0 <= 1 << 20, "offsets have 20 bits");
const _: () = assert!(SEGMENT_MIN.0 <= SEGMENT_DEFAULT.0 && SEGMENT_DEFAULT.0 < ITEM_MAX.0);
const _: () = assert!(UPLOADS_PART <= ITEM_PART);
const _: () = assert!(
    SURVEY_SEGMENTS as u64 * SEGMENT_DEFAULT.0 * 2 + LARGE_SAMPLED_MAX.0 + ITEM_MAX.0 < u32::MAX as u64,
    "an item is charged less than twice its bytes in the log, and a census counts to 4 GiB"
);
