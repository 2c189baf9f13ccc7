//! One turn of a connection: as many complete requests of its input as fairness allows, executed as one batch.
//!
//! Shape:      parse all -> hash all keys and prefetch their first index lines -> prefetch their items -> execute in order
//! Invariants: replies are in the order of the requests; a turn ends early when a write finds no room, before that
//!             write has had any effect
//! Source:     the passes over index lines, then items, hide two cache misses per request

use super::batch::{Hashed, Prepared, Step, prepare};
use super::operate::Asked;
use super::reply::Replies;
use super::session::Session;
use super::tokens::{give_back, take_tokens};
use super::{binary, log_in, meta, said};
use crate::auth::Identity;
use crate::config::Protocol;
use crate::connection::Parting;
use crate::limits::{HELD_POLL, KEY_MAX, KEYS_AHEAD, PAUSED_POLL, REPLY_BYTES_PER_TURN};
use crate::observe::{CommandClass, Operation, Tally};
use control::bandwidth::Throttle;
use media::SlowAccess;
use store::{FetchPlan, Held, Key, Worker};
use units::{Instant, TenantId};

/// Pieces of one gathering write, Linux's IOV_MAX.
const PIECES_MAX: usize = 1024;

/// What a turn did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Turn {
    /// Bytes of the input that are done with.
    pub(crate) consumed: usize,
    /// Bytes of the stream to skip beyond the input.
    pub(crate) skip: u64,
    /// Bytes needed before there is another request, if that is known to be more than what is here.
    pub(crate) needed: usize,
    /// Requests executed.
    pub(crate) requests: usize,
    /// Where the first key is, if there is one, and whether it is in base64.
    first_key: Option<(Span, bool)>,
    /// Its last request's value is to come, and goes to its place as it comes.
    pub(crate) upload: Option<Announced>,
    /// It stopped for fairness: more may be complete.
    pub(crate) more: bool,
    /// It stopped to be taken again then, and why.
    pub(crate) waits: Option<(Instant, WaitsFor)>,
    /// It stopped because the user and password that are there have to be verified elsewhere.
    pub(crate) verifies: Option<(Span, Span)>,
    /// It stopped because a write needs room.
    pub(crate) needs_room: bool,
    /// It stopped because these have to be fetched, for the next request and what follows.
    pub(crate) plans: Vec<FetchPlan>,
    /// Keys of the next request that have been answered.
    pub(crate) keys_done: usize,
    /// The client asked for the end, or is none.
    pub(crate) close: Option<Parting>,
    /// The client asked for something else than replies.
    pub(crate) asked: Option<Asked>,
    /// Who the connection is from now on, if that changed.
    pub(crate) identity: Option<Identity>,
}

/// Why a request waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitsFor {
    /// Its tenant has no tokens.
    Tokens,
    /// Its tenant is held back at a tier: that is the server being slow.
    Tier,
    /// Its password cannot be looked at yet: too many were wrong, or too many are being verified.
    LogIn,
}

/// A large value that follows its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announced {
    /// Bytes of the value.
    pub(crate) len: usize,
    /// Bytes of the line end behind it.
    pub(crate) end_len: usize,
    /// Where in the input its request begins; it ends with what the turn consumed.
    pub(crate) start: usize,
}

impl Announced {
    pub(super) fn new(len: usize, end_len: usize) -> Self {
        Self { len, end_len, start: 0 }
    }

    /// Bytes of the value.
    pub(super) fn bytes_of_value(self) -> usize {
        self.len
    }

    /// Bytes of the stream that it takes.
    pub(super) fn bytes(self) -> u64 {
        (self.len + self.end_len) as u64
    }
}

/// What became of an announced value, for the turn that runs its request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Block<'b> {
    /// It has come.
    Whole(&'b [u8]),
    /// It does not end where it should.
    Unended,
    /// There was no memory for it.
    Lost,
}

/// A part of a turn's input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    at: usize,
    len: usize,
}

impl Span {
    /// Where `part` is in `input`.
    fn of(part: &[u8], input: &[u8]) -> Self {
        Self { at: (part.as_ptr() as usize).wrapping_sub(input.as_ptr() as usize), len: part.len() }
    }

    /// The part.
    pub(crate) fn of_input(self, input: &[u8]) -> &[u8] {
        input.get(self.at..self.at.saturating_add(self.len)).unwrap_or_default()
    }
}

/// Runs a turn over `input`, or over one request whose value came apart from it; counts what it executes in `tally`.
pub(crate) fn run<'w, 'b>(
    session: &Session<'_>,
    worker: &'w Worker,
    input: &'b [u8],
    block: Option<Block<'b>>,
    replies: &mut Replies<'w>,
    tally: &mut Tally,
) -> Turn {
    let mut turn = Turn::default();
    let mut batch = Vec::with_capacity(session.requests_max.min(64));
    let mut hashed = Vec::with_capacity(session.requests_max.min(64));
    let mut routed_at = session.router.changes();
    prepare_any(session, worker, (input, block), &mut turn, &mut batch, &mut hashed);
    worker.prefetch_items(&hashed[..hashed.len().min(KEYS_AHEAD)], |(key, _)| key);
    turn.first_key = first_key(&batch, &hashed, input);
    turn.keys_done = session.keys_done;
    for (i, prepared) in batch.iter().enumerate() {
        if is_full(replies) && 0 < i {
            turn.stop_before(&batch, i);
            turn.more = true;
            break;
        }
        let changes = session.router.changes();
        if std::mem::replace(&mut routed_at, changes) != changes {
            route_again(session, &mut hashed[prepared.keys.0..]);
        }
        let keys = &hashed[prepared.keys.0..prepared.keys.1];
        let tenant = keys.first().map_or_else(|| prepared.step.tenant(session), |(_, tenant)| *tenant);
        let operation = prepared.step.operation();
        let class = operation.class();
        session.is_fetched.set(block.is_some() || session.is_fetched.get() && i == 0);
        // Who waited for a value has asked before, and was not held back then; so has who was answered in part.
        let is_new = !session.is_fetched.get();
        let is_asked = class != CommandClass::Other && is_new && turn.keys_done == 0;
        match enter(session, worker, (tenant, class), keys, (is_asked, is_new)) {
            Ok(()) => {}
            Err(Stop::Refused) => {
                prepared.step.refuse_rate(session, worker, replies);
                turn.requests += 1;
                turn.pass_over(&prepared.step, input.len());
                continue;
            }
            Err(Stop::Ends(why)) => {
                turn.end(why, &batch, i, input);
                break;
            }
        }
        let before = replies.mark();
        match prepared.step.execute(session, worker, keys, replies, &mut turn.identity) {
            Ok(()) => {
                session.has_waited_long.set(false);
                session.may_fetch.set(true);
                turn.requests += 1;
                turn.keys_done = 0;
                turn.pass_over(&prepared.step, input.len());
                count(session, (&prepared.step, part_of(&batch, i, input)), (tenant, operation), keys, tally);
            }
            Err(why) => {
                let answered = if let Ended::Portion(answered) = why { answered } else { 0 };
                if matches!(why, Ended::NeedsRoom) {
                    // Nothing has happened, so nothing is answered.
                    replies.back_to(before);
                }
                tally.note_keys(&keys[..answered]);
                turn.keys_done += answered;
                let wanted = wanted(session, &batch[i..], &hashed, answered);
                turn.plans = to_fetch(session, worker, &why, (wanted, is_full(replies)));
                if is_asked && why.asks_again(&turn.plans) {
                    give_back(session, tenant, keys);
                }
                turn.end(why, &batch, i, input);
                break;
            }
        }
    }
    turn
}

/// Reads a turn's requests in the protocol of its connection.
fn prepare_any<'b>(
    session: &Session<'_>,
    worker: &Worker,
    (input, block): (&'b [u8], Option<Block<'b>>),
    turn: &mut Turn,
    batch: &mut Vec<Prepared<'b>>,
    hashed: &mut Hashed<'b>,
) {
    match session.protocol {
        Protocol::Binary => binary::prepare(session, worker, input, block, turn, batch, hashed),
        _ if session.identity.is_stranger() => log_in::prepare(session, input, turn, batch, hashed),
        _ => prepare(session, worker, input, block, turn, batch, hashed),
    }
}

/// Routes keys that are nobody's again: a request before them, or another worker, may have made their prefix a tenant.
#[cold]
fn route_again(session: &Session<'_>, keys: &mut [(Key<'_>, TenantId)]) {
    for (key, tenant) in keys {
        *tenant = session.router.route_stored(&session.binding, key.bytes(), *tenant);
    }
}

/// Where the first key of a batch is, if there is one, and whether it is in base64.
fn first_key(batch: &[Prepared<'_>], hashed: &[(Key<'_>, TenantId)], input: &[u8]) -> Option<(Span, bool)> {
    match batch.first().and_then(|first| first.step.base64_key()) {
        Some(key) => Some((Span::of(key, input), true)),
        None => hashed.first().map(|(key, _)| (Span::of(key.bytes(), input), false)),
    }
}

/// The part of the input that a request of a batch was taken off.
#[inline]
fn part_of<'b>(batch: &[Prepared<'_>], i: usize, input: &'b [u8]) -> &'b [u8] {
    let start = i.checked_sub(1).map_or(0, |before| batch[before].end);
    input.get(start..batch[i].end).unwrap_or_default()
}

/// Counts a request that was executed, and says so to a log that wants to know. It is whose its key is now: a new prefix becomes
/// a tenant when it is stored.
#[inline]
fn count(
    session: &Session<'_>,
    (step, bytes): (&Step<'_>, &[u8]),
    (tenant, operation): (TenantId, Operation),
    keys: &[(Key<'_>, TenantId)],
    tally: &mut Tally,
) {
    if said::is_wanted() {
        said::say(session.connection, step, bytes);
    }
    let may_make = matches!(operation.class(), CommandClass::Write | CommandClass::Change);
    match keys {
        [] => count_decoded(session, step, (tenant, operation), tally),
        [(key, routed)] if may_make => {
            let owner = session.router.route_stored(&session.binding, key.bytes(), *routed);
            tally.count(owner, operation, &[(*key, owner)]);
        }
        keys => tally.count(tenant, operation, keys),
    }
}

/// The same of a request that no key was hashed of: it may have one in base64.
fn count_decoded(
    session: &Session<'_>,
    step: &Step<'_>,
    (tenant, operation): (TenantId, Operation),
    tally: &mut Tally,
) {
    let mut decoded = [0; KEY_MAX];
    let Some(key) = step.base64_key().and_then(|key| meta::decode(key, &mut decoded)) else {
        return tally.count(tenant, operation, &[]);
    };
    let owner = session.router.route_stored(&session.binding, key, tenant);
    tally.count(owner, operation, &[]);
    tally.note_key(owner, key);
}

/// Whether a request may be executed now: its tenant has tokens, and is not held back.
#[inline]
fn enter(
    session: &Session<'_>,
    worker: &Worker,
    (tenant, class): (TenantId, CommandClass),
    keys: &[(Key<'_>, TenantId)],
    (is_asked, is_new): (bool, bool),
) -> Result<(), Stop> {
    if is_asked {
        take_tokens(session, tenant, keys)?;
    }
    if is_new && let Some(until) = held(session, worker, class, keys) {
        if is_asked {
            give_back(session, tenant, keys);
        }
        return Err(Stop::Ends(Ended::Waits(until, WaitsFor::Tier)));
    }
    Ok(())
}

/// Why a request is not executed now.
pub(super) enum Stop {
    /// It is answered with an error.
    Refused,
    /// The turn ends before it.
    Ends(Ended),
}

/// Until when a request waits that would come to the tier whose bandwidth is divided, if one of its tenants is held back there.
#[inline]
pub(super) fn held(
    session: &Session<'_>,
    worker: &Worker,
    class: CommandClass,
    keys: &[(Key<'_>, TenantId)],
) -> Option<Instant> {
    let kinds: &[SlowAccess] = match class {
        CommandClass::Read => &[SlowAccess::Read],
        CommandClass::Write => &[SlowAccess::Write],
        CommandClass::Change => &[SlowAccess::Read, SlowAccess::Write],
        CommandClass::Delete | CommandClass::Other => return None,
    };
    let held = keys.iter().find_map(|(key, tenant)| worker.held(*tenant, key, kinds, session.arrived));
    held.map(|held| match held {
        Held::Until(until) => until.min(session.now + HELD_POLL),
        Held::Paused => session.now + PAUSED_POLL,
    })
}

/// Keys whose values are fetched for the first of these requests, behind those that are done: for reads behind it, too, as far as
/// their tenants are free to make them.
fn wanted<'h, 'b>(
    session: &Session<'_>,
    batch: &[Prepared<'_>],
    hashed: &'h [(Key<'b>, TenantId)],
    answered: usize,
) -> &'h [(Key<'b>, TenantId)] {
    let is_free = |tenant: TenantId| {
        session.gate(tenant).is_none() && session.shared.store.throttle(tenant) == Throttle::FREE
    };
    let reads_freely = |next: &&Prepared<'_>| {
        let keys = hashed.get(next.keys.0..next.keys.1).unwrap_or_default();
        next.step.operation().class() == CommandClass::Read && keys.iter().all(|(_, tenant)| is_free(*tenant))
    };
    // Behind a request that goes on they would be gone again before their turn.
    let followers = if batch.first().is_some_and(|first| first.step.goes_on()) { 0 } else { batch.len() };
    let behind = batch.iter().take(followers).skip(1).take_while(reads_freely).last();
    let (first, last) = (batch.first().map_or(0, |first| first.keys.0), behind.or(batch.first()));
    let end = last.map_or(0, |request| request.keys.1);
    hashed.get(first + answered..end).unwrap_or_default()
}

/// What has to be fetched for the keys that are left of a request that ended so, and for the requests that follow it: as far as
/// it is no more than is fetched at once, and one value at least.
fn to_fetch(
    session: &Session<'_>,
    worker: &Worker,
    why: &Ended,
    (keys, is_full): (&[(Key<'_>, TenantId)], bool),
) -> Vec<FetchPlan> {
    let mut plans = Vec::new();
    // Nobody else is to take it for theirs, and no worker to wait for a device while it makes room.
    let wanted = worker.take_wanted();
    match why {
        Ended::NeedsRoom if session.may_fetch.get() && wanted.is_some() => plans.extend(wanted),
        // Behind a reply that is full values would be gone again before their turn.
        Ended::Portion(_) if !is_full => {}
        _ => return plans,
    }
    let mut bytes: usize = plans.iter().map(|plan| plan.len).sum();
    for plan in keys.iter().filter_map(|(key, _)| worker.fetch_plan(key)) {
        if plans.contains(&plan) {
            continue;
        }
        bytes += plan.len;
        if session.fetch_bytes < bytes && !plans.is_empty() {
            break;
        }
        plans.push(plan);
    }
    plans
}

/// Whether no more is executed in this turn.
pub(super) fn is_full(replies: &Replies<'_>) -> bool {
    REPLY_BYTES_PER_TURN < replies.len() || PIECES_MAX < replies.pieces() + 2 || replies.has_large_values()
}

impl Turn {
    /// Whether the next turn follows at once, as far as the connection alone goes.
    pub(crate) fn is_followed(&self) -> bool {
        let ends = self.close.is_some() || self.asked.is_some() || self.upload.is_some();
        let waits = self.waits.is_some() || self.verifies.is_some() || !self.plans.is_empty();
        self.more && !ends && !waits
    }

    /// The first key in it, or so many bytes of it; empty without one.
    pub(crate) fn first_key(&self, input: &[u8], most: usize) -> Box<[u8]> {
        let mut decoded = [0; KEY_MAX];
        let key = match self.first_key {
            Some((span, true)) => meta::decode(span.of_input(input), &mut decoded).unwrap_or_default(),
            Some((span, false)) => span.of_input(input),
            None => &[],
        };
        key[..key.len().min(most)].into()
    }

    /// Is done with a request that was answered, and with its value if that is to come.
    #[inline]
    fn pass_over(&mut self, step: &Step<'_>, input_len: usize) {
        if let Step::Await(_, announced) = step {
            self.take(announced.bytes(), input_len);
            // Its batch ended with it, and nothing may be left for another turn, which the answer would wait for.
            self.more = self.consumed < input_len;
        }
    }

    /// Is done with so many bytes of the stream, of which those beyond the input are skipped.
    pub(super) fn take(&mut self, bytes: u64, input_len: usize) {
        let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(input_len - self.consumed);
        self.consumed += here;
        self.skip = bytes - here as u64;
    }

    /// Ends at a request of a batch, which was not executed or was the last.
    fn end(&mut self, why: Ended, batch: &[Prepared<'_>], i: usize, input: &[u8]) {
        match why {
            Ended::Quit(why) => self.close = Some(why),
            Ended::Announced(announced) => {
                let start = if i == 0 { 0 } else { batch[i - 1].end };
                self.upload = Some(Announced { start, ..announced });
            }
            Ended::Asked(asked) => {
                self.stop_before(batch, i + 1);
                self.asked = Some(asked);
            }
            Ended::NeedsRoom => {
                self.stop_before(batch, i);
                self.needs_room = true;
            }
            Ended::Portion(_) => {
                self.stop_before(batch, i);
                // What is away now may not be so any more.
                self.more = self.plans.is_empty();
            }
            Ended::Waits(until, what) => {
                self.stop_before(batch, i);
                self.waits = Some((until, what));
            }
            Ended::Verifies => {
                self.stop_before(batch, i);
                let part = |part| Span::of(part, input);
                let shown = batch[i].step.credentials();
                self.verifies = shown.map(|(user, password)| (part(user), part(password)));
            }
        }
    }

    fn stop_before(&mut self, batch: &[Prepared<'_>], i: usize) {
        self.consumed = if i == 0 { 0 } else { batch[i - 1].end };
        self.skip = 0;
        self.needed = 0;
        self.close = None;
    }
}

impl Ended {
    /// Whether its request comes again and asks again: who waits for values has them served without.
    fn asks_again(&self, plans: &[FetchPlan]) -> bool {
        matches!(self, Self::NeedsRoom | Self::Waits(..)) && plans.is_empty()
    }
}

/// Why a turn ends before its input.
pub(super) enum Ended {
    /// A write found no room; it has had no effect.
    NeedsRoom,
    /// So many of its keys are answered; values of others are to be fetched first.
    Portion(usize),
    /// The request's value is to come.
    Announced(Announced),
    /// The connection ends.
    Quit(Parting),
    /// The client asked for something else than replies.
    Asked(Asked),
    /// It is to be executed then.
    Waits(Instant, WaitsFor),
    /// Its password has to be verified elsewhere.
    Verifies,
}
