//! What an operator can change of groups: they come, change and go while the server runs.
//!
//! Invariants: a group reserves what its members reserve together; groups and lone tenants together fit the divisible
//!             memory; only a group without members goes

use super::{Operator, Refusal, RefusalKind, conflict};
use crate::config::{ConfigError, MemoryPolicy, TenantConfig};
use crate::groups::{Division, GroupConfig, check_group, check_members};
use crate::limits::GROUPS_MAX;
use crate::sharing::TierClaim;
use crate::view::{GroupView, groups, tenant};
use control::GroupId;
use units::{Bytes, TenantId};

/// What is to be so of a group; what is absent stays, or is the default of a new one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupSettings {
    /// Memory that nobody outside takes from its members together.
    pub reserved: Option<Bytes>,
    /// Its part of the unreserved memory, relative to other groups' and lone tenants'.
    pub weight: Option<f64>,
    /// The policy inside; none inside for the one among the groups.
    pub policy: Option<Option<MemoryPolicy>>,
    /// What its members claim together of a tier's bandwidth.
    pub bandwidth: Option<TierClaim>,
}

/// When reservations are to fit the memory and the groups that they are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fits {
    /// Behind each change.
    Each,
    /// Behind the last of several, which was looked at before the first.
    InTheEnd,
}

/// One group as it is.
pub type GroupReport = GroupView;

impl Operator {
    /// Every group, in the order of their places.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupReport> {
        let tenants: Vec<_> = self.router.all().filter_map(|id| tenant(&self.shared, id)).collect();
        groups(&self.shared.in_charge.now(), &tenants)
    }

    /// One group.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn group(&self, name: &str) -> Result<GroupReport, Refusal> {
        self.groups().into_iter().find(|group| group.name == name).ok_or_else(|| unknown(name))
    }

    /// Makes a group of that name, or changes the one that is there. Returns whether it is new. Its members' shares go on
    /// from where they are.
    ///
    /// # Errors
    /// If the settings make no sense, or do not go together with the tenants and the other groups.
    pub fn put_group(&self, name: &str, settings: &GroupSettings) -> Result<bool, Refusal> {
        let _one_at_a_time = self.change();
        self.put_group_now(name, settings, Fits::Each)
    }

    /// The same, for whoever has the turn.
    pub(super) fn put_group_now(
        &self,
        name: &str,
        settings: &GroupSettings,
        fits: Fits,
    ) -> Result<bool, Refusal> {
        let division = self.shared.in_charge.now();
        let before = division.find(name);
        let new = GroupConfig {
            name: name.to_owned(),
            reserved: settings.reserved.or(before.map(|(_, g)| g.reserved)).unwrap_or_default(),
            weight: settings.weight.or(before.map(|(_, g)| g.weight)).unwrap_or(1.0),
            policy: settings.policy.unwrap_or(before.and_then(|(_, g)| g.policy)),
            bandwidth: (settings.bandwidth.clone())
                .or(before.map(|(_, g)| g.bandwidth.clone()))
                .unwrap_or_default(),
        };
        check_group(&new).map_err(malformed)?;
        if let Some((id, _)) = before.filter(|_| fits == Fits::Each) {
            let members = self.reservations(None).filter(|(group, _)| *group == Some(id));
            check_members(&new, members.map(|(_, reserved)| reserved).sum()).map_err(does_not_fit)?;
        }
        let (reserved, is_new) = (new.reserved, before.is_none());
        let Some(with) = division.with(new) else {
            return conflict(format!("there are {GROUPS_MAX} groups, as many as can be"), "remove one");
        };
        let own = before.map_or(Bytes::ZERO, |(_, g)| g.reserved);
        if fits == Fits::Each && (is_new || own < reserved) {
            let others = division.reserved(self.reservations(None)).saturating_sub(own);
            self.check_divisible(others, reserved)?;
        }
        if with != *division {
            self.switch(with);
            tracing::info!("group '{name}' was {}", if is_new { "added" } else { "changed" });
        }
        Ok(is_new)
    }

    /// Removes a group that nobody is in.
    ///
    /// # Errors
    /// If there is none of that name, or it has members.
    pub fn remove_group(&self, name: &str) -> Result<(), Refusal> {
        let _one_at_a_time = self.change();
        self.remove_group_now(name)
    }

    /// The same, for whoever has the turn.
    pub(super) fn remove_group_now(&self, name: &str) -> Result<(), Refusal> {
        let division = self.shared.in_charge.now();
        let Some((id, _)) = division.find(name) else { return Err(unknown(name)) };
        let members = self.reservations(None).filter(|(group, _)| *group == Some(id)).count();
        if 0 < members {
            return conflict(
                format!("group '{name}' has {members} members"),
                "put them into another group or none first: cotenant tenant set TENANT --group none",
            );
        }
        self.switch(division.without(id));
        tracing::info!("group '{name}' was removed");
        Ok(())
    }

    /// What tenants reserve, each with its group, but for one.
    pub(super) fn reservations(
        &self,
        but: Option<TenantId>,
    ) -> impl Iterator<Item = (Option<GroupId>, Bytes)> {
        let others = self.router.all().filter(move |id| Some(*id) != but);
        let states = others.filter_map(|id| self.shared.store.tenant_state(id));
        states.map(|state| (state.claim.group, state.claim.floor.bytes))
    }

    /// Whether reservations fit if a tenant (a new one for none) reserves what it says, in the group that it names, whose
    /// place is returned. Where all is to fit in the end only the place is looked for.
    pub(super) fn check_reserved(
        &self,
        who: Option<TenantId>,
        tenant: &TenantConfig,
        fits: Fits,
    ) -> Result<Option<GroupId>, Refusal> {
        let division = self.shared.in_charge.now();
        let group = match &tenant.group {
            None => None,
            Some(name) => Some(division.find(name).ok_or_else(|| no_such(&division, name))?),
        };
        if fits == Fits::InTheEnd {
            return Ok(group.map(|(id, _)| id));
        }
        let Some((id, group)) = group else {
            let others = division.reserved(self.reservations(who));
            return self.check_divisible(others, tenant.reserved).map(|()| None);
        };
        let members = self.reservations(who).filter(|(of, _)| *of == Some(id)).map(|(_, reserved)| reserved);
        // What is wanted may be far beyond any memory.
        let together = members.sum::<Bytes>().0.saturating_add(tenant.reserved.0);
        check_members(group, Bytes(together)).map_err(does_not_fit)?;
        Ok(Some(id))
    }

    /// Whether `wanted` can be reserved beside what others reserve.
    fn check_divisible(&self, others: Bytes, wanted: Bytes) -> Result<(), Refusal> {
        let divisible = self.shared.divisible();
        let left = divisible.saturating_sub(others);
        if left < wanted {
            return conflict(
                format!("{wanted} cannot be reserved: others reserve {others} of {divisible} in DRAM"),
                format!("reserve at most {}", whole(left)),
            );
        }
        Ok(())
    }
}

/// So much in whole units, rounded down: who reserves that is not refused.
fn whole(size: Bytes) -> String {
    let units = [("MiB", 20), ("KiB", 10)];
    let (unit, shift) = units.into_iter().find(|(_, shift)| 0 < size.0 >> shift).unwrap_or(("B", 0));
    format!("{}{unit}", size.0 >> shift)
}

fn unknown(name: &str) -> Refusal {
    Refusal::new(RefusalKind::Unknown, format!("there is no group '{name}'"), "cotenant group list names all")
}

fn no_such(division: &Division, name: &str) -> Refusal {
    let names: Vec<_> = division.groups().map(|(_, group)| group.name.clone()).collect();
    let cure = if names.is_empty() {
        format!("make it first: cotenant group set {name}")
    } else {
        format!("one of {}, or make it first: cotenant group set {name}", names.join(", "))
    };
    Refusal::new(RefusalKind::Conflict, format!("there is no group '{name}'"), cure)
}

fn malformed(error: ConfigError) -> Refusal {
    Refusal::new(RefusalKind::Malformed, error.what, error.cure)
}

fn does_not_fit(error: ConfigError) -> Refusal {
    Refusal::new(RefusalKind::Conflict, error.what, error.cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_reserved_is_said_in_whole_units_rounded_down() {
        for (size, said) in [
            (Bytes(0), "0B"),
            (Bytes(1023), "1023B"),
            (Bytes(2047), "1KiB"),
            (Bytes(Bytes::mib(1500).0 - 1), "1499MiB"),
        ] {
            assert_eq!(whole(size), said);
        }
    }
}
