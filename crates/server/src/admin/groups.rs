//! `/groups`: groups of tenants as JSON.
//!
//! Shape: as of `named`. Who is in a group, its members say: `{"group": NAME}` at /tenants/NAME

use super::door::{Refused, known_fields, malformed};
use super::named::Named;
use super::policy::policy_of;
use super::tenants::{bandwidth, size, weight};
use crate::config::MemoryPolicy;
use crate::operator::{GroupReport, GroupSettings, Operator, Refusal};
use crate::sharing::TierClaim;
use serde_json::{Map, Value, json};

/// What a group can be told, as its keys in a body.
const FIELDS: &[&str] = &["reserved_bytes", "weight", "policy", "bandwidth"];

/// Groups, as the pages of what has a name have them.
pub(super) struct Groups;

impl Named for Groups {
    const WORD: &'static str = "group";
    const WORDS: &'static str = "groups";
    const FIELDS: &'static [&'static str] = FIELDS;
    const EXAMPLE: &'static str = "{\"reserved_bytes\": 67108864, \"weight\": 2}";
    type Settings = GroupSettings;

    fn all(operator: &Operator) -> Vec<Value> {
        operator.groups().iter().map(group_json).collect()
    }

    fn one(operator: &Operator, name: &str) -> Result<Value, Refusal> {
        operator.group(name).map(|group| group_json(&group))
    }

    fn settings(object: &Map<String, Value>) -> Result<GroupSettings, Refused> {
        settings(object)
    }

    fn put(operator: &Operator, name: &str, settings: &GroupSettings) -> Result<bool, Refusal> {
        operator.put_group(name, settings)
    }

    fn remove(operator: &Operator, name: &str) -> Result<(), Refusal> {
        operator.remove_group(name)
    }
}

fn group_json(group: &GroupReport) -> Value {
    json!({
        "name": group.name,
        "reserved_bytes": group.reserved.0,
        "weight": group.weight,
        "policy": group.policy.map(MemoryPolicy::name),
        "bandwidth": group.bandwidth.to_string(),
        "members": group.members,
        "held_bytes": group.held.0,
        "target_bytes": group.target.0,
    })
}

/// The settings that an object gives.
fn settings(object: &Map<String, Value>) -> Result<GroupSettings, Refused> {
    known_fields(object, FIELDS)?;
    let wrong = |key: &str, cure: &str| malformed(&format!("{key} has another type or range"), cure);
    let policy = |value: &Value| match value {
        Value::Null => Ok(None),
        word => policy_of(Some(word)).map(Some),
    };
    let claim = |value: &Value| match value {
        Value::Null => Ok(TierClaim::default()),
        Value::String(text) => bandwidth(text),
        _ => Err(wrong("bandwidth", "a text, such as \"limit 20%\"")),
    };
    Ok(GroupSettings {
        reserved: size(object, "reserved_bytes")?,
        weight: weight(object)?,
        policy: object.get("policy").map(policy).transpose()?,
        bandwidth: object.get("bandwidth").map(claim).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

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
                bandwidth: None,
            })
        );
        let limited = of(r#"{"bandwidth": "limit 20%"}"#).unwrap();
        assert_eq!(limited.bandwidth.unwrap().to_string(), "limit 20%");
        assert_eq!(
            of(r#"{"policy": null}"#),
            Some(GroupSettings { policy: Some(None), ..GroupSettings::default() })
        );
        let no_claim = GroupSettings { bandwidth: Some(TierClaim::default()), ..GroupSettings::default() };
        assert_eq!(of(r#"{"bandwidth": null}"#), Some(no_claim));
        for body in [
            r#"{"weight": "2"}"#,
            r#"{"policy": "best"}"#,
            r#"{"reserved_bytes": -1}"#,
            r#"{"reserved_bytes": null}"#,
            r#"{"weight": null}"#,
            r#"{"members": []}"#,
            r#"{"bandwidth": "much"}"#,
            r#"{"bandwidth": 5}"#,
        ] {
            assert_eq!(of(body), None, "{body}");
        }
    }
}
