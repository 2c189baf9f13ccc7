//! What has a name and can be made, changed and removed: the same pages for each kind.
//!
//! Shape: GET /KINDS, GET PUT POST DELETE /KINDS/NAME; a body is one object, an answer another

use super::audit::{self, Asker};
use super::door::{Name, Refused, answer, no_web_page, object};
use crate::limits::ADMIN_BODY_MAX;
use crate::operator::{Operator, Refusal};
use axum::Router;
use axum::body::Bytes as Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A kind of things with names.
pub(super) trait Named: 'static {
    /// One of them.
    const WORD: &'static str;
    /// All of them: their page, and their key in its answer.
    const WORDS: &'static str;
    /// What one can be told, as its keys in a body.
    const FIELDS: &'static [&'static str];
    /// A body that makes sense.
    const EXAMPLE: &'static str;
    /// The same, read.
    type Settings: Send;

    /// Every one, as JSON.
    fn all(operator: &Operator) -> Vec<Value>;
    /// The one of a name, as JSON.
    fn one(operator: &Operator, name: &str) -> Result<Value, Refusal>;
    /// The settings that an object gives.
    fn settings(object: &Map<String, Value>) -> Result<Self::Settings, Refused>;
    /// Makes one or changes it. Returns whether it is new.
    fn put(operator: &Operator, name: &str, settings: &Self::Settings) -> Result<bool, Refusal>;
    /// Removes one.
    fn remove(operator: &Operator, name: &str) -> Result<(), Refusal>;
}

/// The pages of a kind.
pub(super) fn routes<N: Named>(operator: Arc<Operator>) -> Router {
    let (all, one) = (format!("/{}", N::WORDS), format!("/{}/{{name}}", N::WORDS));
    Router::new()
        .route(&all, get(list::<N>))
        .route(&one, get(show::<N>).put(put::<N>).post(put::<N>).delete(remove::<N>))
        .layer(DefaultBodyLimit::max(ADMIN_BODY_MAX))
        .with_state(operator)
}

async fn list<N: Named>(State(operator): State<Arc<Operator>>) -> Response {
    answer(StatusCode::OK, &json!({N::WORDS: N::all(&operator)}))
}

async fn show<N: Named>(
    State(operator): State<Arc<Operator>>,
    Name(name): Name,
) -> Result<Response, Refused> {
    Ok(answer(StatusCode::OK, &N::one(&operator, &name)?))
}

async fn put<N: Named>(
    State(operator): State<Arc<Operator>>,
    Name(name): Name,
    asker: Asker,
    headers: HeaderMap,
    body: Result<Body, BytesRejection>,
) -> Result<Response, Refused> {
    let settings = N::settings(&object(&headers, body, N::EXAMPLE)?)?;
    let before = N::one(&operator, &name).unwrap_or(Value::Null);
    let status = if N::put(&operator, &name, &settings)? { StatusCode::CREATED } else { StatusCode::OK };
    let after = N::one(&operator, &name)?;
    audit::note(&asker, &format!("{} '{name}'", N::WORD), N::FIELDS, &before, &after);
    Ok(answer(status, &after))
}

async fn remove<N: Named>(
    State(operator): State<Arc<Operator>>,
    Name(name): Name,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    no_web_page(&headers)?;
    let before = N::one(&operator, &name).unwrap_or(Value::Null);
    N::remove(&operator, &name)?;
    audit::note(&asker, &format!("{} '{name}'", N::WORD), &[], &before, &Value::Null);
    Ok(answer(StatusCode::OK, &json!({"removed": name})))
}
