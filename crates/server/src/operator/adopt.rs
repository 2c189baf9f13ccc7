//! A configuration that is read again: what of it can change while the server runs does, what cannot is named.
//!
//! Shape:      the configuration before and after -> what gives memory back, then what takes it -> what was done, and what not
//! Invariants: only what differs between the two is touched, so that what an operator changed meanwhile stays; a tenant's
//!             items go only if the configuration no longer has the tenant
//! Failure:    what is refused is named with its reason, and tried again the next time; the rest is done
//! Non-goals:  listeners, threads and whatever else is made once; `cli` knows which settings those are

use super::{GroupSettings, Operator, Refusal, Settings};
use crate::admission::{Allowance, AllowanceChange};
use crate::config::{Config, TenantConfig};
use crate::groups::GroupConfig;
use crate::tenants::{AddError, Origin};

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
    /// groups, users, the policy, the eviction order, the memory (not beyond that of the start), and numbers.
    pub fn adopt(&self, before: &Config, after: &Config) -> Adopted {
        let mut adopted = Adopted { done: Vec::new(), kept: Vec::new(), config: after.clone() };
        self.shared.adjustable.adopt(after);
        if before.memory != after.memory {
            let result = if self.shared.set_memory_limit(after.memory) {
                Ok(())
            } else {
                let most = self.shared.config.memory;
                super::conflict(format!("the server started with {most}"), "restart it for more")
            };
            if !adopted.note(format!("memory {}", after.memory), result) {
                adopted.config.memory = before.memory;
            }
        }
        if before.policy != after.policy && self.set_policy(after.policy) {
            adopted.done.push(format!("policy {}", after.policy.name()));
        }
        if before.rank != after.rank {
            self.set_default_rank(before, after);
            adopted.done.push(format!("rank {}", after.rank));
        }
        if before.promotion != after.promotion {
            self.shared.store.set_promotion(after.promotion);
            adopted.done.push(format!("promotion {}", after.promotion));
        }
        if before.placement != after.placement {
            let result = self.set_default_placement(before, after);
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

    /// The order of tenants that name none, as far as nobody gave them another meanwhile.
    fn set_default_rank(&self, before: &Config, after: &Config) {
        let _one_at_a_time = self.change();
        self.router.set_rank(after.rank.clone());
        let names_one = |name: &str| after.tenants.iter().any(|t| t.name == name && t.rank.is_some());
        for state in self.router.all().filter_map(|id| self.shared.store.tenant_state(id)) {
            if state.rank == before.rank && !names_one(&state.name) {
                self.shared.store.set_rank(state.id, after.rank.clone());
            }
        }
    }

    /// Where values go of tenants that do not say, as far as nobody told them elsewhere meanwhile.
    fn set_default_placement(&self, before: &Config, after: &Config) -> Result<(), Refusal> {
        let _one_at_a_time = self.change();
        let places = &self.router.places;
        let (Some(earlier), Some(placement)) =
            (places.find(&before.placement), places.find(&after.placement))
        else {
            return super::conflict("tiers come with a start", "restart the server");
        };
        places.set_default(after.placement.clone());
        let names_one = |name: &str| after.tenants.iter().any(|t| t.name == name && t.placement.is_some());
        for state in self.router.all().filter_map(|id| self.shared.store.tenant_state(id)) {
            if state.placement == earlier && !names_one(&state.name) {
                self.shared.store.set_placement(state.id, placement);
            }
        }
        Ok(())
    }

    fn adopt_tenants_and_groups(&self, before: &Config, after: &Config, adopted: &mut Adopted) {
        let earlier = |name: &str| before.tenants.iter().find(|t| t.name == name);
        let is_gone = |t: &&TenantConfig| after.tenants.iter().all(|other| other.name != t.name);
        for tenant in before.tenants.iter().filter(is_gone) {
            if !adopted.note(format!("tenant '{}' removed", tenant.name), self.remove(&tenant.name)) {
                adopted.config.tenants.push(tenant.clone());
            }
        }
        // What gives back goes before what takes.
        let (less, more): (Vec<_>, Vec<_>) = after
            .tenants
            .iter()
            .partition(|t| earlier(&t.name).is_some_and(|e| t.reserved < e.reserved && t.group == e.group));
        for tenant in less {
            self.adopt_tenant(earlier(&tenant.name), tenant, adopted);
        }
        // A group may shrink only once members have left it, and members come only once it has grown.
        let mut early = |group: &GroupConfig| self.adopt_group(group, adopted).is_err();
        let refused: Vec<_> = changed_groups(before, after).into_iter().filter(|g| early(g)).collect();
        for tenant in more {
            self.adopt_tenant(earlier(&tenant.name), tenant, adopted);
        }
        let earlier = |name: &str| before.groups.iter().find(|g| g.name == name);
        for group in refused {
            if let Err(refusal) = self.adopt_group(group, adopted) {
                adopted.note(format!("group '{}' changed", group.name), Err(refusal));
                put_back(&mut adopted.config.groups, earlier(&group.name), |g| g.name == group.name);
            }
        }
        let is_gone = |g: &&GroupConfig| after.groups.iter().all(|other| other.name != g.name);
        for group in before.groups.iter().filter(is_gone) {
            if !adopted.note(format!("group '{}' removed", group.name), self.remove_group(&group.name)) {
                adopted.config.groups.push(group.clone());
            }
        }
    }

    /// Changes a group, or makes it.
    fn adopt_group(&self, group: &GroupConfig, adopted: &mut Adopted) -> Result<(), Refusal> {
        let settings = GroupSettings {
            reserved: Some(group.reserved),
            weight: Some(group.weight),
            policy: Some(group.policy),
            bandwidth: Some(group.bandwidth.clone()),
        };
        self.put_group(&group.name, &settings)?;
        adopted.done.push(format!("group '{}' changed", group.name));
        Ok(())
    }

    fn adopt_tenant(&self, before: Option<&TenantConfig>, after: &TenantConfig, adopted: &mut Adopted) {
        let name = &after.name;
        let is_there = self.router.find(name).is_some();
        let is_taken = match before {
            Some(before) if is_there => self.adopt_change(before, after, adopted),
            None if is_there => self.adopt_one_that_is_there(after, adopted),
            _ => adopted.note(format!("tenant '{name}' added"), self.add_configured(after)),
        };
        if !is_taken {
            put_back(&mut adopted.config.tenants, before, |t| t.name == *name);
        }
    }

    /// A tenant that the configuration has as before, with other settings.
    fn adopt_change(&self, before: &TenantConfig, after: &TenantConfig, adopted: &mut Adopted) -> bool {
        let name = &after.name;
        let fixed = [
            ("prefix", before.prefix != after.prefix),
            ("listen", before.listen != after.listen),
            ("identity", before.identities != after.identities),
        ];
        for (what, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
            adopted.kept.push(format!("{what} of tenant '{name}': that needs a restart"));
        }
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
        settings == Settings::default()
            || adopted.note(format!("tenant '{name}' changed"), self.put(name, &settings).map(drop))
    }

    /// The configuration names a tenant from now on that somebody else has made.
    fn adopt_one_that_is_there(&self, tenant: &TenantConfig, adopted: &mut Adopted) -> bool {
        let name = &tenant.name;
        let about = self.router.find(name).and_then(|id| self.router.about(id));
        let is_known_so = about.is_some_and(|about| {
            about.prefix.as_deref() == tenant.prefix.as_deref() && tenant.listen.is_none()
        });
        if !is_known_so {
            adopted
                .kept
                .push(format!("prefix and listen of tenant '{name}', which was there: that needs a restart"));
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
        adopted.note(format!("tenant '{name}' changed"), self.put(name, &settings).map(drop))
    }

    /// Makes a tenant that the configuration has from now on.
    fn add_configured(&self, tenant: &TenantConfig) -> Result<(), Refusal> {
        if tenant.listen.is_some() {
            return super::conflict(
                "its address is listened on from the start or not at all",
                "restart the server",
            );
        }
        let _one_at_a_time = self.change();
        let group = self.check_reserved(None, tenant)?;
        let id =
            self.router.add(tenant, group, None, Origin::Configuration).or_else(|error| match error {
                AddError::NameTaken => super::conflict("the name was just taken", "try again"),
                AddError::PrefixTaken(other) => super::conflict(
                    format!("its prefix belongs to tenant '{other}'"),
                    "remove that one first",
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
