//! TLS of a stream: steps of its handshake, plaintext of what arrives, and what TLS itself has to send.

use super::{Event, Step, Transport};
use crate::reactor::{Completion, Reactor, Sending, StreamId};
use crate::tls;
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read as _};

impl<R: Reactor> Transport<R> {
    /// One step of a handshake: what costs time, so that only some are done in a round.
    pub(super) fn shake(&mut self, id: StreamId) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        wrapped.is_queued = false;
        if wrapped.is_over {
            return Step::Fail;
        }
        let Some(session) = &mut wrapped.session else { return Step::Wait };
        let mut rest = wrapped.early.as_slice();
        let mut failed = None;
        while !rest.is_empty() && session.is_handshaking() && failed.is_none() {
            failed = match session.read_tls(&mut rest) {
                Ok(0) => Some("the stream ended".to_owned()),
                Ok(_) => session.process_new_packets().err().map(|e| e.to_string()),
                Err(e) => Some(e.to_string()),
            };
        }
        let taken = wrapped.early.len() - rest.len();
        wrapped.early.drain(..taken);
        self.inner.resume(id);
        let answers = session.wants_write();
        if answers {
            // What it says next answers this.
            wrapped.asked = self.now;
        }
        // The handshake's next flight, or why it has failed.
        let sending = flush(&mut self.inner, id, session);
        if let Some(why) = failed {
            tracing::debug!("a TLS handshake failed: {why}");
            return Step::Fail;
        }
        match sending {
            Sending::Failed => Step::Fail,
            _ if session.is_handshaking() => Step::Wait,
            _ => {
                if !answers {
                    // The client has spoken last. Where it may not send two small pieces in a row its first request waits for a word.
                    self.inner.acknowledge(id);
                }
                let certificate = session.peer_certificates().and_then(<[_]>::first);
                wrapped.client.names = certificate.map(tls::names).unwrap_or_default();
                self.opened(id)
            }
        }
    }

    /// Plaintext of `cipher` and of what had arrived before goes to the front of `buffer`.
    pub(super) fn decrypt(&mut self, id: StreamId, cipher: &[u8], buffer: &mut [u8]) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        let Some(session) = &mut wrapped.session else { return Step::Wait };
        let mut len = read_plaintext(session, buffer);
        let mut rest = cipher;
        while !rest.is_empty() {
            match session.read_tls(&mut rest) {
                // Behind the other side's goodbye there is nothing.
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => return Step::Fail,
            }
            match session.process_new_packets() {
                Ok(state) => wrapped.is_over |= state.peer_has_closed(),
                Err(e) => {
                    tracing::debug!("a TLS connection failed: {e}");
                    return Step::Fail;
                }
            }
            len += read_plaintext(session, &mut buffer[len..]);
        }
        // Answers to messages of TLS itself.
        if flush(&mut self.inner, id, session) == Sending::Failed {
            return Step::Fail;
        }
        if wrapped.is_over {
            self.queue_ready(id);
        }
        if len == 0 { Step::Wait } else { Step::Tell(Event::Completed(Completion::Arrived(id, len))) }
    }
}

fn read_plaintext(session: &mut ServerConnection, buffer: &mut [u8]) -> usize {
    let mut len = 0;
    while len < buffer.len() {
        match session.reader().read(&mut buffer[len..]) {
            Ok(0) | Err(_) => break,
            Ok(more) => len += more,
        }
    }
    len
}

/// Sends what TLS has to send.
pub(super) fn flush<R: Reactor>(inner: &mut R, id: StreamId, session: &mut ServerConnection) -> Sending {
    let mut outlet = Outlet { inner, id, sending: Sending::Done };
    while session.wants_write() {
        if session.write_tls(&mut outlet).is_err() {
            return Sending::Failed;
        }
    }
    outlet.sending
}

/// A stream as TLS writes to it. Takes everything.
struct Outlet<'r, R> {
    inner: &'r mut R,
    id: StreamId,
    sending: Sending,
}

impl<R: Reactor> io::Write for Outlet<'_, R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.inner.send(self.id, pieces) {
            Sending::Failed => return Err(io::ErrorKind::BrokenPipe.into()),
            Sending::Done => {}
            Sending::Later(bytes) => {
                let before = if let Sending::Later(before) = self.sending { before } else { 0 };
                self.sending = Sending::Later(before + bytes);
            }
        }
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
