//! The classic text protocol's requests, executed.
//!
//! Invariants: a write that finds no room has had no effect

use super::exptime::seconds_left;
use super::parse::{Command, Effect, GetKind};
use super::reply::{Replies, text};
use super::session::{Session, note_no_memory, or_lost};
use super::turn::{Ended, is_full};
use super::{meta, operate};
use crate::connection::Parting;
use crate::limits::{KEY_MAX, MEMORY_MIN};
use crate::stats;
use crate::tenants::Binding;
use crate::watch::{Looked, Reporter, StoredItem, interest};
use std::sync::atomic::Ordering;
use store::{Counted, Fields, Item, Key, Mode, Refused, Stored, Worker};
use units::{Bytes, TenantId};

/// The answer to a write that was refused, or the end of the turn. A `set` takes the older item of its key along.
pub(super) fn refused(
    session: &Session<'_>,
    worker: &Worker,
    (key, tenant): &(Key<'_>, TenantId),
    refused: Refused,
    is_set: bool,
) -> Result<&'static [u8], Ended> {
    match refused {
        _ if !session.is_final(refused) => Err(Ended::NeedsRoom),
        Refused::TooLarge => Ok(text::TOO_LARGE),
        Refused::OverShare => Ok(text::OUT_OF_MEMORY),
        Refused::NoRoom | Refused::Away => {
            note_no_memory(worker, *tenant, is_set.then_some(key));
            Ok(text::OUT_OF_MEMORY)
        }
    }
}

/// Executes one request.
pub(super) fn execute<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    command: Command<'_>,
    hashed: &[(Key<'_>, TenantId)],
    replies: &mut Replies<'w>,
) -> Result<(), Ended> {
    let mut answer = |noreply: bool, reply: &[u8]| {
        if !noreply {
            replies.put(reply);
        }
    };
    match (command, hashed.first()) {
        (Command::Get { kind, touch, goes_on, .. }, _) => {
            return get(session, worker, (kind, touch), (hashed, goes_on), replies);
        }
        (Command::Store { mode, key, flags, exptime, value, noreply }, Some((hash, tenant))) => {
            let tenant = match mode {
                Mode::Set | Mode::Add => session.router.route_for_store(&session.binding, key, *tenant),
                _ => *tenant,
            };
            let fields = Fields { client_flags: flags, expires_at: session.expires_at(tenant, exptime) };
            let stored = session
                .allows_size(worker, (hash, tenant), mode, value.len())
                .and_then(|()| worker.set(tenant, hash, mode, fields, value));
            if let Some(reporter) = session.reporter(interest::MUTATIONS, tenant) {
                let told = (mode, fields.expires_at, value.len());
                tell_stored(session, &reporter, &(*hash, tenant), stored, told);
            }
            let reply = match stored {
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
            let deleted = worker.delete(*tenant, hash);
            if deleted && let Some(reporter) = session.reporter(interest::DELETIONS, *tenant) {
                reporter.deleted(*tenant, hash.bytes(), "delete");
            }
            answer(noreply, if deleted { text::DELETED } else { text::NOT_FOUND });
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
            let reply = match worker.touch(*tenant, hash, session.expires_at(*tenant, exptime)) {
                Ok(true) => text::TOUCHED,
                Ok(false) => text::NOT_FOUND,
                Err(why) => refused(session, worker, &(*hash, *tenant), why, false)?,
            };
            answer(noreply, reply);
        }
        (Command::Operate(word, rest), _) => replies.put(operate::execute(session, word, rest)?),
        (Command::Stats(what), _) => {
            replies.put(&stats::answer(session.shared, session.router, worker, &session.binding, what));
        }
        (Command::Meta(request), key) => return meta::execute(session, worker, &request, key, replies),
        (command, _) => return administer(session, command, replies),
    }
    Ok(())
}

/// Answers that there was no memory for a value on its way in. The older item of a `set` goes, too.
pub(super) fn lose(
    session: &Session<'_>,
    worker: &Worker,
    command: Command<'_>,
    hashed: &[(Key<'_>, TenantId)],
    replies: &mut Replies<'_>,
) {
    match (command, hashed.first()) {
        (Command::Store { mode, noreply, .. }, Some((key, tenant))) => {
            worker.note_no_memory(*tenant, (mode == Mode::Set).then_some(key));
            if !noreply {
                replies.put(text::OUT_OF_MEMORY);
            }
        }
        (Command::Meta(request), key) => meta::lose(session, worker, &request, key, replies),
        _ => {}
    }
}

/// Tells those who watch of a store. A write that waits for room is told when it comes again.
pub(super) fn tell_stored(
    session: &Session<'_>,
    reporter: &Reporter<'_>,
    (key, tenant): &(Key<'_>, TenantId),
    stored: Result<Stored, Refused>,
    (mode, expires_at, value_len): (Mode, u32, usize),
) {
    let status = match stored {
        Ok(Stored::Stored) => "stored",
        Ok(Stored::NotStored) => "not_stored",
        Ok(Stored::Exists) => "exists",
        Ok(Stored::NotFound) => "not_found",
        Err(Refused::TooLarge) => "too_large",
        Err(why) if !session.is_final(why) => return,
        Err(Refused::NoRoom | Refused::Away | Refused::OverShare) => "no_memory",
    };
    let command = command_of(mode);
    let ttl_secs = seconds_left(expires_at, session.shared.store.now_secs());
    let item = StoredItem { key: key.bytes(), status, command, ttl_secs, value_len };
    reporter.stored(*tenant, &item);
}

/// Tells those who watch of a counter that was made.
pub(super) fn tell_made(session: &Session<'_>, keyed: &(Key<'_>, TenantId), value: u64, expires_at: u32) {
    if let Some(reporter) = session.reporter(interest::MUTATIONS, keyed.1) {
        let value_len = itoa::Buffer::new().format(value).len();
        tell_stored(session, &reporter, keyed, Ok(Stored::Stored), (Mode::Add, expires_at, value_len));
    }
}

/// What those who watch are told of how an item was to be stored.
fn command_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Set => "set",
        Mode::Add => "add",
        Mode::Replace => "replace",
        Mode::Append => "append",
        Mode::Prepend => "prepend",
        Mode::Cas(_) => "cas",
    }
}

/// What a data block that cannot be stored does all the same.
pub(super) fn refuse(session: &Session<'_>, worker: &Worker, effect: Effect<'_>) {
    let mut decoded = [0; KEY_MAX];
    match effect {
        Effect::None => {}
        Effect::TooLarge { key, mode, takes_older } => {
            let Some(key) = key.text(&mut decoded) else { return };
            let (tenant, space) = session.router.route(&session.binding, key);
            worker.note_too_large(tenant);
            if let Some(reporter) = session.reporter(interest::MUTATIONS, tenant) {
                // As memcached, which has no item to say more of.
                let (status, command) = ("too_large", command_of(mode));
                reporter.stored(tenant, &StoredItem { key, status, command, ttl_secs: 0, value_len: 0 });
            }
            if let Some(key) = worker.key(space, key).filter(|_| takes_older) {
                worker.discard(&key);
            }
        }
        Effect::BadChunk(key) => {
            if let Some(key) = key.text(&mut decoded) {
                worker.note_refused_set(session.router.route(&session.binding, key).0);
            }
        }
    }
}

fn get<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    (kind, touch): (GetKind, Option<i64>),
    (keys, goes_on): (&[(Key<'_>, TenantId)], bool),
    replies: &mut Replies<'w>,
) -> Result<(), Ended> {
    let with_cas = kind == GetKind::WithCas;
    let ready = if 1 < keys.len() || touch.is_some() { ready(session, worker, keys)? } else { keys.len() };
    for (done, (key, tenant)) in keys[..ready].iter().enumerate() {
        if 0 < done && is_full(replies) {
            return Err(Ended::Portion(done));
        }
        let item = match touch {
            None => session.look_up(worker, *tenant, key),
            Some(exptime) => get_and_touch(session, worker, &(*key, *tenant), exptime),
        };
        let item = match item {
            Ok(item) => item,
            // What has been answered stays so.
            Err(Ended::NeedsRoom) if 0 < done => return Err(Ended::Portion(done)),
            Err(why) => return Err(why),
        };
        if let Some(reporter) = session.reporter(interest::FETCHERS, *tenant) {
            let found = item.map(|item| (item.class(), item.value_len()));
            let death = worker.death_of(key).filter(|_| item.is_none());
            reporter.looked(*tenant, &Looked { key: key.bytes(), found, death });
        }
        if let Some(item) = item.filter(|_| kind != GetKind::Wrong) {
            replies.put_value(key.bytes(), &item, with_cas);
        }
    }
    if ready < keys.len() || goes_on {
        return Err(Ended::Portion(ready));
    }
    replies.put(if kind == GetKind::Wrong { text::BAD_FORMAT } else { text::END });
    Ok(())
}

/// `gat` to a time that has passed still answers with the value, and so does one for which there is no room: the item stays as it is.
fn get_and_touch<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    keyed: &(Key<'_>, TenantId),
    exptime: i64,
) -> Result<Option<Item<'w>>, Ended> {
    let (key, tenant) = keyed;
    match worker.get_and_touch(*tenant, key, session.expires_at(*tenant, exptime)) {
        Err(why) if !session.is_lost(why) => {
            refused(session, worker, keyed, why, false).map(|_reply| worker.get(*tenant, key))
        }
        item => Ok(or_lost(worker, *tenant, item)),
    }
}

/// How many of the first keys can be answered: keys are counted one by one, and each once. Those whose values are away wait for
/// them; one that has waited long enough is missed.
fn ready(session: &Session<'_>, worker: &Worker, keys: &[(Key<'_>, TenantId)]) -> Result<usize, Ended> {
    let first_away = |keys: &[(Key<'_>, TenantId)]| {
        worker.first_away(keys.iter().map(|(key, _)| key)).unwrap_or(keys.len())
    };
    match first_away(keys) {
        0 if session.may_fetch.get() => Err(Ended::NeedsRoom),
        first if session.may_fetch.get() || first == keys.len() => Ok(first),
        missed => Ok(missed + 1 + first_away(&keys[missed + 1..])),
    }
}

/// A larger limit was meant as bytes, as in memcached.
const MEBIBYTES_MAX: u64 = 1_000_000_000;

/// `cache_memlimit`
fn limit_memory(session: &Session<'_>, mebibytes: u64) -> &'static [u8] {
    let wanted = Bytes(mebibytes.saturating_mul(1 << 20));
    if session.binding != Binding::Unbound {
        text::NOT_FOR_TENANTS
    } else if wanted < MEMORY_MIN {
        text::MEMLIMIT_SMALL
    } else if MEBIBYTES_MAX < mebibytes {
        text::MEMLIMIT_BYTES
    } else if session.shared.set_memory_limit(wanted) {
        // Who divides the memory is to hear of it now.
        session.router.has_new_tenant.store(true, Ordering::Release);
        text::OK
    } else {
        text::MEMLIMIT_FAILED
    }
}

/// Commands that are not about one item.
fn administer(session: &Session<'_>, command: Command<'_>, replies: &mut Replies<'_>) -> Result<(), Ended> {
    match command {
        Command::Flush { delay, noreply } => {
            session.flush(delay);
            if !noreply {
                replies.put(text::OK);
            }
        }
        Command::Verbosity { noreply: false } => replies.put(text::OK),
        Command::MemoryLimit { mebibytes, noreply } => {
            let answer = limit_memory(session, mebibytes);
            if !noreply {
                replies.put(answer);
            }
        }
        Command::Version => {
            replies.put(b"VERSION ");
            replies.put(session.shared.config.version.as_bytes());
            replies.put(b"\r\n");
        }
        Command::RefreshCerts if session.binding != Binding::Unbound => replies.put(text::NOT_FOR_TENANTS),
        Command::RefreshCerts => match session.shared.reload_keys() {
            Ok(true) => replies.put(text::OK),
            Ok(false) => replies.put(text::TLS_OFF),
            Err(e) => {
                tracing::warn!("the TLS certificates cannot be read again: {e}");
                replies.put(format!("Error {e}\r\n").as_bytes());
            }
        },
        Command::MetaNoOp => replies.put(text::META_NO_OP),
        Command::Quit => return Err(Ended::Quit(Parting::Normal)),
        Command::Wrong(reply) => replies.put(reply),
        // A store without a hashed key cannot be: the parser has checked it.
        _ => {}
    }
    Ok(())
}
