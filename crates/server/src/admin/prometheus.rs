//! `/metrics`: our own names, and those that memcached's dashboards read, one part after the other while the page is sent.
//!
//! Shape:      one snapshot -> parts of text; each figure of all tenants is a part
//! Invariants: counters are the store's and the server's own; this only writes them down
//! Cost:       memory for the snapshot, one part, and what the connection has not sent yet

mod tiers;

use crate::View;
use crate::cleaning::CleaningView;
use crate::stats::cpu_micros;
use crate::view::{GroupView, Snapshot, TenantView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec;
use store::Totals;

type Labels = Vec<(&'static str, String)>;

/// The text of `/metrics`, a part at a time.
#[derive(Debug)]
pub(super) struct Page {
    figures: Arc<Figures>,
    parts: vec::IntoIter<Part>,
}

/// What the figures are of.
#[derive(Debug)]
struct Figures {
    view: View,
    snapshot: Snapshot,
}

/// A part of the text.
#[derive(Clone, Debug)]
enum Part {
    /// One figure of all tenants.
    Tenants(TenantFigure),
    /// Figures of whatever there are few of.
    Others(fn(&Figures, &mut DescriptorEncoder<'_>) -> fmt::Result),
    /// What says that the text is whole.
    End,
}

/// Writes a part into a registry's encoder.
#[derive(Debug)]
struct PartOf(Arc<Figures>, Part);

impl Page {
    /// The figures of now.
    pub(super) fn new(view: View) -> Self {
        let snapshot = view.snapshot();
        let below = if snapshot.tiers.is_empty() { Vec::new() } else { tiers::tenant_figures().to_vec() };
        let of_tenants = tenant_figures().into_iter().chain(gate_figures()).chain(below).map(Part::Tenants);
        let others: [fn(&Figures, &mut DescriptorEncoder<'_>) -> fmt::Result; 5] =
            [Figures::limits, Figures::tiers, Figures::groups, Figures::latencies, Figures::whole];
        let parts: Vec<_> = of_tenants.chain(others.map(Part::Others)).chain([Part::End]).collect();
        Self { figures: Arc::new(Figures { view, snapshot }), parts: parts.into_iter() }
    }
}

impl Iterator for Page {
    type Item = Result<String, fmt::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.parts.next()?;
        let mut text = String::new();
        let encoded = if matches!(part, Part::End) {
            encode_eof(&mut text)
        } else {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(PartOf(Arc::clone(&self.figures), part)));
            encode_registry(&mut text, &registry)
        };
        Some(encoded.map(|()| text))
    }
}

impl Collector for PartOf {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(figures, part) = self;
        match part {
            Part::Tenants((name, help, unit, figure)) => {
                let row = |t: &TenantView| (vec![("tenant", t.state.name.clone())], figure(t));
                write(&mut encoder, (name, help, unit.as_ref()), figures.snapshot.tenants.iter().map(row))
            }
            Part::Others(encode) => encode(figures, &mut encoder),
            Part::End => Ok(()),
        }
    }
}

/// One metric with its values by label; nothing without values.
fn write(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<&Unit>),
    values: impl IntoIterator<Item = (Labels, Value)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let mut family = encoder.encode_descriptor(name, help, unit, first.kind())?;
    values.try_for_each(|(labels, value)| value.encode(family.encode_family(&labels)?))
}

/// A figure.
#[derive(Clone, Copy)]
enum Value {
    Count(u64),
    Seconds(f64),
    Gauge(f64),
}

impl Value {
    fn kind(self) -> prometheus_client::metrics::MetricType {
        match self {
            Self::Count(_) | Self::Seconds(_) => prometheus_client::metrics::MetricType::Counter,
            Self::Gauge(_) => prometheus_client::metrics::MetricType::Gauge,
        }
    }

    fn encode(self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => ConstCounter::new(n).encode(encoder),
            Self::Seconds(s) => ConstCounter::new(s).encode(encoder),
            Self::Gauge(n) => ConstGauge::new(n).encode(encoder),
        }
    }
}

fn gauge(n: u64) -> Value {
    Value::Gauge(n as f64)
}

/// Figures per tenant: name, help, unit, and how to get it.
type TenantFigure = (&'static str, &'static str, Option<Unit>, fn(&TenantView) -> Value);

/// A limit of some tenants: name, help, and how to get it.
type LimitFigure = (&'static str, &'static str, fn(&TenantView) -> Option<u32>);

fn tenant_figures() -> [TenantFigure; 17] {
    [
        ("cotenant_tenant_held", "Live bytes charged", Some(Unit::Bytes), |t| gauge(t.state.held.0)),
        ("cotenant_tenant_target", "Share in force", Some(Unit::Bytes), |t| gauge(t.state.share.target.0)),
        ("cotenant_tenant_reserved", "Reservation", Some(Unit::Bytes), |t| {
            gauge(t.state.claim.floor.bytes.0)
        }),
        ("cotenant_tenant_shadow", "Memory of the shadow queue", Some(Unit::Bytes), |t| {
            gauge(t.state.shadow.0)
        }),
        ("cotenant_tenant_items", "Live items", None, |t| gauge(t.state.items)),
        ("cotenant_tenant_gets", "Look-ups", None, |t| Value::Count(t.totals.get_hits + t.totals.get_misses)),
        ("cotenant_tenant_hits", "Look-ups that found their item", None, |t| Value::Count(t.totals.get_hits)),
        ("cotenant_tenant_sets", "Commands that store", None, |t| Value::Count(t.totals.cmd_set)),
        ("cotenant_tenant_evictions", "Live items evicted", None, |t| Value::Count(t.totals.evictions)),
        (
            "cotenant_tenant_evictions_over_share",
            "Evictions while it held more than its part of all that is held",
            None,
            |t| Value::Count(t.totals.evicted_over_share),
        ),
        ("cotenant_tenant_writes_refused", "Writes refused because they passed its share", None, |t| {
            Value::Count(t.totals.writes_refused)
        }),
        ("cotenant_tenant_out_of_memory", "Writes answered out of memory, for whatever reason", None, |t| {
            Value::Count(t.totals.store_no_memory)
        }),
        ("cotenant_tenant_borrowed", "Live bytes beyond the share in force", Some(Unit::Bytes), |t| {
            gauge(t.state.held.saturating_sub(t.state.share.target).0)
        }),
        ("cotenant_tenant_private", "Memory that nobody takes from it", Some(Unit::Bytes), |t| {
            gauge(t.state.private.0)
        }),
        ("cotenant_tenant_shadow_hits", "Misses that more memory would have hit", None, |t| {
            Value::Count(t.totals.shadow_hits)
        }),
        (
            "cotenant_tenant_dram_read",
            "Bytes of items read whose values are in DRAM",
            Some(Unit::Bytes),
            |t| Value::Count(t.totals.dram_read.bytes),
        ),
        ("cotenant_tenant_dram_written", "Bytes of items written", Some(Unit::Bytes), |t| {
            Value::Count(t.totals.dram_write.bytes)
        }),
    ]
}

/// Figures of tenants' gates: name, help, unit, and how to get it.
fn gate_figures() -> [TenantFigure; 5] {
    [
        ("cotenant_tenant_connections", "Open connections", None, |t| gauge(t.gate.connections)),
        (
            "cotenant_tenant_connections_refused",
            "Connections refused because it had as many as it may",
            None,
            |t| Value::Count(t.gate.connections_refused),
        ),
        ("cotenant_tenant_rate_waits", "Times that a connection waited for its rate", None, |t| {
            Value::Count(t.gate.rate_waits)
        }),
        (
            "cotenant_tenant_rate_waited",
            "How long its connections waited for its rate",
            Some(Unit::Seconds),
            |t| Value::Seconds(t.gate.rate_waited.0 as f64 / 1e9),
        ),
        ("cotenant_tenant_rate_refused", "Requests refused because they passed its rate", None, |t| {
            Value::Count(t.gate.rate_refusals)
        }),
    ]
}

/// Figures per group: name, help, unit, and how to get it.
type GroupFigure = (&'static str, &'static str, Option<Unit>, fn(&GroupView) -> Value);

fn group_figures() -> [GroupFigure; 3] {
    [
        ("cotenant_group_held", "Live bytes charged to its members", Some(Unit::Bytes), |g| gauge(g.held.0)),
        ("cotenant_group_target", "Shares in force of its members", Some(Unit::Bytes), |g| gauge(g.target.0)),
        ("cotenant_group_reserved", "Reservation of its members together", Some(Unit::Bytes), |g| {
            gauge(g.reserved.0)
        }),
    ]
}

/// Figures of cleaning: name, help, unit, value.
fn cleaner_figures(c: &CleaningView) -> [(&'static str, &'static str, Option<Unit>, Value); 12] {
    [
        (
            "cotenant_cleaner_moved_per_second",
            "Bytes that it copied, of late",
            Some(Unit::Bytes),
            gauge(c.moved.0),
        ),
        ("cotenant_cleaner_passes", "Cleaning passes", None, Value::Count(c.totals.passes)),
        (
            "cotenant_cleaner_passes_by_writers",
            "Cleaning passes that writers ran who found no room",
            None,
            Value::Count(c.by.writers),
        ),
        (
            "cotenant_cleaner_passes_at_once_max",
            "Most cleaning passes that ran at once",
            None,
            gauge(u64::from(c.by.at_once_max)),
        ),
        (
            "cotenant_cleaner_pass_marks",
            "Thousandths of what a pass surveys that it marks to go",
            None,
            gauge(c.pass_marks as u64),
        ),
        (
            "cotenant_cleaner_reclaims_early",
            "1 if segments that are half dead are reclaimed before room is needed",
            None,
            gauge(u64::from(c.reclaims_early)),
        ),
        (
            "cotenant_cleaner_freed_segments",
            "Segments that passes freed",
            None,
            Value::Count(c.totals.freed_segments),
        ),
        (
            "cotenant_cleaner_scanned_items",
            "Items that passes looked at",
            None,
            Value::Count(c.totals.scanned_items),
        ),
        (
            "cotenant_cleaner_cpu",
            "CPU time of cleaning, on whatever thread",
            Some(Unit::Seconds),
            Value::Seconds(c.cpu.0 as f64 / 1e9),
        ),
        ("cotenant_cleaner_cpu_share", "Its part of all CPU time, of late", None, Value::Gauge(c.cpu_share)),
        ("cotenant_cleaner_cpu_limit", "What that may be", None, Value::Gauge(c.cpu_limit)),
        (
            "cotenant_writer_waits",
            "Times a writer had to clean or wait itself",
            None,
            Value::Count(c.totals.writer_waits),
        ),
    ]
}

impl Figures {
    /// What tenants are allowed, of those that have a limit.
    fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures: [LimitFigure; 2] = [
            ("cotenant_tenant_connections_limit", "Connections that it may have", |t| {
                t.allowance.max_connections
            }),
            ("cotenant_tenant_rate_limit", "Keys per second that it may ask for", |t| {
                t.allowance.requests_per_second
            }),
        ];
        for (name, help, limit) in figures {
            let row =
                |t: &TenantView| Some((vec![("tenant", t.state.name.clone())], gauge(u64::from(limit(t)?))));
            write(encoder, (name, help, None), self.snapshot.tenants.iter().filter_map(row))?;
        }
        Ok(())
    }

    fn tiers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        tiers::encode(encoder, &self.snapshot)
    }

    /// What groups have, and who is in them.
    fn groups(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, unit, figure) in group_figures() {
            let row = |g: &GroupView| (vec![("group", g.name.clone())], figure(g));
            write(encoder, (name, help, unit.as_ref()), self.snapshot.groups.iter().map(row))?;
        }
        let members = self.snapshot.groups.iter().flat_map(|g| g.members.iter().map(move |t| (g, t)));
        let row = |(g, t): (&GroupView, &String)| {
            (vec![("tenant", t.clone()), ("group", g.name.clone())], gauge(1))
        };
        write(encoder, ("cotenant_tenant_group", "The group that it is in", None), members.map(row))
    }

    /// How long requests took, by tenant and operation; by operation where there are many tenants.
    fn latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of_each = self.snapshot.tenants.iter().map(|t| (Some(t.state.name.as_str()), &t.latency));
        let seen: Vec<_> = match &self.snapshot.latency {
            Some(all) => vec![(None, all)],
            None => of_each.collect(),
        };
        if seen.iter().all(|(_, latency)| latency.operations().next().is_none()) {
            return Ok(());
        }
        let (name, help) = (
            "cotenant_request_latency",
            "From when a request had arrived until its reply was given to the socket",
        );
        let mut family =
            encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (tenant, latency) in seen {
            for (operation, latency) in latency.operations() {
                let labels: Vec<_> = tenant
                    .map(|name| ("tenant", name))
                    .into_iter()
                    .chain([("class", operation.class().word()), ("operation", operation.word())])
                    .collect();
                let mut encoder = family.encode_family(&labels)?;
                let (sum, count) = (latency.sum_secs(), latency.requests());
                encoder.encode_histogram::<NoLabelSet>(sum, count, &latency.steps(), None)?;
            }
        }
        Ok(())
    }

    /// What there is of the server as a whole.
    fn whole(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        let (all, m) = (&snapshot.totals, snapshot.memory);
        let bytes = Some(&Unit::Bytes);
        for (name, help, unit, value) in [
            ("cotenant_segments", "Memory of segments in use", bytes, gauge(m.segments.0)),
            ("cotenant_values", "Memory of large values", bytes, gauge(m.values.0)),
            ("cotenant_index", "Memory of the index", bytes, gauge(m.index.0)),
            ("cotenant_shadow", "Memory of shadow queues", bytes, gauge(m.shadow.0)),
            ("cotenant_ghosts", "Memory for what is remembered of evicted keys", bytes, gauge(m.ghosts.0)),
            ("cotenant_curves", "Memory of miss ratio curves", bytes, gauge(snapshot.curves.0)),
            ("cotenant_tables", "Memory of tables that grow with tenants", bytes, gauge(m.tables.0)),
            (
                "cotenant_observed",
                "Memory of times, hot keys and slow requests",
                bytes,
                gauge(snapshot.observed.0),
            ),
            (
                "cotenant_unobserved_requests",
                "Requests of tenants whose times there was no memory for",
                None,
                Value::Count(snapshot.unobserved),
            ),
            (
                "cotenant_slow_requests",
                "Requests, or batches of them, beyond slow_request",
                None,
                Value::Count(snapshot.slow_total),
            ),
            ("cotenant_buffers", "Memory of connections' buffers", bytes, gauge(snapshot.buffers.0)),
            ("cotenant_cleaner_moved", "Bytes that the cleaner copied", bytes, Value::Count(all.moved_bytes)),
            (
                "cotenant_decisions",
                "Decisions of the memory policy",
                None,
                Value::Count(snapshot.decisions_total),
            ),
        ] {
            write(encoder, (name, help, unit), [(Labels::new(), value)])?;
        }
        for (name, help, unit, value) in cleaner_figures(&snapshot.cleaning) {
            write(encoder, (name, help, unit.as_ref()), [(Labels::new(), value)])?;
        }
        let items = snapshot.tenants.iter().map(|t| t.state.items).sum();
        let held = snapshot.tenants.iter().map(|t| t.state.held.0).sum();
        self.memcached_names(encoder, all, items, held)
    }

    /// What the memcached exporter would say, so that its dashboards work without it.
    fn memcached_names(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        t: &Totals,
        items: u64,
        held: u64,
    ) -> fmt::Result {
        let shared = self.view.shared();
        let counters = &shared.counters;
        let load = |c: &std::sync::atomic::AtomicU64| Value::Count(c.load(Ordering::Relaxed));
        let (user, system) = cpu_micros();
        let seconds = |micros: u64| Value::Seconds(micros as f64 / 1e6);
        let connections = u64::try_from(counters.curr_connections.load(Ordering::Relaxed)).unwrap_or(0);
        let version = vec![("version", shared.config.version.clone())];
        write(encoder, ("memcached_version", "Version told to clients", None), [(version, gauge(1))])?;
        for (name, help, value) in [
            ("memcached_up", "Whether the server answers", gauge(1)),
            ("memcached_uptime_seconds", "Seconds since the start", gauge(shared.clock.now().whole_secs())),
            ("memcached_max_connections", "Limit of connections", gauge(shared.adjustable.max_connections())),
            ("memcached_current_connections", "Open connections", gauge(connections)),
            ("memcached_connections", "Connections accepted", load(&counters.total_connections)),
            ("memcached_current_bytes", "Live bytes charged", gauge(held)),
            ("memcached_limit_bytes", "Memory", gauge(shared.memory_limit().0)),
            ("memcached_current_items", "Live items", gauge(items)),
            ("memcached_items", "Items stored", Value::Count(t.total_items)),
            ("memcached_items_evicted", "Live items evicted", Value::Count(t.evictions)),
            (
                "cotenant_slow_readers_closed",
                "Connections that did not take their replies",
                load(&counters.slow_reader_kicks),
            ),
            ("cotenant_logins", "Passwords that were shown", load(&counters.auth_cmds)),
            ("cotenant_logins_failed", "Passwords that were wrong", load(&counters.auth_errors)),
            (
                "cotenant_login_waits",
                "Times that somebody waited because too many passwords were wrong",
                Value::Count(shared.auth.as_ref().map_or(0, crate::auth::Auth::waits)),
            ),
            ("memcached_read_bytes", "Bytes received", load(&counters.bytes_read)),
            ("memcached_written_bytes", "Bytes sent", load(&counters.bytes_written)),
            ("memcached_process_user_cpu_seconds", "User time", seconds(user)),
            ("memcached_process_system_cpu_seconds", "System time", seconds(system)),
        ] {
            write(encoder, (name, help, None), [(Labels::new(), value)])?;
        }
        let slab = vec![("slab", "all".to_owned())];
        let out_of_memory = ("memcached_slab_items_outofmemory", "Items refused for lack of memory", None);
        write(encoder, out_of_memory, [(slab, Value::Count(t.store_no_memory))])?;
        let command = |command: &str, status: &str, n: u64| {
            (vec![("command", command.to_owned()), ("status", status.to_owned())], Value::Count(n))
        };
        let cas = t.cas_hits + t.cas_misses + t.cas_badval;
        let commands = [
            command("get", "hit", t.get_hits),
            command("get", "miss", t.get_misses),
            command("set", "hit", t.cmd_set.saturating_sub(cas)),
            command("delete", "hit", t.delete_hits),
            command("delete", "miss", t.delete_misses),
            command("incr", "hit", t.incr_hits),
            command("incr", "miss", t.incr_misses),
            command("decr", "hit", t.decr_hits),
            command("decr", "miss", t.decr_misses),
            command("cas", "hit", t.cas_hits),
            command("cas", "miss", t.cas_misses),
            command("cas", "badval", t.cas_badval),
            command("touch", "hit", t.touch_hits),
            command("touch", "miss", t.touch_misses),
            command("flush", "hit", counters.cmd_flush.load(Ordering::Relaxed)),
        ];
        write(encoder, ("memcached_commands", "Commands by outcome", None), commands)
    }
}
