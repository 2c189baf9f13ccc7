//! One turn of a connection: as many complete requests of its input as fairness allows, executed as one batch.
//!
//! Shape:      parse all -> hash all keys and prefetch their index lines -> prefetch their items -> execute in order
//! Invariants: replies are in the order of the requests; a turn ends early when a write finds no room, before that
//!             write has had any effect
//! Source:     the pass over all index lines, then all items, hides two cache misses per request

use super::parse::{Bounds, Command, Effect, GetKind, Parsed, keys, parse};
use super::reply::{Replies, text};
use crate::limits::REPLY_BYTES_PER_TURN;
use crate::shared::Shared;
use crate::stats;
use crate::tenants::{Binding, Router};
use std::sync::atomic::Ordering;
use store::{Counted, Fields, Key, Mode, Refused, Stored, Worker};
use units::{Bytes, TenantId};

/// memcached takes longer times for dates.
const RELATIVE_MAX_SECS: i64 = 60 * 60 * 24 * 30;
/// A second of the store's clock that has passed.
const PAST: u32 = 1;
/// Pieces of one gathering write, Linux's IOV_MAX.
const PIECES_MAX: usize = 1024;

/// Where a turn happens.
#[derive(Debug)]
pub(crate) struct Session<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) router: &'s Router,
    pub(crate) binding: Binding,
    pub(crate) bounds: Bounds,
    pub(crate) requests_max: usize,
    /// The last attempt found no room and making room failed: the next write answers so.
    pub(crate) is_out_of_memory: bool,
}

/// What a turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Turn {
    /// Bytes of the input that are done with.
    pub(crate) consumed: usize,
    /// Bytes of the stream to skip beyond the input.
    pub(crate) skip: u64,
    /// Bytes needed before there is another request, if that is known to be more than what is here.
    pub(crate) needed: usize,
    /// Requests executed.
    pub(crate) requests: usize,
    /// It stopped for fairness: more may be complete.
    pub(crate) more: bool,
    /// It stopped because a write needs room.
    pub(crate) needs_room: bool,
    /// The client asked for the end, or is none.
    pub(crate) close: bool,
}

/// A parsed request with its keys hashed.
struct Prepared<'b> {
    command: Step<'b>,
    /// Bytes of input up to its end.
    end: usize,
    /// Its keys in the list of hashed keys.
    keys: (usize, usize),
}

enum Step<'b> {
    Run(Command<'b>),
    Refuse { reply: Option<&'static [u8]>, effect: Effect<'b> },
}

/// Runs a turn over `input`.
pub(crate) fn run<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    input: &[u8],
    replies: &mut Replies<'w>,
) -> Turn {
    let mut turn = Turn::default();
    let mut batch = Vec::with_capacity(session.requests_max.min(64));
    let mut hashed = Vec::with_capacity(session.requests_max.min(64));
    prepare(session, worker, input, &mut turn, &mut batch, &mut hashed);
    for (key, _) in &hashed {
        worker.prefetch_item(key);
    }
    for (i, prepared) in batch.iter().enumerate() {
        let full = REPLY_BYTES_PER_TURN < replies.len() || PIECES_MAX < replies.pieces() + 2;
        if full && 0 < i {
            turn.stop_before(&batch, i);
            turn.more = true;
            break;
        }
        let keys = &hashed[prepared.keys.0..prepared.keys.1];
        match execute(session, worker, prepared, keys, replies) {
            Ok(()) => turn.requests += 1,
            Err(Ended::NeedsRoom) => {
                turn.stop_before(&batch, i);
                turn.needs_room = true;
                break;
            }
            Err(Ended::Quit) => {
                turn.close = true;
                break;
            }
        }
    }
    turn
}

impl Turn {
    fn stop_before(&mut self, batch: &[Prepared<'_>], i: usize) {
        self.consumed = if i == 0 { 0 } else { batch[i - 1].end };
        self.skip = 0;
        self.needed = 0;
        self.close = false;
    }
}

/// Parses what is complete, hashes the keys and prefetches their index lines.
fn prepare<'b>(
    session: &Session<'_>,
    worker: &Worker,
    input: &'b [u8],
    turn: &mut Turn,
    batch: &mut Vec<Prepared<'b>>,
    hashed: &mut Vec<(Key<'b>, TenantId)>,
) {
    while turn.consumed < input.len() {
        if batch.len() == session.requests_max {
            turn.more = true;
            return;
        }
        let first = hashed.len();
        match parse(&input[turn.consumed..], &session.bounds) {
            Parsed::Request(command, taken) => {
                turn.consumed += taken;
                hash_keys(session, worker, &command, hashed);
                let keys = (first, hashed.len());
                batch.push(Prepared { command: Step::Run(command), end: turn.consumed, keys });
            }
            Parsed::Refused { reply, effect, skip } => {
                let here = usize::try_from(skip).unwrap_or(usize::MAX).min(input.len() - turn.consumed);
                turn.consumed += here;
                turn.skip = skip - here as u64;
                let command = Step::Refuse { reply, effect };
                batch.push(Prepared { command, end: turn.consumed, keys: (first, first) });
            }
            Parsed::Incomplete(needed) => {
                turn.needed = needed;
                return;
            }
            Parsed::Hopeless => {
                turn.close = true;
                return;
            }
        }
    }
}

fn hash_keys<'b>(
    session: &Session<'_>,
    worker: &Worker,
    command: &Command<'b>,
    hashed: &mut Vec<(Key<'b>, TenantId)>,
) {
    let mut add = |text: &'b [u8]| {
        let (tenant, space) = session.router.route(&session.binding, text);
        if let Some(key) = worker.key(space, text) {
            worker.prefetch_index(&key);
            hashed.push((key, tenant));
        }
    };
    match *command {
        Command::Get { keys: list, .. } => keys(list).for_each(add),
        Command::Store { key, .. }
        | Command::Delete { key, .. }
        | Command::Count { key, .. }
        | Command::Touch { key, .. } => add(key),
        _ => {}
    }
}

/// Why a turn ends before its input.
enum Ended {
    NeedsRoom,
    Quit,
}

/// The answer to a write that was refused, or the end of the turn. A `set` takes the older item of its key along.
fn refused(
    session: &Session<'_>,
    worker: &Worker,
    (key, tenant): &(Key<'_>, TenantId),
    refused: Refused,
    is_set: bool,
) -> Result<&'static [u8], Ended> {
    match refused {
        Refused::TooLarge => Ok(text::TOO_LARGE),
        Refused::OverShare => Ok(text::OUT_OF_MEMORY),
        Refused::NoRoom if session.is_out_of_memory => {
            worker.note_no_memory(*tenant, is_set.then_some(key));
            Ok(text::OUT_OF_MEMORY)
        }
        Refused::NoRoom => Err(Ended::NeedsRoom),
    }
}

fn execute<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    prepared: &Prepared<'_>,
    hashed: &[(Key<'_>, TenantId)],
    replies: &mut Replies<'w>,
) -> Result<(), Ended> {
    let command = match &prepared.command {
        Step::Run(command) => command,
        Step::Refuse { reply, effect } => {
            refuse(session, worker, *effect);
            replies.put(reply.unwrap_or_default());
            return Ok(());
        }
    };
    let mut answer = |noreply: bool, reply: &[u8]| {
        if !noreply {
            replies.put(reply);
        }
    };
    match (*command, hashed.first()) {
        (Command::Get { kind, touch, .. }, _) => return get(session, worker, (kind, touch), hashed, replies),
        (Command::Store { mode, key, flags, exptime, value, noreply }, Some((hash, tenant))) => {
            let tenant = match mode {
                Mode::Set | Mode::Add => session.router.route_for_store(&session.binding, key, *tenant),
                _ => *tenant,
            };
            let fields = Fields { client_flags: flags, expires_at: session.shared.expires_at(exptime) };
            let reply = match worker.set(tenant, hash, mode, fields, value) {
                Ok(Stored::Stored) => text::STORED,
                Ok(Stored::NotStored) => text::NOT_STORED,
                Ok(Stored::Exists) => text::EXISTS,
                Ok(Stored::NotFound) => text::NOT_FOUND,
                Err(Refused::TooLarge) if matches!(mode, Mode::Append | Mode::Prepend) => text::NOT_STORED,
                Err(why) => refused(session, worker, &(*hash, tenant), why, mode == Mode::Set)?,
            };
            answer(noreply, reply);
        }
        (Command::Delete { noreply, .. }, Some((hash, tenant))) => {
            let reply = if worker.delete(*tenant, hash) { text::DELETED } else { text::NOT_FOUND };
            answer(noreply, reply);
        }
        (Command::Count { delta, up, noreply, .. }, Some((hash, tenant))) => {
            match worker.count_by(*tenant, hash, delta, up) {
                Ok(Counted::Value(value)) if !noreply => {
                    replies.put_number(value);
                    replies.put(b"\r\n");
                }
                Ok(Counted::Value(_)) => {}
                Ok(Counted::NotFound) => answer(noreply, text::NOT_FOUND),
                Ok(Counted::NotNumber) => answer(noreply, text::NOT_NUMBER),
                Err(why) => answer(noreply, refused(session, worker, &(*hash, *tenant), why, false)?),
            }
        }
        (Command::Touch { exptime, noreply, .. }, Some((hash, tenant))) => {
            let reply = match worker.touch(*tenant, hash, session.shared.expires_at(exptime)) {
                Ok(true) => text::TOUCHED,
                Ok(false) => text::NOT_FOUND,
                Err(why) => refused(session, worker, &(*hash, *tenant), why, false)?,
            };
            answer(noreply, reply);
        }
        (command, _) => return administer(session, command, replies),
    }
    Ok(())
}

/// What a data block that cannot be stored does all the same.
fn refuse(session: &Session<'_>, worker: &Worker, effect: Effect<'_>) {
    match effect {
        Effect::None => {}
        Effect::TooLarge(remove) => {
            session.shared.counters.store_too_large.fetch_add(1, Ordering::Relaxed);
            if let Some(text) = remove
                && let Some(key) = worker.key(session.router.route(&session.binding, text).1, text)
            {
                worker.discard(&key);
            }
        }
        Effect::BadChunk(key) => worker.note_refused_set(session.router.route(&session.binding, key).0),
    }
}

fn get<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    (kind, touch): (GetKind, Option<i64>),
    keys: &[(Key<'_>, TenantId)],
    replies: &mut Replies<'w>,
) -> Result<(), Ended> {
    let with_cas = kind == GetKind::WithCas;
    for (key, tenant) in keys {
        let item = match touch {
            None => worker.get(*tenant, key),
            Some(exptime) => match worker.touch(*tenant, key, session.shared.expires_at(exptime)) {
                // `gat` to a time that has passed still answers with the value.
                Ok(true) => worker.peek_dead(key),
                Ok(false) => None,
                Err(why) => {
                    refused(session, worker, &(*key, *tenant), why, false)?;
                    None
                }
            },
        };
        if let Some(item) = item {
            replies.put_value(key.bytes(), &item, with_cas);
        }
    }
    replies.put(text::END);
    Ok(())
}

/// Commands that are not about one item.
fn administer(session: &Session<'_>, command: Command<'_>, replies: &mut Replies<'_>) -> Result<(), Ended> {
    match command {
        Command::Flush { delay, noreply } => {
            session.shared.counters.cmd_flush.fetch_add(1, Ordering::Relaxed);
            session.router.flush(&session.binding, session.shared.expires_at(delay));
            if !noreply {
                replies.put(text::OK);
            }
        }
        Command::Verbosity { noreply: false } => replies.put(text::OK),
        Command::MemoryLimit { mebibytes, noreply } => {
            let wanted = Bytes(mebibytes.saturating_mul(1 << 20));
            let changed = session.binding == Binding::Unbound && session.shared.set_memory_limit(wanted);
            if !noreply {
                replies.put(if changed { text::OK } else { text::MEMLIMIT_FAILED });
            }
        }
        Command::Version => {
            replies.put(b"VERSION ");
            replies.put(session.shared.config.version.as_bytes());
            replies.put(b"\r\n");
        }
        Command::Stats(what) => {
            replies.put(&stats::answer(session.shared, session.router, &session.binding, what))
        }
        Command::Quit => return Err(Ended::Quit),
        Command::Wrong(reply) => replies.put(reply),
        // A store without a hashed key cannot be: the parser has checked it.
        _ => {}
    }
    Ok(())
}

/// memcached's exptime as a second of the store's clock: 0 for never, relative up to 30 days, a date beyond.
pub(crate) fn expires_at(exptime: i64, now_secs: u32, unix_now_secs: i64) -> u32 {
    let relative = match exptime {
        0 => return 0,
        ..0 => return PAST,
        1..=RELATIVE_MAX_SECS => exptime,
        date => date - unix_now_secs,
    };
    if relative <= 0 {
        return PAST;
    }
    u32::try_from(relative.saturating_add(i64::from(now_secs))).unwrap_or(u32::MAX)
}
