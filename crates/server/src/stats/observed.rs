//! `stats latency`, `hotkeys` and `slow`: what is observed of requests, names of our own.
//!
//! Invariants: a tenant's own connection sees its own

use super::{Row, one_word};
use crate::limits::HOT_SAMPLING;
use crate::observe::printable;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use units::TenantId;

/// A tenant's name as one word.
fn word(router: &Router, id: TenantId) -> String {
    router.about(id).map(|about| one_word(&about.name)).unwrap_or_default()
}

/// `stats latency`: requests and their times, by tenant and operation.
pub(super) fn latency(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let ids = router.visible(binding);
    let seen = shared.observed.latencies(&ids, shared.clock.now());
    let mut rows = Vec::new();
    for (id, latency) in ids.into_iter().zip(&seen) {
        let name = word(router, id);
        for (operation, latency) in latency.operations() {
            let place = |what: &str| format!("{name}:{}:{what}", operation.word());
            rows.push((place("requests"), latency.requests().to_string()));
            for (what, per_mille) in [("p50_us", 500), ("p99_us", 990), ("p999_us", 999)] {
                let at_most = latency.quantile_us(per_mille).unwrap_or(0);
                rows.push((place(what), at_most.to_string()));
            }
        }
    }
    rows
}

/// `stats hotkeys`: the keys that tenants are asked for most, by their place.
pub(super) fn hot_keys(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let now = shared.clock.now();
    let mut rows = vec![("sampling".to_owned(), HOT_SAMPLING.to_string())];
    for id in router.visible(binding) {
        let view = shared.observed.hot_keys(id, now);
        if view.keys.is_empty() {
            continue;
        }
        let name = word(router, id);
        rows.push((format!("{name}:samples"), view.samples.to_string()));
        for (place, hot) in view.keys.iter().enumerate() {
            let place = place + 1;
            rows.push((format!("{name}:{place}:key"), printable(&hot.key)));
            rows.push((format!("{name}:{place}:samples"), hot.samples.to_string()));
            rows.push((format!("{name}:{place}:excess"), hot.excess.to_string()));
        }
    }
    rows
}

/// `stats slow`: the slow requests that are kept, the latest first, by their number.
pub(super) fn slow(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let visible = router.visible(binding);
    let threshold = shared.adjustable.slow_request().0 / 1000;
    let mut rows = vec![("threshold_us".to_owned(), threshold.to_string())];
    if *binding == Binding::Unbound {
        rows.push(("total".to_owned(), shared.observed.slow.total().to_string()));
    }
    for slow in shared.observed.slow.records().into_iter().filter(|slow| visible.contains(&slow.tenant)) {
        let address = slow.peer.map_or_else(|| "unix".to_owned(), |address| format!("tcp:{address}"));
        for (what, value) in [
            ("time", slow.unix_secs.to_string()),
            ("tenant", word(router, slow.tenant)),
            ("class", slow.class.word().to_owned()),
            ("command", slow.command.into_owned()),
            ("key", printable(&slow.key)),
            ("requests", slow.requests.to_string()),
            ("us", slow.micros.to_string()),
            ("received_bytes", slow.received_bytes.to_string()),
            ("sent_bytes", slow.sent_bytes.to_string()),
            ("connection", slow.connection.to_string()),
            ("addr", address),
        ] {
            rows.push((format!("{}:{what}", slow.number), value));
        }
    }
    rows
}
