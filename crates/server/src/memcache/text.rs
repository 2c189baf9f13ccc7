//! The classic text protocol's requests, executed.
//!
//! Invariants: a write that finds no room has had no effect

use super::meta;
use super::parse::{Command, Effect, GetKind};
use super::reply::{Replies, text};
use super::turn::{Ended, Session};
use crate::limits::KEY_MAX;
use crate::stats;
use crate::tenants::Binding;
use std::sync::atomic::Ordering;
use store::{Counted, Fields, Key, Mode, Refused, Stored, Worker};
use units::{Bytes, TenantId};

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
        (Command::Meta(request), key) => return meta::execute(session, worker, &request, key, replies),
        (command, _) => return administer(session, command, replies),
    }
    Ok(())
}

/// What a data block that cannot be stored does all the same.
pub(super) fn refuse(session: &Session<'_>, worker: &Worker, effect: Effect<'_>) {
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
        Effect::TooLargeBase64(key) => {
            if let Some(key) = meta::decode(key, &mut [0; KEY_MAX]) {
                refuse(session, worker, Effect::TooLarge(Some(key)));
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
        Command::MetaNoOp => replies.put(text::META_NO_OP),
        Command::Quit => return Err(Ended::Quit),
        Command::Wrong(reply) => replies.put(reply),
        // A store without a hashed key cannot be: the parser has checked it.
        _ => {}
    }
    Ok(())
}
