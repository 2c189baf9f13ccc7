//! What an operator can change while the server runs: tenants come, change and go, another policy divides the memory.
//!
//! Shape:      a request with names and values -> checked against who is there and how much there is -> done, or refused
//!             with what would help
//! Invariants: changes are made one after the other; reservations together fit the divisible memory; no item is lost by a
//!             change of settings or of the policy
//! Failure:    a refusal changes nothing

mod adopt;
mod groups;
mod memory;

pub use adopt::Adopted;
pub use groups::{GroupReport, GroupSettings};
pub use memory::MemorySettings;

use crate::admission::{Allowance, AllowanceChange, GateCounts};
use crate::config::{KnownBy, TenantConfig, check_tenant, refuse_place};
use crate::loops::{Helpers, MemoryLoop};
use crate::observe::TenantLatency;
use crate::shared::Shared;
use crate::sharing::{BandwidthKind, SharingView, Speeds, TierClaim};
use crate::tenants::{About, AddError, Origin, Own, Router, claim};
use crate::tiers::PlaceIn;
use control::Claim;
use groups::Fits;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{OverShare, Placement, RankKind, TenantState, Totals};
use units::{Bytes, TenantId};

/// Does what an operator asks. One per server.
#[derive(Debug)]
pub struct Operator {
    shared: Arc<Shared>,
    router: Arc<Router>,
    memory: MemoryLoop,
    helpers: Arc<Helpers>,
    /// Held by whoever changes something.
    changing: Mutex<()>,
}

/// What is to be so of a tenant; what is absent stays, or is the default of a new one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    /// Keys that begin with this belong to it; only of a new tenant.
    pub prefix: Option<String>,
    /// Private memory that nobody takes.
    pub reserved: Option<Bytes>,
    /// Its part of the unreserved memory, relative to the others'.
    pub weight: Option<f64>,
    /// Bytes per shadow hit; none inside for the server's.
    pub credit: Option<Option<Bytes>>,
    /// Its eviction order; none inside for the server's.
    pub rank: Option<Option<RankKind>>,
    /// What becomes of its writes beyond its share.
    pub over_share: Option<OverShare>,
    /// Where its values go; none inside for where the server says.
    pub placement: Option<Option<PlaceIn>>,
    /// What it claims of a tier's bandwidth.
    pub bandwidth: Option<TierClaim>,
    /// The group that it is in; none inside for none.
    pub group: Option<Option<String>>,
    /// What it is allowed beside memory.
    pub allowance: AllowanceChange,
}

/// What of a tenant settings have changed or not.
#[derive(PartialEq)]
struct Settled {
    claim: Claim,
    over_share: OverShare,
    placement: Placement,
    rank: RankKind,
    own: Own,
    bandwidth: TierClaim,
    allowance: Allowance,
}

/// One tenant as it is.
#[derive(Clone, Debug)]
pub struct TenantReport {
    /// What the store knows.
    pub state: TenantState,
    /// What it counted.
    pub totals: Totals,
    /// How long its requests took.
    pub latency: TenantLatency,
    /// What it is allowed beside memory.
    pub allowance: Allowance,
    /// What its gate counted.
    pub gate: GateCounts,
    /// Keys that begin with this belong to it.
    pub prefix: Option<String>,
    /// Connections to this address belong to it.
    pub listen: Option<crate::Address>,
    /// Where its values go: `dram`, `auto` or a tier's name.
    pub placement: String,
    /// The tiers' names, in the order of what it counted at them.
    pub tiers: Vec<String>,
    /// What it claims of a tier's bandwidth.
    pub bandwidth: TierClaim,
    /// How much slower it is than alone there, if the policy in charge knows.
    pub slowdown: Option<f64>,
    /// The group that it is in.
    pub group: Option<String>,
    /// Who made it: `default`, `configuration`, `delimiter` or `administration`.
    pub origin: &'static str,
}

/// Why something was not done, and what would help.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// What is wrong, one line.
    pub what: String,
    /// What would likely help, one line.
    pub cure: String,
}

/// Kinds of refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalKind {
    /// The request makes no sense.
    Malformed,
    /// There is no such thing.
    Unknown,
    /// It does not go together with what is there.
    Conflict,
}

impl Refusal {
    /// A refusal of this kind.
    pub(crate) fn new(kind: RefusalKind, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { kind, what: what.into(), cure: cure.into() }
    }
}

fn conflict<T>(what: impl Into<String>, cure: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalKind::Conflict, what, cure))
}

impl Operator {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        router: &Arc<Router>,
        memory: &MemoryLoop,
        helpers: &Arc<Helpers>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            router: Arc::clone(router),
            memory: Arc::clone(memory),
            helpers: Arc::clone(helpers),
            changing: Mutex::new(()),
        }
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every tenant, in the order of their ids.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantReport> {
        self.router.all().filter_map(|id| self.report(id)).collect()
    }

    /// One tenant.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn tenant(&self, name: &str) -> Result<TenantReport, Refusal> {
        self.find(name).and_then(|id| self.report(id).ok_or_else(|| unknown(name)))
    }

    fn find(&self, name: &str) -> Result<TenantId, Refusal> {
        self.router.find(name).ok_or_else(|| unknown(name))
    }

    fn report(&self, id: TenantId) -> Option<TenantReport> {
        let about = self.router.about(id)?;
        let state = self.shared.store.tenant_state(id)?;
        let group =
            state.claim.group.and_then(|group| Some(self.shared.in_charge.now().at(group)?.name.clone()));
        let (allowance, gate) = self.shared.admission.of(id);
        Some(TenantReport {
            allowance,
            gate,
            group,
            placement: self.router.places.word(state.placement).to_owned(),
            tiers: self.router.places.names().to_vec(),
            bandwidth: self.shared.sharing.claim(id),
            slowdown: self.shared.sharing.slowdown(id),
            state,
            totals: self.shared.store.totals(id),
            latency: self.shared.observed.latencies(&[id], self.shared.clock.now()).pop().unwrap_or_default(),
            prefix: about.prefix.map(|prefix| String::from_utf8_lossy(&prefix).into_owned()),
            listen: about.listen,
            origin: about.origin.word(),
        })
    }

    /// Makes a tenant of that name, or changes the one that is there. Returns whether it is new.
    ///
    /// # Errors
    /// If the settings make no sense, or do not go together with the other tenants.
    pub fn put(&self, name: &str, settings: &Settings) -> Result<bool, Refusal> {
        let _one_at_a_time = self.change();
        self.put_now(name, settings, Fits::Each)
    }

    /// The same, for whoever has the turn.
    fn put_now(&self, name: &str, settings: &Settings, fits: Fits) -> Result<bool, Refusal> {
        match self.router.find(name) {
            Some(id) => self.set(id, name, settings, fits).map(|()| false),
            None => self.add(name, settings).map(|()| true),
        }
    }

    fn add(&self, name: &str, settings: &Settings) -> Result<(), Refusal> {
        let Some(prefix) = &settings.prefix else {
            return Err(Refusal::new(
                RefusalKind::Unknown,
                format!("there is no tenant '{name}', and a new one needs a prefix"),
                "give a prefix; a tenant with a port of its own is made by the configuration, at the start",
            ));
        };
        let tenant = TenantConfig {
            name: name.to_owned(),
            prefix: Some(prefix.clone().into_bytes()),
            listen: None,
            identities: Vec::new(),
            reserved: settings.reserved.unwrap_or_default(),
            weight: settings.weight.unwrap_or(1.0),
            credit: settings.credit.flatten(),
            rank: settings.rank.clone().flatten(),
            over_share: settings.over_share.unwrap_or_default(),
            placement: settings.placement.clone().flatten(),
            bandwidth: settings.bandwidth.clone().unwrap_or_default(),
            group: settings.group.clone().flatten(),
            users: Vec::new(),
            allowance: Allowance::default().changed(&settings.allowance),
        };
        check_settings(&tenant)?;
        self.check_place(&tenant)?;
        let group = self.check_reserved(None, &tenant, Fits::Each)?;
        let added = self.router.add(&tenant, group, None, Origin::Administration);
        let id = added.map_err(|error| match error {
            AddError::NameTaken => {
                Refusal::new(RefusalKind::Conflict, format!("'{name}' is taken"), "try again")
            }
            AddError::PrefixTaken(other) => Refusal::new(
                RefusalKind::Conflict,
                format!("the prefix '{prefix}' belongs to tenant '{other}'"),
                format!("change tenant '{other}', or remove it first"),
            ),
            AddError::IdentityTaken(identity) => Refusal::new(
                RefusalKind::Conflict,
                format!("the identity '{identity}' is another tenant's"),
                "give each tenant identities of its own",
            ),
            AddError::Full => Refusal::new(
                RefusalKind::Conflict,
                format!("there are {} tenants, as many as can be", self.shared.config.max_tenants),
                "remove one and wait a second, or start with a larger max_tenants",
            ),
        })?;
        self.shared.admission.allow(id, tenant.allowance);
        self.shared.sharing.set_claim(id, &tenant.bandwidth);
        tracing::info!("tenant '{name}' was added with the prefix '{prefix}'");
        self.helpers.wake_control();
        self.helpers.wake_bandwidth();
        Ok(())
    }

    fn set(&self, id: TenantId, name: &str, settings: &Settings, fits: Fits) -> Result<(), Refusal> {
        let store = &self.shared.store;
        let (Some(about), Some(state)) = (self.router.about(id), store.tenant_state(id)) else {
            return Err(unknown(name));
        };
        if let Some(prefix) = &settings.prefix
            && about.prefix.as_deref() != Some(prefix.as_bytes())
        {
            return conflict(
                format!("the prefix of tenant '{name}' cannot change"),
                "add a tenant with the new prefix and remove this one",
            );
        }
        let reserved = state.claim.floor.bytes;
        let division = self.shared.in_charge.now();
        let group = state.claim.group.and_then(|id| division.at(id)).map(|group| group.name.clone());
        let tenant = TenantConfig {
            name: name.to_owned(),
            prefix: about.prefix.as_deref().map(<[u8]>::to_vec),
            listen: None,
            identities: about.identities.clone(),
            reserved: settings.reserved.unwrap_or(reserved),
            weight: settings.weight.unwrap_or(state.claim.weight.get()),
            credit: settings.credit.unwrap_or(state.claim.credit),
            rank: settings.rank.clone().flatten(),
            over_share: settings.over_share.unwrap_or(state.over_share),
            placement: settings.placement.clone().flatten(),
            bandwidth: settings.bandwidth.clone().unwrap_or_else(|| self.shared.sharing.claim(id)),
            group: settings.group.clone().unwrap_or_else(|| group.clone()),
            users: Vec::new(),
            allowance: self.shared.admission.of(id).0.changed(&settings.allowance),
        };
        check_changed(&about, &tenant)?;
        self.check_place(&tenant)?;
        let group = if reserved < tenant.reserved || tenant.group != group {
            self.check_reserved(Some(id), &tenant, fits)?
        } else {
            state.claim.group
        };
        let before = self.settled(id);
        store.set_claim(id, claim(&tenant, group));
        store.set_over_share(id, tenant.over_share);
        self.shared.sharing.set_claim(id, &tenant.bandwidth);
        if settings.placement.is_some() {
            store.set_placement(id, self.router.places.resolve(tenant.placement.as_ref()));
            self.router.set_own(id, |own| own.placement = tenant.placement.is_some());
        }
        if let Some(rank) = &settings.rank {
            store.set_rank(id, rank.clone().unwrap_or_else(|| self.router.rank()));
            self.router.set_own(id, |own| own.rank = rank.is_some());
        }
        if settings.allowance != AllowanceChange::default() {
            self.shared.admission.allow(id, tenant.allowance);
        }
        if self.settled(id) != before {
            tracing::info!("tenant '{name}' was changed");
            self.decide_soon();
        }
        Ok(())
    }

    /// What is so of a tenant that can be changed.
    fn settled(&self, id: TenantId) -> Option<Settled> {
        let state = self.shared.store.tenant_state(id)?;
        Some(Settled {
            claim: state.claim,
            over_share: state.over_share,
            placement: state.placement,
            rank: state.rank,
            own: self.router.about(id)?.own,
            bandwidth: self.shared.sharing.claim(id),
            allowance: self.shared.admission.of(id).0,
        })
    }

    fn check_place(&self, tenant: &TenantConfig) -> Result<(), Refusal> {
        let places = &self.router.places;
        match &tenant.placement {
            Some(place) if places.find(place).is_none() => {
                refuse_place(places.names().iter().map(String::as_str), place).map_err(
                    |crate::config::ConfigError { what, cure }| {
                        Refusal::new(RefusalKind::Malformed, what, cure)
                    },
                )
            }
            _ => Ok(()),
        }
    }

    /// Removes a tenant: its items are dead at once, its memory is the others'.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Refusal> {
        let _one_at_a_time = self.change();
        self.remove_now(name)
    }

    /// The same, for whoever has the turn.
    fn remove_now(&self, name: &str) -> Result<(), Refusal> {
        let id = self.find(name)?;
        let about = self.router.about(id).ok_or_else(|| unknown(name))?;
        if about.origin == Origin::Default {
            return conflict(
                "the default tenant cannot be removed",
                "flush_all clears it and the prefix tenants",
            );
        }
        if !about.identities.is_empty() {
            return conflict(
                format!("tenant '{name}' has connections of its own, by their certificates"),
                "flush_all there clears it; take it out of the configuration and start again",
            );
        }
        if let Some(address) = about.listen {
            return conflict(
                format!("tenant '{name}' has connections of its own at {address}"),
                "flush_all there clears it; take it out of the configuration and start again",
            );
        }
        if self.router.isolates(id) {
            return conflict(
                format!("tenant '{name}' has connections of its own users"),
                "flush_all there clears it; take its users out of their file and start again",
            );
        }
        self.router.remove(id);
        self.shared.admission.forget(id);
        self.shared.watch.forget(id);
        self.shared.clients.forget(id);
        self.shared.baseline.forget(id);
        self.shared.sharing.set_claim(id, &TierClaim::default());
        self.shared.observed.forget(id, self.shared.clock.now());
        tracing::info!("tenant '{name}' was removed");
        self.decide_soon();
        self.helpers.wake_cleaners(1);
        Ok(())
    }

    /// How the loop about a tier's bandwidth stands.
    #[must_use]
    pub fn sharing(&self) -> SharingView {
        self.shared.sharing.view()
    }

    /// The name of the tier whose bandwidth is divided.
    #[must_use]
    pub fn divided_tier(&self) -> Option<&str> {
        let tier = self.shared.store.divided_tier()?;
        self.router.places.names().get(usize::from(tier)).map(String::as_str)
    }

    /// Lets another policy divide a tier's bandwidth from now on. Returns whether that is a change.
    ///
    /// # Errors
    /// If there is no tier, or the policy needs to know more of it or of tenants.
    pub fn set_bandwidth_policy(&self, kind: BandwidthKind) -> Result<bool, Refusal> {
        let _one_at_a_time = self.change();
        if self.shared.store.divided_tier().is_none() && kind != BandwidthKind::NONE {
            return conflict("there is no tier whose bandwidth could be divided", "start with --tier");
        }
        let path = self.shared.sharing.speeds_file();
        let speeds = Speeds::of_policy(kind, path.as_deref(), |name| self.router.find(name).is_some())
            .or_else(|e| conflict(told(&e), e.cure()))?;
        let switched = self.shared.sharing.switch(kind, speeds, self.shared.clock.now());
        let is_change = match switched {
            Ok(is_change) => is_change,
            Err(unmeasured) => {
                let cure = format!("stop the server, {}, start it again", unmeasured.command());
                return conflict(unmeasured.to_string(), cure);
            }
        };
        if is_change {
            tracing::info!("the bandwidth of a tier is divided by {kind} from now on");
            self.decide_soon();
        }
        Ok(is_change)
    }

    fn decide_soon(&self) {
        self.shared.sharing.ask();
        self.router.has_new_tenant.store(true, Ordering::Release);
        self.helpers.wake_control();
        self.helpers.wake_bandwidth();
    }
}

/// An error with its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

fn unknown(name: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Unknown,
        format!("there is no tenant '{name}'"),
        "cotenant tenant list names all",
    )
}

fn check_settings(tenant: &TenantConfig) -> Result<(), Refusal> {
    // However it is known: one that runs is.
    check_tenant(tenant, KnownBy { users: true, listener: true })
        .map_err(|e| Refusal::new(RefusalKind::Malformed, e.what, e.cure))
}

/// Checks the new values of a tenant, whatever it is called and known by.
fn check_changed(about: &About, tenant: &TenantConfig) -> Result<(), Refusal> {
    let is_configured = matches!(about.origin, Origin::Configuration | Origin::Administration);
    let (name, prefix) = if is_configured {
        (tenant.name.clone(), tenant.prefix.clone())
    } else {
        // The default tenant has no prefix, one of the delimiter any name.
        ("default".to_owned(), Some(vec![b':']))
    };
    check_settings(&TenantConfig { name, prefix, ..tenant.clone() })
}
