//! Whether settings fit together: sizes, policies, tenants and listeners.
//!
//! Invariants: what passes has no floors above the memory, no tenants or listeners that collide, and no tier where items are saved
//! Failure:    the first thing that does not fit, and what would

use super::notes::check_notes;
use super::{Config, TenantConfig};
use crate::groups::{Division, Member, check_groups};
use crate::limits;
use crate::listener::TlsMode;
use crate::saved::written_at;
use crate::sharing::BandwidthKind;
use crate::tenants::DEFAULT_TENANT;
use crate::terms::Terms;
use crate::tiers::{ALL_TIERS, PlaceIn, path_of};
use crate::tls::check_ciphers;
use std::path::{Path, PathBuf};
use store::Geometry;
use units::{Bytes, Duration};

/// Shortest time between two decisions over DRAM and bandwidth: what was used in less says nothing (`store`'s joint sensor).
const EPOCH_MIN: Duration = Duration::from_millis(100);

/// Why a set of settings is no configuration: what is wrong, and the likely cure.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct ConfigError {
    /// What is wrong, one line.
    pub what: String,
    /// What would likely help, one line.
    pub cure: String,
}

pub(crate) fn refuse<T>(what: String, cure: &str) -> Result<T, ConfigError> {
    Err(ConfigError { what, cure: cure.to_owned() })
}

/// The refusal of a placement that names no tier.
pub(crate) fn refuse_place<'a, T>(
    names: impl Iterator<Item = &'a str>,
    place: &PlaceIn,
) -> Result<T, ConfigError> {
    let known = ["dram", "auto"].into_iter().chain(names).collect::<Vec<_>>().join(", ");
    refuse(format!("there is no tier '{}'", place.word()), &format!("a placement is one of {known}"))
}

/// The refusal of a tier's bandwidth that cannot be divided.
pub(crate) fn refuse_divided<'a, T>(
    names: impl Iterator<Item = &'a str>,
    name: &str,
) -> Result<T, ConfigError> {
    let known: Vec<_> = names.collect();
    let cure = match known.as_slice() {
        [] => "there is none: add one, --tier file:PATH:SIZE".to_owned(),
        known => format!("a tier is one of {}", known.join(", ")),
    };
    refuse(format!("there is no tier '{name}' whose bandwidth could be divided"), &cure)
}

impl Config {
    /// The same settings, proved to fit together.
    ///
    /// # Errors
    /// The first thing that does not fit, and what would.
    pub fn checked(self) -> Result<Self, ConfigError> {
        self.check_memory()?;
        self.check_sizes()?;
        self.check_tiers()?;
        check_notes(self.memory, self.tiers.iter().map(|tier| &tier.spec))?;
        self.check_saved()?;
        self.check_tenants()?;
        self.check_listeners()?;
        self.check_tls()?;
        Ok(self)
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        match self.tls.as_ref().map(|tls| check_ciphers(&tls.ciphers)) {
            Some(Err(error)) => refuse(
                format!("-o ssl_ciphers: {error}"),
                "write some of those, or leave it out for all of them",
            ),
            _ => Ok(()),
        }
    }

    fn check_listeners(&self) -> Result<(), ConfigError> {
        let all: Vec<_> = self.listeners().collect();
        for (i, (listener, tenant)) in all.iter().enumerate() {
            if let Some(name) = tenant.filter(|name| self.tenants.iter().all(|t| t.name != *name)) {
                return refuse(
                    format!("{} is for tenant '{name}', which is not configured", listener.address),
                    "add [tenant.NAME], or --tenant name=NAME",
                );
            }
            if let Some((_, other)) = all[..i].iter().find(|(l, _)| l.address.collides(&listener.address)) {
                let whose = |tenant: &Option<&str>| {
                    tenant.map_or("the server".to_owned(), |t| format!("tenant '{t}'"))
                };
                return refuse(
                    format!("{} and {} both listen on {}", whose(other), whose(tenant), listener.address),
                    "name each address once, give each tenant a port of its own",
                );
            }
            if listener.auth == Some(true) && self.auth.is_none() {
                return refuse(
                    format!("{} is to ask for passwords, and there is no file of users", listener.address),
                    "name one: -Y FILE",
                );
            }
            match (&self.tls, listener.tls) {
                (_, TlsMode::Off) => {}
                (None, _) => {
                    return refuse(
                        format!("{} is to speak TLS, which is off", listener.address),
                        "add -Z -o ssl_chain_cert=FILE,ssl_key=FILE",
                    );
                }
                (Some(tls), TlsMode::Mutual) if tls.ca.is_none() => {
                    return refuse(
                        format!(
                            "{} asks clients for certificates, and nobody says which are good",
                            listener.address
                        ),
                        "add -o ssl_ca_cert=FILE",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How the store divides the memory.
    fn geometry(&self) -> Geometry {
        Geometry::above(self.tiers.len(), self.most_memory(), self.item_max, self.threads)
    }

    /// The memory that is bound, what it may become, and who shares it.
    fn check_memory(&self) -> Result<(), ConfigError> {
        if self.memory < limits::MEMORY_MIN || limits::MEMORY_MAX < self.memory {
            return refuse(
                format!("memory {} is outside {} to {}", self.memory, limits::MEMORY_MIN, limits::MEMORY_MAX),
                "choose a size in that range, -m counts MiB",
            );
        }
        let beyond = |max: &Bytes| *max < self.memory || limits::MEMORY_MAX < *max;
        if let Some(max) = self.memory_max.filter(beyond) {
            return refuse(
                format!("memory_max {max} is outside {} to {}", self.memory, limits::MEMORY_MAX),
                "it is how far the memory (-m) can be raised; leave it away if it is not to be",
            );
        }
        let (geometry, most) = (self.geometry(), self.most_memory());
        if !geometry.has_room() {
            return refuse(
                format!("{} threads cannot share {most}", self.threads),
                "lower the threads (-t) or raise the memory (-m)",
            );
        }
        if !geometry.has_room_without(self.withheld(self.memory)) {
            return refuse(
                format!("memory {} is too little for what memory_max {most} needs at once", self.memory),
                "lower memory_max, or raise the memory (-m)",
            );
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        if self.item_max < limits::ITEM_MAX_MIN || limits::ITEM_MAX_MAX < self.item_max {
            return refuse(
                format!(
                    "the item size limit {} is outside {} to {}",
                    self.item_max,
                    limits::ITEM_MAX_MIN,
                    limits::ITEM_MAX_MAX
                ),
                "choose -I in that range",
            );
        }
        if self.memory.0 / 2 < self.item_max.0 {
            return refuse(
                format!("the item size limit {} is above half of the memory {}", self.item_max, self.memory),
                "lower -I or raise -m",
            );
        }
        if self.threads < 1 || limits::THREADS_MAX < self.threads {
            return refuse(
                format!("{} threads is outside 1 to {}", self.threads, limits::THREADS_MAX),
                "set -t to the number of cores",
            );
        }
        if self.requests_per_turn < 1 || limits::REQUESTS_PER_TURN_MAX < self.requests_per_turn {
            return refuse(
                format!(
                    "{} requests per turn is outside 1 to {}",
                    self.requests_per_turn,
                    limits::REQUESTS_PER_TURN_MAX
                ),
                "leave -R at 20",
            );
        }
        if self.max_connections < 1 || limits::CONNECTIONS_MAX < self.max_connections {
            return refuse(
                format!("{} connections is outside 1 to {}", self.max_connections, limits::CONNECTIONS_MAX),
                "set -c in that range",
            );
        }
        if self.max_tenants < 1 || limits::TENANTS_MAX < self.max_tenants {
            return refuse(
                format!("{} tenants is outside 1 to {}", self.max_tenants, limits::TENANTS_MAX),
                "set max_tenants in that range; the default tenant counts too",
            );
        }
        self.check_policies()
    }

    fn check_tiers(&self) -> Result<(), ConfigError> {
        if store::TIERS_MAX < self.tiers.len() {
            return refuse(
                format!("{} tiers are more than {}", self.tiers.len(), store::TIERS_MAX),
                "name fewer; the fastest come first",
            );
        }
        for (i, tier) in self.tiers.iter().enumerate() {
            let taken = match tier.name.as_str() {
                "dram" | "auto" => Some("that is a placement; for example --tier ssd=file:PATH:SIZE"),
                ALL_TIERS => Some("stats calls all tiers together so; for example --tier ssd=file:PATH:SIZE"),
                _ => None,
            };
            if let Some(cure) = taken {
                return refuse(format!("a tier cannot be called '{}'", tier.name), cure);
            }
            if self.tiers[..i].iter().any(|other| other.name == tier.name) {
                return refuse(
                    format!("two tiers are called '{}'", tier.name),
                    "name them: --tier a=file:PATH:SIZE --tier b=file:PATH:SIZE",
                );
            }
        }
        if let Some(name) = &self.bandwidth_tier
            && self.tiers.iter().all(|tier| tier.name != *name)
        {
            return refuse_divided(self.tiers.iter().map(|tier| tier.name.as_str()), name);
        }
        if self.bandwidth_policy != BandwidthKind::NONE && self.tiers.is_empty() {
            return refuse(
                format!(
                    "the policy {} divides a tier's bandwidth, and there is no tier",
                    self.bandwidth_policy
                ),
                "add one: --tier file:PATH:SIZE, or leave bandwidth_policy at none",
            );
        }
        let tenants = self.tenants.iter().filter_map(|tenant| tenant.placement.as_ref());
        for place in tenants.chain([&self.placement]) {
            if self.placement(place).is_none() {
                return refuse_place(self.tiers.iter().map(|tier| tier.name.as_str()), place);
            }
        }
        Ok(())
    }

    /// What a clean end writes takes the place of what is there: that is no tier.
    fn check_saved(&self) -> Result<(), ConfigError> {
        let Some(saved) = self.saved_at() else { return Ok(()) };
        let written = written_at(&saved).map(|path| place_of(&path));
        for tier in &self.tiers {
            if let Some(path) = path_of(&tier.spec.medium)
                && written.contains(&place_of(path))
            {
                return refuse(
                    format!(
                        "the items cannot be saved in {}: tier '{}' lies there",
                        saved.display(),
                        tier.name
                    ),
                    "name a file of its own: -e FILE",
                );
            }
        }
        Ok(())
    }

    fn check_policies(&self) -> Result<(), ConfigError> {
        Terms::of(self).check()?;
        if !(0.0 < self.bandwidth_part && self.bandwidth_part <= 1.0) {
            return refuse(
                format!("a bandwidth_part of {} is not above 0 and at most 1", self.bandwidth_part),
                "leave it at 1, all of the tier's time",
            );
        }
        if !(0.0..=1.0).contains(&self.bandwidth_donation) {
            return refuse(
                format!("a bandwidth_donation of {} is outside 0 to 1", self.bandwidth_donation),
                "leave it at 0.1, a tenth; 0 lends nothing, 1 all at once",
            );
        }
        if self.bandwidth_epoch < EPOCH_MIN {
            return refuse(
                format!("a bandwidth_epoch of {} is below {EPOCH_MIN}", self.bandwidth_epoch),
                "leave it at 30s; curves of a busy server need a second or more",
            );
        }
        if !(0.0 < self.cleaner_cpu && self.cleaner_cpu <= 1.0) {
            return refuse(
                format!("a cleaner_cpu of {} is not above 0 and at most 1", self.cleaner_cpu),
                "leave it at 0.05, a twentieth",
            );
        }
        if !(1..=store::CLEANERS_MAX).contains(&self.cleaners) {
            return refuse(
                format!("{} cleaners are not 1 to {}", self.cleaners, store::CLEANERS_MAX),
                "leave it at 1: writers that outrun it clean beside it",
            );
        }
        Ok(())
    }

    fn check_tenants(&self) -> Result<(), ConfigError> {
        if self.max_tenants <= self.tenants.len() {
            return refuse(
                format!("{} tenants are configured, max_tenants is {}", self.tenants.len(), self.max_tenants),
                "raise max_tenants; the default tenant counts too",
            );
        }
        for (i, tenant) in self.tenants.iter().enumerate() {
            let known_by =
                KnownBy { users: self.auth.is_some(), listener: self.listener_of(&tenant.name).is_some() };
            check_tenant(tenant, known_by)?;
            if tenant.name == DEFAULT_TENANT {
                return refuse(
                    format!(
                        "a tenant cannot be named '{DEFAULT_TENANT}': that is who has the keys of nobody else"
                    ),
                    "choose another name; what holds for all tenants is set for the server",
                );
            }
            for other in &self.tenants[..i] {
                if other.name == tenant.name {
                    return refuse(format!("two tenants are named '{}'", tenant.name), "rename one of them");
                }
                if tenant.prefix.is_some() && other.prefix == tenant.prefix {
                    let prefix =
                        String::from_utf8_lossy(tenant.prefix.as_deref().unwrap_or_default()).into_owned();
                    return refuse(
                        format!(
                            "tenants '{}' and '{}' have the same prefix '{prefix}'",
                            other.name, tenant.name
                        ),
                        "give each tenant a prefix of its own",
                    );
                }
                if let Some(user) = tenant.users.iter().find(|user| other.users.contains(user)) {
                    return refuse(
                        format!(
                            "user '{user}' belongs to the tenants '{}' and '{}'",
                            other.name, tenant.name
                        ),
                        "give each user one tenant",
                    );
                }
                if let Some(name) = tenant.identities.iter().find(|name| other.identities.contains(name)) {
                    return refuse(
                        format!(
                            "the identity '{name}' is that of tenants '{}' and '{}'",
                            other.name, tenant.name
                        ),
                        "give each tenant identities of its own",
                    );
                }
            }
        }
        let in_groups = self.tenants.iter().filter_map(|t| Some((t, t.group.as_deref()?)));
        let members = in_groups.map(|(t, group)| Member { tenant: &t.name, group, reserved: t.reserved });
        check_groups(&self.groups, &members.collect::<Vec<_>>())?;
        let division = Division::of(self);
        let group_of =
            |t: &TenantConfig| t.group.as_deref().and_then(|name| division.find(name)).map(|(id, _)| id);
        let reserved = division.reserved(self.tenants.iter().map(|t| (group_of(t), t.reserved)));
        let divisible = self.geometry().divisible.saturating_sub(self.withheld(self.memory));
        if divisible < reserved {
            return refuse(
                format!("the reservations are {reserved}, the divisible memory in DRAM is {divisible}"),
                "lower the reservations or raise the memory",
            );
        }
        Ok(())
    }
}

/// Where a path leads: the same for all names of one place, whether there is something or not.
fn place_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let in_folder = || {
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// By what a tenant may be known beside its prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownBy {
    /// Its users: passwords are asked for.
    pub(crate) users: bool,
    /// A listener that leads to it only.
    pub(crate) listener: bool,
}

/// Checks what one tenant's settings say by themselves.
pub(crate) fn check_tenant(tenant: &TenantConfig, known_by: KnownBy) -> Result<(), ConfigError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if tenant.name.is_empty()
        || limits::TENANT_NAME_MAX < tenant.name.len()
        || !tenant.name.bytes().all(allowed)
    {
        return refuse(
            format!("'{}' is no tenant name", tenant.name),
            "use 1 to 64 letters, digits, dots, dashes and underscores",
        );
    }
    match &tenant.prefix {
        Some(_) if !tenant.users.is_empty() || !tenant.identities.is_empty() => {
            let what = if tenant.users.is_empty() { "certificates" } else { "users" };
            return refuse(
                format!("tenant '{}' has a prefix and {what}, and prefixes do not isolate", tenant.name),
                "leave the prefix out: who shows a password or a certificate has a key space of its own",
            );
        }
        None if !known_by.users && !known_by.listener && tenant.identities.is_empty() => {
            return refuse(
                format!("tenant '{}' has neither a prefix nor a listen address", tenant.name),
                "add prefix = \"NAME:\", listen = \"ADDRESS:PORT\" or identity = [\"CERTIFICATE'S NAME\"]",
            );
        }
        Some(prefix) if prefix.is_empty() || limits::PREFIX_MAX < prefix.len() => {
            return refuse(
                format!(
                    "the prefix of tenant '{}' is empty or longer than {} bytes",
                    tenant.name,
                    limits::PREFIX_MAX
                ),
                "use a short prefix that ends with a delimiter",
            );
        }
        _ => {}
    }
    if !known_by.users && !tenant.users.is_empty() {
        return refuse(
            format!("tenant '{}' has users, and there is no file of users", tenant.name),
            "name one: -Y FILE",
        );
    }
    if tenant.credit == Some(Bytes::ZERO) {
        return refuse(
            format!("the credit of tenant '{}' is zero", tenant.name),
            "leave it out for the server's credit",
        );
    }
    if tenant.allowance.max_item == Some(Bytes::ZERO) {
        return refuse(
            format!("the largest item of tenant '{}' is zero", tenant.name),
            "give 1 byte and up, or leave it out for the server's",
        );
    }
    if tenant.allowance.burst.is_some() && tenant.allowance.requests_per_second.is_none() {
        return refuse(
            format!("tenant '{}' has a burst, and no rate", tenant.name),
            "add requests_per_second, or leave the burst out",
        );
    }
    check_weight("tenant", &tenant.name, tenant.weight)
}

/// Refuses the weight of a tenant or group if it is none.
pub(crate) fn check_weight(kind: &str, name: &str, weight: f64) -> Result<(), ConfigError> {
    if limits::WEIGHTS.contains(&weight) {
        return Ok(());
    }
    let (least, most) = (limits::WEIGHTS.start(), limits::WEIGHTS.end());
    refuse(
        format!("the weight of {kind} '{name}' is {weight}"),
        &format!("use a number from {least:e} to {most:e}"),
    )
}
