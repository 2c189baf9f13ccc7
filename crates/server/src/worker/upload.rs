//! Large values, on their way in: they go where they stay as they come, and no buffer holds them.
//!
//! Shape:      a turn announces a value -> what arrives goes there -> with its last byte the request runs, as if all of it had
//!             just come
//! Invariants: while a value comes its connection has no other input; memory is taken only for what has come
//! Failure:    without memory the rest of the value is skipped, then the client is told; a connection that ends takes its part
//!             along

use super::{After, Worker};
use crate::limits::STALL_SECS;
use crate::memcache::{Announced, Block};
use crate::reactor::{Reactor, StreamId};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Shortage, Upload};
use units::{Duration, Instant};

/// A value on its way in.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// Its request.
    head: Vec<u8>,
    /// Where it goes; none if there is no memory for it.
    upload: Option<Upload>,
    /// Bytes of it still to come.
    missing: usize,
    /// What has come of the line end.
    end: Vec<u8>,
    /// Bytes of the line end.
    end_len: usize,
}

impl Receiving {
    fn take_end(&mut self, data: &mut &[u8]) {
        if self.missing == 0 {
            let (end, rest) = data.split_at(data.len().min(self.end_len - self.end.len()));
            self.end.extend_from_slice(end);
            *data = rest;
        }
    }

    /// Whether all of it has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing == 0 && self.end.len() == self.end_len
    }
}

impl<R: Reactor> Worker<R> {
    /// What stands behind `head` in the input, and what arrives from now on, is a value. Returns up to where the input is done
    /// with.
    pub(super) fn begin_upload(
        &mut self,
        id: StreamId,
        input: &[u8],
        head: Range<usize>,
        announced: Announced,
    ) -> After {
        let upload = self.store.begin_upload(announced.len);
        if upload.is_none() {
            self.note_short();
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return After::Gone };
        let behind = &input[head.end..];
        connection.upload = Some(Box::new(Receiving {
            head: input[head].to_vec(),
            upload,
            missing: announced.len,
            end: Vec::new(),
            end_len: announced.end_len,
        }));
        match self.receive(id, behind) {
            Some(rest) => After::Consumed(input.len() - rest.len()),
            None => After::Gone,
        }
    }

    /// Takes a value's bytes off what has arrived, and runs its request with the last one. Returns what follows; none if the
    /// connection is gone.
    pub(super) fn receive<'d>(&mut self, id: StreamId, mut data: &'d [u8]) -> Option<&'d [u8]> {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return None };
        if connection.parked_until.is_some() && connection.awaits_another() {
            return Some(data);
        }
        let Some(mut receiving) = connection.upload.take() else { return Some(data) };
        self.fill(&mut receiving, &mut data);
        receiving.take_end(&mut data);
        if !receiving.is_whole() {
            let Some(Some(connection)) = self.connections.get_mut(id.0) else { return None };
            connection.upload = Some(receiving);
            self.has_uploads = true;
            return Some(data);
        }
        let block = match &receiving.upload {
            None => Block::Lost,
            Some(_) if !receiving.end.is_empty() && receiving.end != b"\r\n" => Block::Unended,
            Some(upload) => Block::Whole(upload.value()),
        };
        match self.take_turns(id, &receiving.head, Some(block)) {
            After::Consumed(_) => {}
            After::Awaits => {
                let Some(Some(connection)) = self.connections.get_mut(id.0) else { return None };
                connection.upload = Some(receiving);
            }
            After::Gone => return None,
        }
        Some(data)
    }

    /// Takes a value's bytes, making room as often as it takes.
    fn fill(&mut self, receiving: &mut Receiving, data: &mut &[u8]) {
        let (mut here, rest) = data.split_at(data.len().min(receiving.missing));
        receiving.missing -= here.len();
        *data = rest;
        let shared = Arc::clone(&self.around.shared);
        while let Some(upload) = &mut receiving.upload {
            let Err(shortage) = upload.take(&mut here) else { return };
            let mut make_room = || self.store.make_room();
            let is_made = shortage == Shortage::NoRoom
                && shared.cleaning.timed(&*shared.clock, &shared.store, &mut make_room).is_ok();
            if !is_made {
                receiving.upload = None;
                self.note_short();
            }
        }
    }

    /// A value finds no place: those that have stopped coming are in its way.
    fn note_short(&self) {
        let shared = &self.around.shared;
        shared.counters.upload_short_secs.store(shared.store.now_secs(), Ordering::Relaxed);
    }

    /// Connections whose value has stopped coming, while others found no memory for theirs.
    pub(super) fn stalled_uploads(&self, now: Instant) -> Vec<StreamId> {
        let shared = &self.around.shared;
        let short_secs = shared.counters.upload_short_secs.load(Ordering::Relaxed);
        let was_short = short_secs != 0
            && u64::from(shared.store.now_secs().saturating_sub(short_secs)) <= 2 * STALL_SECS;
        if !was_short {
            return Vec::new();
        }
        let open = self.connections.iter().flatten().filter(|c| c.upload.is_some() && !c.awaits_another());
        open.filter(|c| Duration::from_secs(STALL_SECS) <= now.since(c.active)).map(|c| c.id).collect()
    }
}
