//! Where what arrives goes: into the worker's buffer, or behind what is kept of a large request, so that it is not copied once more.

use super::{Completion, StreamId};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read};
use socket2::Socket;

/// Where what arrives next of a stream goes.
#[derive(Debug)]
pub(crate) enum Place<'p> {
    /// Into the worker's buffer.
    Buffer(&'p mut [u8]),
    /// Behind what is kept of its request, as far as there is room.
    Behind(&'p mut Vec<u8>),
}

/// Who knows what is kept.
pub(crate) trait Places {
    /// Where what arrives next of a stream goes, if not into all of `buffer`. There is room.
    fn place<'p>(&'p mut self, id: StreamId, buffer: &'p mut [u8]) -> Place<'p>;
}

/// Nothing is kept.
impl Places for () {
    fn place<'p>(&'p mut self, _: StreamId, buffer: &'p mut [u8]) -> Place<'p> {
        Place::Buffer(buffer)
    }
}

impl Place<'_> {
    /// Bytes for which there is room.
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Buffer(buffer) => buffer.len(),
            Self::Behind(kept) => kept.capacity() - kept.len(),
        }
    }

    /// Reads with one call: none at the end.
    pub(crate) fn read(&mut self, socket: &Socket) -> Result<usize, Errno> {
        loop {
            let read = match self {
                Self::Buffer(buffer) => read(socket, &mut **buffer),
                Self::Behind(kept) => read(socket, spare_capacity(kept)),
            };
            if read != Err(Errno::INTR) {
                return read;
            }
        }
    }

    /// What the worker is told of so many bytes.
    pub(crate) fn told(&self, id: StreamId, len: usize) -> Completion {
        match self {
            Self::Buffer(_) => Completion::Arrived(id, len),
            Self::Behind(_) => Completion::Added(id, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::URING_BULK;
    use crate::reactor::tests::{bytes, on_each};
    use std::io::Write as _;
    use units::Duration;

    /// What is kept of one stream.
    struct Keeper(Vec<u8>);

    impl Places for Keeper {
        fn place<'p>(&'p mut self, _: StreamId, buffer: &'p mut [u8]) -> Place<'p> {
            if self.0.len() < self.0.capacity() { Place::Behind(&mut self.0) } else { Place::Buffer(buffer) }
        }
    }

    #[test]
    fn what_arrives_goes_behind_what_is_kept_as_far_as_there_is_room() {
        const PERIOD: usize = 5 * URING_BULK;
        on_each(|bed| {
            let (id, mut peer) = bed.stream();
            let all = bytes(40 * PERIOD + 77);
            let sent = all.clone();
            let writer = std::thread::spawn(move || peer.write_all(&sent).map(|()| peer));
            let (mut keeper, mut got, mut added) = (Keeper(Vec::new()), Vec::new(), 0);
            while got.len() + keeper.0.len() < all.len() {
                match bed.reactor.next(&mut bed.buffer, &mut keeper) {
                    Some(Completion::Arrived(_, len)) => {
                        got.append(&mut keeper.0);
                        got.extend_from_slice(&bed.buffer[..len]);
                        keeper.0 = Vec::with_capacity(PERIOD);
                    }
                    Some(Completion::Added(of, len)) => {
                        assert!(of == id && 0 < len && keeper.0.capacity() == PERIOD);
                        added += len;
                    }
                    Some(other) => panic!("{other:?}"),
                    None => bed.reactor.wait(Some(Duration::from_secs(10))).unwrap(),
                }
            }
            got.append(&mut keeper.0);
            assert!(got == all, "in order, and nothing twice");
            assert!(PERIOD <= added, "{added}: it arrived together");
            drop(writer.join().unwrap().unwrap());
            assert_eq!(bed.next().0, Completion::Closed(id));
        });
    }
}
