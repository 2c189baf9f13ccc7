//! The administration's connections: so many at once, and none that keeps the others waiting.
//!
//! Shape:      a listener -> streams, each with one of the places
//! Invariants: at most `ADMIN_CONNECTIONS_MAX` streams are open, others wait in the system's queue; a stream on which no
//!             answer has moved for `ADMIN_QUIET_SECS` ends, whatever the other side sends or leaves unread
//! Failure:    a stream that is ended so is one that timed out

use crate::limits::{ADMIN_CONNECTIONS_MAX, ADMIN_QUIET_SECS};
use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

const QUIET: Duration = Duration::from_secs(ADMIN_QUIET_SECS);

/// A listener with so many places.
pub(super) struct Places {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

/// A stream that has a place.
pub(super) struct Placed {
    stream: TcpStream,
    quiet: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, free: Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX)) }
    }
}

impl Listener for Places {
    type Io = Placed;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Placed, SocketAddr) {
        // Nobody closes the semaphore.
        let place = Arc::clone(&self.free).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Placed { stream, quiet: Box::pin(sleep(QUIET)), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Placed {
    /// What came of reading or writing; an error where that has to wait and nothing was answered for long.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_pending() && self.quiet.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, into);
        self.in_time(cx, polled)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if polled.is_ready() {
            self.quiet.as_mut().set(sleep(QUIET));
        }
        self.in_time(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn at_once<T>(what: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(what)
    }

    #[test]
    fn a_place_is_free_again_once_its_stream_has_ended() {
        at_once(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut places = Places::new(listener);
            let address = Listener::local_addr(&places).unwrap();
            let mut held = Vec::new();
            for _ in 0..ADMIN_CONNECTIONS_MAX {
                let client = TcpStream::connect(address).await.unwrap();
                held.push((client, Listener::accept(&mut places).await));
            }
            let _one_more = TcpStream::connect(address).await.unwrap();
            let mut accepting = Box::pin(Listener::accept(&mut places));
            let is_waiting = poll_fn(|cx| Poll::Ready(accepting.as_mut().poll(cx).is_pending())).await;
            assert!(is_waiting, "there is no place");
            held.pop();
            let (_placed, _from) = accepting.await;
        });
    }

    #[test]
    fn who_sends_a_byte_now_and_then_is_ended_all_the_same() {
        at_once(async {
            let mut places = Places::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
            let client = TcpStream::connect(Listener::local_addr(&places).unwrap()).await.unwrap();
            let (mut placed, _from) = Listener::accept(&mut places).await;
            client.writable().await.unwrap();
            client.try_write(b"G").unwrap();
            let read = async |placed: &mut Placed| {
                let (mut room, mut polls) = ([0; 8], Pin::new(placed));
                let mut into = ReadBuf::new(&mut room);
                let read = poll_fn(|cx| polls.as_mut().poll_read(cx, &mut into)).await;
                read.map(|()| into.filled().len()).map_err(|e| e.kind())
            };
            let until = placed.quiet.deadline();
            assert_eq!(read(&mut placed).await, Ok(1));
            assert_eq!(placed.quiet.deadline(), until, "what is sent gives it no time");
            // The time is over, as if nothing had been answered for so long.
            placed.quiet.as_mut().set(sleep(Duration::ZERO));
            assert_eq!(read(&mut placed).await, Err(io::ErrorKind::TimedOut));
            let wrote = poll_fn(|cx| Pin::new(&mut placed).poll_write(cx, b"an answer")).await.unwrap();
            assert!(0 < wrote && !placed.quiet.is_elapsed(), "an answer gives it time again");
        });
    }
}
