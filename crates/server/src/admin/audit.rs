//! The audit log: who changed what over the administration, from what to what.
//!
//! Shape: one line of the log per change, with target `audit`; a change that changes nothing has none

use axum::extract::ConnectInfo;
use serde_json::Value;
use std::net::SocketAddr;

/// Who asks.
pub(super) type Asker = ConnectInfo<SocketAddr>;

/// Notes what somebody did to `what`, which was `before` and is `after`; only these fields are settings.
pub(super) fn note(ConnectInfo(asker): &Asker, what: &str, fields: &[&str], before: &Value, after: &Value) {
    if let Some(changes) = changes(fields, before, after) {
        tracing::info!(target: "audit", "{asker} changed {what}: {changes}");
    }
}

fn changes(fields: &[&str], before: &Value, after: &Value) -> Option<String> {
    let whole = |value: &Value| if value.is_null() { "absent" } else { "present" };
    let mut changes = Vec::new();
    if before.is_null() != after.is_null() {
        changes.push(format!("{} -> {}", whole(before), whole(after)));
    }
    for field in fields {
        let (was, is) = (&before[*field], &after[*field]);
        if was != is {
            changes.push(format!("{field} {was} -> {is}"));
        }
    }
    (!changes.is_empty()).then(|| changes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_changed_is_told_from_what_to_what() {
        let fields = ["weight", "rank"];
        let one = json!({"weight": 1.0, "rank": "lru", "items": 5});
        assert_eq!(changes(&fields, &one, &json!({"weight": 1.0, "rank": "lru", "items": 9})), None);
        let heavier = json!({"weight": 2.0, "rank": "lru"});
        assert_eq!(changes(&fields, &one, &heavier).unwrap(), "weight 1.0 -> 2.0");
        let come = changes(&fields, &Value::Null, &one).unwrap();
        assert_eq!(come, "absent -> present, weight null -> 1.0, rank null -> \"lru\"");
        let gone = changes(&[], &one, &Value::Null).unwrap();
        assert_eq!(gone, "present -> absent");
    }
}
