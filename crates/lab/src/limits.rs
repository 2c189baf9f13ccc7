//! The bounds of what the laboratory reads and generates, and how they relate.

/// Longest key on the wire. The memcached protocol's limit (`KEY_MAX_LENGTH`).
pub const KEY_BYTES_MAX: usize = 250;

/// Longest line of a trace. The longest of the shared traces is 82 bytes; a row whose key is as long as the wire
/// allows needs about 350. Guess: an order of magnitude above that.
pub const LINE_BYTES_MAX: usize = 4_096;

/// Bytes that a trace reader holds of its (decompressed) input. Guess; 64 KiB to 1 MiB read equally fast.
pub const READ_BUFFER_BYTES: usize = 256 << 10;

/// Largest zstd window that is accepted, as a power of two. The shared traces use it (128 MiB), and it is the
/// largest that the zstd tool accepts without an option of its own.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Most blocks that one line of an ARC trace may ask for. The largest in the published traces is a few hundred;
/// this is 512 MiB in one request. Guess.
pub const ARC_BLOCKS_PER_LINE_MAX: u64 = 1 << 20;

/// Most keys of one generated tenant: 128 MiB of sampling table.
pub const GENERATED_KEYS_MAX: u32 = 1 << 24;

/// Most bytes of a generated value: memcached's default largest item.
pub const VALUE_BYTES_MAX: u32 = 1 << 20;

/// Most seeds that an experiment is run with. Guess: three are the least that show a spread, a hundred show little more.
pub const SEEDS_MAX: u32 = 100;

/// Longest predicate; bounds how deep it nests. Guess: several lines.
pub const PREDICATE_CHARS_MAX: usize = 500;

/// Most points of one curve of an experiment. Guess: twice the pixels of a plot's width.
pub const SERIES_POINTS_MAX: usize = 2_000;

const _: () = assert!(KEY_BYTES_MAX < LINE_BYTES_MAX);
const _: () = assert!(LINE_BYTES_MAX < READ_BUFFER_BYTES);
