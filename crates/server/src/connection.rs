//! A connection: what it has sent that is not done with yet, and what it waits for.
//!
//! Invariants: input is kept only while a request is incomplete or waits for its turn; an idle connection holds none

use crate::auth::{Grant, Identity};
use crate::config::Protocol;
use crate::dump::Dump;
use crate::listener::Door;
use crate::outgoing::Outgoing;
use crate::reactor::StreamId;
use crate::stats::Client;
use crate::tenants::Binding;
use crate::watch::Watcher;
use crate::worker::Receiving;
use std::sync::Arc;
use units::{Instant, TenantId};

/// What a connection is sent that takes its time.
#[derive(Debug)]
pub(crate) enum Lasting {
    /// A list of items; requests go on behind it.
    Dump(Dump),
    /// Replies with large values; requests go on behind them.
    Values(Outgoing),
    /// Log lines, until it closes.
    Watch(Arc<Watcher>),
}

/// Why a connection ends, as those who watch are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parting {
    /// Its stream failed, what it sent is no request, or there is no memory for it.
    Error,
    /// Its client wished it, or sends no more.
    Normal,
    /// It was silent for too long.
    Idle,
    /// The server ends.
    Shutdown,
}

impl Parting {
    /// memcached's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Normal => "normal",
            Self::Idle => "idle_timeout",
            Self::Shutdown => "shutdown",
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: StreamId,
    /// What is spoken, once its first byte has told.
    pub(crate) protocol: Protocol,
    pub(crate) identity: Identity,
    /// Where it came in.
    pub(crate) door: Arc<Door>,
    /// Replies that wait for those of the next turn, while more of its requests are here.
    pub(crate) owed: Vec<u8>,
    /// Input that is not done with.
    pub(crate) input: Vec<u8>,
    /// Bytes of input that the next request needs, as far as is known.
    pub(crate) needed: usize,
    /// Its last request was a large one.
    pub(crate) brings_large: bool,
    /// A large value on its way in.
    pub(crate) upload: Option<Box<Receiving>>,
    /// Bytes of the stream that are skipped.
    pub(crate) skip: u64,
    /// A reply is on its way; nothing is executed meanwhile.
    pub(crate) is_sending: bool,
    /// It is in the list of those that wait for another turn.
    pub(crate) is_waiting: bool,
    /// It waits for memory for the rest of its request.
    pub(crate) is_starved: bool,
    /// It has waited for memory for the request that its input begins.
    pub(crate) has_waited: bool,
    /// Values for its next request are on their way.
    pub(crate) is_fetching: bool,
    /// Times that this was so for the same value.
    pub(crate) fetches_made: u8,
    /// Keys of the request that its input begins with that have been answered.
    pub(crate) keys_done: usize,
    /// It has no tokens until then; or its password is being verified, or values are fetched for it.
    pub(crate) parked_until: Option<Instant>,
    /// When its next request arrived, if that is held back at a tier.
    pub(crate) held_since: Option<Instant>,
    /// When its next request arrived, if that waits for tokens.
    pub(crate) waits_since: Option<Instant>,
    /// That is a password, which cannot be looked at yet.
    pub(crate) waits_to_log_in: bool,
    /// What became of the password that its input begins with, if that was verified elsewhere.
    pub(crate) verdict: Option<Option<Grant>>,
    /// Whose connection those who watch were told that it is; none before they were told that it came.
    pub(crate) told: Option<Binding>,
    /// Whose connection it is counted as.
    pub(crate) counted: Option<TenantId>,
    /// Bytes of replies that its socket has not taken.
    pub(crate) unsent: usize,
    /// It is not read from.
    pub(crate) is_paused: bool,
    /// It is closed once its reply has gone.
    pub(crate) is_closing: bool,
    /// Why it ends, once it does.
    pub(crate) parting: Parting,
    /// Bytes of buffers accounted for it.
    pub(crate) accounted: usize,
    /// When it was last heard of.
    pub(crate) active: Instant,
    /// What it is sent instead of replies.
    pub(crate) lasting: Option<Lasting>,
    /// The same for `stats conns`.
    pub(crate) client: Arc<Client>,
}

impl Connection {
    pub(crate) fn new(id: StreamId, client: Arc<Client>, door: Arc<Door>, now: Instant) -> Self {
        let terms = door.terms;
        Self {
            id,
            protocol: terms.protocol,
            identity: Identity::new(terms.tenant, terms.auth),
            door,
            owed: Vec::new(),
            input: Vec::new(),
            needed: 0,
            brings_large: false,
            upload: None,
            skip: 0,
            is_sending: false,
            is_waiting: false,
            is_starved: false,
            has_waited: false,
            is_fetching: false,
            fetches_made: 0,
            keys_done: 0,
            parked_until: None,
            held_since: None,
            waits_since: None,
            waits_to_log_in: false,
            verdict: None,
            told: None,
            counted: None,
            unsent: 0,
            is_paused: false,
            is_closing: false,
            parting: Parting::Error,
            accounted: 0,
            active: now,
            lasting: None,
            client,
        }
    }

    /// Whether nothing of it is executed now.
    pub(crate) fn takes_no_turn(&self) -> bool {
        self.is_sending || self.parked_until.is_some() || self.lasting.is_some()
    }

    /// Whether it is to be sent something still, or answered: a server that ends waits for it.
    pub(crate) fn is_owed(&self) -> bool {
        let lists = matches!(self.lasting, Some(Lasting::Dump(_) | Lasting::Values(_)));
        self.is_sending || self.is_waiting || self.is_fetching || self.parked_until.is_some() || lists
    }

    /// Whether a large value has come whose request needs another that is away.
    pub(crate) fn awaits_another(&self) -> bool {
        self.upload.as_ref().is_some_and(|receiving| receiving.is_whole())
    }

    /// Whether it is sent replies with large values.
    pub(crate) fn sends_values(&self) -> bool {
        matches!(self.lasting, Some(Lasting::Values(_)))
    }

    /// Drops what is to be skipped off the front of `data`.
    pub(crate) fn after_skipped<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let here = usize::try_from(self.skip).unwrap_or(usize::MAX).min(data.len());
        self.skip -= here as u64;
        &data[here..]
    }
}
