//! Where a turn happens: whose connection it is, and what of the server its requests need.

use super::parse::Bounds;
use super::turn::Ended;
use crate::admission::{Gate, Gates};
use crate::auth::{Grant, Identity};
use crate::config::Protocol;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::watch::Reporter;
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use store::{Item, Key, Mode, Refused, Worker};
use units::{Instant, TenantId};

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
    /// What anybody watches of what its connection can cause.
    pub(crate) watched: u32,
    /// The last attempt found no room and making room failed: the next write answers so.
    pub(crate) is_out_of_memory: bool,
    /// Gates of tenants, if a request may have to ask one.
    pub(crate) gates: Option<Gates>,
    /// When the turn began.
    pub(crate) now: Instant,
    /// What is executed had not arrived before.
    pub(crate) arrived: Instant,
    /// Where the client is, if passwords are asked for and it has an address.
    pub(crate) address: Option<IpAddr>,
    /// What became of the password that the first request shows, if it had to be verified elsewhere.
    pub(crate) verdict: Cell<Option<Option<Grant>>>,
    /// The request that is executed may wait for values of a tier; else those that are away are missed. Only the first has
    /// waited.
    pub(crate) may_fetch: Cell<bool>,
    /// The first request has waited for tokens for so long that it waits no more.
    pub(crate) has_waited_long: Cell<bool>,
    /// The server ends: nobody waits for tokens any more.
    pub(crate) is_draining: bool,
    /// Values were fetched for the request that is executed, the first one.
    pub(crate) is_fetched: Cell<bool>,
    /// Bytes that are fetched for it at once, but for a single value.
    pub(crate) fetch_bytes: usize,
    /// Keys of the first request that were answered in earlier turns.
    pub(crate) keys_done: usize,
    /// Bytes of the value that is to come of the request that is asked about, which is not to be executed.
    pub(crate) announced: Cell<Option<usize>>,
}

impl Session<'_> {
    /// Whose requests without a key are.
    pub(super) fn tenant(&self) -> TenantId {
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
            Err(_away) if self.may_fetch.get() => Err(Ended::NeedsRoom),
            away => Ok(or_lost(worker, tenant, away)),
        }
    }

    /// Whether an operation that was refused is so for good: nothing is done or fetched for it any more. What is only announced is
    /// away until it has come.
    pub(super) fn is_final(&self, why: Refused) -> bool {
        match why {
            Refused::TooLarge | Refused::OverShare => true,
            Refused::NoRoom => self.is_out_of_memory,
            Refused::Away => !self.may_fetch.get() && self.announced.get().is_none(),
        }
    }

    /// Whether a read was refused for a value that cannot be had.
    pub(super) fn is_lost(&self, why: Refused) -> bool {
        why == Refused::Away && self.is_final(why)
    }

    /// The gate that a tenant's requests have to ask.
    #[inline]
    pub(super) fn gate(&self, tenant: TenantId) -> Option<&Gate> {
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
    /// new one. What is only announced is refused or away.
    #[inline]
    pub(super) fn allows_size(
        &self,
        worker: &Worker,
        (key, tenant): (&Key<'_>, TenantId),
        mode: Mode,
        value_len: usize,
    ) -> Result<(), Refused> {
        let announced = self.announced.get();
        let most = self.gate(tenant).and_then(|gate| gate.allowance().max_item);
        if most.is_none_or(|most| (key.bytes().len() + announced.unwrap_or(value_len)) as u64 <= most.0) {
            return if announced.is_none() { Ok(()) } else { Err(Refused::Away) };
        }
        if mode == Mode::Set {
            worker.discard(key);
        }
        worker.note_too_large(tenant);
        Err(Refused::TooLarge)
    }

    /// Flushes what the connection sees, at a time as memcached's exptime says it.
    pub(super) fn flush(&self, delay: i64) {
        if let Some(at) = self.shared.flushes_at(delay) {
            self.router.flush(&self.binding, at);
        }
        self.shared.counters.cmd_flush.fetch_add(1, Ordering::Relaxed);
        self.shared.clients.flushed(self.binding);
    }

    /// Who tells those that watch, if somebody watches such events of a tenant.
    #[inline]
    pub(super) fn reporter(&self, wanted: u32, tenant: TenantId) -> Option<Reporter<'_>> {
        if self.watched & wanted == 0 {
            return None;
        }
        let (watch, store) = (&self.shared.watch, &self.shared.store);
        watch.is_seen(store, wanted, Some(tenant)).then(|| Reporter {
            watch,
            store,
            clock: &*self.shared.clock,
            connection: self.connection,
        })
    }
}

/// What a look-up has found; one whose value cannot be had is a miss.
pub(super) fn or_lost<T>(worker: &Worker, tenant: TenantId, found: Result<Option<T>, Refused>) -> Option<T> {
    found.unwrap_or_else(|_away| {
        worker.note_lost(tenant);
        None
    })
}

/// Counts a write that was refused for good, for want of room or of the value that it changes. Nobody else is to fetch that for
/// theirs.
pub(super) fn note_no_memory(worker: &Worker, tenant: TenantId, replaced: Option<&Key<'_>>) {
    let _given_up = worker.take_wanted();
    worker.note_no_memory(tenant, replaced);
}
