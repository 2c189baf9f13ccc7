//! `/bandwidth`: who divides a tier's bandwidth, and another from now on.

use super::audit::{self, Asker};
use super::door::{Refused, answer as reply, known_fields, malformed, object};
use crate::operator::Operator;
use crate::sharing::{BandwidthKind, BandwidthKindError};
use axum::body::Bytes as Body;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A body that makes sense.
const EXAMPLE: &str = "{\"policy\": \"limit\"}";

pub(super) async fn answer(State(operator): State<Arc<Operator>>) -> Response {
    reply(StatusCode::OK, &as_json(&operator))
}

pub(super) async fn set(
    State(operator): State<Arc<Operator>>,
    asker: Asker,
    headers: HeaderMap,
    body: Result<Body, BytesRejection>,
) -> Result<Response, Refused> {
    let object = object(&headers, body, EXAMPLE)?;
    known_fields(&object, &["policy"])?;
    let before = as_json(&operator);
    operator.set_bandwidth_policy(kind_of(&object)?)?;
    audit::note(&asker, "the policy about bandwidth", &["policy"], &before, &as_json(&operator));
    Ok(reply(StatusCode::OK, &as_json(&operator)))
}

fn kind_of(object: &Map<String, Value>) -> Result<BandwidthKind, Refused> {
    let word = object.get("policy").and_then(Value::as_str).unwrap_or_default();
    BandwidthKind::of_word(word).map_err(|e| malformed(&e.to_string(), &cure(&e)))
}

/// What would likely help.
fn cure(error: &BandwidthKindError) -> String {
    match error {
        BandwidthKindError::Unknown(_) => format!("one of {}", BandwidthKind::names().join(", ")),
        BandwidthKindError::Lacks { .. } => "choose another".to_owned(),
    }
}

fn as_json(operator: &Operator) -> Value {
    let view = operator.sharing();
    json!({
        "policy": view.policy,
        "choices": BandwidthKind::names(),
        "tier": operator.divided_tier(),
        "decisions": view.decisions_total,
        "incidents": view.incidents_total,
        "incident": view.incident,
        "epoch_ns": view.epoch.0,
        "part": view.part,
    })
}
