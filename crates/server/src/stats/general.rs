//! Plain `stats`: memcached's names in memcached's order.
//!
//! Invariants: below 4,096 bytes; memcached's names only

use super::figures::Figures;
use super::{Row, baseline, tiers};
use crate::limits;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::view::Visible;
use std::sync::atomic::Ordering;
use store::Totals;
use units::Duration;

/// User and system time of this process in microseconds.
pub(crate) fn cpu_micros() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name, in parentheses, may hold spaces; times are the 12th and 13th field after it.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut fields = rest.split(' ').skip(11).map(|f| f.parse::<u64>().unwrap_or(0));
    let tick = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    (fields.next().unwrap_or(0) * tick, fields.next().unwrap_or(0) * tick)
}

/// What a connection sees, since its `stats reset`.
fn since_reset(shared: &Shared, binding: &Binding, seen: &Visible) -> (Totals, Figures) {
    let figures = Figures::seen(shared, *binding);
    match baseline(shared, binding) {
        Some(zero) => (seen.totals.since(&zero.totals), figures.since(&zero.figures)),
        None => (seen.totals, figures),
    }
}

#[expect(clippy::too_many_lines, reason = "one table: memcached's names in memcached's order")]
pub(super) fn general(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let seen = Visible::to(shared, router, binding);
    let is_own = *binding != Binding::Unbound;
    let (t, f) = since_reset(shared, binding, &seen);
    let counters = &shared.counters;
    let config = &shared.config;
    let connections = match *binding {
        Binding::Unbound => u64::try_from(counters.curr_connections.load(Ordering::Relaxed)).unwrap_or(0),
        Binding::To(tenant) => shared.admission.of(tenant).1.connections,
    };
    let (user, system) = cpu_micros();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let memory = shared.store.memory_use();
    let watchers = shared.watch.counts(*binding).watchers;
    let buffered = if is_own { 0 } else { shared.buffered().0 };
    let n = |value: u64| value.to_string();
    let zero_text = || "0".to_owned();
    let rows = [
        ("pid", std::process::id().to_string()),
        ("uptime", n(shared.clock.now().whole_secs())),
        ("time", shared.unix_secs().to_string()),
        ("version", config.version.clone()),
        ("libevent", "mio-1.2".to_owned()),
        ("pointer_size", n(usize::BITS.into())),
        ("rusage_user", seconds(user)),
        ("rusage_system", seconds(system)),
        ("max_connections", n(shared.adjustable.max_connections())),
        ("curr_connections", n(connections)),
        ("total_connections", n(f.connections)),
        ("rejected_connections", n(f.rejected)),
        ("connection_structures", n(connections)),
        ("response_obj_oom", zero_text()),
        ("response_obj_count", n(config.threads as u64)),
        ("response_obj_bytes", zero_text()),
        ("read_buf_count", n(config.threads as u64)),
        ("read_buf_bytes", n((config.threads * limits::RECEIVE_BUFFER) as u64 + buffered)),
        ("read_buf_bytes_free", zero_text()),
        ("read_buf_oom", n(f.read_buf_oom)),
        ("reserved_fds", n(config.threads as u64 * 5)),
        ("cmd_get", n(t.get_hits + t.get_misses)),
        ("cmd_set", n(t.cmd_set)),
        ("cmd_flush", n(f.flushes)),
        ("cmd_touch", n(t.cmd_touch)),
        ("cmd_meta", n(t.cmd_meta)),
        ("get_hits", n(t.get_hits)),
        ("get_misses", n(t.get_misses)),
        ("get_expired", n(t.get_expired)),
        ("get_flushed", n(t.get_flushed)),
        ("delete_misses", n(t.delete_misses)),
        ("delete_hits", n(t.delete_hits)),
        ("incr_misses", n(t.incr_misses)),
        ("incr_hits", n(t.incr_hits)),
        ("decr_misses", n(t.decr_misses)),
        ("decr_hits", n(t.decr_hits)),
        ("cas_misses", n(t.cas_misses)),
        ("cas_hits", n(t.cas_hits)),
        ("cas_badval", n(t.cas_badval)),
        ("touch_hits", n(t.touch_hits)),
        ("touch_misses", n(t.touch_misses)),
        ("store_too_large", n(t.store_too_large)),
        ("store_no_memory", n(t.store_no_memory)),
        ("auth_cmds", n(f.auth_cmds)),
        ("auth_errors", n(f.auth_errors)),
        ("bytes_read", n(f.read_bytes)),
        ("bytes_written", n(f.written_bytes)),
        ("limit_maxbytes", n(seen.limit.0)),
        ("accepting_conns", "1".to_owned()),
        ("listen_disabled_num", n(f.listen_disabled)),
        ("time_in_listen_disabled_us", zero_text()),
        ("threads", n(config.threads as u64)),
        ("conn_yields", n(f.yields)),
        ("hash_power_level", n(u64::from((u64::from(memory.buckets) * 8).max(1).ilog2()))),
        ("hash_bytes", n(memory.index.0)),
        ("hash_is_expanding", zero_text()),
        ("slab_reassign_rescues", zero_text()),
        ("slab_reassign_chunk_rescues", zero_text()),
        ("slab_reassign_inline_reclaim", zero_text()),
        ("slab_reassign_busy_items", zero_text()),
        ("slab_reassign_busy_deletes", zero_text()),
        ("slab_reassign_busy_nomem", zero_text()),
        ("slab_reassign_last_busy_status", zero_text()),
        ("slab_reassign_running", zero_text()),
        ("slabs_moved", zero_text()),
        ("lru_crawler_running", zero_text()),
        ("lru_crawler_starts", zero_text()),
        ("lru_maintainer_juggles", zero_text()),
        ("malloc_fails", zero_text()),
        ("log_worker_dropped", zero_text()),
        ("log_worker_written", n(f.log_lines)),
        ("log_watcher_skipped", n(f.log_skipped)),
        ("log_watcher_sent", n(f.log_sent)),
        ("log_watchers", n(watchers)),
        ("unexpected_napi_ids", zero_text()),
        ("round_robin_fallback", zero_text()),
        ("bytes", n(seen.held.0)),
        ("curr_items", n(seen.items)),
        ("total_items", n(t.total_items)),
        ("slab_global_page_pool", n(u64::from(memory.available_segments))),
        ("expired_unfetched", n(t.expired_unfetched)),
        ("evicted_unfetched", n(t.evicted_unfetched)),
        ("evicted_active", zero_text()),
        ("evictions", n(t.evictions)),
        ("reclaimed", n(t.reclaimed)),
        ("crawler_reclaimed", zero_text()),
        ("crawler_items_checked", zero_text()),
        ("lrutail_reflocked", zero_text()),
        ("moves_to_cold", zero_text()),
        ("moves_to_warm", zero_text()),
        ("moves_within_lru", zero_text()),
        ("direct_reclaims", n(f.writer_waits)),
        ("lru_bumps_dropped", zero_text()),
    ];
    let mut rows: Vec<_> = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let behind = rows.iter().position(|(name, _)| name == "delete_misses").unwrap_or(rows.len());
    rows.splice(behind..behind, tiers::look_ups(router, &t, f.damaged));
    if shared.adjustable.idle_timeout() != Duration::ZERO {
        let at = rows.iter().position(|(name, _)| name == "bytes_read").unwrap_or(rows.len());
        rows.insert(at, ("idle_kicks".to_owned(), n(f.idle_kicks)));
    }
    if shared.keys.is_some() {
        let age_secs = shared.unix_secs() - shared.keys_read_secs.load(Ordering::Relaxed);
        let tls = [
            ("ssl_new_sessions", n(f.ssl_new_sessions)),
            ("ssl_handshake_errors", n(f.ssl_handshake_errors)),
            ("time_since_server_cert_refresh", age_secs.max(0).to_string()),
        ];
        let at = rows.iter().position(|(name, _)| name == "unexpected_napi_ids").unwrap_or(rows.len());
        rows.splice(at..at, tls.map(|(name, value)| (name.to_owned(), value)));
    }
    rows.extend(tiers::extstore(shared, router, binding));
    rows
}
