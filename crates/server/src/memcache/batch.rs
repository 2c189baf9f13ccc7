//! The requests of a turn: parsed, their keys hashed, each with what is to be done for it.
//!
//! Shape:      input -> requests one by one, with their keys' first index lines on the way -> a batch that is executed in order
//! Invariants: replies are in the order of the requests

use super::parse::{Command, Effect, Named, Parsed, keys, parse, wrong};
use super::reply::{Replies, text as answers};
use super::session::Session;
use super::turn::{Announced, Block, Ended, Turn};
use super::{binary, log_in, meta, text};
use crate::auth::{Denied, Identity, Need};
use crate::connection::Parting;
use crate::limits::{KEY_MAX, KEYS_AHEAD, KEYS_PER_TURN};
use crate::observe::Operation;
use crate::tenants::Routes;
use store::{Key, Worker};
use units::TenantId;

/// A request whose value is to come.
pub(super) enum Awaiting<'b> {
    Text(Command<'b>),
    Binary(binary::Request<'b>),
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
    fn operation(&self) -> Operation {
        match self {
            Self::Text(command) => command.operation(),
            Self::Binary(request) => request.operation(),
        }
    }
}

impl<'b> Step<'b> {
    /// What it asks for.
    #[inline]
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Run(command) => command.operation(),
            Self::Binary(request) => request.operation(),
            Self::Await(awaiting, _) | Self::Lose(awaiting) => awaiting.operation(),
            Self::Refuse { .. } | Self::LogIn(_) => Operation::Other,
        }
    }

    /// Whether it has more keys than are looked at in this turn.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::Run(Command::Get { goes_on: true, .. }))
    }

    /// Whose it is if no key of it was hashed: that of a key in base64, or the connection's.
    pub(super) fn tenant(&self, session: &Session<'_>) -> TenantId {
        let mut decoded = [0; KEY_MAX];
        match self.base64_key().and_then(|key| meta::decode(key, &mut decoded)) {
            Some(key) => session.router.route(&session.binding, key).0,
            None => session.tenant(),
        }
    }

    /// Its key as given, if that is in base64.
    pub(super) fn base64_key(&self) -> Option<&'b [u8]> {
        match self {
            Self::Run(Command::Meta(request)) | Self::Await(Awaiting::Text(Command::Meta(request)), _)
                if request.is_base64() =>
            {
                Some(request.key())
            }
            _ => None,
        }
    }

    /// Executes it.
    #[inline]
    pub(super) fn execute<'w>(
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
            Self::Await(awaiting, announced) => {
                // Nothing is received, and no memory made, for a value that its tenant may not store.
                let is_limited = session.gates.is_some();
                session.announced.set(is_limited.then_some(announced.bytes_of_value()));
                let refused = match awaiting {
                    _ if !is_limited => Err(Ended::NeedsRoom),
                    Awaiting::Text(command) => text::execute(session, worker, *command, keys, replies),
                    Awaiting::Binary(request) => {
                        binary::execute(session, worker, request, keys, replies, identity)
                    }
                };
                session.announced.set(None);
                refused.map_err(|_away| Ended::Announced(*announced))
            }
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
    pub(super) fn credentials(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::LogIn(log_in::Message::Show { user, password }) => Some((user, password)),
            Self::Binary(request) => binary::credentials(request),
            _ => None,
        }
    }

    /// Answers that its tenant asks for too much at once.
    pub(super) fn refuse_rate<'w>(
        &self,
        session: &Session<'_>,
        worker: &'w Worker,
        replies: &mut Replies<'w>,
    ) {
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

/// Keys of a batch with whom they belong to; their first index lines are on the way.
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
                turn.close = Some(Parting::Error);
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
pub(super) fn prepare<'b>(
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
        let window = window(session, turn.consumed == 0);
        match parse(rest, &session.bounds) {
            Parsed::Request(command, taken) => {
                turn.consumed += taken;
                let command = allowed(session, command);
                Next::Step(Step::Run(hash_keys(&routes, worker, (command, window), hashed)))
            }
            Parsed::Upload { command, taken, len } => {
                turn.consumed += taken;
                let announced = Announced::new(len, 2);
                let checked = allowed(session, command);
                if checked != command {
                    turn.take(announced.bytes(), input.len());
                    return Next::Step(Step::Run(checked));
                }
                let command = hash_keys(&routes, worker, (command, window), hashed);
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
            Self::Store { key, noreply, .. } => (!noreply, Effect::BadChunk(Named::Plain(key))),
            Self::Meta(request) => (true, Effect::BadChunk(request.named())),
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

/// Hashes a key and prefetches its first index line.
#[inline]
pub(super) fn hash_key<'b>(routes: &Routes<'_>, worker: &Worker, text: &'b [u8], hashed: &mut Hashed<'b>) {
    let (tenant, space) = routes.of(text);
    if let Some(key) = worker.key(space, text) {
        worker.prefetch_index(&key);
        hashed.push((key, tenant));
    }
}

/// Keys of a `get` that a turn looks at: behind so many that have been answered, and so many at most.
#[derive(Clone, Copy)]
struct Window {
    done: usize,
    most: usize,
}

/// The window of a turn's first request, or of one behind it. Who has tokens takes those of all keys at once.
fn window(session: &Session<'_>, is_first: bool) -> Window {
    let done = if is_first { session.keys_done } else { 0 };
    let most = if session.gates.is_none() || 0 < done { KEYS_PER_TURN } else { usize::MAX };
    Window { done, most }
}

/// Hashes the keys of a `get` that are in its window, and prefetches for the first of them. Returns whether there are more.
fn hash_list<'b>(
    routes: &Routes<'_>,
    worker: &Worker,
    (list, window): (impl Iterator<Item = &'b [u8]>, Window),
    hashed: &mut Hashed<'b>,
) -> bool {
    let mut list = list.skip(window.done);
    for (at, text) in list.by_ref().take(window.most).enumerate() {
        if at < KEYS_AHEAD {
            hash_key(routes, worker, text, hashed);
        } else {
            let (tenant, space) = routes.of(text);
            hashed.extend(worker.key(space, text).map(|key| (key, tenant)));
        }
    }
    list.next().is_some()
}

/// Hashes the keys of a request. Returns what is to be done in this turn.
fn hash_keys<'b>(
    routes: &Routes<'_>,
    worker: &Worker,
    (command, window): (Command<'b>, Window),
    hashed: &mut Hashed<'b>,
) -> Command<'b> {
    let mut add = |text: &'b [u8]| hash_key(routes, worker, text, hashed);
    match command {
        Command::Get { kind, touch, keys: list, .. } => {
            let goes_on = hash_list(routes, worker, (keys(list), window), hashed);
            return Command::Get { kind, touch, keys: list, goes_on };
        }
        Command::Store { key, .. }
        | Command::Delete { key, .. }
        | Command::Count { key, .. }
        | Command::Touch { key, .. } => {
            add(key);
            hashed.last().inspect(|(key, _)| worker.prefetch_locks(key));
        }
        // A key in base64 is hashed when it is decoded.
        Command::Meta(request) if !request.is_base64() => add(request.key()),
        _ => {}
    }
    command
}
