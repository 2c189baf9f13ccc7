//! The admin listener: `/health`, `/metrics`, `/journal`, `/bandwidth/journal`, tenants' curves, and what `tenants` has.
//!
//! Shape:   one thread with a small runtime of its own; nothing here touches the data path. Until the server serves, every page says
//!          that it starts
//! Failure: a page that cannot be made whole ends its connection; the listener goes on

use super::connections::Places;
use super::groups::Groups;
use super::{door, named, pieces, prometheus, tenants};
use crate::{Operator, View};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot::{self, Receiver, Sender};

/// What the pages are made of, and what they change.
type Whole = (View, Arc<Operator>);

/// The administration of a server that starts.
pub(crate) struct Administration {
    address: Option<SocketAddr>,
    thread: JoinHandle<()>,
    begin: Sender<Whole>,
    stop: Sender<()>,
}

impl Administration {
    /// Begins with an answer that the server starts; it ends if the start does.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(crate) fn open(listener: std::net::TcpListener) -> io::Result<Self> {
        let address = listener.local_addr().ok();
        let ((begin, whole), (stop, stopped)) = (oneshot::channel(), oneshot::channel());
        let thread = std::thread::Builder::new().name("admin".to_owned());
        let thread = thread.spawn(move || {
            if let Err(e) = serve(&listener, whole, stopped) {
                tracing::error!("no administration: {e}");
            }
        })?;
        Ok(Self { address, thread, begin, stop })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Lets it answer. It ends when what comes back is sent to.
    pub(crate) fn begin(
        self,
        view: View,
        operator: Arc<Operator>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Sender<()> {
        // Requests are answered without an administration that could not be.
        let _none = self.begin.send((view, operator));
        threads.push(self.thread);
        self.stop
    }
}

/// Serves, at first what there is before there is a server, until told to stop.
fn serve(listener: &std::net::TcpListener, whole: Receiver<Whole>, stop: Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let of_here = |app: Router| {
        if is_local { app.layer(middleware::from_fn(door::by_a_local_name)) } else { app }
    };
    runtime.block_on(async move {
        let starting = of_here(Router::new().fallback(starting));
        let whole = tokio::select! {
            ended = answer(listener.try_clone()?, starting) => return ended,
            whole = whole => whole,
        };
        let Ok((view, operator)) = whole else { return Ok(()) };
        tokio::select! {
            ended = answer(listener.try_clone()?, of_here(pages(view, operator))) => ended,
            // Sent, or the server is gone: stop either way.
            _ = stop => Ok(()),
        }
    })
}

/// Answers requests by an app.
async fn answer(listener: std::net::TcpListener, app: Router) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // Who asks is known of a listener that is tapped.
    let listener = Places::new(listener).tap_io(|_| {});
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}

/// Nothing is there yet. The connection ends: what comes next is answered by others.
async fn starting() -> impl IntoResponse {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        [(header::CONNECTION, "close"), (header::RETRY_AFTER, "1")],
        "starting\n",
    )
}

fn pages(view: View, operator: Arc<Operator>) -> Router {
    Router::new()
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
        .method_not_allowed_fallback(async || door::wrong_method())
}

async fn metrics(State(view): State<View>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    pieces::answer(kind, prometheus::Page::new(view))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn before_it_serves_every_page_says_that_it_starts() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let admin = Administration::open(listener).unwrap();
        for (page, host, status) in [
            ("/health", "localhost", "503"),
            ("/tenants", "localhost", "503"),
            ("/health", "elsewhere", "403"),
        ] {
            let mut stream = std::net::TcpStream::connect(admin.address().unwrap()).unwrap();
            write!(stream, "GET {page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(status != "503" || answer.ends_with("\r\n\r\nstarting\n"), "{answer}");
        }
        let Administration { begin, thread, .. } = admin;
        drop(begin);
        thread.join().expect("it ends with a start that fails");
    }
}
