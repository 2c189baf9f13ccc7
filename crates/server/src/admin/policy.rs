//! `/policy`: who divides the memory, what it is told, and another, or other numbers, from now on.
//!
//! Units: bytes in names that end with `_bytes`, seconds in those with `_seconds`

use super::audit::{self, Asker};
use super::door::{Refused, answer, known_fields, malformed, object};
use crate::config::MemoryPolicy;
use crate::operator::{MemorySettings, Operator};
use axum::body::Bytes as Body;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use units::{Bytes, Duration};

const FIELDS: &[&str] =
    &["policy", "credit_bytes", "tax", "idle_time_seconds", "learning_seconds", "private"];

/// A body that makes sense.
const EXAMPLE: &str = "{\"policy\": \"shared\"}";

/// The longest time, a century.
const SECONDS_MAX: f64 = 3_155_760_000.0;

pub(super) async fn show(State(operator): State<Arc<Operator>>) -> Response {
    answer(StatusCode::OK, &as_json(&operator))
}

pub(super) async fn set(
    State(operator): State<Arc<Operator>>,
    asker: Asker,
    headers: HeaderMap,
    body: Result<Body, BytesRejection>,
) -> Result<Response, Refused> {
    let object = object(&headers, body, EXAMPLE)?;
    known_fields(&object, FIELDS)?;
    let settings = settings(&object)?;
    let before = as_json(&operator);
    operator.divide(&settings)?;
    let named: Vec<&str> = FIELDS.iter().copied().filter(|field| object.contains_key(*field)).collect();
    audit::note(&asker, "the policy", &named, &before, &as_json(&operator));
    Ok(answer(StatusCode::OK, &as_json(&operator)))
}

/// The policy that a value names.
pub(super) fn policy_of(value: Option<&Value>) -> Result<MemoryPolicy, Refused> {
    let choices = MemoryPolicy::ALL.map(MemoryPolicy::name).join(", ");
    let word = value.and_then(Value::as_str);
    let kind = MemoryPolicy::ALL.into_iter().find(|kind| Some(kind.name()) == word);
    kind.ok_or_else(|| malformed("there is no such policy", &format!("one of {choices}")))
}

fn settings(object: &Map<String, Value>) -> Result<MemorySettings, Refused> {
    let wrong = |key: &str, cure: &str| malformed(&format!("{key} has another type or range"), cure);
    let credit = object.get("credit_bytes").map(|value| {
        value.as_u64().map(Bytes).ok_or_else(|| wrong("credit_bytes", "a whole number of bytes"))
    });
    let seconds = |key: &str| {
        let time = object.get(key).map(|value| {
            let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
            seconds.map(Duration::from_secs_f64).ok_or_else(|| wrong(key, "a number of seconds"))
        });
        time.transpose()
    };
    let part = |key: &str| {
        let part = object.get(key).map(|value| value.as_f64().ok_or_else(|| wrong(key, "a number, 0 to 1")));
        part.transpose()
    };
    let settings = MemorySettings {
        policy: object.get("policy").map(|value| policy_of(Some(value))).transpose()?,
        credit: credit.transpose()?,
        tax: part("tax")?,
        idle_time: seconds("idle_time_seconds")?,
        learning: seconds("learning_seconds")?,
        private: part("private")?,
    };
    if settings == MemorySettings::default() {
        return Err(malformed("nothing is to be changed", &format!("give one of {}", FIELDS.join(", "))));
    }
    Ok(settings)
}

fn as_json(operator: &Operator) -> Value {
    let terms = operator.terms();
    json!({
        "policy": operator.policy().name(),
        "choices": MemoryPolicy::ALL.map(MemoryPolicy::name),
        "credit_bytes": terms.credit.0,
        "tax": terms.tax,
        "idle_time_seconds": terms.idle_time.as_secs_f64(),
        "learning_seconds": terms.learning.as_secs_f64(),
        "private": terms.private,
    })
}
