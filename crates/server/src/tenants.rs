//! How a tenant is recognised: by credentials (a password, a certificate), by the listener of a connection, by the
//! prefix of a key; else it is the default tenant.
//!
//! Shape:      connection -> binding; binding and key -> tenant and key space
//! Invariants: a bound connection never leaves its tenant's key space; prefix tenants share one; no key is routed to a
//!             tenant that was removed
//! Units:      prefixes are bytes, the delimiter included

mod about;
#[cfg(test)]
mod tests;

use crate::config::{Config, TenantConfig};
use crate::groups::Division;
use crate::limits::{PREFIX_MAX, TENANT_BYTES, TENANTS_MAX};
use crate::listener::Address;
use crate::tiers::Places;
pub(crate) use about::{About, AddError, Origin, Own, claim};
use control::{Claim, GroupId};
use rapidhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use store::{RankKind, Space, Store, TenantSpec};
use units::TenantId;

/// The name of the tenant that has what belongs to nobody else.
pub(crate) const DEFAULT_TENANT: &str = "default";

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
    known: RwLock<Known>,
    delimiter: Option<u8>,
    /// Users have their names as tenants, which no key may take before them.
    has_users: bool,
    any_prefix: AtomicBool,
    /// The last new prefix found no room for a tenant: others need not try until there is some.
    is_full: AtomicBool,
    /// The order of tenants that name none.
    rank: Mutex<RankKind>,
    /// Where values go.
    pub(crate) places: Places,
    /// A tenant has come, gone or changed that no decision has seen; who takes it sees what.
    pub(crate) has_new_tenant: AtomicBool,
    /// Times that anything of `known` was changed, or is being changed now.
    changes: AtomicU64,
}

/// Everybody who is there.
#[derive(Debug, Default)]
pub(crate) struct Known {
    prefixes: HashMap<Box<[u8]>, TenantId, RandomState>,
    /// Lengths of the prefixes that were set, not found by the delimiter; longest first.
    lengths: Vec<usize>,
    names: HashMap<String, TenantId>,
    /// Whose certificates with these names are.
    identities: HashMap<String, TenantId>,
    about: HashMap<TenantId, About>,
}

/// Where keys of one connection go.
#[derive(Debug)]
pub(crate) enum Routes<'r> {
    /// All to the same tenant and key space.
    All(TenantId, Space),
    /// By their prefix.
    ByPrefix(&'r Router, RwLockReadGuard<'r, Known>),
}

impl Routes<'_> {
    /// The tenant and the key space of a key.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> (TenantId, Space) {
        match self {
            Self::All(tenant, space) => (*tenant, *space),
            Self::ByPrefix(router, known) => {
                (router.by_prefix(known, key).unwrap_or(router.default), Space::Shared)
            }
        }
    }
}

impl Known {
    fn add(&mut self, id: TenantId, about: About) {
        if let Some(prefix) = &about.prefix {
            self.prefixes.insert(prefix.clone(), id);
            if about.origin != Origin::Delimiter && !self.lengths.contains(&prefix.len()) {
                self.lengths.push(prefix.len());
                self.lengths.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
        self.names.insert(about.name.clone(), id);
        self.identities.extend(about.identities.iter().map(|name| (name.clone(), id)));
        self.about.insert(id, about);
    }

    fn remove(&mut self, id: TenantId) {
        let Some(about) = self.about.remove(&id) else { return };
        if let Some(prefix) = &about.prefix {
            self.prefixes.remove(prefix);
        }
        self.names.remove(&about.name);
        self.identities.retain(|_, of| *of != id);
        let set = self.about.values().filter(|about| about.origin != Origin::Delimiter);
        self.lengths = set.filter_map(|about| about.prefix.as_ref()).map(|prefix| prefix.len()).collect();
        self.lengths.sort_unstable_by(|a, b| b.cmp(a));
        self.lengths.dedup();
    }
}

impl Router {
    /// Makes the default tenant and the configured ones.
    pub(crate) fn new(store: Arc<Store>, config: &Config) -> Option<Self> {
        let claim = Claim::default();
        let spec = TenantSpec {
            name: DEFAULT_TENANT.to_owned(),
            own_space: false,
            claim,
            rank: config.rank.clone(),
        };
        let default = store.add_tenant(spec)?;
        let router = Self {
            store,
            default,
            known: RwLock::new(Known::default()),
            delimiter: config.prefix_delimiter,
            has_users: config.auth.is_some(),
            any_prefix: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            rank: Mutex::new(config.rank.clone()),
            places: Places::of(config),
            has_new_tenant: AtomicBool::new(true),
            changes: AtomicU64::new(0),
        };
        let (name, origin) = (DEFAULT_TENANT.to_owned(), Origin::Default);
        let (own, identities) = (Own::default(), Vec::new());
        let about = About { name, prefix: None, listen: None, identities, origin, own };
        router.store.set_placement(default, router.places.resolve(None));
        router.write().add(default, about);
        let division = Division::of(config);
        for tenant in &config.tenants {
            let listen = config.listener_of(&tenant.name).map(|listener| listener.address.clone());
            let group = tenant.group.as_deref().and_then(|name| division.find(name)).map(|(id, _)| id);
            router.add(tenant, group, listen, Origin::Configuration).ok()?;
        }
        Some(router)
    }

    /// The eviction order of tenants that name none.
    pub(crate) fn rank(&self) -> RankKind {
        self.rank.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tenants that come from now on and name none have this order.
    pub(crate) fn set_rank(&self, rank: RankKind) {
        *self.rank.lock().unwrap_or_else(PoisonError::into_inner) = rank;
    }

    /// Whose keys are that no prefix tells.
    #[inline]
    pub(crate) fn default_tenant(&self) -> TenantId {
        self.default
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        let known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::Relaxed);
        known
    }

    /// Keys that were routed before this number changed may be another tenant's by now.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Makes a tenant. Keys of its prefix that are stored already stay with whom they are charged to until they are stored
    /// again or evicted.
    pub(crate) fn add(
        &self,
        tenant: &TenantConfig,
        group: Option<GroupId>,
        listen: Option<Address>,
        origin: Origin,
    ) -> Result<TenantId, AddError> {
        let mut known = self.write();
        if known.names.contains_key(&tenant.name) {
            return Err(AddError::NameTaken);
        }
        let prefix: Option<Box<[u8]>> = tenant.prefix.clone().map(Into::into);
        if let Some(other) = prefix.as_ref().and_then(|prefix| known.prefixes.get(prefix)) {
            let name = known.about.get(other).map(|about| about.name.clone());
            return Err(AddError::PrefixTaken(name.unwrap_or_default()));
        }
        if let Some(name) = tenant.identities.iter().find(|name| known.identities.contains_key(*name)) {
            return Err(AddError::IdentityTaken(name.clone()));
        }
        let spec = TenantSpec {
            name: tenant.name.clone(),
            own_space: tenant.prefix.is_none(),
            claim: claim(tenant, group),
            rank: tenant.rank.clone().unwrap_or_else(|| self.rank()),
        };
        let id = self.store.add_tenant(spec).ok_or(AddError::Full)?;
        self.store.set_over_share(id, tenant.over_share);
        self.store.set_placement(id, self.places.resolve(tenant.placement.as_ref()));
        let is_known_by_prefix = prefix.is_some();
        let (name, identities) = (tenant.name.clone(), tenant.identities.clone());
        let own = Own { rank: tenant.rank.is_some(), placement: tenant.placement.is_some() };
        known.add(id, About { name, prefix, listen, identities, origin, own });
        if is_known_by_prefix {
            self.any_prefix.store(true, Ordering::Relaxed);
        }
        self.has_new_tenant.store(true, Ordering::Release);
        Ok(id)
    }

    /// Removes a tenant that is known by a prefix: its keys are the default tenant's from now on, its items are dead.
    pub(crate) fn remove(&self, id: TenantId) {
        // A worker that has routed to it by now is within a turn, which the store waits for.
        self.write().remove(id);
        self.store.remove_tenant(id);
        self.has_new_tenant.store(true, Ordering::Release);
    }

    /// Lets new prefixes try again if there is room for another tenant.
    pub(crate) fn look_for_free_ids(&self) {
        let is_free = || self.store.has_free_tenant() && self.affords_another(self.read().about.len());
        if self.is_full.load(Ordering::Relaxed) && is_free() {
            self.is_full.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the memory has room for what there is of one more than so many tenants.
    fn affords_another(&self, tenants: usize) -> bool {
        self.store.affords_tenants(tenants + 1, TENANT_BYTES)
    }

    /// The tenant of a name.
    pub(crate) fn find(&self, name: &str) -> Option<TenantId> {
        self.read().names.get(name).copied()
    }

    /// The tenant that the first of a certificate's names belongs to that is anybody's.
    pub(crate) fn find_identity(&self, names: &[String]) -> Option<TenantId> {
        let known = self.read();
        names.iter().find_map(|name| known.identities.get(name)).copied()
    }

    /// Whether a tenant has a key space of its own.
    pub(crate) fn isolates(&self, tenant: TenantId) -> bool {
        self.store.has_own_space(tenant)
    }

    /// How a tenant is known.
    pub(crate) fn about(&self, id: TenantId) -> Option<About> {
        self.read().about.get(&id).cloned()
    }

    /// Notes what a tenant has of its own from now on.
    pub(crate) fn set_own(&self, id: TenantId, set: impl FnOnce(&mut Own)) {
        if let Some(about) = self.write().about.get_mut(&id) {
            set(&mut about.own);
        }
    }

    /// The tenant and the key space of a key.
    #[inline]
    pub(crate) fn route(&self, binding: &Binding, key: &[u8]) -> (TenantId, Space) {
        self.routes(*binding).of(key)
    }

    /// The routes of a binding for several keys. No tenant comes or goes while they are held.
    #[inline]
    pub(crate) fn routes(&self, binding: Binding) -> Routes<'_> {
        let fixed = match binding {
            Binding::To(tenant) => Some((tenant, self.space_of(tenant))),
            Binding::Unbound if !self.any_prefix.load(Ordering::Relaxed) => {
                Some((self.default, Space::Shared))
            }
            Binding::Unbound => None,
        };
        match fixed {
            Some((tenant, space)) => Routes::All(tenant, space),
            None => Routes::ByPrefix(self, self.read()),
        }
    }

    /// The key space of a bound tenant: its own, unless it is known by a prefix too.
    fn space_of(&self, tenant: TenantId) -> Space {
        if self.store.has_own_space(tenant) { Space::Own(tenant) } else { Space::Shared }
    }

    fn by_prefix(&self, known: &Known, key: &[u8]) -> Option<TenantId> {
        let set = known.lengths.iter().filter(|len| **len <= key.len());
        let found = set.filter_map(|len| known.prefixes.get(&key[..*len])).next();
        found.or_else(|| known.prefixes.get(self.delimited(key)?)).copied()
    }

    /// The prefix of a key up to its delimiter, if it can name a tenant.
    fn delimited<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let delimiter = self.delimiter?;
        // Prefixes are short: a loop in place finds their end before a call would.
        let end = key.iter().take(PREFIX_MAX).position(|b| *b == delimiter)?;
        (0 < end).then(|| &key[..=end])
    }

    /// The tenant that a key is about to be stored for: a new prefix becomes a tenant here, and only here.
    pub(crate) fn route_for_store(&self, binding: &Binding, key: &[u8], routed: TenantId) -> TenantId {
        if *binding != Binding::Unbound || routed != self.default || self.is_full.load(Ordering::Relaxed) {
            return routed;
        }
        let Some(prefix) = self.delimited(key) else { return routed };
        self.add_prefix(prefix, true).unwrap_or(routed)
    }

    /// Whose a key is that was routed so, and then stored: a new prefix may be a tenant by now.
    #[inline]
    pub(crate) fn route_stored(&self, binding: &Binding, key: &[u8], routed: TenantId) -> TenantId {
        let is_full = self.is_full.load(Ordering::Relaxed);
        if *binding != Binding::Unbound || routed != self.default || is_full || self.delimited(key).is_none()
        {
            return routed;
        }
        self.route(binding, key).0
    }

    /// The tenant of a name that is not configured, whose items a restart found: one of a prefix comes again.
    pub(crate) fn adopt(&self, name: &str, own_space: bool) -> Option<TenantId> {
        let delimiter = self.delimiter.filter(|_| !own_space)?;
        let mut prefix = name.as_bytes().to_vec();
        if prefix.last() != Some(&delimiter) {
            prefix.push(delimiter);
        }
        // What it has would be lost without it.
        self.delimited(&prefix).and_then(|prefix| self.add_prefix(prefix, false))
    }

    /// Makes a prefix a tenant, if there is room: in the memory too, where that bounds it.
    fn add_prefix(&self, prefix: &[u8], is_bounded: bool) -> Option<TenantId> {
        let mut known = self.write();
        if let Some(id) = known.prefixes.get(prefix) {
            return Some(*id);
        }
        let name = self.name_of(&known, prefix);
        let claim = Claim::default();
        let spec = TenantSpec { name: name.clone(), own_space: false, claim, rank: self.rank() };
        let tenants = known.about.len();
        let is_afforded = !is_bounded || self.affords_another(tenants);
        let fits = tenants < TENANTS_MAX && is_afforded;
        let Some(id) = fits.then(|| self.store.add_tenant(spec)).flatten() else {
            let was_full = self.is_full.swap(true, Ordering::Relaxed);
            if !is_afforded && !was_full {
                tracing::warn!(
                    "keys of new prefixes belong to the tenant '{DEFAULT_TENANT}': what is known of {tenants} tenants takes as much of the memory as it may"
                );
            }
            return None;
        };
        self.store.set_placement(id, self.places.resolve(None));
        let (prefix, identities, origin) = (Some(prefix.into()), Vec::new(), Origin::Delimiter);
        known.add(id, About { name, prefix, listen: None, identities, origin, own: Own::default() });
        self.any_prefix.store(true, Ordering::Relaxed);
        self.has_new_tenant.store(true, Ordering::Release);
        Some(id)
    }

    /// The name of a prefix that is about to become a tenant, which nobody has: the prefix without its delimiter; with it where
    /// there are users, or somebody has the name; and numbered where bytes that are no text make two look the same.
    fn name_of(&self, known: &Known, prefix: &[u8]) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (bare, whole) = (text(&prefix[..prefix.len() - 1]), text(prefix));
        let bare = (!self.has_users).then_some(bare);
        let numbered = (2_u64..).map(|number| format!("{whole}{number}"));
        let mut names = bare.into_iter().chain(std::iter::once(whole.clone())).chain(numbered);
        names.find(|name| !known.names.contains_key(name)).unwrap_or_default()
    }

    /// The tenants whose items and counters a connection sees: its own, or the default and the prefix tenants.
    pub(crate) fn visible(&self, binding: &Binding) -> Vec<TenantId> {
        match *binding {
            Binding::To(tenant) => vec![tenant],
            Binding::Unbound => self.all().filter(|id| !self.store.has_own_space(*id)).collect(),
        }
    }

    /// Every tenant, in the order of their ids.
    pub(crate) fn all(&self) -> impl Iterator<Item = TenantId> + use<'_> {
        let count = u32::try_from(self.store.tenant_count()).unwrap_or(u32::MAX);
        (0..count).map(TenantId).filter(|id| self.store.is_present(*id))
    }

    /// Flushes what a connection sees, at a second of the store's clock.
    pub(crate) fn flush(&self, binding: &Binding, at_secs: u32) {
        self.store.flush_all(&self.visible(binding), at_secs);
    }
}
