//! Figures of tiers below DRAM, and of what tenants have there.

use super::{Labels, TenantFigure, Value, gauge, write};
use crate::view::{Snapshot, TenantView, TierView};
use control::bandwidth::Throttle;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt;
use store::BelowTotals;

/// Figures per tier: name, help, unit, and how to get it.
type TierFigure = (&'static str, &'static str, Option<Unit>, fn(&TierView) -> Value);

fn tier_figures() -> [TierFigure; 11] {
    [
        ("cotenant_tier_size", "How much it holds", Some(Unit::Bytes), |t| gauge(t.holds.size.0)),
        ("cotenant_tier_used", "Records that items lead to", Some(Unit::Bytes), |t| gauge(t.holds.live.0)),
        ("cotenant_tier_free", "Segments that are free", Some(Unit::Bytes), |t| gauge(t.holds.free.0)),
        ("cotenant_tier_memory", "DRAM that it takes", Some(Unit::Bytes), |t| gauge(t.holds.memory.0)),
        ("cotenant_tier_cleaner_passes", "Cleaning passes", None, |t| Value::Count(t.totals.passes)),
        ("cotenant_tier_cleaner_moved", "Bytes that its cleaner copied", Some(Unit::Bytes), |t| {
            Value::Count(t.totals.moved_bytes)
        }),
        ("cotenant_tier_cleaner_freed_segments", "Segments that its cleaner freed", None, |t| {
            Value::Count(t.totals.freed_segments)
        }),
        ("cotenant_tier_restored", "Items that were there after the start", None, |t| {
            gauge(t.totals.restored)
        }),
        ("cotenant_tier_dropped", "Records that could not be trusted at the start", None, |t| {
            gauge(t.totals.dropped)
        }),
        ("cotenant_tier_errors", "Times that the device answered with an error", None, |t| {
            Value::Count(t.totals.errors)
        }),
        ("cotenant_tier_damaged", "Records that were found damaged, and dropped", None, |t| {
            Value::Count(t.totals.broken)
        }),
    ]
}

/// Figures per tier and tenant: name, help, unit, and how to get it.
type TrafficFigure = (&'static str, &'static str, Option<Unit>, fn(&BelowTotals) -> u64);

fn traffic_figures() -> [TrafficFigure; 8] {
    [
        ("cotenant_tier_hits", "Look-ups that found a tenant's value there", None, |t| t.hits),
        ("cotenant_tier_promotions", "Values that hits brought back to DRAM", None, |t| t.promotions),
        ("cotenant_tier_demotions", "Values that went there instead of being evicted", None, |t| t.demotions),
        ("cotenant_tier_evictions", "Items evicted to make room there", None, |t| t.evictions),
        ("cotenant_tier_reads", "Reads for a tenant's values", None, |t| t.read.accesses),
        ("cotenant_tier_read", "Bytes of them", Some(Unit::Bytes), |t| t.read.bytes),
        ("cotenant_tier_writes", "Writes of a tenant's values", None, |t| t.written.accesses),
        ("cotenant_tier_written", "Bytes of them", Some(Unit::Bytes), |t| t.written.bytes),
    ]
}

/// What tenants have in tiers.
pub(super) fn tenant_figures() -> [TenantFigure; 14] {
    [
        ("cotenant_tenant_tier_held", "Its records in tiers", Some(Unit::Bytes), |t| gauge(t.state.away.0)),
        ("cotenant_tenant_tier_items", "Items whose values are there", None, |t| gauge(t.state.away_items)),
        ("cotenant_tenant_tier_hits", "Look-ups that found their value there", None, |t| {
            Value::Count(t.totals.tier_hits)
        }),
        ("cotenant_tenant_tier_lost", "Look-ups whose value could not be had", None, |t| {
            Value::Count(t.totals.tier_lost)
        }),
        ("cotenant_tenant_promotions", "Values that hits brought back to DRAM", None, |t| {
            Value::Count(t.totals.promotions)
        }),
        ("cotenant_tenant_demotions", "Values that went to a tier instead of being evicted", None, |t| {
            Value::Count(t.totals.demotions)
        }),
        ("cotenant_tenant_tier_evictions", "Items evicted to make room in a tier", None, |t| {
            Value::Count(t.totals.tier_evictions)
        }),
        ("cotenant_tenant_tier_read", "Bytes read from tiers", Some(Unit::Bytes), |t| {
            Value::Count(t.totals.slow_read.bytes)
        }),
        ("cotenant_tenant_tier_written", "Bytes written to tiers", Some(Unit::Bytes), |t| {
            Value::Count(t.totals.slow_write.bytes)
        }),
        ("cotenant_tenant_tier_time", "Time of the divided tier that it used", Some(Unit::Seconds), |t| {
            Value::Seconds(t.totals.tier_cost_ps as f64 / 1e12)
        }),
        (
            "cotenant_tenant_dram_target",
            "What of DRAM it should hold, 0 where nobody divides that",
            Some(Unit::Bytes),
            |t| gauge(t.state.dram_target.map_or(0, |target| target.0)),
        ),
        (
            "cotenant_tenant_tier_granted_ratio",
            "Part of the divided tier's time that it may use, 1 without a budget",
            None,
            |t| Value::Gauge(t.state.throttle.budget.map_or(1.0, |budget| budget.cost.part_of(budget.per))),
        ),
        (
            "cotenant_tenant_tier_slowdown_ratio",
            "Time of its accesses beside others, by that alone; 0 where nobody knows",
            None,
            |t| Value::Gauge(t.slowdown.unwrap_or(0.0)),
        ),
        ("cotenant_tenant_tier_held_back", "Whether its accesses are held back", None, |t| {
            gauge(u64::from(t.state.throttle != Throttle::FREE))
        }),
    ]
}

/// Writes the figures of tiers; nothing without one.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    for (name, help, unit, figure) in tier_figures() {
        let row = |tier: &TierView| (vec![("tier", tier.name.clone())], figure(tier));
        write(encoder, (name, help, unit.as_ref()), snapshot.tiers.iter().map(row))?;
    }
    for (name, help, unit, figure) in traffic_figures() {
        let row = |tenant: &TenantView, at: usize, tier: &TierView| {
            let labels = vec![("tier", tier.name.clone()), ("tenant", tenant.state.name.clone())];
            (labels, Value::Count(figure(&tenant.totals.tiers[at])))
        };
        let of_tenant = |tenant| (0..).zip(&snapshot.tiers).map(move |(at, tier)| row(tenant, at, tier));
        write(encoder, (name, help, unit.as_ref()), snapshot.tenants.iter().flat_map(of_tenant))?;
    }
    if !snapshot.tiers.is_empty() {
        let sharing = &snapshot.sharing;
        for (name, help, count) in [
            ("cotenant_bandwidth_decisions", "Decisions about a tier's bandwidth", sharing.decisions_total),
            (
                "cotenant_bandwidth_incidents",
                "Promises of bandwidth that could not be kept",
                sharing.incidents_total,
            ),
        ] {
            write(encoder, (name, help, None), [(Labels::new(), Value::Count(count))])?;
        }
        let policy = vec![("policy", sharing.policy.to_owned())];
        let said = ("cotenant_bandwidth_policy", "The policy about a tier's bandwidth", None);
        write(encoder, said, [(policy, gauge(1))])?;
    }
    Ok(())
}
