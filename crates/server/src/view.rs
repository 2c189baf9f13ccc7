//! What can be seen of a running server: one snapshot that `stats`, the metrics and the demo are made from.

use crate::admission::{Allowance, GateCounts};
use crate::cleaning::CleaningView;
use crate::config::MemoryPolicy;
use crate::groups::{Division, GroupConfig};
use crate::in_charge::Span;
use crate::limits::LATENCY_TENANTS_MAX;
use crate::loops::MemoryLoop;
use crate::observe::{HotKeysView, Slow, TenantLatency};
use crate::shared::Shared;
use crate::sharing::{SharingView, TierClaim};
use crate::tenants::{Binding, Router};
use control::GroupId;
use control::journal::{Journal, Line};
use policy::memory::MemoryPolicy as Policy;
use std::sync::{Arc, PoisonError};
use store::{MemoryUse, TenantState, TierTotals, TierUse, Totals};
use units::{Bytes, TenantId};

/// A window into a running server.
#[derive(Clone, Debug)]
pub struct View {
    shared: Arc<Shared>,
    router: Arc<Router>,
    memory: MemoryLoop,
}

/// One tenant of a snapshot.
#[derive(Clone, Debug)]
pub struct TenantView {
    /// What it is.
    pub state: TenantState,
    /// What it counted.
    pub totals: Totals,
    /// How long its requests took.
    pub latency: TenantLatency,
    /// What it is allowed beside memory.
    pub allowance: Allowance,
    /// What its gate counted.
    pub gate: GateCounts,
    /// How much slower it is than alone at the divided tier, if the policy in charge knows.
    pub slowdown: Option<f64>,
}

/// One tier of a snapshot.
#[derive(Clone, Debug)]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub holds: TierUse,
    /// What was counted of it.
    pub totals: TierTotals,
}

/// One group of a snapshot: what its members have together.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// Its name.
    pub name: String,
    /// What it reserves.
    pub reserved: Bytes,
    /// Its weight among groups and lone tenants.
    pub weight: f64,
    /// The policy inside; none means the one among the groups.
    pub policy: Option<MemoryPolicy>,
    /// What its members claim together of a tier's bandwidth.
    pub bandwidth: TierClaim,
    /// Its members' names.
    pub members: Vec<String>,
    /// What its members hold.
    pub held: Bytes,
    /// Their shares in force.
    pub target: Bytes,
}

/// The server at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Every tenant, by id.
    pub tenants: Vec<TenantView>,
    /// How long all tenants' requests took, where there are too many tenants to say it of each.
    pub latency: Option<TenantLatency>,
    /// Every group.
    pub groups: Vec<GroupView>,
    /// Every tier below DRAM, the fastest first.
    pub tiers: Vec<TierView>,
    /// How the loop about a tier's bandwidth stands.
    pub sharing: SharingView,
    /// How memory is used.
    pub memory: MemoryUse,
    /// Memory of miss ratio curves, with what brings them their samples.
    pub curves: Bytes,
    /// Memory of times, hot keys and slow requests.
    pub observed: Bytes,
    /// Requests of tenants whose times there was no memory for.
    pub unobserved: u64,
    /// Slow requests.
    pub slow_total: u64,
    /// Memory of connections' buffers.
    pub buffers: Bytes,
    /// What cleaning does and costs.
    pub cleaning: CleaningView,
    /// Decisions made.
    pub decisions_total: u64,
    /// What all tenants counted, those included that were removed.
    pub totals: Totals,
}

impl View {
    pub(crate) fn new(shared: Arc<Shared>, router: Arc<Router>, memory: MemoryLoop) -> Self {
        Self { shared, router, memory }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The server now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let ids: Vec<_> = self.router.all().collect();
        // Exactly so many: of a thousand each growth would be a copy of a megabyte.
        let mut tenants = Vec::with_capacity(ids.len());
        tenants.extend(ids.into_iter().filter_map(|id| tenant(&self.shared, id)));
        let ids: Vec<_> = tenants.iter().map(|t| t.state.id).collect();
        let (observed, now) = (&self.shared.observed, self.shared.clock.now());
        let mut latency = None;
        if ids.len() <= LATENCY_TENANTS_MAX {
            for (tenant, latency) in tenants.iter_mut().zip(observed.latencies(&ids, now)) {
                tenant.latency = latency;
            }
        } else {
            latency = Some(observed.latency_of_all(now));
        }
        let groups = groups(&self.shared.in_charge.now(), &tenants);
        let mut totals = self.shared.store.totals_of_all(false);
        totals.add(&self.shared.store.totals_of_all(true));
        let curves = self.shared.curves.lock().unwrap_or_else(PoisonError::into_inner).memory();
        Snapshot {
            tenants,
            latency,
            groups,
            tiers: tiers(&self.shared, &self.router),
            sharing: self.shared.sharing.view(),
            memory: self.shared.store.memory_use(),
            curves,
            observed: self.shared.observed.bytes(),
            unobserved: self.shared.observed.unobserved(),
            slow_total: self.shared.observed.slow.total(),
            buffers: self.shared.buffered(),
            cleaning: self.shared.cleaning.view(&self.shared.store),
            // No loop is held up while the other one is waited for.
            decisions_total: self.decisions_total(),
            totals,
        }
    }

    /// The keys that a tenant is asked for most; none if there is no such tenant.
    #[must_use]
    pub fn hot_keys(&self, name: &str) -> Option<HotKeysView> {
        let id = self.router.find(name)?;
        Some(self.shared.observed.hot_keys(id, self.shared.clock.now()))
    }

    /// How long a tenant's requests took; none if there is no such tenant.
    #[must_use]
    pub fn latency(&self, name: &str) -> Option<TenantLatency> {
        let id = self.router.find(name)?;
        self.shared.observed.latencies(&[id], self.shared.clock.now()).pop()
    }

    /// Slow requests, the latest first, with their tenants' names.
    #[must_use]
    pub fn slow(&self) -> Vec<(String, Slow)> {
        let named = |slow: Slow| {
            let name = self.router.about(slow.tenant).map(|about| about.name).unwrap_or_default();
            (name, slow)
        };
        self.shared.observed.slow.records().into_iter().map(named).collect()
    }

    /// What is known of a tenant's miss ratio curve; none if there is no such tenant.
    #[must_use]
    pub fn curve(&self, name: &str) -> Option<crate::CurveView> {
        let is_named = |id: &TenantId| self.shared.store.tenant_state(*id).is_some_and(|t| t.name == name);
        let id = self.router.all().find(is_named)?;
        let mut curves = self.shared.curves.lock().unwrap_or_else(PoisonError::into_inner);
        curves.catch_up(id);
        curves.view(id)
    }

    /// The decisions kept, oldest first, each as one line of JSON.
    #[must_use]
    pub fn journal_lines(&self) -> Vec<String> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.journal().records().map(control::journal::Record::to_line).collect()
    }

    /// Decisions made since the start, kept or not.
    #[must_use]
    pub fn decisions_total(&self) -> u64 {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).journal().recorded_total()
    }

    /// The first decision kept whose number is at least `from`: its number, counted from the start, and its line of JSON.
    #[must_use]
    pub fn journal_line(&self, from: u64) -> Option<(u64, String)> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        line_of(memory.journal(), from)
    }

    /// The same of the decisions about a tier's bandwidth.
    #[must_use]
    pub fn bandwidth_journal_line(&self, from: u64) -> Option<(u64, String)> {
        self.shared.sharing.journal_line(from)
    }

    /// Decisions about a tier's bandwidth since the start, kept or not.
    #[must_use]
    pub fn bandwidth_decisions_total(&self) -> u64 {
        self.shared.sharing.view().decisions_total
    }

    /// How the loop about a tier's bandwidth stands.
    #[must_use]
    pub fn sharing(&self) -> SharingView {
        self.shared.sharing.view()
    }

    /// Replays the decisions kept through a fresh policy of the same kind and seed. Says how many agreed; none if the
    /// journal no longer reaches back to the first.
    ///
    /// # Errors
    /// The first decision that differs.
    pub fn replay_journal(&self) -> Result<Option<usize>, control::journal::Divergence> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let journal = memory.journal();
        if journal.recorded_total() != journal.records().len() as u64 {
            return Ok(None);
        }
        let (mut agreed, config) = (0, &self.shared.config);
        let mut last: Option<Policy> = None;
        for Span { division, is_fresh, decisions } in self.shared.in_charge.spans(journal.records().len()) {
            let mut policy = match last.take().filter(|_| !is_fresh) {
                Some(mut before) => {
                    before.retell(division.options(config));
                    before
                }
                None => division.configured(config),
            };
            let span = journal.records().skip(decisions.start).take(decisions.len());
            let replayed = control::journal::replay(&mut policy, span);
            agreed +=
                replayed.map_err(|e| control::journal::Divergence { index: e.index + decisions.start })?;
            last = Some(policy);
        }
        Ok(Some(agreed))
    }
}

/// The first record kept whose number is at least `from`, and its number.
pub(crate) fn line_of<S: Line + Clone, A: Line + Clone>(
    journal: &Journal<S, A>,
    from: u64,
) -> Option<(u64, String)> {
    let records = journal.records();
    let first = journal.recorded_total() - records.len() as u64;
    let number = from.max(first);
    let skipped = usize::try_from(number - first).ok()?;
    let mut rest = records.skip(skipped);
    rest.next().map(|record| (number, record.to_line()))
}

/// What there is of groups among these tenants.
pub(crate) fn groups(division: &Division, tenants: &[TenantView]) -> Vec<GroupView> {
    let view = |(id, group): (GroupId, &GroupConfig)| {
        let members = || tenants.iter().map(|t| &t.state).filter(move |t| t.claim.group == Some(id));
        GroupView {
            name: group.name.clone(),
            reserved: group.reserved,
            weight: group.weight,
            policy: group.policy,
            bandwidth: group.bandwidth.clone(),
            members: members().map(|t| t.name.clone()).collect(),
            held: members().map(|t| t.held).sum(),
            target: members().map(|t| t.share.target).sum(),
        }
    };
    division.groups().map(view).collect()
}

/// One tenant without its times; none if it has gone.
pub(crate) fn tenant(shared: &Shared, id: TenantId) -> Option<TenantView> {
    let (allowance, gate) = shared.admission.of(id);
    Some(TenantView {
        allowance,
        gate,
        state: shared.store.tenant_state(id)?,
        totals: shared.store.totals(id),
        latency: TenantLatency::default(),
        slowdown: shared.sharing.slowdown(id),
    })
}

/// What a connection sees: its own tenant, or the default and the prefix tenants together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible {
    pub(crate) totals: Totals,
    pub(crate) items: u64,
    pub(crate) held: Bytes,
    /// Bytes of what it holds in tiers, and items whose values are there.
    pub(crate) away: Bytes,
    pub(crate) away_items: u64,
    pub(crate) limit: Bytes,
}

fn tiers(shared: &Shared, router: &Router) -> Vec<TierView> {
    let names = router.places.names().iter().cloned();
    let seen = shared.store.tier_use().into_iter().zip(shared.store.tier_totals());
    names.zip(seen).map(|(name, (holds, totals))| TierView { name, holds, totals }).collect()
}

impl Visible {
    pub(crate) fn to(shared: &Shared, router: &Router, binding: &Binding) -> Self {
        let mut all = Self::default();
        for state in router.visible(binding).into_iter().filter_map(|id| shared.store.tenant_state(id)) {
            all.items += state.items;
            all.held += state.held;
            all.away += state.away;
            all.away_items += state.away_items;
            all.limit += state.share.target;
            if *binding != Binding::Unbound {
                all.totals.add(&shared.store.totals(state.id));
            }
        }
        if *binding == Binding::Unbound {
            all.limit = shared.memory_limit();
            all.totals = shared.store.totals_of_all(false);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use store::{Fields, Mode, Space, Worker};

    /// Tenants that come, store something and go, one after the other, until somebody has seen enough.
    fn come_and_go(mut worker: Worker, sets: &AtomicU64, is_over: &AtomicBool) {
        let id = worker.store().add_tenant(testing::tenant("t")).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..100 {
                sets.fetch_add(1, Ordering::SeqCst);
                let key = worker.key(Space::Shared, b"k").unwrap();
                worker.set(id, &key, Mode::Set, Fields::default(), b"v").unwrap();
            }
            testing::replace(&mut worker, id, "t");
        }
    }

    #[test]
    fn what_all_have_counted_never_falls_nor_is_more_than_was_done_while_tenants_come_and_go() {
        let shared = testing::small(2);
        let router = Router::new(Arc::clone(&shared.store), &shared.config).unwrap();
        let (sets, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let worker = shared.store.worker().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| come_and_go(worker, &sets, &is_over));
            let mut before = 0;
            // Hundreds of tenants.
            while before < 50_000 {
                let counted = Visible::to(&shared, &router, &Binding::Unbound).totals.cmd_set;
                let done = sets.load(Ordering::SeqCst);
                // Whoever says that it fails ends the other thread, too.
                is_over.store(counted < before || done < counted, Ordering::Relaxed);
                assert!(before <= counted, "{counted} after {before}");
                assert!(counted <= done, "{counted} of {done}");
                before = counted;
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let counted = Visible::to(&shared, &router, &Binding::Unbound).totals.cmd_set;
        assert_eq!(counted, sets.load(Ordering::SeqCst));
    }
}
