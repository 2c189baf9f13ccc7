//! What every page of the administration shares: names, bodies, refusals, answers.
//!
//! Failure:    `{"error": what, "cure": what would help}` with a status of 4xx; nothing has changed then
//! Invariants: a request that a web page sends (it has an `Origin`) changes nothing; where only this host listens, one that
//!             was sent to a name of another host is refused: it is a web page's whose name leads here

use crate::limits::ADMIN_BODY_MAX;
use crate::operator::{Refusal, RefusalKind};
use axum::body::Bytes as Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// Why a request was refused before it reached the operator.
pub(super) struct Refused(pub(super) StatusCode, pub(super) String, pub(super) String);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::Malformed => StatusCode::BAD_REQUEST,
            RefusalKind::Unknown => StatusCode::NOT_FOUND,
            RefusalKind::Conflict => StatusCode::CONFLICT,
        };
        Self(status, refusal.what, refusal.cure)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        answer(self.0, &json!({"error": self.1, "cure": self.2}))
    }
}

pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

/// The answer where nothing else answers.
pub(super) fn nothing_here() -> Response {
    let cure = "/health, /metrics, /journal, /slow, /tenants, /tenants/NAME, /tenants/NAME/curve, /tenants/NAME/latency, \
        /tenants/NAME/hotkeys, /groups, /groups/NAME, /policy, /bandwidth and /bandwidth/journal are there";
    Refused(StatusCode::NOT_FOUND, "there is no such page".to_owned(), cure.to_owned()).into_response()
}

/// The answer to a method that a page does not know.
pub(super) fn wrong_method() -> Response {
    let cure = "GET shows, PUT makes or changes, DELETE removes a tenant or a group";
    let what = "this page does not know that method".to_owned();
    Refused(StatusCode::METHOD_NOT_ALLOWED, what, cure.to_owned()).into_response()
}

/// The name that a path has.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(_not_utf8) => Err(malformed(
                "the name in the path is no text",
                "write it in UTF-8, with %XX for each byte that a path cannot have",
            )),
        }
    }
}

/// The refusal of a body that makes no sense.
pub(super) fn malformed(what: &str, cure: &str) -> Refused {
    Refused(StatusCode::BAD_REQUEST, what.to_owned(), cure.to_owned())
}

/// Browsers name the page that a changing request comes from, programs do not.
pub(super) fn no_web_page(headers: &HeaderMap) -> Result<(), Refused> {
    if headers.contains_key(header::ORIGIN) {
        let what = "a web page may not change anything".to_owned();
        return Err(Refused(StatusCode::FORBIDDEN, what, "use cotenant tenant, or curl".to_owned()));
    }
    Ok(())
}

/// Lets a request through that was sent to this host by an address or a name of its own.
pub(super) async fn by_a_local_name(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    if host.is_none_or(|host| host.is_empty() || std::str::from_utf8(host).is_ok_and(is_local_name)) {
        return next.run(request).await;
    }
    let what = "the request names another host, and only this one is listened to".to_owned();
    let cure = "ask http://127.0.0.1 or http://localhost; for others listen on an address of the network with --admin";
    Refused(StatusCode::FORBIDDEN, what, cure.to_owned()).into_response()
}

/// Whether what a `Host` says is an address, or a name that no other host can have.
fn is_local_name(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let name = name.to_ascii_lowercase();
    address.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

/// The object in a body; a refusal shows `example`, one that would do.
pub(super) fn object(
    headers: &HeaderMap,
    body: Result<Body, BytesRejection>,
    example: &str,
) -> Result<Map<String, Value>, Refused> {
    no_web_page(headers)?;
    let body = body.map_err(|e| match e.status() {
        status @ StatusCode::PAYLOAD_TOO_LARGE => {
            let cure = format!("send at most {ADMIN_BODY_MAX} bytes");
            Refused(status, "the body is too large".to_owned(), cure)
        }
        status => {
            let cure = "send all of it, as long as its Content-Length or its chunks say";
            Refused(status, "the body cannot be read".to_owned(), cure.to_owned())
        }
    })?;
    let example = format!("for example {example}");
    match serde_json::from_slice(&body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(malformed("the body is no JSON object", &example)),
        Err(e) => Err(malformed(&format!("the body is no JSON: {e}"), &example)),
    }
}

pub(super) fn known_fields(object: &Map<String, Value>, known: &[&str]) -> Result<(), Refused> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            Err(malformed(&format!("unknown field '{key}'"), &format!("known: {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_another_host_is_not_ours() {
        let ours = ["127.0.0.1:11280", "127.0.0.1", "[::1]:11280", "[::1]", "localhost:11280", "LocalHost"];
        assert!(ours.into_iter().chain(["a.localhost"]).all(is_local_name));
        let others =
            ["evil.example:11280", "127.0.0.1.evil.example", "notlocalhost", "", "a b", "[::1", "cotenant"];
        assert!(!others.into_iter().any(is_local_name));
    }

    #[test]
    fn a_web_page_changes_nothing() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, "http://127.0.0.1:11280".parse().unwrap());
        let refused =
            object(&headers, Ok(Body::from_static(b"{}")), "{}").err().map(|Refused(status, ..)| status);
        assert_eq!(refused, Some(StatusCode::FORBIDDEN));
    }
}
