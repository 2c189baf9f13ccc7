//! The meta protocol's requests, executed.
//!
//! Invariants: a write that finds no room has had no effect, and nothing was replied; flags of a reply stand in the order
//!             of the request's
//! Source:     memcached 1.6.45

use super::{Request, Verb, decode, encode_into};
use crate::auth::Need;
use crate::limits::KEY_MAX;
use crate::memcache::exptime::seconds_left;
use crate::memcache::reply::{Replies, text};
use crate::memcache::session::{Session, note_no_memory, or_lost};
use crate::memcache::text::{tell_made, tell_stored};
use crate::memcache::turn::{Ended, WaitsFor, held};
use crate::watch::{Looked, interest};
use store::{
    Count, CountedIf, Fetch, Fetched, Fields, Key, Mode, Refused, Removal, Remove, Removed, Stored, Worker,
    Write, Written,
};
use units::TenantId;

/// Whose item it is about.
#[derive(Clone, Copy)]
struct Target<'k> {
    key: Key<'k>,
    tenant: TenantId,
}

/// Executes one request; `hashed` is its key unless that is in base64.
pub(in crate::memcache) fn execute<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    request: &Request<'_>,
    hashed: Option<&(Key<'_>, TenantId)>,
    replies: &mut Replies<'w>,
) -> Result<(), Ended> {
    let mut decoded = [0; KEY_MAX];
    let target = match hashed {
        Some((key, tenant)) => Target { key: *key, tenant: *tenant },
        None => {
            let Some(bytes) = decode(request.key, &mut decoded) else { return Ok(()) };
            let (tenant, space) = session.router.route(&session.binding, bytes);
            let Some(key) = worker.key(space, bytes) else { return Ok(()) };
            // Other keys are known, and were asked for, before a request is executed.
            let until = held(session, worker, request.operation().class(), &[(key, tenant)]);
            if let Some(until) = until.filter(|_| !session.is_fetched.get()) {
                return Err(Ended::Waits(until, WaitsFor::Tier));
            }
            Target { key, tenant }
        }
    };
    let done = match request.verb {
        Verb::Get => get(session, worker, request, target, replies),
        Verb::Set => set(session, worker, request, target, replies),
        Verb::Delete => delete(session, worker, request, target, replies),
        Verb::Arithmetic => count(session, worker, request, target, replies),
        Verb::Debug => {
            describe(session, worker, target, replies);
            Ok(())
        }
    };
    // As memcached, which counts no other command of the protocol.
    if request.verb == Verb::Debug {
        worker.note_meta(target.tenant);
    }
    done
}

/// The answer to a write that was refused for good, or the end of the turn.
fn refused(
    session: &Session<'_>,
    worker: &Worker,
    target: Target<'_>,
    why: Refused,
    no_memory: &'static [u8],
) -> Result<&'static [u8], Ended> {
    match why {
        _ if !session.is_final(why) => Err(Ended::NeedsRoom),
        Refused::NoRoom | Refused::Away => {
            note_no_memory(worker, target.tenant, None);
            Ok(no_memory)
        }
        Refused::OverShare => Ok(no_memory),
        Refused::TooLarge => Ok(text::TOO_LARGE),
    }
}

/// Answers that there was no memory for a value on its way in.
pub(in crate::memcache) fn lose(
    session: &Session<'_>,
    worker: &Worker,
    request: &Request<'_>,
    hashed: Option<&(Key<'_>, TenantId)>,
    replies: &mut Replies<'_>,
) {
    let mut decoded = [0; KEY_MAX];
    let key = if hashed.is_some() { None } else { decode(request.key, &mut decoded) };
    if let Some((key, tenant)) = hashed {
        worker.note_no_memory(*tenant, Some(key));
    } else if let Some(bytes) = key {
        let (tenant, space) = session.router.route(&session.binding, bytes);
        worker.note_no_memory(tenant, worker.key(space, bytes).as_ref());
    }
    replies.put(text::OUT_OF_MEMORY);
}

fn get<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    request: &Request<'_>,
    target: Target<'_>,
    replies: &mut Replies<'w>,
) -> Result<(), Ended> {
    let flags = &request.flags;
    let expires_at = |ttl: i32| session.expires_at(target.tenant, ttl.into());
    let touch = flags.touch().map(expires_at);
    let vivify = flags.given(b'N', flags.vivify).map(expires_at);
    let how = Fetch {
        touch,
        vivify: vivify.map(|at| touch.filter(|_| flags.ttl_after_vivify).unwrap_or(at)),
        cas: flags.given(b'E', flags.cas),
        recache_before: flags.given(b'R', flags.recache).map(|ttl| session.shared.expires_at(ttl.into())),
        touch_first: flags.ttl_before_recache,
        no_use: flags.is_no_use(),
        binary_key: flags.has(b'b'),
        no_value: !flags.has(b'v'),
        no_win: is_reader(session),
        unanswered: flags.opaque_too_long,
    };
    let tenant = match vivify {
        Some(_) => session.router.route_for_store(&session.binding, target.key.bytes(), target.tenant),
        None => target.tenant,
    };
    let reporter = session.reporter(interest::FETCHERS, tenant);
    // Before a new item may take its place.
    let death = reporter.and_then(|_| worker.death_of(&target.key));
    let fetched = match worker.fetch(tenant, &target.key, &how) {
        Ok(fetched) => fetched,
        Err(why) if session.is_lost(why) => or_lost(worker, tenant, Err(why)),
        // memcached takes an item that cannot be made for a miss; one that cannot be marked stays as it is.
        Err(why) => {
            refused(session, worker, Target { tenant, ..target }, why, text::OUT_OF_MEMORY)?;
            let plain = Fetch { touch: None, vivify: None, no_win: true, ..how };
            or_lost(worker, tenant, worker.fetch(tenant, &target.key, &plain))
        }
    };
    if let Some(reporter) = reporter {
        let found = fetched.filter(|f| !f.created).map(|f| (f.was.item.class(), f.was.item.value_len()));
        reporter.looked(tenant, &Looked { key: target.key.bytes(), found, death });
    }
    match fetched {
        _ if flags.opaque_too_long => replies.put(text::OPAQUE_TOO_LONG),
        None if flags.has(b'q') => {}
        None => put_short(replies, b"EN", request, target),
        Some(fetched) => put_fetched(session, worker, request, &fetched, (touch, vivify), replies),
    }
    Ok(())
}

/// Whether it asks for somebody who cannot store anything, and so is nobody to be told to.
fn is_reader(session: &Session<'_>) -> bool {
    session.identity.denies(Need::Write).is_some()
}

fn put_fetched<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    request: &Request<'_>,
    fetched: &Fetched<'w>,
    (touch, vivify): (Option<u32>, Option<u32>),
    replies: &mut Replies<'w>,
) {
    let item = &fetched.was.item;
    let value_len = item.value_len();
    if request.flags.has(b'v') {
        replies.put(b"VA ");
        replies.put_number(value_len as u64);
    } else {
        replies.put(b"HD");
    }
    let mut expires_at = if fetched.created { 0 } else { item.expires_at() };
    for (letter, word) in request.tokens() {
        match letter {
            b'T' => expires_at = touch.unwrap_or(expires_at),
            b'N' if fetched.created => expires_at = vivify.unwrap_or(expires_at),
            b's' => put_flag(replies, b's', value_len as u64),
            b't' => put_ttl(replies, session, expires_at),
            b'c' => put_flag(replies, b'c', item.cas()),
            b'f' => put_flag(replies, b'f', item.client_flags().into()),
            b'l' => {
                let used = worker.used_secs(&fetched.was);
                put_flag(replies, b'l', session.shared.store.now_secs().saturating_sub(used).into());
            }
            b'h' => put_flag(replies, b'h', u64::from(fetched.was.fetched && !fetched.created)),
            b'O' => put_word(replies, word),
            b'k' => put_key(replies, item.key(), item.has_binary_key()),
            _ => {}
        }
    }
    if fetched.token_was_sent() || fetched.is_stale() && is_reader(session) {
        replies.put(b" Z");
    }
    if fetched.is_stale() {
        replies.put(b" X");
    }
    if fetched.won {
        replies.put(b" W");
    }
    replies.put(b"\r\n");
    if request.flags.has(b'v') {
        replies.put_body(item);
    }
}

fn set(
    session: &Session<'_>,
    worker: &Worker,
    request: &Request<'_>,
    target: Target<'_>,
    replies: &mut Replies<'_>,
) -> Result<(), Ended> {
    let flags = &request.flags;
    let mode = flags.store_mode();
    let is_joined = matches!(mode, Mode::Append | Mode::Prepend);
    let vivify = flags.has(b'N') && is_joined;
    let ttl = if vivify { flags.vivify } else { flags.ttl };
    let write = Write {
        mode,
        fields: Fields {
            client_flags: flags.client_flags,
            expires_at: session.expires_at(target.tenant, ttl.into()),
        },
        value: request.value,
        compare: flags.compare,
        or_stale: flags.has(b'I'),
        cas: flags.given(b'E', flags.cas),
        vivify,
        binary_key: flags.has(b'b'),
    };
    let creates = vivify || matches!(mode, Mode::Set | Mode::Add);
    let tenant = if creates {
        session.router.route_for_store(&session.binding, target.key.bytes(), target.tenant)
    } else {
        target.tenant
    };
    let stored =
        session.allows_size(worker, (&target.key, tenant), mode, request.value.len()).and_then(|()| {
            match worker.store_if(tenant, &target.key, &write) {
                // What is there stays.
                Err(Refused::TooLarge) if is_joined => {
                    Ok(Written { outcome: Stored::NotStored, cas: 0, value_len: request.value.len() })
                }
                stored => stored,
            }
        });
    if let Some(reporter) = session.reporter(interest::MUTATIONS, tenant) {
        let outcome = stored.map(|written| written.outcome);
        let told = (mode, write.fields.expires_at, request.value.len());
        tell_stored(session, &reporter, &(target.key, tenant), outcome, told);
    }
    let written = match stored {
        Ok(written) => written,
        Err(why) => {
            let reply = refused(session, worker, Target { tenant, ..target }, why, text::OUT_OF_MEMORY)?;
            // Nobody shall take the older item for the new one; what was to be added to one that cannot be had changes nothing.
            if why != Refused::Away {
                worker.discard(&target.key);
            }
            replies.put(reply);
            return Ok(());
        }
    };
    put_written(replies, request, &target.key, &written);
    Ok(())
}

/// What a store answers.
fn put_written(replies: &mut Replies<'_>, request: &Request<'_>, key: &Key<'_>, written: &Written) {
    match written.outcome {
        Stored::Stored if request.flags.has(b'q') => return,
        Stored::Stored => replies.put(b"HD"),
        Stored::Exists => replies.put(b"EX"),
        Stored::NotFound => replies.put(b"NF"),
        Stored::NotStored => replies.put(b"NS"),
    }
    for (letter, word) in request.tokens() {
        match letter {
            b'O' => put_word(replies, word),
            b'k' => put_key(replies, key.bytes(), request.flags.has(b'b')),
            b'c' => put_flag(replies, b'c', written.cas),
            b's' => put_flag(replies, b's', written.value_len as u64),
            _ => {}
        }
    }
    replies.put(b"\r\n");
}

fn delete(
    session: &Session<'_>,
    worker: &Worker,
    request: &Request<'_>,
    target: Target<'_>,
    replies: &mut Replies<'_>,
) -> Result<(), Ended> {
    let flags = &request.flags;
    let ttl = flags.given(b'T', flags.ttl).map(|ttl| session.expires_at(target.tenant, ttl.into()));
    let emptied = Fields { client_flags: flags.client_flags, expires_at: ttl.unwrap_or(0) };
    let remove = Remove {
        compare: flags.given(b'C', flags.compare),
        what: if flags.has(b'x') { Removal::Value(emptied) } else { Removal::Item },
        stale: flags.has(b'I'),
        expires_at: ttl,
        cas: flags.given(b'E', flags.cas),
    };
    let removed = worker.remove(target.tenant, &target.key, &remove);
    if removed == Ok(Removed::Done)
        && !remove.stale
        && let Some(reporter) = session.reporter(interest::DELETIONS, target.tenant)
    {
        reporter.deleted(target.tenant, target.key.bytes(), "md");
    }
    match removed {
        Ok(Removed::Done) if flags.has(b'q') => {}
        Ok(Removed::Done) => put_short(replies, b"HD", request, target),
        Ok(Removed::Exists) => {
            worker.note_delete_miss(target.tenant);
            put_short(replies, b"EX", request, target);
        }
        Ok(Removed::NotFound) => put_short(replies, b"NF", request, target),
        Err(why) => replies.put(refused(session, worker, target, why, text::NO_MEMORY)?),
    }
    Ok(())
}

fn count(
    session: &Session<'_>,
    worker: &Worker,
    request: &Request<'_>,
    target: Target<'_>,
    replies: &mut Replies<'_>,
) -> Result<(), Ended> {
    let flags = &request.flags;
    let expires_at = |ttl: i32| session.expires_at(target.tenant, ttl.into());
    let touch = flags.touch().map(expires_at);
    let vivify = flags.given(b'N', flags.vivify).map(expires_at);
    let by = Count {
        delta: flags.delta,
        up: flags.counts_up(),
        compare: flags.compare,
        cas: flags.given(b'E', flags.cas),
        expires_at: touch,
        vivify: vivify.map(|at| (flags.initial, at)),
        vivify_expiry_wins: !flags.ttl_after_vivify,
        binary_key: flags.has(b'b'),
    };
    let tenant = match vivify {
        Some(_) => session.router.route_for_store(&session.binding, target.key.bytes(), target.tenant),
        None => target.tenant,
    };
    let counted = worker.count_if(tenant, &target.key, &by);
    if let Ok(CountedIf::Done { value, created: true, .. }) = counted {
        let expires_at = touch.filter(|_| flags.ttl_after_vivify).or(vivify);
        tell_made(session, &(target.key, tenant), value, expires_at.unwrap_or(0));
    }
    match counted {
        Ok(CountedIf::NotNumber) => replies.put(text::NOT_NUMBER),
        Ok(_) if flags.opaque_too_long => replies.put(text::OPAQUE_TOO_LONG),
        Ok(CountedIf::Done { .. }) if flags.has(b'q') => {}
        Ok(CountedIf::Done { value, cas, expired_at, created }) => {
            let number = Number { value, cas, expired_at, created };
            put_counted(session, request, target, &number, (touch, vivify), replies);
        }
        Ok(CountedIf::Exists) => put_short(replies, b"EX", request, target),
        Ok(CountedIf::NotFound) => put_short(replies, b"NF", request, target),
        Err(why) => {
            let no_memory = if vivify.is_some() { text::NO_MEMORY_FOR_ITEM } else { text::NO_MEMORY };
            replies.put(refused(session, worker, Target { tenant, ..target }, why, no_memory)?);
        }
    }
    Ok(())
}

/// A counted number and its item.
struct Number {
    value: u64,
    cas: u64,
    expired_at: u32,
    created: bool,
}

fn put_counted(
    session: &Session<'_>,
    request: &Request<'_>,
    target: Target<'_>,
    number: &Number,
    (touch, vivify): (Option<u32>, Option<u32>),
    replies: &mut Replies<'_>,
) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number.value).as_bytes();
    if request.flags.has(b'v') {
        replies.put(b"VA ");
        replies.put_number(digits.len() as u64);
    } else {
        replies.put(b"HD");
    }
    let mut expires_at = number.expired_at;
    for (letter, word) in request.tokens() {
        match letter {
            b'T' => expires_at = touch.unwrap_or(expires_at),
            b'N' if number.created => expires_at = vivify.unwrap_or(expires_at),
            b't' => put_ttl(replies, session, expires_at),
            b'c' => put_flag(replies, b'c', number.cas),
            b'O' => put_word(replies, word),
            b'k' => put_key(replies, target.key.bytes(), request.flags.has(b'b')),
            _ => {}
        }
    }
    replies.put(b"\r\n");
    if request.flags.has(b'v') {
        replies.put(digits);
        replies.put(b"\r\n");
    }
}

/// `me`: what is known of an item.
fn describe(session: &Session<'_>, worker: &Worker, target: Target<'_>, replies: &mut Replies<'_>) {
    let Some(known) = worker.describe(&target.key) else {
        replies.put(b"EN\r\n");
        return;
    };
    let now = session.shared.store.now_secs();
    let item = &known.item;
    replies.put(b"ME ");
    put_encoded(replies, item.key(), item.has_binary_key());
    let exp = match item.expires_at() {
        0 => -1,
        at => i64::from(now) - i64::from(at),
    };
    let used = now.saturating_sub(worker.used_secs(&known));
    let line = format!(
        " exp={exp} la={used} cas={} fetch={} cls={} size={}\r\n",
        item.cas(),
        if known.fetched { "yes" } else { "no" },
        item.class(),
        known.size.0
    );
    replies.put(line.as_bytes());
}

/// A reply without an item: the status, and what the request wants back.
fn put_short(replies: &mut Replies<'_>, status: &[u8], request: &Request<'_>, target: Target<'_>) {
    replies.put(status);
    for (letter, word) in request.tokens() {
        match letter {
            b'O' => put_word(replies, word),
            b'k' => put_key(replies, target.key.bytes(), request.flags.has(b'b')),
            _ => {}
        }
    }
    replies.put(b"\r\n");
}

fn put_word(replies: &mut Replies<'_>, word: &[u8]) {
    replies.put(b" ");
    replies.put(word);
}

fn put_flag(replies: &mut Replies<'_>, letter: u8, number: u64) {
    replies.put(&[b' ', letter]);
    replies.put_number(number);
}

/// Seconds left, as memcached tells them.
fn put_ttl(replies: &mut Replies<'_>, session: &Session<'_>, expires_at: u32) {
    match expires_at {
        0 => replies.put(b" t-1"),
        at => put_flag(replies, b't', seconds_left(at, session.shared.store.now_secs()).into()),
    }
}

fn put_key(replies: &mut Replies<'_>, key: &[u8], binary: bool) {
    replies.put(b" k");
    put_encoded(replies, key, binary);
    if binary {
        replies.put(b" b");
    }
}

fn put_encoded(replies: &mut Replies<'_>, key: &[u8], binary: bool) {
    if binary {
        let mut text = Vec::with_capacity(KEY_MAX / 3 * 4 + 4);
        encode_into(key, &mut text);
        replies.put(&text);
    } else {
        replies.put(key);
    }
}
