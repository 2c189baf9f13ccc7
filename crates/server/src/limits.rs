//! Every limit of the server, with its name.

use units::{Bytes, Duration};

/// Least memory a server starts with.
pub const MEMORY_MIN: Bytes = Bytes::mib(8);
/// Most memory: what 20 bits of segment number address at 1 MiB a segment.
pub const MEMORY_MAX: Bytes = Bytes(1 << 40);
/// Least value of the item size limit, memcached's.
pub const ITEM_MAX_MIN: Bytes = Bytes::kib(1);
/// Greatest value of the item size limit, memcached's.
pub const ITEM_MAX_MAX: Bytes = store::ITEM_MAX;
/// Worker threads at most.
pub const THREADS_MAX: usize = 256;
/// Requests in one turn at most (`-R`); replies are pieces of one `writev`.
pub const REQUESTS_PER_TURN_MAX: usize = 1024;
/// Connections at most (`-c`).
pub const CONNECTIONS_MAX: usize = 1_000_000;
/// Tenants at most: two bytes of item header less two reserved values.
pub const TENANTS_MAX: usize = 65_000;
/// Groups of tenants at most (guess: a policy inside each; 64 decide in some 0.1 ms).
pub const GROUPS_MAX: usize = 64;
/// What a tenant costs beside the store: its name, prefix and id in the tables that recognise it, and its rows in the control
/// loop and in the books of the curves, with names and prefixes of usual length, and what `/metrics` needs of it for a moment (a thousand
/// tenants at `-m 64` were seen to take up to 7.4 MiB more than one, beside what is accounted, and a scrape 2.9 MiB).
pub const TENANT_BYTES: Bytes = Bytes::kib(11);
/// What is noted of tiers in memory takes this part of the memory at most, one in so many.
pub const TIER_NOTES_PART: u64 = 4;
/// Bytes of a tenant's name at most.
pub const TENANT_NAME_MAX: usize = 64;
/// Bytes of a tier's name at most.
pub const TIER_NAME_MAX: usize = 32;
/// Bytes of a key prefix at most.
pub const PREFIX_MAX: usize = 128;
/// Bytes of a request line at most, but for `get` and its kin: what memcached reads at once. It answers a line that came so, and closes
/// when more than 2048 bytes have come without an end.
pub const LINE_MAX: usize = 16 << 10;
/// Bytes of a line of who has shown no password yet.
pub const AUTH_LINE_MAX: usize = 2048;
/// Bytes of a request's line that the log is told at most (guess: a command and a few keys).
pub const LOGGED_LINE_MAX: usize = 128;
/// Bytes of a `get`, `gets`, `gat` or `gats` line at most.
pub const GET_LINE_MAX: usize = 1 << 20;
/// Bytes of a key at most, the protocol's.
pub const KEY_MAX: usize = 250;
/// Connections of the default listeners that `watch` at most (memcached's).
pub const WATCHERS_MAX: usize = 20;
/// Connections of one tenant's own that `watch` at most (guess: some people and a script): each costs the tenant's requests, and
/// nobody else's.
pub const TENANT_WATCHERS_MAX: usize = 4;
/// Those of all tenants together at most: their buffers are memory beside `-m` (guess: 8 MiB where nobody reads).
pub const TENANTS_WATCHERS_MAX: usize = 32;
/// Bytes of log lines that wait for one of them at most (memcached's `watcher_logbuf_size`).
pub const WATCH_BUFFER: usize = 256 << 10;
/// Bytes of a list of items that are written at once, not counting the bucket that crosses the line.
pub const DUMP_PIECE: usize = 64 << 10;
/// Buckets of the index that are looked at for one piece of a list at most: others want their turn.
pub const DUMP_BUCKETS_AT_ONCE: u32 = 512;
/// Buckets of the index in which `stats items` looks for the item that nobody asked for longest: a few thousand items.
pub const AGES_BUCKETS: u32 = 512;
/// Bytes that `stats cachedump` answers at most (memcached's).
pub const CACHEDUMP_BYTES_MAX: usize = 2 << 20;
/// Buckets of the index that `stats cachedump` looks at: the first 60,000 items or so (guess: nobody else is served meanwhile).
pub const CACHEDUMP_BUCKETS_MAX: u32 = 8 << 10;
/// Words of a meta command's line at most, verb and key included (memcached's).
pub const META_WORDS_MAX: usize = 20;
/// Bytes of an opaque token of a meta command at most, its letter included (memcached's).
pub const META_OPAQUE_MAX: usize = 32;
/// Bytes of a message that shows a password at most, in either protocol.
pub const AUTH_MESSAGE_MAX: usize = 1024;
/// Attempts to show a password that may fail on one connection before it is closed.
pub const AUTH_ATTEMPTS_MAX: u8 = 5;
/// Failed attempts of one address, or dear ones for one user, at once after a pause; those beyond wait (guess: a client that
/// is set up wrongly is found out before it is slowed down).
pub const LOGIN_FAILURES_BURST: u64 = 32;
/// Failed attempts per second on average (guess: 86,400 guesses a day).
pub const LOGIN_FAILURES_PER_SECOND: u64 = 1;
/// Addresses and users whose failures are remembered at most.
pub const LOGIN_FAILURES_MAX: usize = 4096;
/// Passwords that wait to be verified at most.
pub const LOGIN_QUEUE: usize = 256;
/// Milliseconds until a password is shown again to a queue that was full (guess).
pub const LOGIN_RETRY_MS: u64 = 100;
/// Bytes of a user's name at most.
pub const USER_NAME_MAX: usize = 64;
/// Bytes of a password at most.
pub const PASSWORD_MAX: usize = 255;
/// Users at most: as many as tenants.
pub const USERS_MAX: usize = TENANTS_MAX;
/// Memory that checking a hashed password may ask for; Argon2's own recommendation is 19 MiB.
pub const HASH_MEMORY_MAX: Bytes = Bytes::mib(64);
/// Passes that checking a hashed password may ask for; Argon2's own recommendation is 2.
pub const HASH_PASSES_MAX: u32 = 16;
/// Bytes of one worker's receive buffer, shared by its connections.
pub const RECEIVE_BUFFER: usize = 64 << 10;
/// Where a request is known to need so many bytes more, these are read to where it is kept, without a copy: for less a call that could bring
/// what follows, too, is worth more.
pub const BEHIND_FROM: usize = 16 << 10;
/// Bytes that are read at once of a connection whose last request was a large one.
pub const RECEIVE_FIRST: usize = 4 << 10;
/// Buffers that io_uring receives into, per worker: streams that may have something at once; when they run out the others
/// are asked again in the next round.
pub const URING_BUFFERS: u16 = 128;
/// Bytes of one of them: a batch of requests; what is longer takes several.
pub const URING_BUFFER: usize = 2 << 10;
/// Where so many bytes of one stream arrive together, what follows is read by calls of its own, into the worker's buffer: many small
/// buffers of the ring cost more than a call, and a copy.
pub const URING_BULK: usize = 8 << 10;
/// After so many calls in a row that brought less the ring receives for it again (guess: ends of large requests are none).
pub const URING_CALLS: u8 = 8;
/// Bytes of replies that one worker hands to io_uring together; what does not fit is sent by a call of its own.
pub const URING_OUT: usize = 128 << 10;
/// Replies up to this size are handed over together; longer ones are sent at once, without a copy (guess: a copy of 16 KiB
/// costs about a system call).
pub const URING_SEND_MAX: usize = 16 << 10;
/// A socket of whose room io_uring does not tell, since the other side has ended what it sends, is asked again after this (guess).
pub const ROOM_POLL: Duration = Duration::from_millis(2);
/// Replies of a turn of so many requests and more go at once, not with the end of the round, where little of that is left (guess: a turn of
/// these takes longer than the call).
pub const SENT_AT_ONCE: usize = 8;
/// Little: fewer completions than this (guess: those of 64 streams with 16 requests each go better together, those of four
/// with 32 one by one; docs/decisions/2026-11-21-io-engine.md).
pub const FEW_LEFT: usize = 8;
/// Reply bytes collected before a turn ends, not counting the item that crosses the line.
pub const REPLY_BYTES_PER_TURN: usize = 256 << 10;
/// Replies up to so many bytes wait for those of the connection's next turn, so that one call sends both: a guess, that of
/// a few hundred small requests.
pub const OWED_MAX: usize = 16 << 10;
/// Bytes of a large value that are handed to a socket at once: of what it does not take, so much is copied at most.
pub const SEND_PIECE: usize = 256 << 10;
/// Such pieces of one connection in one round: others want their turn.
pub const PIECES_PER_ROUND: usize = 4;
/// Keys of one `get` that one turn looks at (guess: as many as are on the way ahead): of a line of a mebibyte no more is hashed than is
/// answered soon.
pub const KEYS_PER_TURN: usize = KEYS_AHEAD;
/// Turns that a connection takes in a row before others are listened for: some 500 requests.
pub const TURNS_IN_A_ROW: usize = 8;
/// Keys of one turn whose index lines and items are on the way before they are looked at, at most (guess: more than are answered in one).
pub const KEYS_AHEAD: usize = 1024;
/// Reads of one tier that one worker has under way at most.
pub const FETCH_DEPTH: u32 = 128;
/// Bytes that one worker fetches from tiers at once at most (guess: 16 of the largest items usual).
pub const FETCH_BYTES_MAX: usize = 16 << 20;
/// All workers together fetch this part of the memory at once at most, one in so many (guess: half of what buffers may take); but
/// one value is always fetched.
pub const FETCH_PART: u64 = 16;
/// Connections of a tenant that is paused at a tier, not for an experiment, ask again after this.
pub const PAUSED_POLL: Duration = Duration::from_millis(5);
/// Connections of a tenant that is held back for longer ask again after this: it may be held back less by then.
pub const HELD_POLL: Duration = Duration::from_millis(20);
/// Who waits no longer than this for tokens or for a tier is waited for without sleeping: a core of a virtual machine that sleeps takes about
/// as long to wake. The pauses of experiments, of a millisecond, are slept through: whoever is alone then has
/// the processor, too.
pub const AWAKE_FOR: Duration = Duration::from_micros(50);
/// Times that a request may wait for the same value; then it counts as a miss: it was moved each time.
pub const FETCHES_MAX: u8 = 4;
/// Values up to this size are copied into the reply buffer; larger ones are sent from the log.
pub const COPY_VALUE_MAX: usize = 2 << 10;

const _: () = assert!(TENANT_WATCHERS_MAX < TENANTS_WATCHERS_MAX);
const _: () = assert!(LINE_MAX < GET_LINE_MAX);
const _: () = assert!(KEY_MAX + 64 < LINE_MAX);
const _: () = assert!(AUTH_MESSAGE_MAX <= AUTH_LINE_MAX && AUTH_LINE_MAX <= LINE_MAX);
const _: () = assert!(LINE_MAX < RECEIVE_BUFFER);
const _: () = assert!(2 * USER_NAME_MAX + PASSWORD_MAX + 2 <= AUTH_MESSAGE_MAX);
/// Connections' buffers together take this part of the memory (and always room for two items), one in so many; then those
/// that need more wait. At twice as much connections are closed.
pub const BUFFER_PART: u64 = 8;
/// A connection's buffer up to this size waits for no memory: most incomplete requests fit.
pub const SMALL_BUFFER: usize = 4 << 10;
/// Milliseconds between looks for memory that another worker's connection gave back, while one waits for it (guess).
pub const STARVED_POLL_MS: u64 = 5;
/// Seconds of a tenant's rate that it may ask for at once where no burst is set (guess).
pub const BURST_SECS: u64 = 1;
/// How long a request waits for its tenant's tokens before it is refused (guess: clients give up sooner, and leave a connection behind that
/// nobody reads the end of while it waits).
pub const RATE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Seconds of silence after which a connection that holds memory for which others wait is closed (guess).
pub const STALL_SECS: u64 = 10;
/// Buffers are granted so much more at once, without waiting for the second's account (guess: the smallest segment).
pub const GRANT_STEP: u64 = 128 << 10;
/// Part of the memory granted to buffers that is kept from one second to the next when they take less: half of it is theirs for
/// 22 seconds (guess: a burst that comes again comes within that).
pub const GRANT_KEPT: (u64, u64) = (31, 32);
/// Events that one wait tells of at most.
pub const EVENTS_PER_WAIT: usize = 256;
/// Connections waiting for their worker at most.
pub const HANDOVER_QUEUE: usize = 4096;
/// Seconds that a draining server waits for connections to finish.
pub const DRAIN_SECS: u64 = 5;
/// Streams that one worker opens at once at most: PROXY headers and TLS handshakes that are not done.
pub const OPENINGS_MAX: usize = 256;
/// Seconds that the opening of a stream may take.
pub const OPENING_SECS: u64 = 10;
/// Where so many are being opened and others wait, who lets the server wait for longer makes room (guess: some round trips across the world).
pub const OPENING_PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks whether those who wait to be opened can be (guess).
pub const OPENING_POLL: Duration = Duration::from_millis(50);
/// Steps of TLS handshakes that a worker does in one round, between which other connections are served. A step with a
/// signature takes .1 (ECDSA) to 1 ms (RSA 2048); a guess between a burst's length and a neighbour's wait.
pub const HANDSHAKES_PER_ROUND: usize = 4;
/// Bytes of a PROXY header at most: its addresses, and what balancers add.
pub const PROXY_HEADER_MAX: usize = 1024;
/// Bytes that a stream may send before it is open.
pub const OPENING_BYTES_MAX: usize = RECEIVE_BUFFER + PROXY_HEADER_MAX;
/// Bytes of a TLS record at most (RFC 8446, 5.2; RFC 5246, 6.2.3).
pub const TLS_RECORD_MAX: usize = (16 << 10) + 2048 + 5;
/// Bytes accounted for a TLS session: 8 KiB measured, idle after its handshake, and what a record in parts needs on average.
pub const TLS_SESSION_BYTES: usize = 10 << 10;
/// Milliseconds that a draining server still reads from clients that were told the end: data left unread would make
/// the system take back the last replies.
pub const DRAIN_LINGER_MS: u64 = 200;
/// Decisions kept in memory for "why did this tenant shrink".
pub const JOURNAL_RECORDS: usize = 1024;
/// Rows of tenants in those decisions together: about 2 MiB while claims stay the same, twice that where each decision has others. With more than eight tenants fewer decisions are kept.
pub const JOURNAL_ROWS: usize = 8 * JOURNAL_RECORDS;
/// Bytes of curves in decisions over memory and bandwidth together. A curve has some hundred points, so that eight
/// tenants leave room for about a hundred decisions.
pub const JOURNAL_CURVES: usize = 4 << 20;
/// A decision is due after so many shadow hits (or a second, whichever comes first).
pub const SHADOW_HITS_PER_DECISION: u64 = 64;
/// Bytes of a request's body to the administration at most: some settings of one tenant.
pub const ADMIN_BODY_MAX: usize = 64 << 10;
/// Connections to the administration at once: some dashboards, scrapers and people. Others wait.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Seconds after which a connection to the administration ends on which nothing was answered (guess: longer than the time
/// between two scrapes, mostly).
pub const ADMIN_QUIET_SECS: u64 = 90;
/// Bytes of an answer that the administration's client takes at most: as many tenants as can be, of up to 3 KiB each. One is told in one to two.
pub const ADMIN_ANSWER_MAX: usize = 192 << 20;
const _: () = assert!(3 * 1024 * TENANTS_MAX <= ADMIN_ANSWER_MAX);

// What is observed of requests.
/// Buckets of a histogram of times: up to 33 seconds.
pub const LATENCY_BUCKETS: usize = 96;
/// Keys that are counted for each tenant.
pub const HOT_KEYS: usize = 16;
/// One key in so many is counted among the hot ones (guess: 1,000 samples a second at 64,000 requests a second).
pub const HOT_SAMPLING: u32 = 64;
/// Seconds after which half of the counts of hot keys is forgotten (guess: what is hot is a matter of minutes).
pub const HOT_HALVING_SECS: u64 = 60;
/// Runs of requests that a worker collects before it adds them to the tables, and sampled keys likewise.
pub const PENDING_RUNS: usize = 512;
/// Sampled keys that a worker collects before it adds them to the tables.
pub const PENDING_KEYS: usize = 64;
/// The tables take this part of the memory at most, one in so many; tenants that come later are not observed one by one.
pub const OBSERVED_PART: u64 = 32;
/// With more tenants than these `/metrics` tells how long requests took by class only: a thousand tenants' histograms are
/// megabytes at every scrape (guess: as many series as dashboards draw).
pub const LATENCY_TENANTS_MAX: usize = 100;
/// Slow requests that are kept.
pub const SLOW_RECORDS: usize = 128;
/// Slow requests that are kept in one second at most; the others are counted only.
pub const SLOW_PER_SECOND: u32 = 64;
/// Bytes of a slow request's key that are kept.
pub const SLOW_KEY_MAX: usize = 64;
/// Weights of tenants and groups: sums of them, and their parts, are far from what numbers can say.
pub const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-12..=1e12;
