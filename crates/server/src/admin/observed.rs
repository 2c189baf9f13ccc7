//! `/slow`, `/tenants/NAME/hotkeys` and `/tenants/NAME/latency`: what is observed of requests, as JSON.
//!
//! Units:   microseconds in names that end with `_us`; a quantile is an upper bound, at most 25 % too large
//! Failure: an unknown name is 404

use super::door::{Name, Refused, answer};
use super::tenants::unknown;
use crate::View;
use crate::limits::HOT_SAMPLING;
use crate::observe::{Latency, printable};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// Quantiles that are told: their names, and parts per mille.
pub(super) const QUANTILES: [(&str, u64); 3] = [("p50_us", 500), ("p99_us", 990), ("p999_us", 999)];

pub(super) async fn slow(State(view): State<View>) -> Response {
    let one = |(tenant, slow): (String, crate::Slow)| {
        json!({
            "number": slow.number,
            "time": slow.unix_secs,
            "tenant": tenant,
            "class": slow.class.word(),
            "command": slow.command,
            "key": printable(&slow.key),
            "requests": slow.requests,
            "us": slow.micros,
            "received_bytes": slow.received_bytes,
            "sent_bytes": slow.sent_bytes,
            "connection": slow.connection,
            "address": slow.peer.map(|peer| peer.to_string()),
        })
    };
    let slow: Vec<Value> = view.slow().into_iter().map(one).collect();
    let threshold_us = view.shared().adjustable.slow_request().0 / 1000;
    let total = view.shared().observed.slow.total();
    answer(StatusCode::OK, &json!({"threshold_us": threshold_us, "total": total, "slow": slow}))
}

pub(super) async fn hot_keys(State(view): State<View>, Name(name): Name) -> Result<Response, Refused> {
    let seen = view.hot_keys(&name).ok_or_else(|| unknown(&name))?;
    let one = |hot: &crate::HotKey| {
        let part = hot.samples as f64 / seen.samples.max(1) as f64;
        json!({"key": printable(&hot.key), "samples": hot.samples, "excess": hot.excess, "part": part})
    };
    let keys: Vec<Value> = seen.keys.iter().map(one).collect();
    let body = json!({"tenant": name, "sampling": HOT_SAMPLING, "samples": seen.samples, "keys": keys});
    Ok(answer(StatusCode::OK, &body))
}

pub(super) async fn latency(State(view): State<View>, Name(name): Name) -> Result<Response, Refused> {
    let seen = view.latency(&name).ok_or_else(|| unknown(&name))?;
    let one = |what: &str, word: &str, latency: &Latency| {
        let mut object = serde_json::Map::new();
        object.insert(what.to_owned(), json!(word));
        object.insert("requests".to_owned(), json!(latency.requests()));
        object.insert("sum_seconds".to_owned(), json!(latency.sum_secs()));
        for (name, per_mille) in QUANTILES {
            object.insert(name.to_owned(), json!(latency.quantile_us(per_mille)));
        }
        Value::Object(object)
    };
    let classes: Vec<Value> =
        seen.classes().map(|(class, latency)| one("class", class.word(), &latency)).collect();
    let operations: Vec<Value> =
        seen.operations().map(|(op, latency)| one("operation", op.word(), latency)).collect();
    Ok(answer(StatusCode::OK, &json!({"tenant": name, "classes": classes, "operations": operations})))
}
