//! `/groups`: groups of tenants as JSON.
//!
//! Shape:    GET /groups, GET PUT POST DELETE /groups/NAME; bodies, answers and failures as of `/tenants`. Who is in a
//!           group, its members say: `{"group": NAME}` at /tenants/NAME

use super::audit::{self, Asker};
use super::tenants::{Refused, answer, known_fields, malformed, no_web_page, object, policy_of};
use crate::config::MemoryPolicy;
use crate::limits::ADMIN_BODY_MAX;
use crate::operator::{GroupReport, GroupSettings, Operator};
use axum::Router;
use axum::body::Bytes as Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use units::Bytes;

/// What a group can be told, as its keys in a body.
const FIELDS: &[&str] = &["reserved_bytes", "weight", "policy"];

/// The routes.
pub(super) fn routes(operator: Arc<Operator>) -> Router {
    Router::new()
        .route("/groups", get(list))
        .route("/groups/{name}", get(show).put(put).post(put).delete(remove))
        .layer(DefaultBodyLimit::max(ADMIN_BODY_MAX))
        .with_state(operator)
}

async fn list(State(operator): State<Arc<Operator>>) -> Response {
    let groups: Vec<Value> = operator.groups().iter().map(group_json).collect();
    answer(StatusCode::OK, &json!({"groups": groups}))
}

async fn show(State(operator): State<Arc<Operator>>, Path(name): Path<String>) -> Result<Response, Refused> {
    Ok(answer(StatusCode::OK, &group_json(&operator.group(&name)?)))
}

async fn put(
    State(operator): State<Arc<Operator>>,
    Path(name): Path<String>,
    asker: Asker,
    headers: HeaderMap,
    body: Result<Body, BytesRejection>,
) -> Result<Response, Refused> {
    let settings = settings(&object(&headers, body)?)?;
    let before = operator.group(&name).map_or(Value::Null, |group| group_json(&group));
    let is_new = operator.put_group(&name, &settings)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let after = group_json(&operator.group(&name)?);
    audit::note(&asker, &format!("group '{name}'"), FIELDS, &before, &after);
    Ok(answer(status, &after))
}

async fn remove(
    State(operator): State<Arc<Operator>>,
    Path(name): Path<String>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    no_web_page(&headers)?;
    let before = operator.group(&name).map_or(Value::Null, |group| group_json(&group));
    operator.remove_group(&name)?;
    audit::note(&asker, &format!("group '{name}'"), &[], &before, &Value::Null);
    Ok(answer(StatusCode::OK, &json!({"removed": name})))
}

fn group_json(group: &GroupReport) -> Value {
    json!({
        "name": group.name,
        "reserved_bytes": group.reserved.0,
        "weight": group.weight,
        "policy": group.policy.map(MemoryPolicy::name),
        "members": group.members,
        "held_bytes": group.held.0,
        "target_bytes": group.target.0,
    })
}

/// The settings that an object gives.
fn settings(object: &Map<String, Value>) -> Result<GroupSettings, Refused> {
    known_fields(object, FIELDS)?;
    let wrong = |key: &str, cure: &str| malformed(&format!("{key} has another type or range"), cure);
    let reserved = |value: &Value| {
        let bytes =
            value.as_u64().ok_or_else(|| wrong("reserved_bytes", "a number of bytes, without a unit"));
        bytes.map(Bytes)
    };
    let weight = |value: &Value| value.as_f64().ok_or_else(|| wrong("weight", "a number above zero"));
    let policy = |value: &Value| match value {
        Value::Null => Ok(None),
        word => policy_of(Some(word)).map(Some),
    };
    Ok(GroupSettings {
        reserved: object.get("reserved_bytes").map(reserved).transpose()?,
        weight: object.get("weight").map(weight).transpose()?,
        policy: object.get("policy").map(policy).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_become_settings_or_are_refused() {
        let of =
            |body: &str| settings(serde_json::from_str::<Value>(body).unwrap().as_object().unwrap()).ok();
        assert_eq!(of("{}"), Some(GroupSettings::default()));
        assert_eq!(
            of(r#"{"reserved_bytes": 5, "weight": 2, "policy": "idle-tax"}"#),
            Some(GroupSettings {
                reserved: Some(Bytes(5)),
                weight: Some(2.0),
                policy: Some(Some(MemoryPolicy::IdleTax)),
            })
        );
        assert_eq!(
            of(r#"{"policy": null}"#),
            Some(GroupSettings { policy: Some(None), ..GroupSettings::default() })
        );
        for body in
            [r#"{"weight": "2"}"#, r#"{"policy": "best"}"#, r#"{"reserved_bytes": -1}"#, r#"{"members": []}"#]
        {
            assert_eq!(of(body), None, "{body}");
        }
    }
}
