//! What memcached does not have: `stats tenants`, `controller` and `cleaner`, names of our own.

use super::{Row, one_word};
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use units::Instant;

/// What the loop that divides memory did last.
#[derive(Debug, Default)]
pub(crate) struct Controller {
    policy: Mutex<&'static str>,
    decisions: AtomicU64,
    last_secs: AtomicU64,
}

impl Controller {
    /// Notes the loop's state after a step.
    pub(crate) fn note(&self, policy: &'static str, decisions: u64, now: Instant) {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = policy;
        if self.decisions.swap(decisions, Ordering::Relaxed) != decisions {
            self.last_secs.store(now.whole_secs(), Ordering::Relaxed);
        }
    }

    /// Seconds since the last decision. That may have been made after `now` was read.
    fn secs_since_decision(&self, now: Instant) -> u64 {
        now.whole_secs().saturating_sub(self.last_secs.load(Ordering::Relaxed))
    }
}

/// `stats controller`: the loop that divides memory.
pub(super) fn controller(shared: &Shared, router: &Router) -> Vec<Row> {
    let controller = &shared.controller;
    let memory = shared.store.memory_use();
    let states: Vec<_> = router.all().filter_map(|id| shared.store.tenant_state(id)).collect();
    let targets: u64 = states.iter().map(|state| state.share.target.0).sum();
    let held: u64 = states.iter().map(|state| state.held.0).sum();
    let numbers = [
        ("decisions", controller.decisions.load(Ordering::Relaxed)),
        ("seconds_since_decision", controller.secs_since_decision(shared.clock.now())),
        ("pending_shadow_hits", shared.store.pending_shadow_hits()),
        ("tenants", states.len() as u64),
        ("target_bytes", targets),
        ("held_bytes", held),
        ("index_bytes", memory.index.0),
        ("segment_bytes", memory.segments.0),
        ("value_bytes", memory.values.0),
        ("shadow_bytes", memory.shadow.0),
        ("ghost_bytes", memory.ghosts.0),
        ("buffer_bytes", shared.buffered().0),
    ];
    let policy = *controller.policy.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rows = vec![("policy".to_owned(), policy.to_owned())];
    rows.extend(numbers.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())));
    if let Some(tier) = shared.store.divided_tier() {
        let sharing = shared.sharing.view();
        let name = router.places.names().get(usize::from(tier)).cloned().unwrap_or_default();
        rows.extend([
            ("bandwidth_policy".to_owned(), sharing.policy.to_owned()),
            ("bandwidth_tier".to_owned(), name),
            ("bandwidth_probed".to_owned(), u8::from(shared.store.has_profile(tier)).to_string()),
            ("bandwidth_decisions".to_owned(), sharing.decisions_total.to_string()),
            ("bandwidth_incidents".to_owned(), sharing.incidents_total.to_string()),
        ]);
    }
    rows
}

/// `stats cleaner`: ours, of the whole server.
pub(super) fn cleaner(shared: &Shared) -> Vec<Row> {
    let view = shared.cleaning.view(&shared.store);
    let moved = [false, true].map(|own_space| shared.store.totals_of_all(own_space).moved_bytes);
    let whole = [
        ("passes", view.totals.passes),
        ("passes_background", view.by.background),
        ("passes_workers", view.by.writers),
        ("passes_at_once", u64::from(view.by.running)),
        ("passes_at_once_max", u64::from(view.by.at_once_max)),
        ("pass_marks", view.pass_marks as u64),
        ("reclaims_early", u64::from(view.reclaims_early)),
        ("freed_segments", view.totals.freed_segments),
        ("scanned_items", view.totals.scanned_items),
        ("moved_bytes", moved.iter().sum()),
        ("moved_bytes_per_second", view.moved.0),
        ("cpu_microseconds", view.cpu.0 / 1_000),
        ("writer_waits", view.totals.writer_waits),
    ];
    let parts = [("cpu_share", view.cpu_share), ("cpu_limit", view.cpu_limit)];
    let mut rows: Vec<Row> =
        whole.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
    rows.extend(parts.map(|(name, part)| (name.to_owned(), format!("{part:.4}"))));
    rows
}

/// `stats tenants`: ours, free-form names.
pub(super) fn tenants(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let mut rows = Vec::new();
    let division = shared.in_charge.now();
    for id in router.visible(binding) {
        let Some(state) = shared.store.tenant_state(id) else { continue };
        let t = shared.store.totals(id);
        let (_, gate) = shared.admission.of(id);
        let gets = t.get_hits + t.get_misses;
        let name = one_word(&state.name);
        for (what, value) in [
            ("held_bytes", state.held.0),
            ("target_bytes", state.share.target.0),
            ("reserved_bytes", state.claim.floor.bytes.0),
            ("items", state.items),
            ("gets", gets),
            ("hits", t.get_hits),
            ("sets", t.cmd_set),
            ("evictions", t.evictions),
            ("evictions_over_share", t.evicted_over_share),
            ("borrowed_bytes", state.held.saturating_sub(state.share.target).0),
            ("writes_refused", t.writes_refused),
            ("out_of_memory", t.store_no_memory),
            ("shadow_hits", t.shadow_hits),
            ("moved_bytes", t.moved_bytes),
            ("dram_read_bytes", t.dram_read.bytes),
            ("dram_write_bytes", t.dram_write.bytes),
            ("dram_target_bytes", state.dram_target.map_or(0, |target| target.0)),
            ("tier_bytes", state.away.0),
            ("tier_items", state.away_items),
            ("tier_hits", t.tier_hits),
            ("tier_lost", t.tier_lost),
            ("tier_promotions", t.promotions),
            ("tier_demotions", t.demotions),
            ("tier_evictions", t.tier_evictions),
            ("tier_read_bytes", t.slow_read.bytes),
            ("tier_write_bytes", t.slow_write.bytes),
            ("tier_bytes_per_miss", t.bytes_per_miss()),
            ("tier_time_microseconds", t.tier_cost_ps / 1_000_000),
            ("tier_delay_ns", u64::from(state.throttle.delay) * 10),
            ("tier_paused", u64::from(state.throttle.paused)),
            ("connections", gate.connections),
            ("connections_refused", gate.connections_refused),
            ("rate_waits", gate.rate_waits),
            ("rate_waited_microseconds", gate.rate_waited.0 / 1_000),
            ("rate_refusals", gate.rate_refusals),
        ] {
            rows.push((format!("{name}:{what}"), value.to_string()));
        }
        for (tier, counted) in router.places.names().iter().zip(&t.tiers) {
            for (what, value) in super::tiers::traffic(counted) {
                rows.push((format!("{name}:{tier}:{what}"), value.to_string()));
            }
        }
        if let Some(slowdown) = shared.sharing.slowdown(id) {
            rows.push((format!("{name}:tier_slowdown"), format!("{slowdown:.3}")));
        }
        // No spaces: three words per line.
        let rank: String = state.rank.to_string().split_whitespace().collect();
        rows.push((format!("{name}:rank"), rank));
        rows.push((format!("{name}:placement"), router.places.word(state.placement).to_owned()));
        if let Some(group) = state.claim.group.and_then(|id| division.at(id)) {
            rows.push((format!("{name}:group"), group.name.clone()));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use store::{Fields, Mode, Space};

    #[test]
    fn a_decision_made_meanwhile_was_made_just_now() {
        let controller = Controller::default();
        controller.note("shared", 1, Instant(5_000_000_000));
        let since = [4_999_999_999, 5_000_000_000, 7_500_000_000]
            .map(|at| controller.secs_since_decision(Instant(at)));
        assert_eq!(since, [0, 0, 2]);
    }

    #[test]
    fn what_the_cleaner_moved_stays_when_another_tenant_has_the_id() {
        let shared = testing::small(1);
        let mut worker = shared.store.worker().unwrap();
        let moved = || {
            let rows = cleaner(&shared);
            let row = rows.iter().find(|(name, _)| name == "moved_bytes").unwrap();
            row.1.parse::<u64>().unwrap()
        };
        let first = shared.store.add_tenant(testing::tenant("first")).unwrap();
        // Of each segment one item in ten is left.
        for n in (0..3_000).chain((0..3_000).filter(|n| n % 10 != 0)) {
            let name = n.to_string();
            let key = worker.key(Space::Shared, name.as_bytes()).unwrap();
            worker.set(first, &key, Mode::Set, Fields::default(), &[1; 1_000]).unwrap();
        }
        worker.quiesce();
        while worker.maintain() {}
        let before = moved();
        assert!(0 < before, "what is left was moved");
        testing::replace(&mut worker, first, "second");
        assert_eq!(shared.store.totals(first).moved_bytes, 0, "its own counters begin anew");
        assert_eq!(moved(), before);
    }
}
