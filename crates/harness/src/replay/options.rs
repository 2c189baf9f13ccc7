//! What a replay is asked for.
//!
//! Shape:      what a command line or an experiment says -> floors and groups of tenants, checked as a server checks its own
//! Units:      bytes, time of the trace

use control::{GroupId, Weight};
use policy::memory::{LEARNING, Tax};
use server::{ConfigError, Division, GroupConfig, Member, check_groups};
use std::collections::BTreeSet;
use store::{PassKind, Placement, Promotion, RankKind};
use units::{Bytes, Duration};

/// How to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Memory of the store.
    pub memory: Bytes,
    /// Largest item.
    pub item_max: Bytes,
    /// A tier of DRAM below the store's own, as if that were slower; none if it is zero.
    pub tier: Bytes,
    /// Where values go if there is such a tier.
    pub placement: Placement,
    /// When hits bring values back.
    pub promotion: Promotion,
    /// The policy's name, one of `MemoryPolicy::NAMES`.
    pub policy: String,
    /// Bytes that one shadow hit moves.
    pub credit: Bytes,
    /// Bytes that a shadow hit of a tenant moves to it, by its name.
    pub credits: Vec<(String, Bytes)>,
    /// The part of idle memory that `idle-tax` and `auto` take.
    pub tax: Tax,
    /// Memory that was not touched for so long of the trace's time is idle.
    pub idle_time: Duration,
    /// How long `auto` learns, in the trace's time.
    pub learning: Duration,
    /// Parts of what is not reserved, relative to the others', by tenants' names; 1 for who is not named.
    pub weights: Vec<(String, Weight)>,
    /// Floors: of one tenant by its name, or of each.
    pub reserved: Vec<(Option<String>, Bytes)>,
    /// Groups of tenants, in which `members` puts them.
    pub groups: Vec<GroupConfig>,
    /// Tenants and the groups that they are in, by their names.
    pub members: Vec<(String, String)>,
    /// Eviction order.
    pub rank: RankKind,
    /// Tenants that exist before the first request, whether they come or not.
    pub tenants: Vec<String>,
    /// Honour times to live: the trace's time drives the store's clock.
    pub ttl: bool,
    /// Requests at most.
    pub limit: Option<u64>,
    /// How cleaning passes choose; none lets the store choose.
    pub pass_kind: Option<PassKind>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            memory: Bytes::mib(64),
            item_max: Bytes::mib(1),
            tier: Bytes::ZERO,
            placement: Placement::Auto,
            promotion: Promotion::Repeated,
            policy: "pooled".to_owned(),
            credit: Bytes::kib(64),
            credits: Vec::new(),
            tax: Tax::HALF,
            idle_time: Duration::from_secs(5 * 3_600),
            learning: LEARNING,
            weights: Vec::new(),
            reserved: Vec::new(),
            groups: Vec::new(),
            members: Vec::new(),
            rank: RankKind::default(),
            tenants: Vec::new(),
            ttl: false,
            limit: None,
            pass_kind: None,
            seed: 0,
        }
    }
}

impl ReplayOptions {
    pub(super) fn floor_of(&self, tenant: &str) -> Bytes {
        let mut reserved = self.reserved.iter();
        let floor = reserved.rfind(|(of, _)| of.as_ref().is_none_or(|of| *of == tenant));
        floor.map_or(Bytes::ZERO, |(_, floor)| *floor)
    }

    pub(super) fn check_groups(&self) -> Result<(), ConfigError> {
        let members = self.members.iter();
        let members =
            members.map(|(tenant, group)| Member { tenant, group, reserved: self.floor_of(tenant) });
        check_groups(&self.groups, &members.collect::<Vec<_>>())
    }

    /// The tenants that the options name: what they reserve is theirs before they come.
    pub(super) fn named(&self) -> BTreeSet<String> {
        let reserving = self.reserved.iter().filter_map(|(of, _)| of.as_ref());
        reserving.chain(self.members.iter().map(|(of, _)| of)).cloned().collect()
    }

    pub(super) fn group_of(&self, tenant: &str, division: &Division) -> Option<GroupId> {
        let (_, name) = self.members.iter().find(|(of, _)| *of == tenant)?;
        division.find(name).map(|(id, _)| id)
    }

    /// Whether reservations of these tenants fit, as a server asks; a group's count once.
    pub(super) fn check_reserved(
        &self,
        division: &Division,
        tenants: &BTreeSet<String>,
        divisible: Bytes,
    ) -> Result<(), ConfigError> {
        let claims = tenants.iter().map(|name| (self.group_of(name, division), self.floor_of(name)));
        let reserved = division.reserved(claims);
        if reserved <= divisible {
            return Ok(());
        }
        let what = format!("the reservations are {reserved}, the divisible memory in DRAM is {divisible}");
        Err(ConfigError { what, cure: "lower the reservations or raise the memory".to_owned() })
    }
}
