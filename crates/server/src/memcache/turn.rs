//! One turn of a connection: as many complete requests of its input as fairness allows, executed as one batch.
//!
//! Shape:      parse all -> hash all keys and prefetch their index lines -> prefetch their items -> execute in order
//! Invariants: replies are in the order of the requests; a turn ends early when a write finds no room, before that
//!             write has had any effect
//! Source:     the pass over all index lines, then all items, hides two cache misses per request

use super::operate::Asked;
use super::parse::{Bounds, Command, Effect, Parsed, keys, parse, wrong};
use super::reply::{Replies, text as answers};
use super::{binary, log_in, text};
use crate::admission::{Gate, Gates, NoToken};
use crate::auth::{Denied, Grant, Identity, Need};
use crate::config::Protocol;
use crate::limits::{FETCH_BYTES_MAX, HELD_POLL, PAUSED_POLL, REPLY_BYTES_PER_TURN};
use crate::observe::{CommandClass, Tally};
use crate::shared::Shared;
use crate::tenants::{Binding, Router, Routes};
use crate::watch::Reporter;
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use store::{FetchPlan, Held, Item, Key, Mode, Refused, Worker};
use units::{Instant, TenantId};

/// Pieces of one gathering write, Linux's IOV_MAX.
const PIECES_MAX: usize = 1024;

/// Where a turn happens.
#[derive(Debug)]
pub(crate) struct Session<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) router: &'s Router,
    pub(crate) protocol: Protocol,
    pub(crate) identity: Identity,
    pub(crate) binding: Binding,
    pub(crate) bounds: Bounds,
    pub(crate) requests_max: usize,
    /// The connection's number, for those who watch.
    pub(crate) connection: usize,
    /// What is watched.
    pub(crate) watched: u32,
    /// The last attempt found no room and making room failed: the next write answers so.
    pub(crate) is_out_of_memory: bool,
    /// Gates of tenants, if a request may have to ask one.
    pub(crate) gates: Option<Gates<'s>>,
    /// When the turn began.
    pub(crate) now: Instant,
    /// Where the client is, if passwords are asked for and it has an address.
    pub(crate) address: Option<IpAddr>,
    /// What became of the password that the first request shows, if it had to be verified elsewhere.
    pub(crate) verdict: Cell<Option<Option<Grant>>>,
    /// A request may wait for values of a tier; else those that are away are missed.
    pub(crate) may_fetch: bool,
}

impl Session<'_> {
    /// Whose requests without a key are.
    fn tenant(&self) -> TenantId {
        match self.binding {
            Binding::To(tenant) => tenant,
            Binding::Unbound => self.router.default_tenant(),
        }
    }

    /// Looks a key up. Where its value would have to be fetched, and may be, the turn ends.
    #[inline]
    pub(super) fn look_up<'w>(
        &self,
        worker: &'w Worker,
        tenant: TenantId,
        key: &Key<'_>,
    ) -> Result<Option<Item<'w>>, Ended> {
        match worker.look_up(tenant, key) {
            Ok(item) => Ok(item),
            Err(_away) if self.may_fetch => Err(Ended::NeedsRoom),
            Err(_away) => {
                worker.note_lost(tenant);
                Ok(None)
            }
        }
    }

    /// The gate that a tenant's requests have to ask.
    #[inline]
    fn gate(&self, tenant: TenantId) -> Option<&Gate> {
        self.gates.as_ref()?.get(tenant.0 as usize).map(|gate| &**gate)
    }

    /// memcached's exptime as a second of the store's clock, as far as the tenant's items may live.
    #[inline]
    pub(super) fn expires_at(&self, tenant: TenantId, exptime: i64) -> u32 {
        let at = self.shared.expires_at(exptime);
        match self.gate(tenant) {
            None => at,
            Some(gate) => gate.allowance().expires_at(at, self.shared.store.now_secs()),
        }
    }

    /// Whether a tenant may store an item of that size. The older item of a `set` goes, too: nobody shall take it for the
    /// new one.
    #[inline]
    pub(super) fn allows_size(
        &self,
        worker: &Worker,
        (key, tenant): (&Key<'_>, TenantId),
        mode: Mode,
        value_len: usize,
    ) -> Result<(), Refused> {
        let Some(most) = self.gate(tenant).and_then(|gate| gate.allowance().max_item) else { return Ok(()) };
        if (key.bytes().len() + value_len) as u64 <= most.0 {
            return Ok(());
        }
        if mode == Mode::Set {
            worker.discard(key);
        }
        self.shared.counters.store_too_large.fetch_add(1, Ordering::Relaxed);
        Err(Refused::TooLarge)
    }

    /// Who tells those that watch, if somebody watches such events.
    #[inline]
    pub(super) fn reporter(&self, wanted: u32) -> Option<Reporter<'_>> {
        (self.watched & wanted != 0).then(|| Reporter {
            watch: &self.shared.watch,
            store: &self.shared.store,
            clock: &*self.shared.clock,
            connection: self.connection,
        })
    }
}

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
    /// Where the first key is, if there is one.
    pub(crate) first_key: Option<Span>,
    /// Its last request's value is to come, and goes to its place as it comes.
    pub(crate) upload: Option<Announced>,
    /// It stopped for fairness: more may be complete.
    pub(crate) more: bool,
    /// It stopped because a tenant, or who shows passwords, has no tokens until then, or is held back at a tier.
    pub(crate) waits_until: Option<Instant>,
    /// It stopped because the user and password that are there have to be verified elsewhere.
    pub(crate) verifies: Option<(Span, Span)>,
    /// It stopped because a write needs room.
    pub(crate) needs_room: bool,
    /// It stopped because these have to be fetched, for the next request and what follows.
    pub(crate) plans: Vec<FetchPlan>,
    /// The client asked for the end, or is none.
    pub(crate) close: bool,
    /// The client asked for something else than replies.
    pub(crate) asked: Option<Asked>,
    /// Who the connection is from now on, if that changed.
    pub(crate) identity: Option<Identity>,
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

    /// Bytes of the stream that it takes.
    fn bytes(self) -> u64 {
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

/// A request whose value is to come.
pub(super) enum Awaiting<'b> {
    Text(Command<'b>),
    Binary(binary::Request<'b>),
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
        self.start_in(input, self.len)
    }

    /// At most so many bytes of it.
    pub(crate) fn start_in(self, input: &[u8], most: usize) -> &[u8] {
        input.get(self.at..self.at.saturating_add(self.len.min(most))).unwrap_or_default()
    }
}

/// A parsed request with its keys hashed.
pub(super) struct Prepared<'b> {
    pub(super) step: Step<'b>,
    /// Bytes of input up to its end.
    pub(super) end: usize,
    /// Its keys in the list of hashed keys.
    pub(super) keys: (usize, usize),
}

/// What a turn does for one request.
pub(super) enum Step<'b> {
    Run(Command<'b>),
    Refuse {
        reply: Option<&'static [u8]>,
        effect: Effect<'b>,
    },
    Binary(binary::Request<'b>),
    LogIn(log_in::Message<'b>),
    /// Waits for its value.
    Await(Awaiting<'b>, Announced),
    /// Its value has come, and there was no memory for it.
    Lose(Awaiting<'b>),
}

impl Awaiting<'_> {
    fn class(&self) -> CommandClass {
        match self {
            Self::Text(command) => command.class(),
            Self::Binary(request) => request.class(),
        }
    }
}

impl Step<'_> {
    /// What kind of request it is.
    #[inline]
    fn class(&self) -> CommandClass {
        match self {
            Self::Run(command) => command.class(),
            Self::Binary(request) => request.class(),
            Self::Await(awaiting, _) | Self::Lose(awaiting) => awaiting.class(),
            Self::Refuse { .. } | Self::LogIn(_) => CommandClass::Other,
        }
    }

    /// Executes it.
    #[inline]
    fn execute<'w>(
        &self,
        session: &Session<'_>,
        worker: &'w Worker,
        keys: &[(Key<'_>, TenantId)],
        replies: &mut Replies<'w>,
        identity: &mut Option<Identity>,
    ) -> Result<(), Ended> {
        match self {
            Self::Run(command) => text::execute(session, worker, *command, keys, replies),
            Self::Refuse { reply, effect } => {
                text::refuse(session, worker, *effect);
                replies.put(reply.unwrap_or_default());
                Ok(())
            }
            Self::Binary(request) => binary::execute(session, worker, request, keys, replies, identity),
            Self::LogIn(message) => log_in::execute(session, *message, replies, identity),
            Self::Await(_, announced) => Err(Ended::Announced(*announced)),
            Self::Lose(awaiting) => {
                match awaiting {
                    Awaiting::Text(command) => text::lose(session, worker, *command, keys, replies),
                    Awaiting::Binary(request) => binary::lose(session, worker, request, keys, replies),
                }
                Ok(())
            }
        }
    }

    /// User and password that it shows.
    fn credentials(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::LogIn(log_in::Message::Show { user, password }) => Some((user, password)),
            Self::Binary(request) => binary::credentials(request),
            _ => None,
        }
    }

    /// Answers that its tenant asks for too much at once.
    fn refuse_rate<'w>(&self, session: &Session<'_>, worker: &'w Worker, replies: &mut Replies<'w>) {
        match self {
            Self::Run(command) | Self::Await(Awaiting::Text(command), _) if command.needs().1 => {}
            Self::Run(_) | Self::Await(Awaiting::Text(_), _) => replies.put(answers::OVER_RATE),
            Self::Binary(request) | Self::Await(Awaiting::Binary(request), _) => {
                binary::refuse_rate(session, worker, request, replies)
            }
            Self::Refuse { .. } | Self::LogIn(_) | Self::Lose(_) => {}
        }
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
    match session.protocol {
        Protocol::Binary => {
            binary::prepare(session, worker, input, block, &mut turn, &mut batch, &mut hashed)
        }
        _ if session.identity.is_stranger() => {
            log_in::prepare(session, input, &mut turn, &mut batch, &mut hashed)
        }
        _ => prepare(session, worker, input, block, &mut turn, &mut batch, &mut hashed),
    }
    for (key, _) in &hashed {
        worker.prefetch_item(key);
    }
    turn.first_key = hashed.first().map(|(key, _)| Span::of(key.bytes(), input));
    for (i, prepared) in batch.iter().enumerate() {
        if is_full(replies) && 0 < i {
            turn.stop_before(&batch, i);
            turn.more = true;
            break;
        }
        let keys = &hashed[prepared.keys.0..prepared.keys.1];
        let tenant = keys.first().map_or_else(|| session.tenant(), |(_, tenant)| *tenant);
        let class = prepared.step.class();
        // Who waited for a value has asked before.
        let gate = session.gate(tenant).filter(|_| class != CommandClass::Other && block.is_none());
        if let Some(gate) = gate {
            match gate.take(keys.len().max(1), session.now) {
                Ok(()) => {}
                Err(NoToken::Refuse) => {
                    prepared.step.refuse_rate(session, worker, replies);
                    turn.pass_over(&prepared.step, input.len());
                    continue;
                }
                Err(NoToken::Wait(until)) => {
                    turn.stop_before(&batch, i);
                    turn.waits_until = Some(until);
                    break;
                }
            }
        }
        if block.is_none()
            && let Some(until) = held(session, worker, (tenant, class), keys)
        {
            if let Some(gate) = gate {
                gate.give_back(keys.len().max(1));
            }
            turn.stop_before(&batch, i);
            turn.waits_until = Some(until);
            break;
        }
        let before = replies.mark();
        match prepared.step.execute(session, worker, keys, replies, &mut turn.identity) {
            Ok(()) => {
                turn.requests += 1;
                tally.count(tenant, class, keys);
            }
            Err(why) => {
                if let (Ended::NeedsRoom | Ended::Waits(_), Some(gate)) = (&why, gate) {
                    gate.give_back(keys.len().max(1));
                }
                if let Ended::NeedsRoom = &why {
                    // Nothing has happened, so nothing is answered.
                    replies.back_to(before);
                    if session.may_fetch {
                        turn.plans = plans(worker, &hashed[prepared.keys.0..]);
                    }
                }
                turn.end(why, &batch, i, input);
                break;
            }
        }
    }
    turn
}

/// Until when a request waits that would come to the tier whose bandwidth is divided, if one of its tenants is held back there.
#[inline]
pub(super) fn held(
    session: &Session<'_>,
    worker: &Worker,
    (tenant, class): (TenantId, CommandClass),
    keys: &[(Key<'_>, TenantId)],
) -> Option<Instant> {
    let first = worker.held(tenant);
    if first.is_none() && keys.len() <= 1 {
        return None;
    }
    let comes_there = |key: &Key<'_>, tenant: TenantId| match class {
        CommandClass::Read => worker.reads_tier(key),
        CommandClass::Write => worker.writes_tier(tenant),
        CommandClass::Change => worker.writes_tier(tenant) || worker.reads_tier(key),
        CommandClass::Delete | CommandClass::Other => false,
    };
    let held = keys.iter().find_map(|(key, of)| {
        let held = if *of == tenant { first } else { worker.held(*of) };
        held.filter(|_| comes_there(key, *of))
    });
    held.map(|held| match held {
        Held::Until(until) => until.min(session.now + HELD_POLL),
        Held::Paused => session.now + PAUSED_POLL,
    })
}

/// What has to be fetched for the request that was refused for it, and for those that follow it; nothing if it was not.
fn plans(worker: &Worker, keys: &[(Key<'_>, TenantId)]) -> Vec<FetchPlan> {
    let Some(wanted) = worker.take_wanted() else { return Vec::new() };
    let (mut plans, mut bytes) = (vec![wanted], wanted.len);
    for plan in keys.iter().filter_map(|(key, _)| worker.fetch_plan(key)) {
        if FETCH_BYTES_MAX < bytes {
            break;
        }
        if !plans.contains(&plan) {
            bytes += plan.len;
            plans.push(plan);
        }
    }
    plans
}

/// Whether no more is executed in this turn.
fn is_full(replies: &Replies<'_>) -> bool {
    REPLY_BYTES_PER_TURN < replies.len() || PIECES_MAX < replies.pieces() + 2 || replies.has_large_values()
}

impl Turn {
    /// Is done with a request that was refused, and with its value if that is to come.
    fn pass_over(&mut self, step: &Step<'_>, input_len: usize) {
        self.requests += 1;
        if let Step::Await(_, announced) = step {
            self.take(announced.bytes(), input_len);
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
            Ended::Quit => self.close = true,
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
            Ended::Waits(until) => {
                self.stop_before(batch, i);
                self.waits_until = Some(until);
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
        self.close = false;
    }
}

/// Keys of a batch with whom they belong to; their index lines are on the way.
pub(super) type Hashed<'b> = Vec<(Key<'b>, TenantId)>;

/// What input begins with, for a turn.
pub(super) enum Next<'b> {
    /// A request.
    Step(Step<'b>),
    /// A request that ends the batch: what follows may be somebody else's.
    Last(Step<'b>),
    /// More bytes are needed, so many in all as far as is known.
    Incomplete(usize),
    /// This is no client of ours.
    Hopeless,
}

/// Gathers a batch of at most so many requests. `next` takes one off the input that is left, says to the turn what it took,
/// and hashes its keys.
#[inline]
pub(super) fn gather<'b>(
    requests_max: usize,
    input: &'b [u8],
    turn: &mut Turn,
    batch: &mut Vec<Prepared<'b>>,
    hashed: &mut Hashed<'b>,
    mut next: impl FnMut(&'b [u8], &mut Turn, &mut Hashed<'b>) -> Next<'b>,
) {
    while turn.consumed < input.len() {
        if batch.len() == requests_max {
            turn.more = true;
            return;
        }
        let first = hashed.len();
        let (step, is_last) = match next(&input[turn.consumed..], turn, hashed) {
            Next::Step(step) => (step, false),
            Next::Last(step) => (step, true),
            Next::Incomplete(needed) => {
                turn.needed = needed;
                return;
            }
            Next::Hopeless => {
                turn.close = true;
                return;
            }
        };
        batch.push(Prepared { step, end: turn.consumed, keys: (first, hashed.len()) });
        if is_last {
            turn.more = turn.consumed < input.len();
            return;
        }
    }
}

/// Gathers requests of the text protocols.
fn prepare<'b>(
    session: &Session<'_>,
    worker: &Worker,
    input: &'b [u8],
    block: Option<Block<'b>>,
    turn: &mut Turn,
    batch: &mut Vec<Prepared<'b>>,
    hashed: &mut Hashed<'b>,
) {
    let routes = session.router.routes(session.binding);
    gather(session.requests_max, input, turn, batch, hashed, |rest, turn, hashed| {
        match parse(rest, &session.bounds) {
            Parsed::Request(command, taken) => {
                turn.consumed += taken;
                let command = allowed(session, command);
                hash_keys(&routes, worker, &command, hashed);
                Next::Step(Step::Run(command))
            }
            Parsed::Upload { command, taken, len } => {
                turn.consumed += taken;
                let announced = Announced::new(len, 2);
                let checked = allowed(session, command);
                if checked != command {
                    turn.take(announced.bytes(), input.len());
                    return Next::Step(Step::Run(checked));
                }
                hash_keys(&routes, worker, &command, hashed);
                Next::Last(match block {
                    None => Step::Await(Awaiting::Text(command), announced),
                    Some(Block::Whole(value)) => Step::Run(command.with_value(value)),
                    Some(Block::Lost) => Step::Lose(Awaiting::Text(command)),
                    Some(Block::Unended) => command.unended(),
                })
            }
            Parsed::Refused { reply, effect, skip } => {
                turn.take(skip, input.len());
                let may_write = session.identity.denies(Need::Write).is_none();
                Next::Step(Step::Refuse { reply, effect: if may_write { effect } else { Effect::None } })
            }
            Parsed::Incomplete(needed) => Next::Incomplete(needed),
            Parsed::Hopeless => Next::Hopeless,
        }
    });
}

impl<'b> Command<'b> {
    /// What becomes of it if its data block does not end where it should.
    fn unended(self) -> Step<'b> {
        let (reply, effect) = match self {
            Self::Store { key, noreply, .. } => (!noreply, Effect::BadChunk(key)),
            _ => (true, Effect::None),
        };
        Step::Refuse { reply: reply.then_some(answers::BAD_CHUNK), effect }
    }
}

/// The command, or its refusal if the credentials do not allow it.
fn allowed<'b>(session: &Session<'_>, command: Command<'b>) -> Command<'b> {
    let (need, noreply) = command.needs();
    match session.identity.denies(need) {
        None => command,
        Some(Denied::ReadOnly) => wrong(noreply, answers::READ_ONLY),
        Some(Denied::NoFlush) => wrong(noreply, answers::FLUSH_DISABLED),
    }
}

/// Hashes a key and prefetches its index lines.
#[inline]
pub(super) fn hash_key<'b>(routes: &Routes<'_>, worker: &Worker, text: &'b [u8], hashed: &mut Hashed<'b>) {
    let (tenant, space) = routes.of(text);
    if let Some(key) = worker.key(space, text) {
        worker.prefetch_index(&key);
        hashed.push((key, tenant));
    }
}

fn hash_keys<'b>(routes: &Routes<'_>, worker: &Worker, command: &Command<'b>, hashed: &mut Hashed<'b>) {
    let mut add = |text: &'b [u8]| hash_key(routes, worker, text, hashed);
    match *command {
        Command::Get { keys: list, .. } => keys(list).for_each(add),
        Command::Store { key, .. }
        | Command::Delete { key, .. }
        | Command::Count { key, .. }
        | Command::Touch { key, .. } => add(key),
        // A key in base64 is hashed when it is decoded.
        Command::Meta(request) if !request.is_base64() => add(request.key()),
        _ => {}
    }
}

/// Why a turn ends before its input.
pub(super) enum Ended {
    /// A write found no room; it has had no effect.
    NeedsRoom,
    /// The request's value is to come.
    Announced(Announced),
    /// The client asked for the end.
    Quit,
    /// The client asked for something else than replies.
    Asked(Asked),
    /// Too many passwords were wrong: it shows its own again then. Or a tenant is held back at a tier.
    Waits(Instant),
    /// Its password has to be verified elsewhere.
    Verifies,
}
