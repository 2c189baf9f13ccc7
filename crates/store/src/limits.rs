//! Every limit of the store, with its name.

use units::Bytes;

/// Smallest segment.
pub const SEGMENT_MIN: Bytes = Bytes::kib(64);
/// Segment of ordinary memories (Memshare §5: 1 MiB).
pub const SEGMENT_DEFAULT: Bytes = Bytes::mib(1);
/// Largest segment: 20 bits of offset in units of 8 bytes.
pub const SEGMENT_MAX: Bytes = Bytes::mib(8);
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
/// Free segments whose memory a helping thread has touched before a writer takes them.
pub const SEGMENTS_AHEAD: u32 = 4;
/// Segments that one cleaning pass takes unless it is told otherwise (Memshare §3.2: n; Table 7 saturates at about 20).
pub const PASS_WIDTH: usize = 20;
/// Segments that one cleaning pass takes at most (Table 7 ends there).
pub const PASS_WIDTH_MAX: usize = 100;
/// A pass frees one segment in so many that it takes (at least one). Freeing two of 20 instead of five
/// keeps .001 more of the hits on the mixed trace and copies three times as much (`docs/decisions`).
pub const PASS_FREES_PART: usize = 4;
/// Background cleaners at most.
pub const CLEANERS_MAX: usize = 8;
/// Items that a pass which frees a quarter ranks to know what it has, at most about; smaller sources are ranked whole. A
/// quarter of that gave .8169 of hits on the mixed trace in 256 MiB, this .8183, all items .8179.
pub const CENSUS_SAMPLES: usize = 65_536;
/// A sample is off by some thousandths: so small a part of the room is left, one in so many. What is not used stays open.
pub const CENSUS_SLACK_PART: u64 = 128;
/// Segments looked at to choose the sources of a pass; more are sampled.
pub const PASS_CANDIDATES_MAX: usize = 512;
/// Least number of segments that a store is divided into.
pub const SEGMENTS_MIN: u64 = 64;
/// Bytes of items that a shadow queue represents. Memshare §6 has 10 MB of a gigabyte; on the mixed trace in 256 MiB
/// the gradient right behind the cache's end says more: .8105 with 1 MiB, .7898 with 10 MiB (`docs/decisions`).
pub const SHADOW_REPRESENTS: Bytes = Bytes::mib(1);
/// Shadow queues and miss ratio curves together take this part of the memory: one in so many.
pub const WATCHING_MEMORY_PART: u64 = 100;
/// Of that the curves take one part in so many.
pub const CURVES_PART: u64 = 4;

/// Ticks of the rank clock that the cleaner holds an item's age back to when it moves it: three and a half times the memory
/// written. Items that no pass looks at are held back by `sweep`.
pub const AGE_MAX: u8 = 224;

/// Tiers below DRAM at most: one byte of a reference names them.
pub const TIERS_MAX: usize = 8;
/// Values below this stay in DRAM: a record has 40 B of its own, its place in DRAM ten, and one access to a slow tier costs
/// about as much for 64 B as for 256 B (a guess between 64 B, which extstore and Dragonfly take, and 1 KiB).
pub const TIER_VALUE_MIN: usize = 128;
/// Segments of a tier that only its cleaning fills.
pub const TIER_RESERVE: u32 = 2;
/// A tier is cleaned when no more segments than this are free beyond the reserve: a pass over DRAM may put as much there.
pub const TIER_LOW_WATER: u32 = 6;
/// Segments of a tier that are gathered, written or read there at once, where the device is not mapped.
pub const TIER_BUFFERS: u32 = 8;
/// Segments that a cleaning pass of a tier takes.
pub const TIER_PASS_WIDTH: usize = 16;
/// The same where they have to be read into memory first.
pub const TIER_PASS_WIDTH_UNMAPPED: usize = 4;
/// A cleaning pass of a tier frees one segment in so many that it takes, at least one.
pub const TIER_PASS_FREES_PART: usize = 3;
/// Room that a pass of a tier leaves for the ends of segments, one part in so many.
pub const TIER_SLACK_PART: u64 = 64;
/// Seconds for which nothing is written to a tier that failed.
pub const TIER_REST_SECS: u32 = 1;

/// Longest text of a rank, in characters (guess: ranks in use have some 30).
pub const RANK_LENGTH_MAX: usize = 256;
/// Most steps of a rank's expression, so that a pass, which ranks some 100,000 items, stays within milliseconds (guess).
pub const RANK_STEPS_MAX: usize = 100;
/// Deepest nesting of parentheses, functions and signs in a rank's expression: the parser recurses so deep.
pub const RANK_NESTING_MAX: usize = 32;

const _: () = assert!(TIERS_MAX <= u8::MAX as usize);
const _: () = assert!(KEY_MAX <= u8::MAX as usize);
const _: () = assert!(TENANTS_MAX < u16::MAX as usize);
const _: () = assert!(SEGMENT_MAX.0 <= (1 << 20) * 8);
const _: () = assert!(SEGMENT_MIN.0 <= SEGMENT_DEFAULT.0 && SEGMENT_DEFAULT.0 <= SEGMENT_MAX.0);
