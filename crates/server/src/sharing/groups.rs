//! Groups of tenants as policies about a tier's bandwidth see them: what each claims as a whole.
//!
//! Shape:      groups by their places -> claims, at the prices of the tier -> a policy among groups and lone tenants, one inside each
//! Invariants: the policy inside is of the kind outside, so that both decide at the same pace; a place without a group claims nothing
//! Non-goals:  who is in which group: tenants' claims say that

use super::joint::as_bandwidth;
use super::thing::price;
use crate::groups::{Division, GroupConfig};
use control::{Amount, Claim, Weight};
use policy::bandwidth::BandwidthPolicy;
use policy::compose::{Group, Grouped};
use policy::joint::JointPolicy;
use store::Store;

/// What groups claim, by their places.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct GroupClaims {
    /// Of a tier's time.
    bandwidth: Vec<Claim>,
    /// Of DRAM and a tier's time.
    joint: Vec<Claim>,
}

impl GroupClaims {
    /// What the groups of a division claim of `store`'s tier.
    pub(crate) fn of(division: &Division, store: &Store) -> Self {
        let bandwidth: Vec<_> = division.places().map(|group| claim(group, store)).collect();
        let joint = bandwidth.iter().cloned().map(|mut claim| {
            let limit = claim.ceiling.map(as_bandwidth);
            claim.ceiling = limit.map(|bandwidth| Amount { bandwidth, ..Amount::default() });
            claim
        });
        Self { joint: joint.collect(), bandwidth }
    }

    /// A policy about a tier's time among groups, if there are any: `made` makes it by whether it is the one among them, and a number
    /// that no other has.
    pub(super) fn over(&self, made: impl Fn(bool, u64) -> Box<BandwidthPolicy>) -> Box<BandwidthPolicy> {
        if self.bandwidth.is_empty() {
            return made(true, 0);
        }
        let group = |(at, claim): (u64, &Claim)| Group { claim: claim.clone(), inside: made(false, at) };
        Box::new(Grouped::new(made(true, 0), (1..).zip(&self.bandwidth).map(group).collect()))
    }

    /// The same of a policy over DRAM and a tier's time.
    pub(super) fn joint_over(&self, made: impl Fn() -> JointPolicy) -> JointPolicy {
        if self.joint.is_empty() {
            return made();
        }
        let group = |claim: &Claim| Group { claim: claim.clone(), inside: made() };
        Box::new(Grouped::new(made(), self.joint.iter().map(group).collect()))
    }
}

fn claim(group: Option<&GroupConfig>, store: &Store) -> Claim {
    let Some(group) = group else { return Claim::default() };
    let weight = Weight::new(group.weight).unwrap_or_default();
    let mut claim = Claim { weight, ..Claim::default() };
    group.bandwidth.put_into(&mut claim, |operations| price(store, operations));
    claim
}
