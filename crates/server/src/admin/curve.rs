//! `/tenants/NAME/curve`: what a tenant misses at any size, and with a fifth more or less than it holds.
//!
//! Shape:   a tenant's name -> one JSON object; without a curve `points` is empty and `why` says why
//! Failure: an unknown name is 404 with the names there are

use super::door::Name;
use crate::{CurveView, View};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use units::Bytes;

/// Changes that are answered for without being asked: percent of what is held.
const CHANGES: [(&str, u64); 2] = [("-20%", 80), ("+20%", 120)];

pub(super) async fn answer(State(view): State<View>, Name(name): Name) -> impl IntoResponse {
    let (status, object) = match view.curve(&name) {
        Some(curve) => (StatusCode::OK, of(&curve)),
        None => {
            let names: Vec<String> = view.snapshot().tenants.into_iter().map(|t| t.state.name).collect();
            let error = format!("there is no tenant '{name}'");
            (StatusCode::NOT_FOUND, json!({"error": error, "tenants": names}))
        }
    };
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{object}\n"))
}

/// The object of a curve.
fn of(view: &CurveView) -> Value {
    let (mut points, mut what_if, mut why) = (Vec::new(), Map::new(), Value::Null);
    match &view.curve {
        Ok(curve) => {
            let point = |(size, ratio): &(Bytes, f64)| json!({"bytes": size.0, "miss_ratio": ratio});
            points = curve.points().iter().map(point).collect();
            for (name, percent) in CHANGES {
                let size = view.held.scale(percent, 100);
                let miss_ratio = curve.miss_ratio(size);
                let gained = (curve.miss_ratio(view.held) - miss_ratio) * view.gets_per_sec;
                let change =
                    json!({"bytes": size.0, "miss_ratio": miss_ratio, "hits_per_sec_gained": gained});
                what_if.insert(name.to_owned(), change);
            }
        }
        Err(e) => why = json!(e.to_string()),
    }
    json!({"tenant": view.name, "held_bytes": view.held.0, "target_bytes": view.target.0,
           "miss_ratio": view.miss_ratio, "gets_per_sec": view.gets_per_sec, "samples": view.samples,
           "sampling_rate": view.rate, "sampled_look_ups": view.sampled_look_ups, "samples_lost": view.lost,
           "points": points, "what_if": what_if, "why": why})
}
