//! The acceptor: one thread that takes connections and hands each to the worker with the fewest.
//!
//! Failure: beyond the limit a connection is told so and closed; without file descriptors the acceptor pauses

use crate::limits::HANDOVER_QUEUE;
use crate::listener::{Door, Entrance};
use crate::memcache::reply_text;
use crate::shared::Shared;
use crate::worker::NewConnection;
use crossbeam_channel::Sender;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::Socket;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A worker as the acceptor sees it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) inbox: Sender<NewConnection>,
    pub(crate) waker: Arc<crate::reactor::Waker>,
    pub(crate) load: Arc<AtomicUsize>,
}

/// Puts something into a queue from which others take, or gives it back if too much waits there or nobody will come. One thread alone
/// puts, so that no more comes in between; a queue that had all of its room from the start would take 230 KiB of every worker.
fn put_if_few<T>(inbox: &Sender<T>, new: T) -> Result<(), T> {
    if HANDOVER_QUEUE <= inbox.len() {
        return Err(new);
    }
    inbox.send(new).map_err(|refused| refused.0)
}

/// The acceptor.
#[derive(Debug)]
pub(crate) struct Acceptor {
    poll: Poll,
    entrances: Vec<Entrance>,
    desks: Vec<Desk>,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    /// A descriptor to give away when there are no more, so that whoever waits can be told.
    spare: Option<File>,
}

const WAKER: Token = Token(usize::MAX);
/// Pause after the system refused a connection for lack of resources.
const REFUSED_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

impl Acceptor {
    /// Takes over the entrances; the waker ends `accept`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        entrances: Vec<Entrance>,
        desks: Vec<Desk>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        for (i, entrance) in entrances.iter().enumerate() {
            let socket = entrance.socket.as_raw_fd();
            poll.registry().register(&mut SourceFd(&socket), Token(i), Interest::READABLE)?;
        }
        let waker = Waker::new(poll.registry(), WAKER)?;
        let spare = spare_descriptor();
        Ok((Self { poll, entrances, desks, shared, stop, spare }, waker))
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
    fn accept_all(&mut self, at: usize) {
        while !self.stop.load(Ordering::Acquire) {
            let entrance = &self.entrances[at];
            match accept(&entrance.socket) {
                Ok((stream, peer)) => self.hand_over(stream, peer, Arc::clone(&entrance.door)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
                Err(e) => self.refuse_for_lack(at, &e),
            }
        }
    }

    /// Out of descriptors or memory: whoever waits first is told so where a descriptor can be spared, the others stay
    /// in the backlog for a moment.
    fn refuse_for_lack(&mut self, at: usize, cause: &io::Error) {
        let counters = &self.shared.counters;
        let count = counters.listen_disabled.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(100) {
            tracing::warn!("a connection cannot be accepted: {cause}");
        }
        if self.spare.take().is_some() {
            let entrance = &self.entrances[at];
            if let Ok((mut stream, _)) = accept(&entrance.socket) {
                counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                // In TLS, or behind a PROXY header, these bytes would make no sense.
                if entrance.door.tls.is_none() {
                    let _told = stream.write(reply_text::TOO_MANY);
                }
            }
        }
        std::thread::sleep(REFUSED_PAUSE);
        self.spare = spare_descriptor();
    }

    fn hand_over(&self, stream: Socket, peer: Option<SocketAddr>, door: Arc<Door>) {
        let counters = &self.shared.counters;
        let open = counters.curr_connections.load(Ordering::Relaxed);
        let most = i64::try_from(self.shared.adjustable.max_connections()).unwrap_or(i64::MAX);
        if most <= open {
            return self.refuse(stream, &door);
        }
        if peer.is_some() {
            let _slower = stream.set_tcp_nodelay(true);
            // Whose machine is gone without a word is found out some time.
            let _lasting = stream.set_keepalive(true);
        }
        let Some(desk) = self.desks.iter().min_by_key(|d| d.load.load(Ordering::Relaxed)) else { return };
        counters.curr_connections.fetch_add(1, Ordering::Relaxed);
        counters.total_connections.fetch_add(1, Ordering::Relaxed);
        desk.load.fetch_add(1, Ordering::Relaxed);
        let new = NewConnection { stream, peer, door };
        if let Err(NewConnection { stream, door, .. }) = put_if_few(&desk.inbox, new) {
            desk.load.fetch_sub(1, Ordering::Relaxed);
            counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
            self.refuse(stream, &door);
        }
        // A worker that cannot be woken comes by itself with its next event.
        let _woken = desk.waker.wake();
    }

    /// Tells a connection that there are too many, and closes it. Who does not take the reason at once does not get it; in TLS it would
    /// make no sense.
    fn refuse(&self, mut stream: Socket, door: &Door) {
        self.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
        if door.tls.is_none() {
            let _told = stream.write(reply_text::TOO_MANY);
        }
    }
}

/// Takes the next connection; a UNIX socket's peer has no address.
fn accept(socket: &Socket) -> io::Result<(Socket, Option<SocketAddr>)> {
    let (stream, peer) = acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    Ok((Socket::from(stream), peer))
}

fn spare_descriptor() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_what_nobody_takes_comes_back() {
        let (inbox, takes) = crossbeam_channel::unbounded();
        (0..HANDOVER_QUEUE).for_each(|n| assert_eq!(put_if_few(&inbox, n), Ok(())));
        assert_eq!(put_if_few(&inbox, HANDOVER_QUEUE), Err(HANDOVER_QUEUE), "the queue is full");
        assert_eq!(takes.recv(), Ok(0));
        assert_eq!(put_if_few(&inbox, HANDOVER_QUEUE), Ok(()));
        drop(takes);
        let (inbox, takes) = crossbeam_channel::unbounded();
        drop(takes);
        assert_eq!(put_if_few(&inbox, 1), Err(1), "nobody will come");
    }
}
