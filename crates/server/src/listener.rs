//! The acceptor: one thread that takes connections and hands each to the worker with the fewest.
//!
//! Failure: beyond the limit a connection is told so and closed; without file descriptors the acceptor pauses

use crate::config::Protocol;
use crate::memcache::reply_text;
use crate::shared::Shared;
use crate::tenants::Binding;
use crate::worker::NewConnection;
use crossbeam_channel::Sender;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Where connections of one kind come in.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) listener: TcpListener,
    pub(crate) terms: Terms,
}

/// What holds for every connection of an entrance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What is spoken.
    pub(crate) protocol: Protocol,
    /// Whether a password is asked for.
    pub(crate) auth: bool,
    /// Whose connections they are until a password says otherwise.
    pub(crate) tenant: Binding,
}

/// A worker as the acceptor sees it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) inbox: Sender<NewConnection>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) load: Arc<AtomicUsize>,
}

/// The acceptor.
#[derive(Debug)]
pub(crate) struct Acceptor {
    poll: Poll,
    entrances: Vec<Entrance>,
    desks: Vec<Desk>,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

const WAKER: Token = Token(usize::MAX);
/// Pause after the system refused a connection for lack of resources.
const REFUSED_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Binds a listener.
pub(crate) fn bind(address: std::net::SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(TcpListener::from_std(socket.into()))
}

impl Acceptor {
    /// Takes over the entrances; the waker ends `accept`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        mut entrances: Vec<Entrance>,
        desks: Vec<Desk>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        for (i, entrance) in entrances.iter_mut().enumerate() {
            poll.registry().register(&mut entrance.listener, Token(i), Interest::READABLE)?;
        }
        let waker = Waker::new(poll.registry(), WAKER)?;
        Ok((Self { poll, entrances, desks, shared, stop }, waker))
    }

    /// Accepts until the server stops.
    pub(crate) fn accept(mut self) {
        let mut events = Events::with_capacity(64);
        while !self.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    tracing::error!("no more connections can be accepted: {e}");
                    return;
                }
            }
            for event in &events {
                if event.token() != WAKER {
                    self.accept_all(event.token().0);
                }
            }
        }
    }

    /// Accepts everything that waits at one entrance.
    fn accept_all(&self, at: usize) {
        let entrance = &self.entrances[at];
        while !self.stop.load(Ordering::Acquire) {
            match entrance.listener.accept() {
                Ok((stream, _)) => self.hand_over(stream, entrance.terms),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
                Err(e) => {
                    // Out of descriptors or memory: those who wait stay in the backlog for a moment.
                    let count = self.shared.counters.listen_disabled.fetch_add(1, Ordering::Relaxed);
                    if count.is_multiple_of(100) {
                        tracing::warn!("a connection cannot be accepted: {e}");
                    }
                    std::thread::sleep(REFUSED_PAUSE);
                }
            }
        }
    }

    fn hand_over(&self, mut stream: mio::net::TcpStream, terms: Terms) {
        let counters = &self.shared.counters;
        let open = counters.curr_connections.load(Ordering::Relaxed);
        let most = i64::try_from(self.shared.config.max_connections).unwrap_or(i64::MAX);
        if most <= open {
            counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
            // Who does not take the reason at once does not get it.
            let _told = stream.write(reply_text::TOO_MANY);
            return;
        }
        let _slower = stream.set_nodelay(true);
        let Some(desk) = self.desks.iter().min_by_key(|d| d.load.load(Ordering::Relaxed)) else { return };
        counters.curr_connections.fetch_add(1, Ordering::Relaxed);
        counters.total_connections.fetch_add(1, Ordering::Relaxed);
        desk.load.fetch_add(1, Ordering::Relaxed);
        let new = NewConnection { stream, terms };
        if desk.inbox.try_send(new).is_err() {
            desk.load.fetch_sub(1, Ordering::Relaxed);
            counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
            counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
        }
        // A worker that cannot be woken comes by itself with its next event.
        let _woken = desk.waker.wake();
    }
}
