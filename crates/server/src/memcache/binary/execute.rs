//! The binary protocol's requests, executed and answered.
//!
//! Invariants: an answer repeats opcode and opaque; a write that finds no room has had no effect; errors are told to
//!             quiet requests too
//! Source:     memcached 1.6.45's answers

use super::super::log_in;
use super::super::parse::{Effect, Named};
use super::super::reply::{Replies, text as answers};
use super::super::session::{Session, or_lost};
use super::super::text::{refuse, refused, tell_made, tell_stored};
use super::super::turn::Ended;
use super::{Body, HEADER, Head, Request, Shown, Wrong};
use crate::auth::{Denied, Identity, Need};
use crate::connection::Parting;
use crate::stats;
use crate::watch::{Looked, interest};
use store::{
    Count, CountedIf, Fields, Item, Key, Mode, Refused, Removal, Remove, Removed, Stored, Worker, Write,
};
use units::TenantId;

/// The first byte of an answer.
const RESPONSE_MAGIC: u8 = 0x81;
/// The mechanisms by which a password can be shown.
const MECHANISMS: &[u8] = b"PLAIN";

/// What an answer says of its request, and the text beside it.
type Status = (u16, &'static [u8]);

const OK: u16 = 0;
const NOT_FOUND: Status = (0x01, b"Not found");
const EXISTS: Status = (0x02, b"Data exists for key.");
const TOO_LARGE: Status = (0x03, b"Too large.");
const INVALID: Status = (0x04, b"Invalid arguments");
const NOT_STORED: Status = (0x05, b"Not stored.");
const NOT_NUMBER: Status = (0x06, b"Non-numeric server-side value for incr or decr");
/// memcached's protocol calls it a temporary failure.
const OVER_RATE: Status = (0x86, b"too many requests");
const AUTH_FAILURE: Status = (0x20, b"Auth failure.");
const READ_ONLY: Status = (0x20, b"read-only credentials");
const NO_FLUSH: Status = (0x20, b"flush_all not allowed");
const AUTH_CONTINUE: Status = (0x21, b"");
const UNKNOWN: Status = (0x81, b"Unknown command");
const NO_MEMORY: Status = (0x82, b"Out of memory");
const NO_ITEM_MEMORY: Status = (0x82, b"Out of memory allocating item");
const NO_COUNT_MEMORY: Status = (0x82, b"Out of memory incrementing value");

/// One request at its place.
struct Call<'c, 's, 'w, 'r> {
    session: &'c Session<'s>,
    worker: &'w Worker,
    head: &'c Head,
    replies: &'r mut Replies<'w>,
}

/// Executes one request. `hashed` holds its key, if it has one.
pub(in crate::memcache) fn execute<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    request: &Request<'_>,
    hashed: &[(Key<'_>, TenantId)],
    replies: &mut Replies<'w>,
    identity: &mut Option<Identity>,
) -> Result<(), Ended> {
    let mut call = Call { session, worker, head: &request.head, replies };
    if session.identity.is_stranger() && !request.is_open() {
        call.fail(AUTH_FAILURE);
        return Err(Ended::Quit(Parting::Error));
    }
    if let Some(why) = session.identity.denies(needs(&request.body)) {
        call.fail(if why == Denied::ReadOnly { READ_ONLY } else { NO_FLUSH });
        return Ok(());
    }
    match (request.body, hashed.first()) {
        (Body::Get { with_key, .. }, Some(key)) => {
            let item = session.look_up(worker, key.1, &key.0)?;
            call.found(item, key, if with_key { Shown::KeyAndValue } else { Shown::Value });
        }
        (Body::Touch { exptime, reply, .. }, Some(key)) => call.touch(key, exptime, reply)?,
        (Body::Store { mode, flags, exptime, value, .. }, Some(key)) => {
            let fields =
                Fields { client_flags: flags, expires_at: session.expires_at(key.1, exptime.into()) };
            call.store(key, mode, fields, value)?;
        }
        (Body::Delete { .. }, Some(key)) => call.delete(key)?,
        (Body::Count { up, delta, make, .. }, Some(key)) => call.count(key, up, delta, make)?,
        (Body::Flush { delay }, _) => call.flush(delay),
        (Body::Noop, _) => call.done(0, &[]),
        (Body::Version, _) => call.done(0, session.shared.config.version.as_bytes()),
        (Body::Stat(what), _) => call.stat(what),
        (Body::Quit, _) => {
            call.done(0, &[]);
            return Err(Ended::Quit(Parting::Normal));
        }
        (Body::Mechanisms, _) if session.shared.auth.is_some() => call.done(0, MECHANISMS),
        (Body::LogIn { mechanism, message, is_step }, _) if session.shared.auth.is_some() => {
            return call.log_in(mechanism, message, is_step, identity);
        }
        (Body::Wrong(wrong), _) => return call.wrong(wrong),
        // Nobody is asked for a password here; and a key that was parsed was hashed.
        _ => call.fail(UNKNOWN),
    }
    Ok(())
}

/// Answers that a tenant asks for too much at once.
pub(in crate::memcache) fn refuse_rate<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    request: &Request<'_>,
    replies: &mut Replies<'w>,
) {
    Call { session, worker, head: &request.head, replies }.fail(OVER_RATE);
}

/// Answers that there was no memory for a value on its way in.
pub(in crate::memcache) fn lose<'w>(
    session: &Session<'_>,
    worker: &'w Worker,
    request: &Request<'_>,
    hashed: &[(Key<'_>, TenantId)],
    replies: &mut Replies<'w>,
) {
    if let (Body::Store { mode, .. }, Some((key, tenant))) = (request.body, hashed.first()) {
        worker.note_no_memory(*tenant, (mode == Mode::Set).then_some(key));
    }
    Call { session, worker, head: &request.head, replies }.fail(NO_ITEM_MEMORY);
}

/// What a request needs of whoever asks.
fn needs(body: &Body<'_>) -> Need {
    match body {
        Body::Store { .. }
        | Body::Delete { .. }
        | Body::Count { .. }
        | Body::Touch { .. }
        | Body::Wrong(Wrong::TooLarge { .. }) => Need::Write,
        Body::Flush { .. } => Need::Flush,
        Body::Stat(what) if statistic(what).is_some_and(stats::changes) => Need::Administer,
        _ => Need::Read,
    }
}

/// The statistics that are asked for. As memcached, which looks at the beginning of some, takes no other with a space in it, and
/// has less than in the text protocol.
fn statistic(what: &[u8]) -> Option<&[u8]> {
    let begins = [b"reset".as_slice(), b"settings", b"detail dump", b"detail on", b"detail off"];
    let begun = begins.into_iter().find(|name| what.starts_with(name));
    begun.or_else(|| (!what.contains(&b' ') && what != b"extstore").then_some(what))
}

/// User and password that a request shows.
pub(in crate::memcache) fn credentials<'b>(request: &Request<'b>) -> Option<(&'b [u8], &'b [u8])> {
    if let Body::LogIn { message, .. } = request.body { plain(message) } else { None }
}

impl<'w> Call<'_, '_, 'w, '_> {
    /// Header of an answer with a body of these parts.
    fn header(&mut self, status: u16, lens: (usize, usize, usize), cas: u64) {
        let (extras, key, value) = lens;
        // Parts of an item, which is smaller than 4 GiB, or short texts.
        let body = u32::try_from(extras + key + value).unwrap_or(u32::MAX);
        let mut header = [0; HEADER];
        header[0] = RESPONSE_MAGIC;
        header[1] = self.head.opcode;
        header[2..4].copy_from_slice(&u16::try_from(key).unwrap_or(u16::MAX).to_be_bytes());
        header[4] = u8::try_from(extras).unwrap_or(u8::MAX);
        header[6..8].copy_from_slice(&status.to_be_bytes());
        header[8..12].copy_from_slice(&body.to_be_bytes());
        header[12..16].copy_from_slice(&self.head.opaque);
        header[16..24].copy_from_slice(&cas.to_be_bytes());
        self.replies.put(&header);
    }

    /// Success, about which a quiet request wants to hear nothing.
    fn done(&mut self, cas: u64, body: &[u8]) {
        if !self.head.is_quiet {
            self.header(OK, (0, 0, body.len()), cas);
            self.replies.put(body);
        }
    }

    fn fail(&mut self, (status, text): Status) {
        self.header(status, (0, 0, text.len()), 0);
        self.replies.put(text);
    }

    /// Answers a look-up.
    #[inline]
    fn found(&mut self, item: Option<Item<'w>>, (key, tenant): &(Key<'_>, TenantId), shown: Shown) {
        if let Some(reporter) = self.session.reporter(interest::FETCHERS, *tenant) {
            let found = item.map(|item| (item.class(), item.value_len()));
            let death = self.worker.death_of(key).filter(|_| item.is_none());
            reporter.looked(*tenant, &Looked { key: key.bytes(), found, death });
        }
        let key = if shown == Shown::KeyAndValue { key.bytes() } else { &[] };
        let Some(item) = item else {
            match key {
                _ if self.head.is_quiet => {}
                [] => self.fail(NOT_FOUND),
                key => {
                    self.header(NOT_FOUND.0, (0, key.len(), 0), 0);
                    self.replies.put(key);
                }
            }
            return;
        };
        let value_len = if shown == Shown::Flags { 0 } else { item.value().len() };
        self.header(OK, (4, key.len(), value_len), item.cas());
        self.replies.put(&item.client_flags().to_be_bytes());
        self.replies.put(key);
        if shown != Shown::Flags {
            self.replies.put_from_log(&item);
        }
    }

    fn touch(&mut self, keyed: &(Key<'_>, TenantId), exptime: u32, reply: Shown) -> Result<(), Ended> {
        let (key, tenant) = keyed;
        let expires_at = self.session.expires_at(*tenant, exptime.into());
        // A touch to a time that has passed still answers with the value, where that is asked for.
        let touched = match reply {
            Shown::Flags => self
                .worker
                .touch(*tenant, key, expires_at)
                .map(|is_there| is_there.then(|| self.worker.peek_dead(key)).flatten()),
            _ => self.worker.get_and_touch(*tenant, key, expires_at),
        };
        let item = match touched {
            Err(why) if reply == Shown::Flags || !self.session.is_lost(why) => {
                refused(self.session, self.worker, &(*key, *tenant), why, false)?;
                self.fail(NO_MEMORY);
                return Ok(());
            }
            item => or_lost(self.worker, *tenant, item),
        };
        self.found(item, keyed, reply);
        Ok(())
    }

    fn store(
        &mut self,
        (key, tenant): &(Key<'_>, TenantId),
        mode: Mode,
        fields: Fields,
        value: &[u8],
    ) -> Result<(), Ended> {
        let is_join = matches!(mode, Mode::Append | Mode::Prepend);
        let tenant = match mode {
            Mode::Set | Mode::Add => {
                self.session.router.route_for_store(&self.session.binding, key.bytes(), *tenant)
            }
            _ => *tenant,
        };
        let write = Write { compare: self.head.cas, ..Write::plain(mode, fields, value) };
        let stored = self
            .session
            .allows_size(self.worker, (key, tenant), mode, value.len())
            .and_then(|()| self.worker.store_if(tenant, key, &write));
        if let Some(reporter) = self.session.reporter(interest::MUTATIONS, tenant) {
            let outcome = stored.map(|written| written.outcome);
            let told = (mode, fields.expires_at, value.len());
            tell_stored(self.session, &reporter, &(*key, tenant), outcome, told);
        }
        match stored {
            Ok(written) => match written.outcome {
                Stored::Stored => self.done(written.cas, &[]),
                Stored::Exists => self.fail(EXISTS),
                Stored::NotFound => self.fail(NOT_FOUND),
                Stored::NotStored => self.fail(match mode {
                    Mode::Add => EXISTS,
                    Mode::Replace => NOT_FOUND,
                    _ => NOT_STORED,
                }),
            },
            Err(Refused::TooLarge) if is_join => self.fail(NOT_STORED),
            Err(why) => {
                let answer = refused(self.session, self.worker, &(*key, tenant), why, mode == Mode::Set)?;
                self.fail(if answer == answers::TOO_LARGE { TOO_LARGE } else { NO_ITEM_MEMORY });
            }
        }
        Ok(())
    }

    fn delete(&mut self, (key, tenant): &(Key<'_>, TenantId)) -> Result<(), Ended> {
        let compare = (self.head.cas != 0).then_some(self.head.cas);
        let remove = Remove { compare, what: Removal::Item, stale: false, expires_at: None, cas: None };
        match self.worker.remove(*tenant, key, &remove) {
            Ok(Removed::Done) => {
                if let Some(reporter) = self.session.reporter(interest::DELETIONS, *tenant) {
                    reporter.deleted(*tenant, key.bytes(), "delete");
                }
                self.done(0, &[]);
            }
            Ok(Removed::NotFound) => self.fail(NOT_FOUND),
            Ok(Removed::Exists) => self.fail(EXISTS),
            Err(why) => {
                refused(self.session, self.worker, &(*key, *tenant), why, false)?;
                self.fail(NO_MEMORY);
            }
        }
        Ok(())
    }

    fn count(
        &mut self,
        (key, tenant): &(Key<'_>, TenantId),
        up: bool,
        delta: u64,
        make: Option<(u64, u32)>,
    ) -> Result<(), Ended> {
        let session = self.session;
        let tenant = match make {
            Some(_) => session.router.route_for_store(&session.binding, key.bytes(), *tenant),
            None => *tenant,
        };
        let vivify = make.map(|(initial, exptime)| (initial, session.expires_at(tenant, exptime.into())));
        let count = Count { delta, up, compare: self.head.cas, vivify, ..Count::default() };
        let counted = self.worker.count_if(tenant, key, &count);
        if let Ok(CountedIf::Done { value, created: true, .. }) = counted {
            let expires_at = vivify.map_or(0, |(_, at)| at);
            tell_made(session, &(*key, tenant), value, expires_at);
        }
        match counted {
            Ok(CountedIf::Done { value, cas, .. }) => self.done(cas, &value.to_be_bytes()),
            Ok(CountedIf::Exists) => self.fail(EXISTS),
            Ok(CountedIf::NotNumber) => self.fail(NOT_NUMBER),
            Ok(CountedIf::NotFound) => self.fail(NOT_FOUND),
            Err(why) => {
                refused(session, self.worker, &(*key, tenant), why, false)?;
                self.fail(NO_COUNT_MEMORY);
            }
        }
        Ok(())
    }

    fn flush(&mut self, delay: u32) {
        if self.session.bounds.flush_disabled {
            return self.fail(AUTH_FAILURE);
        }
        self.session.flush(delay.into());
        self.done(0, &[]);
    }

    /// The text protocol's statistics in packets: one per line, and an empty one behind them. A dump of prefixes is one.
    fn stat(&mut self, what: &[u8]) {
        let Some(what) = statistic(what) else { return self.fail(NOT_FOUND) };
        let answer =
            stats::answer(self.session.shared, self.session.router, self.worker, &self.session.binding, what);
        if answer == answers::ERROR || answer.starts_with(b"CLIENT_ERROR") {
            return self.fail(NOT_FOUND);
        }
        if what == b"detail dump" {
            self.stat_row(b"detailed", &answer);
        }
        let lines = answer.split(|b| *b == b'\n').filter_map(|line| line.strip_prefix(b"STAT "));
        for line in lines {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let at = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
            self.stat_row(&line[..at], line.get(at + 1..).unwrap_or_default());
        }
        self.header(OK, (0, 0, 0), 0);
    }

    fn stat_row(&mut self, name: &[u8], value: &[u8]) {
        self.header(OK, (0, name.len(), value.len()), 0);
        self.replies.put(name);
        self.replies.put(value);
    }

    fn log_in(
        &mut self,
        mechanism: &[u8],
        message: &[u8],
        is_step: bool,
        identity: &mut Option<Identity>,
    ) -> Result<(), Ended> {
        let before = self.session.identity;
        let is_known = mechanism == MECHANISMS && (!is_step || before.has_begun());
        if is_known && !is_step && message.is_empty() {
            *identity = Some(before.begun());
            self.fail(AUTH_CONTINUE);
            return Ok(());
        }
        // What is no message shows no password, and counts as a wrong one.
        let (user, password) = if is_known { plain(message).unwrap_or_default() } else { Default::default() };
        let grant = log_in::check(self.session, user, password)?;
        let after = before.after(grant);
        *identity = Some(after);
        if grant.is_some() {
            self.done(0, b"Authenticated");
        } else {
            self.fail(AUTH_FAILURE);
        }
        if after.is_worn_out() { Err(Ended::Quit(Parting::Error)) } else { Ok(()) }
    }

    fn wrong(&mut self, wrong: Wrong<'_>) -> Result<(), Ended> {
        match wrong {
            Wrong::Mechanism | Wrong::Message if self.session.shared.auth.is_none() => self.fail(UNKNOWN),
            Wrong::Opcode => self.fail(UNKNOWN),
            Wrong::Mechanism => self.fail(INVALID),
            Wrong::Message => self.fail(NO_MEMORY),
            Wrong::TooLarge { key, mode } => {
                let (key, takes_older) = (Named::Plain(key), mode == Mode::Set);
                refuse(self.session, self.worker, Effect::TooLarge { key, mode, takes_older });
                self.fail(TOO_LARGE);
            }
            Wrong::Lengths => {
                self.fail(UNKNOWN);
                return Err(Ended::Quit(Parting::Error));
            }
            Wrong::Shape => {
                self.fail(INVALID);
                return Err(Ended::Quit(Parting::Error));
            }
        }
        Ok(())
    }
}

/// User and password of a message of the mechanism PLAIN (RFC 4616): `authzid NUL authcid NUL passwd`. Nobody acts for
/// somebody else.
pub(in crate::memcache) fn plain(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.split(|b| *b == 0);
    let (acts_for, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_plain = parts.next().is_none() && (acts_for.is_empty() || acts_for == user);
    is_plain.then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damaged::{damaged_texts, streams};
    use crate::memcache::fuzzed;
    use proptest::prelude::*;

    #[test]
    fn plain_messages_have_three_parts() {
        let parts = |message: &'static [u8]| plain(message);
        assert_eq!(parts(b"\0ann\0one"), Some((b"ann".as_slice(), b"one".as_slice())));
        assert_eq!(parts(b"ann\0ann\0"), Some((b"ann".as_slice(), b"".as_slice())));
        for wrong in [b"".as_slice(), b"ann", b"\0ann", b"bob\0ann\0one", b"\0ann\0one\0"] {
            assert_eq!(plain(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #![proptest_config(streams())]

        #[test]
        fn a_damaged_message_is_its_parts_or_none(
            message in damaged_texts(&[b"\0ann\0one", b"ann\0ann\0one two", b"\0\0", b""])
        ) {
            fuzzed::sasl_plain(&message);
        }
    }
}
