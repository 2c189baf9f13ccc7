//! memcached's `stats`: its names in its order, with our figures.
//!
//! Invariants: plain `stats` is below 4,096 bytes and holds memcached's names only; every answer ends with `END`;
//!             `stats settings` has three words per line
//! Source:     memcached 1.6.45's output; the contract is what its exporters and dashboards read

use crate::limits;
use crate::memcache::reply_text;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::view::Visible;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use store::{CLASSES, ClassTotals, Totals, class_bound, class_of};
use units::TenantId;

/// What `stats reset` has set to zero: figures are shown less what they were then.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    seen: Mutex<Vec<(Binding, Zeroed)>>,
}

#[derive(Clone, Copy, Debug)]
struct Zeroed {
    totals: Totals,
    classes: [ClassTotals; CLASSES],
    connections: u64,
    rejected: u64,
    read: u64,
    written: u64,
    yields: u64,
    flushes: u64,
}

/// The answer to `stats WHAT`.
pub(crate) fn answer(shared: &Shared, router: &Router, binding: &Binding, what: &[u8]) -> Vec<u8> {
    match what {
        b"" => lines(&general(shared, router, binding)),
        b"settings" => lines(&settings(shared)),
        b"items" => classes(shared, router, binding, items_of_class, false),
        b"slabs" => classes(shared, router, binding, slabs_of_class, true),
        b"tenants" => lines(&tenants(shared, router, binding)),
        b"cleaner" if *binding == Binding::Unbound => lines(&cleaner(shared)),
        // Without a list of items per class there is nothing to dump.
        _ if what.starts_with(b"cachedump ") => reply_text::END.to_vec(),
        b"reset" => {
            reset(shared, router, binding);
            reply_text::RESET.to_vec()
        }
        _ => reply_text::ERROR.to_vec(),
    }
}

fn lines(rows: &[(String, String)]) -> Vec<u8> {
    let mut out = String::new();
    for (name, value) in rows {
        // A string takes every write.
        let _ = write!(out, "STAT {name} {value}\r\n");
    }
    out.push_str("END\r\n");
    out.into_bytes()
}

/// Each binding has its own zero: one tenant's reset is nobody else's.
fn reset(shared: &Shared, router: &Router, binding: &Binding) {
    let counters = &shared.counters;
    let zeroed = Zeroed {
        totals: Visible::to(shared, router, binding).totals,
        classes: classes_seen(shared, router, binding),
        connections: counters.total_connections.load(Ordering::Relaxed),
        rejected: counters.rejected_connections.load(Ordering::Relaxed),
        read: counters.bytes_read.load(Ordering::Relaxed),
        written: counters.bytes_written.load(Ordering::Relaxed),
        yields: counters.conn_yields.load(Ordering::Relaxed),
        flushes: counters.cmd_flush.load(Ordering::Relaxed),
    };
    let mut seen = shared.baseline.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.retain(|(of, _)| of != binding);
    seen.push((*binding, zeroed));
}

fn baseline(shared: &Shared, binding: &Binding) -> Option<Zeroed> {
    let seen = shared.baseline.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter().find(|(of, _)| of == binding).map(|(_, zeroed)| *zeroed)
}

/// User and system time of this process in microseconds.
pub(crate) fn cpu_micros() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name, in parentheses, may hold spaces; times are the 12th and 13th field after it.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut fields = rest.split(' ').skip(11).map(|f| f.parse::<u64>().unwrap_or(0));
    let tick = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    (fields.next().unwrap_or(0) * tick, fields.next().unwrap_or(0) * tick)
}

#[expect(clippy::too_many_lines, reason = "one table: memcached's names in memcached's order")]
fn general(shared: &Shared, router: &Router, binding: &Binding) -> Vec<(String, String)> {
    let seen = Visible::to(shared, router, binding);
    let zero = baseline(shared, binding);
    let t = zero.map_or(seen.totals, |z| seen.totals.since(&z.totals));
    let counters = &shared.counters;
    let config = &shared.config;
    let load = |c: &std::sync::atomic::AtomicU64, less: u64| c.load(Ordering::Relaxed).saturating_sub(less);
    let connections = counters.curr_connections.load(Ordering::Relaxed);
    let (user, system) = cpu_micros();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let memory = shared.store.memory_use();
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
        ("max_connections", n(config.max_connections as u64)),
        ("curr_connections", connections.to_string()),
        ("total_connections", n(load(&counters.total_connections, zero.map_or(0, |z| z.connections)))),
        ("rejected_connections", n(load(&counters.rejected_connections, zero.map_or(0, |z| z.rejected)))),
        ("connection_structures", connections.to_string()),
        ("response_obj_oom", zero_text()),
        ("response_obj_count", n(config.threads as u64)),
        ("response_obj_bytes", zero_text()),
        ("read_buf_count", n(config.threads as u64)),
        ("read_buf_bytes", n((config.threads * limits::RECEIVE_BUFFER) as u64 + shared.buffered().0)),
        ("read_buf_bytes_free", zero_text()),
        ("read_buf_oom", n(load(&counters.read_buf_oom, 0))),
        ("reserved_fds", n(config.threads as u64 * 5)),
        ("cmd_get", n(t.get_hits + t.get_misses)),
        ("cmd_set", n(t.cmd_set)),
        ("cmd_flush", n(load(&counters.cmd_flush, zero.map_or(0, |z| z.flushes)))),
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
        ("auth_cmds", zero_text()),
        ("auth_errors", zero_text()),
        ("bytes_read", n(load(&counters.bytes_read, zero.map_or(0, |z| z.read)))),
        ("bytes_written", n(load(&counters.bytes_written, zero.map_or(0, |z| z.written)))),
        ("limit_maxbytes", n(seen.limit.0)),
        ("accepting_conns", "1".to_owned()),
        ("listen_disabled_num", n(load(&counters.listen_disabled, 0))),
        ("time_in_listen_disabled_us", zero_text()),
        ("threads", n(config.threads as u64)),
        ("conn_yields", n(load(&counters.conn_yields, zero.map_or(0, |z| z.yields)))),
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
        ("log_worker_written", zero_text()),
        ("log_watcher_skipped", zero_text()),
        ("log_watcher_sent", zero_text()),
        ("log_watchers", zero_text()),
        ("unexpected_napi_ids", zero_text()),
        ("round_robin_fallback", zero_text()),
        ("bytes", n(seen.held.0)),
        ("curr_items", n(seen.items)),
        ("total_items", n(t.total_items)),
        ("slab_global_page_pool", n(u64::from(memory.available_segments))),
        ("expired_unfetched", zero_text()),
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
        ("direct_reclaims", zero_text()),
        ("lru_bumps_dropped", zero_text()),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Settings that memcached has and this server answers with the value given to it, or memcached's default.
const SETTINGS: &[(&str, &str)] = &[
    ("maxbytes", ""),
    ("maxconns", ""),
    ("tcpport", ""),
    ("udpport", "0"),
    ("inter", "NULL"),
    ("verbosity", "0"),
    ("oldest", "0"),
    ("evictions", ""),
    ("domain_socket", "NULL"),
    ("umask", "700"),
    ("shutdown_command", "no"),
    ("growth_factor", "1.25"),
    ("chunk_size", "48"),
    ("num_threads", ""),
    ("num_threads_per_udp", "0"),
    ("stat_key_prefix", ""),
    ("detail_enabled", "no"),
    ("reqs_per_event", ""),
    ("cas_enabled", ""),
    ("tcp_backlog", ""),
    ("binding_protocol", "ascii"),
    ("auth_enabled_sasl", "no"),
    ("auth_enabled_ascii", "no"),
    ("item_size_max", ""),
    ("maxconns_fast", "yes"),
    ("hashpower_init", "0"),
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("slab_automove_ratio", "0.80"),
    ("slab_automove_window", "30"),
    ("slab_chunk_max", "524288"),
    ("lru_crawler", "no"),
    ("lru_crawler_sleep", "100"),
    ("lru_crawler_tocrawl", "0"),
    ("tail_repair_time", "0"),
    ("flush_enabled", ""),
    ("dump_enabled", "no"),
    ("hash_algorithm", "rapidhash"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("hot_lru_pct", "20"),
    ("warm_lru_pct", "40"),
    ("hot_max_factor", "0.20"),
    ("warm_max_factor", "2.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "61"),
    ("idle_timeout", ""),
    ("watcher_logbuf_size", "262144"),
    ("worker_logbuf_size", "65536"),
    ("read_buf_mem_limit", "0"),
    ("track_sizes", "no"),
    ("inline_ascii_response", "no"),
    ("ext_item_size", "512"),
    ("ext_item_age", "4294967295"),
    ("ext_low_ttl", "0"),
    ("ext_recache_rate", "2000"),
    ("ext_wbuf_size", "4194304"),
    ("ext_compact_under", "0"),
    ("ext_drop_under", "0"),
    ("ext_max_sleep", "1000000"),
    ("ext_max_frag", "0.80"),
    ("slab_automove_freeratio", "0.010"),
    ("ext_drop_unread", "no"),
    ("ssl_enabled", "no"),
    ("ssl_chain_cert", "NULL"),
    ("ssl_key", "NULL"),
    ("ssl_verify_mode", "0"),
    ("ssl_keyformat", "1"),
    ("ssl_ciphers", "NULL"),
    ("ssl_ca_cert", "NULL"),
    ("ssl_wbuf_size", "16384"),
    ("ssl_session_cache", "no"),
    ("ssl_kernel_tls", "no"),
    ("ssl_min_version", "NULL"),
    ("num_napi_ids", "0"),
    ("memory_file", "NULL"),
    ("client_flags_size", "4"),
    ("product", "cotenant"),
    ("product_version", env!("CARGO_PKG_VERSION")),
];

fn settings(shared: &Shared) -> Vec<(String, String)> {
    let config = &shared.config;
    let yes_no = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let value_of = |name: &str, default: &str| match name {
        "maxbytes" => shared.memory_limit().0.to_string(),
        "maxconns" => config.max_connections.to_string(),
        "tcpport" => shared.port().to_string(),
        "evictions" => if config.no_evict { "off" } else { "on" }.to_owned(),
        "num_threads" => config.threads.to_string(),
        "stat_key_prefix" => config.prefix_delimiter.map_or(':', char::from).to_string(),
        "reqs_per_event" => config.requests_per_turn.to_string(),
        "cas_enabled" => "yes".to_owned(),
        "tcp_backlog" => config.backlog.to_string(),
        "item_size_max" => shared.store.geometry().item_max.0.to_string(),
        "flush_enabled" => yes_no(!config.flush_disabled),
        "idle_timeout" => (config.idle_timeout.as_millis() / 1000).to_string(),
        _ => default.to_owned(),
    };
    let given = |name: &str| config.echoed.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let word = |value: String| {
        let one = value.split_ascii_whitespace().collect::<Vec<_>>().join("_");
        if one.is_empty() { "NULL".to_owned() } else { one }
    };
    let mut rows: Vec<_> = SETTINGS
        .iter()
        .map(|(name, default)| {
            ((*name).to_owned(), word(given(name).unwrap_or_else(|| value_of(name, default))))
        })
        .collect();
    let ours = config.echoed.iter().filter(|(name, _)| !SETTINGS.iter().any(|(known, _)| known == name));
    rows.extend(ours.map(|(name, value)| (name.clone(), word(value.clone()))));
    rows.push(("rank".to_owned(), config.rank.to_string().split_whitespace().collect()));
    rows
}

type Row = (String, String);

/// One answer over the size classes that have items: they stand for memcached's slab classes.
fn classes(
    shared: &Shared,
    router: &Router,
    binding: &Binding,
    rows_of: fn(usize, &ClassTotals) -> Vec<Row>,
    with_totals: bool,
) -> Vec<u8> {
    let zero = baseline(shared, binding);
    let all = classes_seen(shared, router, binding);
    let mut rows = Vec::new();
    let mut active = 0;
    let mut bytes = 0;
    for (class, totals) in all.iter().enumerate() {
        if totals.items <= 0 {
            continue;
        }
        active += 1;
        bytes += totals.bytes;
        rows.extend(rows_of(class, &zero.map_or(*totals, |z| since(totals, &z.classes[class]))));
    }
    if with_totals {
        rows.push(("active_slabs".to_owned(), active.to_string()));
        rows.push(("total_malloced".to_owned(), bytes.to_string()));
    }
    lines(&rows)
}

/// The size classes that a connection sees.
fn classes_seen(shared: &Shared, router: &Router, binding: &Binding) -> [ClassTotals; CLASSES] {
    match binding {
        Binding::Unbound => shared.store.class_totals(false),
        Binding::To(_) => class_of_bound(&Visible::to(shared, router, binding)),
    }
}

/// Classes are counted for all tenants together; a bound connection sees its own items as one class, that of their
/// mean size.
fn class_of_bound(seen: &Visible) -> [ClassTotals; CLASSES] {
    let mut all = [ClassTotals::default(); CLASSES];
    let mean = seen.held.0.checked_div(seen.items).unwrap_or(0);
    all[class_of(usize::try_from(mean).unwrap_or(usize::MAX))] = ClassTotals {
        items: i64::try_from(seen.items).unwrap_or(i64::MAX),
        bytes: i64::try_from(seen.held.0).unwrap_or(i64::MAX),
        get_hits: seen.totals.get_hits,
        cmd_set: seen.totals.cmd_set,
        delete_hits: seen.totals.delete_hits,
        evicted: seen.totals.evictions,
        evicted_unfetched: seen.totals.evicted_unfetched,
        reclaimed: seen.totals.reclaimed,
    };
    all
}

fn since(now: &ClassTotals, then: &ClassTotals) -> ClassTotals {
    ClassTotals {
        items: now.items,
        bytes: now.bytes,
        get_hits: now.get_hits.saturating_sub(then.get_hits),
        cmd_set: now.cmd_set.saturating_sub(then.cmd_set),
        delete_hits: now.delete_hits.saturating_sub(then.delete_hits),
        evicted: now.evicted.saturating_sub(then.evicted),
        evicted_unfetched: now.evicted_unfetched.saturating_sub(then.evicted_unfetched),
        reclaimed: now.reclaimed.saturating_sub(then.reclaimed),
    }
}

fn items_of_class(class: usize, t: &ClassTotals) -> Vec<Row> {
    let zero = || "0".to_owned();
    let rows = [
        ("number", t.items.to_string()),
        ("number_hot", zero()),
        ("number_warm", zero()),
        ("number_cold", t.items.to_string()),
        ("age_hot", zero()),
        ("age_warm", zero()),
        ("age", zero()),
        ("mem_requested", t.bytes.max(0).to_string()),
        ("evicted", t.evicted.to_string()),
        ("evicted_nonzero", zero()),
        ("evicted_time", zero()),
        ("outofmemory", zero()),
        ("tailrepairs", zero()),
        ("reclaimed", t.reclaimed.to_string()),
        ("expired_unfetched", zero()),
        ("evicted_unfetched", t.evicted_unfetched.to_string()),
        ("evicted_active", zero()),
        ("crawler_reclaimed", zero()),
        ("crawler_items_checked", zero()),
        ("lrutail_reflocked", zero()),
        ("moves_to_cold", zero()),
        ("moves_to_warm", zero()),
        ("moves_within_lru", zero()),
        ("direct_reclaims", zero()),
        ("hits_to_hot", zero()),
        ("hits_to_warm", zero()),
        ("hits_to_cold", t.get_hits.to_string()),
        ("hits_to_temp", zero()),
    ];
    rows.into_iter().map(|(name, value)| (format!("items:{class}:{name}"), value)).collect()
}

fn slabs_of_class(class: usize, t: &ClassTotals) -> Vec<Row> {
    let chunk = class_bound(class) as u64;
    let per_page = ((1 << 20) / chunk).max(1);
    let items = u64::try_from(t.items).unwrap_or(0);
    let rows = [
        ("chunk_size", chunk),
        ("chunks_per_page", per_page),
        ("total_pages", items.div_ceil(per_page)),
        ("total_chunks", items.div_ceil(per_page) * per_page),
        ("used_chunks", items),
        ("free_chunks", items.div_ceil(per_page) * per_page - items),
        ("free_chunks_end", 0),
        ("get_hits", t.get_hits),
        ("cmd_set", t.cmd_set),
        ("delete_hits", t.delete_hits),
        ("incr_hits", 0),
        ("decr_hits", 0),
        ("cas_hits", 0),
        ("cas_badval", 0),
        ("touch_hits", 0),
    ];
    rows.into_iter().map(|(name, value)| (format!("{class}:{name}"), value.to_string())).collect()
}

/// `stats cleaner`: ours, of the whole server.
fn cleaner(shared: &Shared) -> Vec<Row> {
    let view = shared.cleaning.view(&shared.store);
    let moved = (0..shared.store.tenant_count())
        .map(|id| shared.store.totals(TenantId(u32::try_from(id).unwrap_or(u32::MAX))).moved_bytes)
        .sum::<u64>();
    let whole = [
        ("passes", view.totals.passes),
        ("pass_takes", view.pass_takes as u64),
        ("pass_frees", view.pass_frees as u64),
        ("freed_segments", view.totals.freed_segments),
        ("scanned_items", view.totals.scanned_items),
        ("moved_bytes", moved),
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
fn tenants(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let mut rows = Vec::new();
    for id in router.visible(binding) {
        let Some(state) = shared.store.tenant_state(id) else { continue };
        let t = shared.store.totals(id);
        let gets = t.get_hits + t.get_misses;
        let name = state.name.split_ascii_whitespace().collect::<Vec<_>>().join("_");
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
        ] {
            rows.push((format!("{name}:{what}"), value.to_string()));
        }
        // No spaces: three words per line.
        let rank: String = state.rank.to_string().split_whitespace().collect();
        rows.push((format!("{name}:rank"), rank));
    }
    rows
}
