//! `/tenants` and `/policy`: the operator's door as JSON.
//!
//! Shape:    as of `named`, and GET PUT /policy
//! Units:    bytes in names that end with `_bytes`
//! Non-goals: users and passwords

use super::door::{Refused, known_fields, malformed};
use super::named::{self, Named};
use super::observed::QUANTILES;
use super::{policy, sharing};
use crate::admission::{AllowanceChange, OverRate};
use crate::limits::{ADMIN_BODY_MAX, WEIGHTS};
use crate::operator::{Operator, Refusal, Settings, TenantReport};
use crate::sharing::{TierClaim, TierClaimError};
use crate::stats::traffic;
use crate::tiers::PlaceIn;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::get;
use control::bandwidth::Kind;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use store::{OverShare, RankError, RankKind};
use units::Bytes;

/// What a tenant can be told, as its keys in a body.
const FIELDS: &[&str] = &[
    "prefix",
    "reserved_bytes",
    "weight",
    "credit_bytes",
    "rank",
    "over_share",
    "placement",
    "bandwidth",
    "group",
    "max_connections",
    "requests_per_second",
    "burst",
    "over_rate",
    "max_item_bytes",
    "default_ttl_seconds",
    "max_ttl_seconds",
];

/// Tenants, as the pages of what has a name have them.
pub(super) struct Tenants;

impl Named for Tenants {
    const WORD: &'static str = "tenant";
    const WORDS: &'static str = "tenants";
    const FIELDS: &'static [&'static str] = FIELDS;
    const EXAMPLE: &'static str = "{\"prefix\": \"feeds:\", \"weight\": 2}";
    type Settings = Settings;

    fn all(operator: &Operator) -> Vec<Value> {
        operator.tenants().iter().map(tenant_json).collect()
    }

    fn one(operator: &Operator, name: &str) -> Result<Value, Refusal> {
        operator.tenant(name).map(|tenant| tenant_json(&tenant))
    }

    fn settings(object: &Map<String, Value>) -> Result<Settings, Refused> {
        settings(object)
    }

    fn put(operator: &Operator, name: &str, settings: &Settings) -> Result<bool, Refusal> {
        operator.put(name, settings)
    }

    fn remove(operator: &Operator, name: &str) -> Result<(), Refusal> {
        operator.remove(name)
    }
}

/// The pages of tenants and of the policy.
pub(super) fn routes(operator: Arc<Operator>) -> Router {
    let policy = Router::new()
        .route("/policy", get(policy::show).put(policy::set).post(policy::set))
        .route("/bandwidth", get(sharing::answer).put(sharing::set).post(sharing::set))
        .layer(DefaultBodyLimit::max(ADMIN_BODY_MAX))
        .with_state(Arc::clone(&operator));
    named::routes::<Tenants>(operator).merge(policy)
}

/// A tenant as JSON.
fn tenant_json(tenant: &TenantReport) -> Value {
    let (state, totals) = (&tenant.state, &tenant.totals);
    let mut object = json!({
        "name": state.name,
        "id": state.id.0,
        "prefix": tenant.prefix,
        "listen": tenant.listen.as_ref().map(ToString::to_string),
        "origin": tenant.origin,
        "reserved_bytes": state.claim.floor.bytes.0,
        "private_bytes": state.private.0,
        "weight": state.claim.weight.get(),
        "group": tenant.group,
        "credit_bytes": state.claim.credit.map(|credit| credit.0),
        "rank": state.rank.to_string(),
        "over_share": over_share_word(state.over_share),
        "placement": tenant.placement,
        "held_bytes": state.held.0,
        "target_bytes": state.share.target.0,
        "ceiling_bytes": state.share.ceiling.map(|ceiling| ceiling.0),
        "borrowed_bytes": state.held.saturating_sub(state.share.target).0,
        "items": state.items,
        "tier_bytes": state.away.0,
        "gets": totals.get_hits + totals.get_misses,
        "hits": totals.get_hits,
        "sets": totals.cmd_set,
        "evictions": totals.evictions,
        "evictions_over_share": totals.evicted_over_share,
        "writes_refused": totals.writes_refused,
        "out_of_memory": totals.store_no_memory,
        "shadow_hits": totals.shadow_hits,
        "tier_hits": totals.tier_hits,
        "promotions": totals.promotions,
        "demotions": totals.demotions,
        "max_connections": tenant.allowance.max_connections,
        "requests_per_second": tenant.allowance.requests_per_second,
        "burst": tenant.allowance.burst,
        "over_rate": tenant.allowance.over_rate.word(),
        "max_item_bytes": tenant.allowance.max_item.map(|size| size.0),
        "default_ttl_seconds": tenant.allowance.default_ttl_secs,
        "max_ttl_seconds": tenant.allowance.max_ttl_secs,
        "connections": tenant.gate.connections,
        "connections_refused": tenant.gate.connections_refused,
        "rate_waits": tenant.gate.rate_waits,
        "rate_refusals": tenant.gate.rate_refusals,
    });
    for (name, counted) in tenant.tiers.iter().zip(&totals.tiers) {
        object["tiers"][name] = traffic(counted).into_iter().map(|(what, n)| (what, json!(n))).collect();
    }
    put_bandwidth(&mut object, tenant);
    for (class, latency) in tenant.latency.classes() {
        for (name, per_mille) in QUANTILES {
            object[format!("{}_{name}", class.word())] = json!(latency.quantile_us(per_mille));
        }
    }
    object
}

/// What it claims of a tier's bandwidth, how it is held back there, and the time of the tier that it used.
fn put_bandwidth(object: &mut Value, tenant: &TenantReport) {
    let throttle = &tenant.state.throttle;
    object["bandwidth"] = json!(tenant.bandwidth.to_string());
    object["dram_target_bytes"] = json!(tenant.state.dram_target.map(|target| target.0));
    object["bandwidth_delay_ns"] = json!(u64::from(throttle.delay) * 10);
    object["bandwidth_paused"] = json!(throttle.paused);
    object["bandwidth_budget_part"] = json!(throttle.budget.map(|budget| budget.cost.part_of(budget.per)));
    let cap = |kind: Kind| json!(throttle.cap.get(kind).map(|cap| cap.0));
    object["bandwidth_cap_read_bytes_per_second"] = cap(Kind::SlowRead);
    object["bandwidth_cap_write_bytes_per_second"] = cap(Kind::SlowWrite);
    object["tier_slowdown"] = json!(tenant.slowdown);
    object["tier_bytes_per_miss"] = json!(tenant.totals.bytes_per_miss());
    object["tier_time_microseconds"] = json!(tenant.totals.tier_cost_ps / 1_000_000);
}

fn over_share_word(over_share: OverShare) -> &'static str {
    match over_share {
        OverShare::Evict => "evict",
        OverShare::Refuse => "refuse",
    }
}

/// The refusal of a name that nobody has.
pub(super) fn unknown(name: &str) -> Refused {
    let what = format!("there is no tenant '{name}'");
    Refused(StatusCode::NOT_FOUND, what, "cotenant tenant list names all".to_owned())
}

/// A number above zero, null for none, or nothing; none if it is something else.
fn count(object: &Map<String, Value>, key: &str) -> Option<Option<Option<u32>>> {
    match object.get(key) {
        None => Some(None),
        Some(Value::Null) => Some(Some(None)),
        Some(value) => {
            let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| 0 < *n)?;
            Some(Some(Some(number)))
        }
    }
}

/// The claim that a text is.
pub(super) fn bandwidth(text: &str) -> Result<TierClaim, Refused> {
    text.parse().map_err(|e: TierClaimError| malformed(&e.to_string(), TierClaimError::CURE))
}

/// The refusal of a value.
fn wrong(key: &str, cure: &str) -> Refused {
    malformed(&format!("{key} has another type or range"), cure)
}

/// A text, null for none, or nothing.
fn nullable<'o>(object: &'o Map<String, Value>, key: &str) -> Result<Option<Option<&'o str>>, Refused> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::String(text)) => Ok(Some(Some(text))),
        Some(_) => Err(wrong(key, "a text")),
    }
}

/// A text, or nothing.
fn text<'o>(object: &'o Map<String, Value>, key: &str) -> Result<Option<&'o str>, Refused> {
    match nullable(object, key)? {
        None => Ok(None),
        Some(text) => text.map(Some).ok_or_else(|| wrong(key, "a text")),
    }
}

/// A weight, or nothing.
pub(super) fn weight(object: &Map<String, Value>) -> Result<Option<f64>, Refused> {
    let (least, most) = (WEIGHTS.start(), WEIGHTS.end());
    let cure = || format!("a number from {least:e} to {most:e}");
    let weight = |value: &Value| value.as_f64().ok_or_else(|| wrong("weight", &cure()));
    object.get("weight").map(weight).transpose()
}

/// A number of bytes, null for none, or nothing.
fn nullable_size(object: &Map<String, Value>, key: &str) -> Result<Option<Option<Bytes>>, Refused> {
    match object.get(key) {
        Some(Value::Null) => Ok(Some(None)),
        _ => Ok(size(object, key)?.map(Some)),
    }
}

/// A number of bytes, or nothing.
pub(super) fn size(object: &Map<String, Value>, key: &str) -> Result<Option<Bytes>, Refused> {
    let bytes = |value: &Value| {
        value.as_u64().map(Bytes).ok_or_else(|| wrong(key, "a number of bytes, without a unit"))
    };
    object.get(key).map(bytes).transpose()
}

/// The limits that an object gives.
fn allowance(object: &Map<String, Value>) -> Result<AllowanceChange, Refused> {
    let count = |key: &str| {
        count(object, key).ok_or_else(|| wrong(key, "a whole number from 1 to 4294967295, or null"))
    };
    let over_rate = match text(object, "over_rate")? {
        None => None,
        Some("wait") => Some(OverRate::Wait),
        Some("refuse") => Some(OverRate::Refuse),
        Some(_) => return Err(wrong("over_rate", "wait or refuse")),
    };
    let max_item = match nullable_size(object, "max_item_bytes")? {
        Some(Some(Bytes::ZERO)) => return Err(wrong("max_item_bytes", "1 and up, or null")),
        max_item => max_item,
    };
    Ok(AllowanceChange {
        max_connections: count("max_connections")?,
        requests_per_second: count("requests_per_second")?,
        burst: count("burst")?,
        over_rate,
        max_item,
        default_ttl_secs: count("default_ttl_seconds")?,
        max_ttl_secs: count("max_ttl_seconds")?,
    })
}

/// What is no rank, where, and what would help.
fn no_rank(error: &RankError) -> Refused {
    let [text, _] = error.excerpt();
    let what = format!("{error}, at character {} of '{text}'", error.column + 1);
    let words = || RankKind::words().collect::<Vec<_>>().join(", ");
    let cure = if error.cure.is_empty() { format!("what is known: {}", words()) } else { error.cure.clone() };
    malformed(&what, &cure)
}

/// The settings that an object gives.
fn settings(object: &Map<String, Value>) -> Result<Settings, Refused> {
    known_fields(object, FIELDS)?;
    let over_share = match text(object, "over_share")? {
        None => None,
        Some("evict") => Some(OverShare::Evict),
        Some("refuse") => Some(OverShare::Refuse),
        Some(_) => return Err(wrong("over_share", "evict or refuse")),
    };
    let order = |word: &str| word.parse().map_err(|error| no_rank(&error));
    let rank = nullable(object, "rank")?.map(|word| word.map(order).transpose());
    let claim = nullable(object, "bandwidth")?.map(|text| bandwidth(text.unwrap_or_default()));
    Ok(Settings {
        prefix: text(object, "prefix")?.map(str::to_owned),
        reserved: size(object, "reserved_bytes")?,
        weight: weight(object)?,
        credit: nullable_size(object, "credit_bytes")?,
        rank: rank.transpose()?,
        over_share,
        placement: nullable(object, "placement")?.map(|word| word.map(PlaceIn::of_word)),
        bandwidth: claim.transpose()?,
        group: nullable(object, "group")?.map(|name| name.map(str::to_owned)),
        allowance: allowance(object)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::door::object;
    use super::*;
    use axum::body::Bytes as Body;
    use axum::http::HeaderMap;

    fn check(body: &str, wanted: Result<Settings, &str>) {
        let object = object(&HeaderMap::new(), Ok(Body::copy_from_slice(body.as_bytes())), "{}");
        let seen = object.and_then(|object| settings(&object)).map_err(|Refused(_, what, _)| what);
        match (seen, wanted) {
            (Ok(seen), Ok(wanted)) => assert_eq!(seen, wanted, "{body}"),
            (Err(what), Err(part)) => assert!(what.contains(part), "{body}: {what}"),
            (seen, wanted) => panic!("{body}: {seen:?}, not {wanted:?}"),
        }
    }

    #[test]
    fn bodies_become_settings_or_say_what_is_wrong() {
        check("{}", Ok(Settings::default()));
        check(
            r#"{"prefix": "a:", "reserved_bytes": 5, "weight": 2, "credit_bytes": null, "over_share": "refuse", "placement": "dram"}"#,
            Ok(Settings {
                prefix: Some("a:".to_owned()),
                reserved: Some(Bytes(5)),
                weight: Some(2.0),
                credit: Some(None),
                rank: None,
                over_share: Some(OverShare::Refuse),
                placement: Some(Some(PlaceIn::Dram)),
                group: None,
                allowance: AllowanceChange::default(),
                ..Settings::default()
            }),
        );
        check(r#"{"group": "g"}"#, Ok(Settings { group: Some(Some("g".to_owned())), ..Settings::default() }));
        check(r#"{"group": null}"#, Ok(Settings { group: Some(None), ..Settings::default() }));
        check(r#"{"group": 5}"#, Err("group"));
        check(
            r#"{"rank": null, "placement": null, "bandwidth": null}"#,
            Ok(Settings {
                rank: Some(None),
                placement: Some(None),
                bandwidth: Some(TierClaim::default()),
                ..Settings::default()
            }),
        );
        check(r#"{"prefix": null}"#, Err("prefix"));
        let allowance = AllowanceChange {
            max_connections: Some(Some(5)),
            requests_per_second: Some(None),
            over_rate: Some(OverRate::Refuse),
            max_item: Some(Some(Bytes(9))),
            ..AllowanceChange::default()
        };
        check(
            r#"{"max_connections": 5, "requests_per_second": null, "over_rate": "refuse", "max_item_bytes": 9}"#,
            Ok(Settings { allowance, ..Settings::default() }),
        );
        check(r#"{"max_connections": 0}"#, Err("max_connections"));
        check(r#"{"burst": 5000000000}"#, Err("burst"));
        check(r#"{"max_item_bytes": 0}"#, Err("max_item_bytes"));
        check(r#"{"over_rate": "drop"}"#, Err("over_rate"));
        check("", Err("no JSON"));
        check("[1]", Err("no JSON object"));
        check(r#"{"reserved": 5}"#, Err("unknown field 'reserved'"));
        check(r#"{"reserved_bytes": -5}"#, Err("reserved_bytes"));
        check(r#"{"reserved_bytes": "5MiB"}"#, Err("reserved_bytes"));
        check(r#"{"reserved_bytes": null}"#, Err("reserved_bytes"));
        check(r#"{"weight": null}"#, Err("weight"));
        check(r#"{"over_share": null}"#, Err("over_share"));
        check(r#"{"weight": "2"}"#, Err("weight"));
        check(r#"{"over_share": "drop"}"#, Err("over_share"));
        check(r#"{"rank": "first"}"#, Err("first"));
        check(
            r#"{"rank": "f / (size * tt)"}"#,
            Err("unknown variable 'tt', at character 13 of 'f / (size * tt)'"),
        );
    }
}
