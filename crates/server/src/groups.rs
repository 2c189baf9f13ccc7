//! Groups of tenants: what each claims as a whole, who divides inside it, and who divides among them.
//!
//! Shape:      a list of places, one per group; a tenant's claim names the place of its group
//! Invariants: a group reserves at least what its members reserve together; the place of a removed group is empty until
//!             another takes it, so that no place changes
//! Non-goals:  groups in groups

use crate::config::{Config, ConfigError, MemoryPolicy, check_weight, refuse};
use crate::limits::{GROUPS_MAX, TENANT_NAME_MAX};
use crate::sharing::TierClaim;
use crate::terms::Terms;
use control::{Amount, Claim, GroupId, Weight};
use policy::compose::Group;
use policy::memory::{MemoryOptions, MemoryPolicy as Policy};
use std::collections::BTreeMap;
use units::Bytes;

/// One group as it is configured.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupConfig {
    /// Its name: 1 to 64 of `a-z A-Z 0-9 . _ -`.
    pub name: String,
    /// Memory that nobody outside takes from its members together.
    pub reserved: Bytes,
    /// Its part of the unreserved memory, relative to other groups' and to tenants' that are in none.
    pub weight: f64,
    /// The policy that divides inside; none means the one that divides among the groups.
    pub policy: Option<MemoryPolicy>,
    /// What its members claim together of a tier's bandwidth.
    pub bandwidth: TierClaim,
}

/// Who divides the memory: a policy among groups and lone tenants, and what there is of groups.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Division {
    pub(crate) kind: MemoryPolicy,
    pub(crate) terms: Terms,
    places: Vec<Option<GroupConfig>>,
}

impl Division {
    /// The division that a configuration begins with.
    pub(crate) fn of(config: &Config) -> Self {
        Self { terms: Terms::of(config), ..Self::new(config.policy, &config.groups) }
    }

    /// These groups in this order, and `kind` among them.
    #[must_use]
    pub fn new(kind: MemoryPolicy, groups: &[GroupConfig]) -> Self {
        Self { kind, terms: Terms::default(), places: groups.iter().cloned().map(Some).collect() }
    }

    /// The same groups under another policy among them, which is told this.
    pub(crate) fn under(&self, kind: MemoryPolicy, terms: Terms) -> Self {
        Self { kind, terms, ..self.clone() }
    }

    /// Whether the same policies divide the same groups, whatever they are told.
    pub(crate) fn is_but_told_otherwise(&self, before: &Self) -> bool {
        self.kind == before.kind && self.places == before.places
    }

    /// Every place, with its group if it has one.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&GroupConfig>> {
        self.places.iter().map(Option::as_ref)
    }

    /// Every group with its place.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (GroupId, &GroupConfig)> {
        (0..).map(GroupId).zip(&self.places).filter_map(|(id, group)| group.as_ref().map(|group| (id, group)))
    }

    /// The place of the group of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(GroupId, &GroupConfig)> {
        self.groups().find(|(_, group)| group.name == name)
    }

    /// The group at a place.
    pub(crate) fn at(&self, id: GroupId) -> Option<&GroupConfig> {
        self.places.get(usize::from(id.0)).and_then(Option::as_ref)
    }

    /// What each place reserves, and its weight.
    #[must_use]
    pub fn reserve_and_weigh(&self) -> Vec<(Bytes, Weight)> {
        let nobody = (Bytes::ZERO, Weight::ONE);
        let of = |group: &GroupConfig| (group.reserved, Weight::new(group.weight).unwrap_or_default());
        self.places.iter().map(|group| group.as_ref().map_or(nobody, of)).collect()
    }

    /// The same with a group put in, in the place of its name or in the first that is empty; none if there is none.
    pub(crate) fn with(&self, group: GroupConfig) -> Option<Self> {
        let mut new = self.clone();
        let named = new.places.iter().position(|at| at.as_ref().is_some_and(|at| at.name == group.name));
        match named.or_else(|| new.places.iter().position(Option::is_none)) {
            Some(at) => new.places[at] = Some(group),
            None if new.places.len() < GROUPS_MAX => new.places.push(Some(group)),
            None => return None,
        }
        Some(new)
    }

    /// The same without the group at a place.
    pub(crate) fn without(&self, id: GroupId) -> Self {
        let mut new = self.clone();
        if let Some(place) = new.places.get_mut(usize::from(id.0)) {
            *place = None;
        }
        while new.places.last().is_some_and(Option::is_none) {
            new.places.pop();
        }
        new
    }

    /// What reservations claim together if tenants reserve so much, each in its group or in none: a group's once, however
    /// its members divide it.
    #[must_use]
    pub fn reserved(&self, tenants: impl Iterator<Item = (Option<GroupId>, Bytes)>) -> Bytes {
        let mut members: BTreeMap<GroupId, Bytes> = self.groups().map(|(id, _)| (id, Bytes::ZERO)).collect();
        // What is far beyond any memory stays so.
        let plus = |a: Bytes, b: Bytes| Bytes(a.0.saturating_add(b.0));
        let mut all = Bytes::ZERO;
        for (group, reserved) in tenants {
            match group.and_then(|id| members.get_mut(&id)) {
                Some(of_group) => *of_group = plus(*of_group, reserved),
                None => all = plus(all, reserved),
            }
        }
        let groups = members.iter().filter_map(|(id, members)| Some(self.at(*id)?.reserved.max(*members)));
        groups.fold(all, plus)
    }

    /// What its policies are told.
    pub(crate) fn options(&self, config: &Config) -> MemoryOptions {
        self.terms.options(config.memory, config.seed)
    }

    /// The policies of this division in their first state, as a configuration has them.
    pub(crate) fn configured(&self, config: &Config) -> Policy {
        self.policy(self.options(config))
    }

    /// The policies of this division in their first state; each group's has a seed of its own.
    #[must_use]
    pub fn policy(&self, options: MemoryOptions) -> Policy {
        let one = |kind: MemoryPolicy, seed: u64| {
            let policy = Policy::by_name(kind.name(), MemoryOptions { seed, ..options });
            policy.expect("every policy of the configuration has its name")
        };
        let group = |(seed, place): (u64, &Option<GroupConfig>)| {
            let weight = place.as_ref().and_then(|group| Weight::new(group.weight)).unwrap_or_default();
            let reserved = place.as_ref().map_or(Bytes::ZERO, |group| group.reserved);
            let kind = place.as_ref().and_then(|group| group.policy).unwrap_or(self.kind);
            let claim = Claim { weight, floor: Amount::memory(reserved), ..Claim::default() };
            Group { claim, inside: one(kind, seed) }
        };
        let seeds = (1..).map(|at| options.seed.wrapping_add(at));
        one(self.kind, options.seed).over(seeds.zip(&self.places).map(group).collect())
    }
}

/// A tenant that is in a group.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub tenant: &'a str,
    /// The name of its group.
    pub group: &'a str,
    /// What it reserves.
    pub reserved: Bytes,
}

/// Checks groups and who is in them.
///
/// # Errors
/// The first thing that does not fit, and what would.
pub fn check_groups(groups: &[GroupConfig], members: &[Member<'_>]) -> Result<(), ConfigError> {
    if GROUPS_MAX < groups.len() {
        return refuse(
            format!("{} groups are configured, {GROUPS_MAX} can be", groups.len()),
            "put tenants that claim alike into one group",
        );
    }
    for (i, group) in groups.iter().enumerate() {
        check_group(group)?;
        if groups[..i].iter().any(|other| other.name == group.name) {
            return refuse(format!("two groups are named '{}'", group.name), "rename one of them");
        }
        let inside = members.iter().filter(|member| member.group == group.name);
        check_members(group, inside.map(|member| member.reserved).sum())?;
    }
    let is_lost = |member: &&Member<'_>| groups.iter().all(|group| group.name != member.group);
    if let Some(Member { tenant, group, .. }) = members.iter().find(is_lost) {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let cure = if names.is_empty() {
            format!("add a table [group.{group}], or --group name={group}")
        } else {
            format!(
                "add a table [group.{group}] or --group name={group}, or name one of {}",
                names.join(", ")
            )
        };
        return refuse(format!("tenant '{tenant}' is in group '{group}', which is not there"), &cure);
    }
    Ok(())
}

/// Checks what one group says by itself.
pub(crate) fn check_group(group: &GroupConfig) -> Result<(), ConfigError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if group.name.is_empty() || TENANT_NAME_MAX < group.name.len() || !group.name.bytes().all(allowed) {
        return refuse(
            format!("'{}' is no group name", group.name),
            "use 1 to 64 letters, digits, dots, dashes and underscores",
        );
    }
    check_weight("group", &group.name, group.weight)
}

/// Checks that a group reserves what its members reserve together.
pub(crate) fn check_members(group: &GroupConfig, members: Bytes) -> Result<(), ConfigError> {
    if group.reserved < members {
        return refuse(
            format!(
                "the members of group '{}' reserve {members} together, the group {}",
                group.name, group.reserved
            ),
            &format!("let the group reserve {members} or more, or its members less"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TenantConfig;

    fn group(name: &str, mib: u64) -> GroupConfig {
        let bandwidth = TierClaim::default();
        GroupConfig { name: name.to_owned(), reserved: Bytes::mib(mib), weight: 1.0, policy: None, bandwidth }
    }

    fn tenant(name: &str, group: Option<&str>, mib: u64) -> TenantConfig {
        TenantConfig {
            name: name.to_owned(),
            prefix: Some(format!("{name}:").into_bytes()),
            reserved: Bytes::mib(mib),
            group: group.map(str::to_owned),
            ..TenantConfig::default()
        }
    }

    fn checked(groups: Vec<GroupConfig>, tenants: Vec<TenantConfig>) -> Result<(), String> {
        let config = Config { groups, tenants, ..Config::default() };
        config.checked().map(drop).map_err(|e| format!("{}; {}", e.what, e.cure))
    }

    #[test]
    fn groups_that_make_no_sense_are_refused() {
        assert_eq!(
            checked(vec![group("g", 8)], vec![tenant("a", Some("g"), 8), tenant("b", None, 0)]),
            Ok(())
        );
        for (groups, tenants, part) in [
            (vec![], vec![tenant("a", Some("g"), 0)], "group 'g', which is not there; add a table [group.g]"),
            (vec![group("h", 0)], vec![tenant("a", Some("g"), 0)], "or name one of h"),
            (vec![group("g", 0), group("g", 0)], vec![], "two groups are named 'g'"),
            (vec![group("g h", 0)], vec![], "no group name"),
            (vec![GroupConfig { weight: 0.0, ..group("g", 0) }], vec![], "weight of group 'g' is 0"),
            (vec![GroupConfig { weight: 1e308, ..group("g", 0) }], vec![], "from 1e-12 to 1e12"),
            (
                vec![],
                vec![TenantConfig { weight: 1e-320, ..tenant("a", None, 0) }],
                "weight of tenant 'a' is 0.0",
            ),
            (
                vec![group("g", 8)],
                vec![tenant("a", Some("g"), 5), tenant("b", Some("g"), 4)],
                "reserve 9MiB together, the group 8MiB",
            ),
            (vec![group("g", 50)], vec![tenant("a", None, 50)], "reservations are 100MiB"),
            (
                (0..65).map(|i| group(&format!("g{i}"), 0)).collect(),
                vec![],
                "65 groups are configured, 64 can be",
            ),
        ] {
            let told = checked(groups, tenants).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn places_stay_and_empty_ones_are_taken_again() {
        let all =
            ["a", "b", "c"].iter().fold(Division::default(), |all, name| all.with(group(name, 1)).unwrap());
        let places = |d: &Division| -> Vec<(u16, String)> {
            d.groups().map(|(id, group)| (id.0, group.name.clone())).collect()
        };
        let less = all.without(GroupId(1));
        assert_eq!(places(&less), [(0, "a".to_owned()), (2, "c".to_owned())]);
        assert_eq!(
            less.reserve_and_weigh().iter().map(|(floor, _)| *floor).collect::<Vec<_>>(),
            [Bytes::mib(1), Bytes::ZERO, Bytes::mib(1)]
        );
        let again = less.with(group("d", 2)).unwrap().with(group("c", 5)).unwrap();
        assert_eq!(places(&again), [(0, "a".to_owned()), (1, "d".to_owned()), (2, "c".to_owned())]);
        let tenants = [(Some(GroupId(2)), 3), (Some(GroupId(2)), 1), (None, 7), (Some(GroupId(9)), 1)];
        let reserved = again.reserved(tenants.into_iter().map(|(group, mib)| (group, Bytes::mib(mib))));
        assert_eq!(reserved, Bytes::mib(1 + 2 + 5 + 7 + 1));
        assert!(less.without(GroupId(2)).places.len() == 1, "empty places at the end go");
    }
}
