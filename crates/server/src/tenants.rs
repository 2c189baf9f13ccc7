//! How a tenant is recognised: by the listener of its connection, by the prefix of a key, else the default tenant.
//!
//! Shape:      connection -> binding; binding and key -> tenant and key space
//! Invariants: a bound connection never leaves its tenant's key space; prefix tenants share one
//! Units:      prefixes are bytes, the delimiter included

use crate::config::{Config, TenantConfig};
use crate::limits::{PREFIX_MAX, TENANTS_MAX};
use control::{Amount, Claim, Weight};
use memchr::memchr;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use store::{RankKind, Space, Store, TenantSpec};
use units::TenantId;

/// Whose connection it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binding {
    /// Nobody's: the key decides.
    Unbound,
    /// A tenant's own.
    To(TenantId),
}

/// Recognises tenants. One per server.
#[derive(Debug)]
pub(crate) struct Router {
    store: Arc<Store>,
    default: TenantId,
    prefixes: RwLock<HashMap<Box<[u8]>, TenantId>>,
    /// Lengths of the configured prefixes, longest first.
    lengths: Vec<usize>,
    delimiter: Option<u8>,
    any_prefix: AtomicBool,
    tenants_left: AtomicUsize,
    rank: RankKind,
    /// A tenant has come that no decision has seen.
    pub(crate) has_new_tenant: AtomicBool,
}

/// A tenant of its own listener.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) id: TenantId,
    pub(crate) listen: std::net::SocketAddr,
}

fn spec(tenant: &TenantConfig, rank: &RankKind) -> TenantSpec {
    let claim = Claim {
        weight: Weight::new(tenant.weight).unwrap_or_default(),
        floor: Amount::memory(tenant.reserved),
        credit: tenant.credit,
        ..Claim::default()
    };
    let own_space = tenant.listen.is_some() && tenant.prefix.is_none();
    TenantSpec {
        name: tenant.name.clone(),
        own_space,
        claim,
        rank: tenant.rank.as_ref().unwrap_or(rank).clone(),
    }
}

impl Router {
    /// Makes the default tenant and the configured ones; returns those with listeners of their own.
    pub(crate) fn new(store: Arc<Store>, config: &Config) -> Option<(Self, Vec<Bound>)> {
        let named = |name: &str| TenantSpec {
            name: name.to_owned(),
            own_space: false,
            claim: Claim::default(),
            rank: config.rank.clone(),
        };
        let default = store.add_tenant(named("default"))?;
        let mut prefixes: HashMap<Box<[u8]>, TenantId> = HashMap::new();
        let mut bound = Vec::new();
        for tenant in &config.tenants {
            let id = store.add_tenant(spec(tenant, &config.rank))?;
            if let Some(prefix) = &tenant.prefix {
                prefixes.insert(prefix.clone().into(), id);
            }
            if let Some(listen) = tenant.listen {
                bound.push(Bound { name: tenant.name.clone(), id, listen });
            }
        }
        let mut lengths: Vec<usize> = prefixes.keys().map(|p| p.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let left = config.max_tenants.min(TENANTS_MAX).saturating_sub(1 + config.tenants.len());
        let router = Self {
            store,
            default,
            any_prefix: AtomicBool::new(!prefixes.is_empty()),
            prefixes: RwLock::new(prefixes),
            lengths,
            delimiter: config.prefix_delimiter,
            tenants_left: AtomicUsize::new(left),
            rank: config.rank.clone(),
            has_new_tenant: AtomicBool::new(true),
        };
        Some((router, bound))
    }

    /// The tenant and the key space of a key.
    #[inline]
    pub(crate) fn route(&self, binding: &Binding, key: &[u8]) -> (TenantId, Space) {
        match *binding {
            Binding::To(tenant) => (tenant, self.space_of(tenant)),
            Binding::Unbound if !self.any_prefix.load(Ordering::Relaxed) => (self.default, Space::Shared),
            Binding::Unbound => (self.by_prefix(key).unwrap_or(self.default), Space::Shared),
        }
    }

    /// The key space of a bound tenant: its own, unless it is known by a prefix too.
    fn space_of(&self, tenant: TenantId) -> Space {
        if self.store.has_own_space(tenant) { Space::Own(tenant) } else { Space::Shared }
    }

    fn by_prefix(&self, key: &[u8]) -> Option<TenantId> {
        let prefixes = self.prefixes.read().unwrap_or_else(PoisonError::into_inner);
        let configured = self.lengths.iter().filter(|len| **len <= key.len());
        let found = configured.filter_map(|len| prefixes.get(&key[..*len])).next();
        found.or_else(|| prefixes.get(self.delimited(key)?)).copied()
    }

    /// The prefix of a key up to its delimiter, if it can name a tenant.
    fn delimited<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let end = memchr(self.delimiter?, key)?;
        (0 < end && end < PREFIX_MAX).then(|| &key[..=end])
    }

    /// The tenant that a key is about to be stored for: a new prefix becomes a tenant here, and only here.
    pub(crate) fn route_for_store(&self, binding: &Binding, key: &[u8], routed: TenantId) -> TenantId {
        if *binding != Binding::Unbound || routed != self.default {
            return routed;
        }
        let Some(prefix) = self.delimited(key) else { return routed };
        self.add_prefix(prefix).unwrap_or(routed)
    }

    fn add_prefix(&self, prefix: &[u8]) -> Option<TenantId> {
        let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = prefixes.get(prefix) {
            return Some(*id);
        }
        let taken =
            self.tenants_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        taken.ok()?;
        let name = String::from_utf8_lossy(&prefix[..prefix.len() - 1]).into_owned();
        let spec = TenantSpec { name, own_space: false, claim: Claim::default(), rank: self.rank.clone() };
        let id = self.store.add_tenant(spec)?;
        prefixes.insert(prefix.into(), id);
        self.any_prefix.store(true, Ordering::Relaxed);
        self.has_new_tenant.store(true, Ordering::Relaxed);
        Some(id)
    }

    /// The tenants whose items and counters a connection sees: its own, or the default and the prefix tenants.
    pub(crate) fn visible(&self, binding: &Binding) -> Vec<TenantId> {
        match *binding {
            Binding::To(tenant) => vec![tenant],
            Binding::Unbound => self.all().filter(|id| !self.store.has_own_space(*id)).collect(),
        }
    }

    /// Every tenant.
    pub(crate) fn all(&self) -> impl Iterator<Item = TenantId> + use<> {
        let count = u32::try_from(self.store.tenant_count()).unwrap_or(u32::MAX);
        (0..count).map(TenantId)
    }

    /// Flushes what a connection sees, at a second of the store's clock.
    pub(crate) fn flush(&self, binding: &Binding, at_secs: u32) {
        for tenant in self.visible(binding) {
            self.store.flush(tenant, at_secs);
        }
    }
}
