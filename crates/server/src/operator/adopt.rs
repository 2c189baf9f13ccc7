//! A configuration that is read again: what of it can change while the server runs does, what cannot is named.
//!
//! Shape:      the configuration before and after -> what gives memory back, then what takes it -> what was done, and what not
//! Invariants: only what differs between the two is touched, so that what an operator changed meanwhile stays; a tenant's
//!             items go only if the configuration no longer has the tenant
//! Failure:    what is refused is named with its reason, and tried again the next time; the rest is done
//! Non-goals:  listeners, threads and whatever else is made once; `cli` knows which settings those are

mod regrouping;
mod whole;

use super::groups::Fits;
use super::{GroupSettings, MemorySettings, Operator, Refusal, RefusalKind, Settings};
use crate::admission::{Allowance, AllowanceChange};
use crate::config::{Config, TenantConfig};
use crate::groups::GroupConfig;
use crate::tenants::{AddError, Origin, Own};
use crate::tiers::PlaceIn;
use std::sync::PoisonError;
use store::RankKind;
use units::{Duration, TenantId};

/// What became of a configuration that was read again.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// What is so from now on, one line each.
    pub done: Vec<String>,
    /// What stays as it was, and why; one line each.
    pub kept: Vec<String>,
    /// The configuration as it was taken over: the new one, but as before where that was refused.
    pub config: Config,
}

impl Adopted {
    /// Notes how something went; says whether it went well.
    fn note(&mut self, what: String, result: Result<(), Refusal>) -> bool {
        match result {
            Ok(()) => self.done.push(what),
            Err(ref refusal) => self.kept.push(format!("{what}: {refusal}; {}", refusal.cure)),
        }
        result.is_ok()
    }

    /// Notes how a removal went; what somebody else has removed needs no word.
    fn note_removal(&mut self, what: String, result: Result<(), Refusal>) -> bool {
        let is_gone = matches!(&result, Err(refusal) if refusal.kind == RefusalKind::Unknown);
        is_gone || self.note(what, result)
    }
}

/// One of a list is as it was before, or not there if it was not.
fn put_back<T: Clone>(list: &mut Vec<T>, before: Option<&T>, is_it: impl Fn(&T) -> bool) {
    list.retain(|one| !is_it(one));
    list.extend(before.cloned());
}

/// A value that differs, as the change that it is.
fn changed<T: PartialEq + Clone>(before: &T, after: &T) -> Option<T> {
    (before != after).then(|| after.clone())
}

impl Operator {
    /// Takes a configuration over where it differs from the one before, as far as that goes while the server runs: tenants,
    /// groups, users, the policy, the eviction order, the memory (as far as was said at the start), and numbers.
    pub fn adopt(&self, before: &Config, after: &Config) -> Adopted {
        let mut adopted = Adopted { done: Vec::new(), kept: Vec::new(), config: after.clone() };
        self.shared.adjustable.adopt(after);
        // One that sleeps looks after its silent connections from now on.
        self.helpers.wake_workers();
        adopted.done.extend(changed_numbers(before, after));
        if before.memory < after.memory {
            self.adopt_bound(before, after, &mut adopted);
        }
        self.adopt_memory(before, after, &mut adopted);
        if before.rank != after.rank {
            self.set_default_rank(&after.rank);
            adopted.done.push(format!("rank {}", after.rank));
        }
        if before.promotion != after.promotion {
            self.shared.store.set_promotion(after.promotion);
            adopted.done.push(format!("promotion {}", after.promotion));
        }
        if before.placement != after.placement {
            let result = self.set_default_placement(&after.placement);
            if !adopted.note(format!("placement {}", after.placement.word()), result) {
                adopted.config.placement = before.placement.clone();
            }
        }
        self.adopt_tenants_and_groups(before, after, &mut adopted);
        self.shared.sharing.set_speeds_file(after.bandwidth_speeds.clone());
        // The file of who divides by one is read again; it may name tenants that have just come.
        let kind = after.bandwidth_policy;
        let reads_again = kind.needs_speeds() && self.sharing().policy == kind.name();
        if before.bandwidth_policy != kind || reads_again {
            match self.set_bandwidth_policy(kind) {
                Ok(false) if reads_again => {}
                result => {
                    if !adopted.note(format!("bandwidth_policy {kind}"), result.map(drop)) {
                        adopted.config.bandwidth_policy = before.bandwidth_policy;
                    }
                }
            }
        }
        if before.joint_settings() != after.joint_settings() {
            let mut curves = self.shared.curves.lock().unwrap_or_else(PoisonError::into_inner);
            curves.set_epoch(after.bandwidth_epoch);
            drop(curves);
            self.shared.sharing.set_up(after.joint_settings());
            self.decide_soon();
            let (epoch, part) = (after.bandwidth_epoch, after.bandwidth_part);
            adopted.done.push(format!("bandwidth_epoch {epoch}, bandwidth_part {part}"));
        }
        if before.steps() != after.steps() {
            self.shared.sharing.set_steps(&self.shared.store, after.steps());
            let step =
                after.bandwidth_step.map_or_else(|| "as suits the tier".to_owned(), |step| step.to_string());
            adopted
                .done
                .push(format!("bandwidth_step {step}, bandwidth_donation {}", after.bandwidth_donation));
        }
        if let (Some(auth), Some(config)) = (&self.shared.auth, &after.auth) {
            auth.adopt(config.clone(), after.tenants.clone());
        }
        adopted
    }

    /// How much memory there is, as far as was said at the start.
    fn adopt_bound(&self, before: &Config, after: &Config, adopted: &mut Adopted) {
        if before.memory == after.memory {
            return;
        }
        let result = if self.shared.set_memory_limit(after.memory) {
            self.decide_soon();
            Ok(())
        } else {
            let most = self.shared.config.most_memory();
            let (why, cure) = if most < after.memory {
                (format!("{most} is the most it started with"), "restart it with a higher memory_max")
            } else {
                let why = "threads need more with segments of the size that they have".to_owned();
                (why, "restart it with that memory")
            };
            super::conflict(why, cure)
        };
        if !adopted.note(format!("memory {}", after.memory), result) {
            adopted.config.memory = before.memory;
        }
    }

    /// Who divides the memory, and what it is told, as far as it differs: what was set at run time stays otherwise.
    fn adopt_memory(&self, before: &Config, after: &Config, adopted: &mut Adopted) {
        let (policy, told) = (self.policy(), self.terms());
        let settings = MemorySettings {
            policy: changed(&before.policy, &after.policy).filter(|new| *new != policy),
            credit: changed(&before.credit, &after.credit).filter(|new| *new != told.credit),
            tax: changed(&before.tax, &after.tax).filter(|new| changed(&told.tax, new).is_some()),
            idle_time: changed(&before.idle_time, &after.idle_time).filter(|new| *new != told.idle_time),
            learning: changed(&before.learning, &after.learning).filter(|new| *new != told.learning),
            private: changed(&before.private, &after.private)
                .filter(|new| changed(&told.private, new).is_some()),
        };
        let words = [
            settings.policy.map(|policy| format!("policy {}", policy.name())),
            settings.credit.map(|credit| format!("credit {credit}")),
            settings.tax.map(|tax| format!("tax {tax}")),
            settings.idle_time.map(|time| format!("idle_time {time}")),
            settings.learning.map(|time| format!("learning {time}")),
            settings.private.map(|part| format!("private {part}")),
        ];
        // A configuration that was checked is refused nothing.
        if self.divide(&settings) == Ok(true) {
            adopted.done.extend(words.into_iter().flatten());
        }
    }

    /// The order of tenants that have none of their own.
    fn set_default_rank(&self, rank: &RankKind) {
        let _one_at_a_time = self.change();
        self.router.set_rank(rank.clone());
        for id in self.followers(|own| own.rank) {
            self.shared.store.set_rank(id, rank.clone());
        }
    }

    /// Where values go of tenants that have no place of their own.
    fn set_default_placement(&self, place: &PlaceIn) -> Result<(), Refusal> {
        let _one_at_a_time = self.change();
        let places = &self.router.places;
        let Some(placement) = places.find(place) else {
            return super::conflict("tiers come with a start", "restart the server");
        };
        places.set_default(place.clone());
        for id in self.followers(|own| own.placement) {
            self.shared.store.set_placement(id, placement);
        }
        Ok(())
    }

    /// Tenants that do as the server says, and not as they or an operator did.
    fn followers(&self, has_own: impl Fn(Own) -> bool) -> Vec<TenantId> {
        let follows = |id: &TenantId| self.router.about(*id).is_some_and(|about| !has_own(about.own));
        self.router.all().filter(follows).collect()
    }

    fn adopt_tenants_and_groups(&self, before: &Config, after: &Config, adopted: &mut Adopted) {
        let _one_at_a_time = self.change();
        let earlier = |name: &str| before.tenants.iter().find(|t| t.name == name);
        let is_gone = |t: &&TenantConfig| after.tenants.iter().all(|other| other.name != t.name);
        for tenant in before.tenants.iter().filter(is_gone) {
            let what = format!("tenant '{}' removed", tenant.name);
            if !adopted.note_removal(what, self.remove_now(&tenant.name)) {
                adopted.config.tenants.push(tenant.clone());
            }
        }
        // What gives back goes before what takes.
        let (less, more): (Vec<_>, Vec<_>) = after
            .tenants
            .iter()
            .partition(|t| earlier(&t.name).is_some_and(|e| t.reserved < e.reserved && t.group == e.group));
        for tenant in less {
            self.adopt_tenant((earlier(&tenant.name), tenant), Fits::Each, adopted);
        }
        if after.memory < before.memory {
            self.adopt_bound(before, after, adopted);
        }
        // Who moves counts in two places for a moment, and what comes may need the room of what goes last.
        let fits = if self.fits_with(before, after) { Fits::InTheEnd } else { Fits::Each };
        let _nobody_decides = (fits == Fits::InTheEnd).then(|| self.begin_regrouping());
        self.adopt_groups((before, after), more, fits, adopted);
    }

    /// Takes over groups that differ, and tenants that take more or move.
    fn adopt_groups(
        &self,
        (before, after): (&Config, &Config),
        more: Vec<&TenantConfig>,
        fits: Fits,
        adopted: &mut Adopted,
    ) {
        // A group may shrink only once members have left it, and members come only once it has grown.
        let earlier = |name: &str| before.groups.iter().find(|g| g.name == name);
        let mut early =
            |group: &GroupConfig| self.adopt_group((earlier(&group.name), group), fits, adopted).is_err();
        let refused: Vec<_> = changed_groups(before, after).into_iter().filter(|g| early(g)).collect();
        for tenant in more {
            let earlier = before.tenants.iter().find(|t| t.name == tenant.name);
            self.adopt_tenant((earlier, tenant), fits, adopted);
        }
        for group in refused {
            if let Err(refusal) = self.adopt_group((earlier(&group.name), group), fits, adopted) {
                adopted.note(format!("group '{}' changed", group.name), Err(refusal));
                put_back(&mut adopted.config.groups, earlier(&group.name), |g| g.name == group.name);
            }
        }
        let is_gone = |g: &&GroupConfig| after.groups.iter().all(|other| other.name != g.name);
        for group in before.groups.iter().filter(is_gone) {
            let what = format!("group '{}' removed", group.name);
            if !adopted.note_removal(what, self.remove_group_now(&group.name)) {
                adopted.config.groups.push(group.clone());
            }
        }
    }

    /// Changes a group where it differs from before, or makes it.
    fn adopt_group(
        &self,
        (before, group): (Option<&GroupConfig>, &GroupConfig),
        fits: Fits,
        adopted: &mut Adopted,
    ) -> Result<(), Refusal> {
        let is_there = self.shared.in_charge.now().find(&group.name).is_some();
        let settings = match before.filter(|_| is_there) {
            Some(before) => GroupSettings {
                reserved: changed(&before.reserved, &group.reserved),
                weight: changed(&before.weight, &group.weight),
                policy: changed(&before.policy, &group.policy),
                bandwidth: changed(&before.bandwidth, &group.bandwidth),
            },
            None => GroupSettings {
                reserved: Some(group.reserved),
                weight: Some(group.weight),
                policy: Some(group.policy),
                bandwidth: Some(group.bandwidth.clone()),
            },
        };
        self.put_group_now(&group.name, &settings, fits)?;
        adopted.done.push(format!("group '{}' changed", group.name));
        Ok(())
    }

    fn adopt_tenant(
        &self,
        (before, after): (Option<&TenantConfig>, &TenantConfig),
        fits: Fits,
        adopted: &mut Adopted,
    ) {
        let name = &after.name;
        let is_there = self.router.find(name).is_some();
        let is_taken = match before {
            Some(before) if is_there => self.adopt_change((before, after), fits, adopted),
            // An operator has removed it, and the configuration says nothing new of it.
            Some(before) if before == after => true,
            None if is_there => self.adopt_one_that_is_there(after, fits, adopted),
            _ => adopted.note(format!("tenant '{name}' added"), self.add_configured(after, fits)),
        };
        if !is_taken {
            put_back(&mut adopted.config.tenants, before, |t| t.name == *name);
        }
    }

    /// A tenant that the configuration has as before, with other settings.
    fn adopt_change(
        &self,
        (before, after): (&TenantConfig, &TenantConfig),
        fits: Fits,
        adopted: &mut Adopted,
    ) -> bool {
        let name = &after.name;
        keep_fixed(before, after, adopted);
        let settings = Settings {
            prefix: None,
            reserved: changed(&before.reserved, &after.reserved),
            weight: changed(&before.weight, &after.weight),
            credit: changed(&before.credit, &after.credit),
            rank: changed(&before.rank, &after.rank),
            over_share: changed(&before.over_share, &after.over_share),
            placement: changed(&before.placement, &after.placement),
            bandwidth: changed(&before.bandwidth, &after.bandwidth),
            group: changed(&before.group, &after.group),
            allowance: allowance_changed(&before.allowance, &after.allowance),
        };
        if before.users != after.users {
            adopted.done.push(format!("users of tenant '{name}' changed"));
        }
        let is_taken = settings == Settings::default()
            || adopted
                .note(format!("tenant '{name}' changed"), self.put_now(name, &settings, fits).map(drop));
        if is_taken && settings.rank.is_some() && after.rank.is_none() {
            self.router.find(name).into_iter().for_each(|id| self.router.set_own(id, |own| own.rank = false));
        }
        is_taken
    }

    /// The configuration names a tenant from now on that somebody else has made.
    fn adopt_one_that_is_there(&self, tenant: &TenantConfig, fits: Fits, adopted: &mut Adopted) -> bool {
        let name = &tenant.name;
        if let Some(about) = self.router.find(name).and_then(|id| self.router.about(id)) {
            let prefix = about.prefix.as_deref().map(<[u8]>::to_vec);
            let as_it_is = TenantConfig { prefix, identities: about.identities, ..TenantConfig::default() };
            keep_fixed(&as_it_is, tenant, adopted);
        }
        let settings = Settings {
            prefix: None,
            reserved: Some(tenant.reserved),
            weight: Some(tenant.weight),
            credit: Some(tenant.credit),
            rank: tenant.rank.clone().map(Some),
            over_share: Some(tenant.over_share),
            placement: tenant.placement.clone().map(Some),
            bandwidth: Some(tenant.bandwidth.clone()),
            group: Some(tenant.group.clone()),
            allowance: allowance_changed(&Allowance::default(), &tenant.allowance),
        };
        adopted.note(format!("tenant '{name}' changed"), self.put_now(name, &settings, fits).map(drop))
    }

    /// Makes a tenant that the configuration has from now on.
    fn add_configured(&self, tenant: &TenantConfig, fits: Fits) -> Result<(), Refusal> {
        if tenant.listen.is_some() {
            return super::conflict(
                "its address is listened on from the start or not at all",
                "restart the server",
            );
        }
        self.check_place(tenant)?;
        let group = self.check_reserved(None, tenant, fits)?;
        let id =
            self.router.add(tenant, group, None, Origin::Configuration).or_else(|error| match error {
                AddError::NameTaken => super::conflict("the name was just taken", "try again"),
                AddError::PrefixTaken(other) => super::conflict(
                    format!("its prefix belongs to tenant '{other}'"),
                    "remove that one first",
                ),
                AddError::IdentityTaken(identity) => super::conflict(
                    format!("its identity '{identity}' is another tenant's"),
                    "take it from that one and restart",
                ),
                AddError::Full => {
                    super::conflict("there are as many tenants as can be", "raise max_tenants and restart")
                }
            })?;
        if tenant.allowance != Allowance::default() {
            self.shared.admission.allow(id, tenant.allowance);
        }
        self.shared.sharing.set_claim(id, &tenant.bandwidth);
        self.decide_soon();
        Ok(())
    }
}

/// Numbers that differ, each with its new value.
fn changed_numbers(before: &Config, after: &Config) -> impl Iterator<Item = String> {
    let time = |name: &str, before: Duration, after: Duration| {
        changed(&before, &after).map(|new| format!("{name} {new}"))
    };
    let connections = changed(&before.max_connections, &after.max_connections);
    let numbers = [
        connections.map(|new| format!("max_connections {new}")),
        time("idle_timeout", before.idle_timeout, after.idle_timeout),
        time("send_timeout", before.send_timeout, after.send_timeout),
        time("slow_request", before.slow_request, after.slow_request),
    ];
    numbers.into_iter().flatten()
}

/// How a tenant is known stays as it was while it is there; what the configuration has instead is named, now and the next
/// time.
fn keep_fixed(before: &TenantConfig, after: &TenantConfig, adopted: &mut Adopted) {
    let prefix = |known: &TenantConfig| Some(String::from_utf8_lossy(known.prefix.as_deref()?).into_owned());
    let listen = |known: &TenantConfig| known.listen.as_ref().map(ToString::to_string);
    let names = |known: &TenantConfig| Some(known.identities.join(",")).filter(|names| !names.is_empty());
    let fixed = [
        ("prefix", before.prefix != after.prefix, prefix(before), prefix(after)),
        ("listen", before.listen != after.listen, listen(before), listen(after)),
        ("identity", before.identities != after.identities, names(before), names(after)),
    ];
    let or_none = |text: Option<String>| text.map_or_else(|| "none".to_owned(), |text| format!("'{text}'"));
    for (what, _, was, is) in fixed.into_iter().filter(|(_, differs, ..)| *differs) {
        let (name, was, is) = (&after.name, or_none(was), or_none(is));
        adopted
            .kept
            .push(format!("{what} of tenant '{name}': that needs a restart to change from {was} to {is}"));
    }
    for tenant in adopted.config.tenants.iter_mut().filter(|tenant| tenant.name == after.name) {
        tenant.prefix.clone_from(&before.prefix);
        tenant.listen.clone_from(&before.listen);
        tenant.identities.clone_from(&before.identities);
    }
}

/// Groups that differ, those that give back before those that take.
fn changed_groups<'c>(before: &Config, after: &'c Config) -> Vec<&'c GroupConfig> {
    let earlier = |name: &str| before.groups.iter().find(|g| g.name == name);
    let mut groups: Vec<_> = after.groups.iter().filter(|g| earlier(&g.name) != Some(g)).collect();
    groups.sort_by_key(|g| earlier(&g.name).is_none_or(|e| e.reserved < g.reserved));
    groups
}

fn allowance_changed(before: &Allowance, after: &Allowance) -> AllowanceChange {
    AllowanceChange {
        max_connections: changed(&before.max_connections, &after.max_connections),
        requests_per_second: changed(&before.requests_per_second, &after.requests_per_second),
        burst: changed(&before.burst, &after.burst),
        over_rate: changed(&before.over_rate, &after.over_rate),
        max_item: changed(&before.max_item, &after.max_item),
        default_ttl_secs: changed(&before.default_ttl_secs, &after.default_ttl_secs),
        max_ttl_secs: changed(&before.max_ttl_secs, &after.max_ttl_secs),
    }
}

#[cfg(test)]
mod tests;
