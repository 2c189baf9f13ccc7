//! `stats settings`: memcached's names, the values in force, else as they were given.
//!
//! Invariants: three words per line

use super::Row;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use std::sync::atomic::Ordering;

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
    ("binding_protocol", ""),
    ("auth_enabled_sasl", ""),
    ("auth_enabled_ascii", ""),
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

/// Sizes that memcached is given in larger units and shows in bytes, and how many bytes such a unit has.
const SHOWN_IN_BYTES: &[(&str, u64)] = &[
    ("watcher_logbuf_size", 1 << 10),
    ("worker_logbuf_size", 1 << 10),
    ("read_buf_mem_limit", 1 << 20),
    ("ext_wbuf_size", 1 << 20),
];

/// A value that was given, as memcached shows it.
fn shown(name: &str, value: &str) -> String {
    let unit = SHOWN_IN_BYTES.iter().find(|(of, _)| *of == name).map(|(_, bytes)| *bytes);
    match (unit, value.parse::<u64>()) {
        (Some(bytes), Ok(count)) => count.saturating_mul(bytes).to_string(),
        _ => value.to_owned(),
    }
}

pub(super) fn settings(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let config = &shared.config;
    let yes_no = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let tls = config.tls.as_ref();
    let in_force = |name: &str| {
        Some(match name {
            "maxbytes" => shared.memory_limit().0.to_string(),
            "maxconns" => shared.adjustable.max_connections().to_string(),
            "tcpport" => shared.port().to_string(),
            "evictions" => if config.no_evict { "off" } else { "on" }.to_owned(),
            // Where others listen is not a tenant's to know.
            "inter" if *binding != Binding::Unbound => "NULL".to_owned(),
            "num_threads" => config.threads.to_string(),
            "stat_key_prefix" => config.prefix_delimiter.map_or(':', char::from).to_string(),
            "reqs_per_event" => config.requests_per_turn.to_string(),
            "cas_enabled" => "yes".to_owned(),
            "binding_protocol" => config.protocol.name().to_owned(),
            "auth_enabled_sasl" | "auth_enabled_ascii" => yes_no(shared.auth.is_some()),
            "tcp_backlog" => config.backlog.to_string(),
            "item_size_max" => shared.store.geometry().item_max.0.to_string(),
            "shutdown_command" => yes_no(config.shutdown_enabled),
            "dump_enabled" => yes_no(!config.dump_disabled),
            "detail_enabled" => {
                yes_no(shared.detail.of(binding).unwrap_or(config.prefix_delimiter.is_some()))
            }
            "lru_crawler" => yes_no(shared.crawler_enabled.load(Ordering::Relaxed)),
            "ssl_enabled" => yes_no(shared.keys.is_some()),
            "ssl_chain_cert" => tls.map_or_else(String::new, |tls| tls.chain.display().to_string()),
            "ssl_key" => tls.map_or_else(String::new, |tls| tls.key.display().to_string()),
            "ssl_ca_cert" => {
                tls.and_then(|tls| tls.ca.as_ref()).map_or_else(String::new, |ca| ca.display().to_string())
            }
            "ssl_verify_mode" => tls.map_or(0, |tls| tls.verify as u8).to_string(),
            "ssl_ciphers" => tls.map_or_else(String::new, |tls| tls.ciphers.join(":")),
            "ssl_session_cache" => yes_no(tls.is_some_and(|tls| tls.resumes)),
            "ssl_min_version" => tls.map_or_else(String::new, |tls| tls.oldest.name().to_owned()),
            "flush_enabled" => yes_no(!config.flush_disabled),
            "idle_timeout" => (shared.adjustable.idle_timeout().as_millis() / 1000).to_string(),
            _ => return None,
        })
    };
    let given = |name: &str| config.echoed.iter().find(|(n, _)| n == name).map(|(n, v)| shown(n, v));
    let word = |value: String| {
        let one = value.split_ascii_whitespace().collect::<Vec<_>>().join("_");
        if one.is_empty() { "NULL".to_owned() } else { one }
    };
    let mut rows: Vec<_> = SETTINGS
        .iter()
        .map(|(name, default)| {
            let value = in_force(name).or_else(|| given(name)).unwrap_or_else(|| (*default).to_owned());
            ((*name).to_owned(), word(value))
        })
        .collect();
    let ours = config.echoed.iter().filter(|(name, _)| !SETTINGS.iter().any(|(known, _)| known == name));
    rows.extend(ours.map(|(name, value)| (name.clone(), word(value.clone()))));
    rows.push(("io_engine".to_owned(), shared.engine.kind.name().to_owned()));
    rows.push(("io_engine_reason".to_owned(), word(shared.engine.reason.clone())));
    rows.push(("rank".to_owned(), router.rank().to_string().split_whitespace().collect()));
    rows
}
