//! The admin listener: `/health`, `/metrics`, `/journal`, `/bandwidth/journal`, tenants' curves, and what `tenants` has.
//!
//! Shape:   one thread with a small runtime of its own; nothing here touches the data path
//! Failure: a page that cannot be made whole ends its connection; the listener goes on

use super::connections::Places;
use super::groups::Groups;
use super::{door, named, pieces, prometheus, tenants};
use crate::{Operator, View};
use axum::Router;
use axum::extract::State;
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use std::sync::Arc;
use tokio::sync::oneshot::Receiver;

/// Serves until told to stop.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    view: View,
    operator: Arc<Operator>,
    stop: Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            tracing::error!("no administration: {e}");
            return;
        }
    };
    let app = Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .route("/journal", get(super::journal::answer))
        .route("/bandwidth/journal", get(super::journal::answer_of_bandwidth))
        .route("/tenants/{name}/curve", get(super::curve::answer))
        .route("/tenants/{name}/hotkeys", get(super::observed::hot_keys))
        .route("/tenants/{name}/latency", get(super::observed::latency))
        .route("/slow", get(super::observed::slow))
        .with_state(view)
        .merge(named::routes::<Groups>(Arc::clone(&operator)))
        .merge(tenants::routes(operator))
        .fallback(async || door::nothing_here())
        .method_not_allowed_fallback(async || door::wrong_method());
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let app = if is_local { app.layer(middleware::from_fn(door::by_a_local_name)) } else { app };
    runtime.block_on(async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(e) => {
                tracing::error!("no administration: {e}");
                return;
            }
        };
        // Who asks is known of a listener that is tapped.
        let listener = Places::new(listener).tap_io(|_| {});
        tokio::select! {
            ended = axum::serve(listener, app.into_make_service_with_connect_info::<std::net::SocketAddr>()) => {
                if let Err(e) = ended {
                    tracing::error!("the administration has ended: {e}");
                }
            }
            // Sent, or the server is gone: stop either way.
            _ = stop => {}
        }
    });
}

async fn metrics(State(view): State<View>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    pieces::answer(kind, prometheus::Page::new(view))
}
