//! What reservations come to once all of a configuration is taken over: its steps alone may ask for more than that.
//!
//! Shape: who is there once tenants are removed that can be, with the configuration before and after -> the groups and reservations in the end ->
//!        whether they fit

use super::changed_groups;
use crate::config::{Config, TenantConfig};
use crate::groups::{Division, check_members};
use crate::operator::Operator;
use control::GroupId;
use units::Bytes;

impl Operator {
    /// Whether everything fits once `after` is taken over, where `before` was read last; what an operator has set since counts as it is.
    pub(super) fn fits_with(&self, before: &Config, after: &Config) -> bool {
        let Some(division) = self.division_with(before, after) else { return false };
        let Some(tenants) = self.reservations_with(before, after, &division) else { return false };
        let of =
            |id| tenants.iter().filter(move |(group, _)| *group == Some(id)).map(|(_, reserved)| *reserved);
        let plus = |a: Bytes, b: Bytes| Bytes(a.0.saturating_add(b.0));
        let holds_its_own = |(id, group)| check_members(group, of(id).fold(Bytes::ZERO, plus)).is_ok();
        division.groups().all(holds_its_own)
            && division.reserved(tenants.iter().copied()) <= self.shared.divisible()
    }

    /// The groups in the end; none if there are too many.
    fn division_with(&self, before: &Config, after: &Config) -> Option<Division> {
        let mut division = Division::clone(&self.shared.in_charge.now());
        for group in changed_groups(before, after) {
            let earlier = before.groups.iter().find(|earlier| earlier.name == group.name);
            let there = division.find(&group.name).map(|(_, there)| there.clone());
            let mut new = group.clone();
            if let (Some(earlier), Some(there)) = (earlier, there)
                && earlier.reserved == group.reserved
            {
                new.reserved = there.reserved;
            }
            division = division.with(new)?;
        }
        // They go last.
        let is_gone = |name: &str| after.groups.iter().all(|group| group.name != name);
        for group in before.groups.iter().filter(|group| is_gone(&group.name)) {
            if let Some((id, _)) = division.find(&group.name) {
                division = division.without(id);
            }
        }
        Some(division)
    }

    /// What tenants reserve in the end, each with its group; none if one's group is not there, or it will not be taken over.
    fn reservations_with(
        &self,
        before: &Config,
        after: &Config,
        division: &Division,
    ) -> Option<Vec<(Option<GroupId>, Bytes)>> {
        let now = self.shared.in_charge.now();
        let of = |tenants: &[TenantConfig], name: &str| tenants.iter().find(|t| t.name == name).cloned();
        let mut all = Vec::new();
        for id in self.router.all() {
            let (Some(about), Some(state)) = (self.router.about(id), self.shared.store.tenant_state(id))
            else {
                continue;
            };
            let (earlier, later) = (of(&before.tenants, &about.name), of(&after.tenants, &about.name));
            if later.as_ref().is_some_and(|later| self.check_place(later).is_err()) {
                return None;
            }
            let is_new = |is_same: fn(&TenantConfig, &TenantConfig) -> bool| {
                later.as_ref().filter(|later| earlier.as_ref().is_none_or(|earlier| !is_same(earlier, later)))
            };
            let reserved = is_new(|a, b| a.reserved == b.reserved).map(|later| later.reserved);
            let there = state.claim.group.and_then(|id| now.at(id)).map(|group| group.name.clone());
            let group = is_new(|a, b| a.group == b.group).map_or(there, |later| later.group.clone());
            all.push((group, reserved.unwrap_or(state.claim.floor.bytes)));
        }
        // An operator's removal of one of which the configuration says nothing new holds.
        let comes = |t: &&TenantConfig| {
            self.router.find(&t.name).is_none() && of(&before.tenants, &t.name).as_ref() != Some(*t)
        };
        all.extend(after.tenants.iter().filter(comes).map(|tenant| (tenant.group.clone(), tenant.reserved)));
        let place = |(group, reserved): (Option<String>, Bytes)| match group {
            None => Some((None, reserved)),
            Some(name) => division.find(&name).map(|(id, _)| (Some(id), reserved)),
        };
        all.into_iter().map(place).collect()
    }
}
