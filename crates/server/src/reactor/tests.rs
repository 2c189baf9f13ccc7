//! What both engines promise, over real sockets.

use super::{Completion, Epoll, IoEngine, Reactor, Ring, Sending, StreamId, Uring, choose};
use crate::limits::{RECEIVE_BUFFER, URING_BUFFERS, URING_BULK, URING_SEND_MAX};
use crate::testing;
use socket2::{Domain, Socket, Type};
use std::io::{IoSlice, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Duration, Instant};

/// A reactor and what came out of it.
pub(super) struct Bed {
    pub(super) reactor: Box<dyn Reactor>,
    pub(super) buffer: Vec<u8>,
}

/// Runs `act` on every engine that this system allows.
pub(super) fn on_each(act: impl Fn(&mut Bed)) {
    let shared = Arc::new(testing::small(1));
    let mut reactors: Vec<Box<dyn Reactor>> = vec![Box::new(Epoll::new().unwrap())];
    match Ring::probe() {
        Ok(()) => reactors.push(Box::new(Uring::new(Ring::new().unwrap(), Arc::clone(&shared)).unwrap())),
        Err(cause) => println!("not on io_uring: {cause}"),
    }
    for reactor in reactors {
        act(&mut Bed { reactor, buffer: vec![0; RECEIVE_BUFFER] });
    }
    assert_eq!(shared.buffered(), Bytes::ZERO, "everything accounted is given back");
}

pub(super) fn pair() -> (Socket, Socket) {
    let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

/// Little and much in turn: each many times in a row, so that streams are received from in either way, and change.
fn lengths() -> impl Iterator<Item = usize> {
    let mut rng = units::Rng::new(3);
    (0..400).map(move |i| if i / 20 % 2 == 0 { 1 + rng.index(300) } else { 1 + rng.index(3 * URING_BULK) })
}

/// Bytes that tell their place.
pub(super) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

/// Rounds in which something may happen at most.
const ROUNDS: usize = 10_000;

impl Bed {
    pub(super) fn stream(&mut self) -> (StreamId, Socket) {
        let (ours, theirs) = pair();
        (self.reactor.register(ours).unwrap(), theirs)
    }

    /// The next completion and its data, waiting for it.
    pub(super) fn next(&mut self) -> (Completion, Vec<u8>) {
        for _ in 0..ROUNDS {
            if let Some(completion) = self.reactor.next(&mut self.buffer, &mut ()) {
                let len = if let Completion::Arrived(_, len) = completion { len } else { 0 };
                return (completion, self.buffer[..len].to_vec());
            }
            self.reactor.wait(Some(Duration::from_secs(10))).unwrap();
        }
        panic!("nothing completes");
    }

    /// Everything that is there now.
    pub(super) fn poll(&mut self) -> Vec<(Completion, Vec<u8>)> {
        let mut all = Vec::new();
        for _ in 0..3 {
            self.reactor.wait(Some(Duration::ZERO)).unwrap();
            while let Some(completion) = self.reactor.next(&mut self.buffer, &mut ()) {
                let len = if let Completion::Arrived(_, len) = completion { len } else { 0 };
                all.push((completion, self.buffer[..len].to_vec()));
            }
        }
        all
    }

    pub(super) fn send(&mut self, id: StreamId, bytes: &[u8]) -> Sending {
        let half = bytes.len() / 2;
        self.reactor.send(id, &[IoSlice::new(&bytes[..half]), IoSlice::new(&bytes[half..])])
    }
}

#[test]
fn what_is_sent_arrives_on_either_side() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        peer.write_all(b"hello").unwrap();
        assert_eq!(bed.next(), (Completion::Arrived(id, 5), b"hello".to_vec()));
        assert_eq!(bed.send(id, b"one"), Sending::Done);
        assert_eq!(bed.send(id, b"two"), Sending::Done);
        assert_eq!(bed.poll(), []);
        let mut got = [0; 6];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"onetwo");
        drop(peer);
        assert_eq!(bed.next().0, Completion::Closed(id));
    });
}

#[test]
fn what_is_flushed_does_not_wait_for_the_round() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        peer.set_nonblocking(true).unwrap();
        assert_eq!(bed.send(id, b"hello"), Sending::Done);
        assert_eq!(bed.reactor.flush(id), Sending::Done);
        let mut got = [0; 5];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        assert_eq!(bed.poll(), []);
        assert_eq!(peer.read(&mut got).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it went once");
    });
}

#[test]
fn what_a_full_socket_does_not_take_of_what_is_flushed_follows() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        let piece = bytes(URING_SEND_MAX - 7);
        let mut sent = 0;
        loop {
            assert!(sent < 64 << 20, "no socket takes 64 MiB");
            let sending = bed.send(id, &piece);
            sent += piece.len();
            match (sending, bed.reactor.flush(id)) {
                (Sending::Done, Sending::Done) => {}
                (Sending::Done, Sending::Later(owed)) | (Sending::Later(owed), _) => {
                    break assert!((1..=piece.len()).contains(&owed), "{owed}");
                }
                other => panic!("{other:?}"),
            }
        }
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; sent];
            peer.read_exact(&mut got).unwrap();
            (got, peer)
        });
        assert_eq!(bed.next().0, Completion::Sent(id));
        let (got, _peer) = reader.join().unwrap();
        assert!(got.chunks(piece.len()).all(|chunk| chunk == piece));
    });
}

#[test]
fn what_a_socket_does_not_take_follows_in_order() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        let all = bytes(8 << 20);
        assert_eq!(bed.send(id, &all[..100]), Sending::Done);
        let Sending::Later(_) = bed.send(id, &all[100..]) else { panic!("no socket takes 8 MiB") };
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; 8 << 20];
            peer.read_exact(&mut got).unwrap();
            (got, peer)
        });
        assert_eq!(bed.next().0, Completion::Sent(id));
        let (got, _peer) = reader.join().unwrap();
        assert!(got == all);
    });
}

#[test]
fn short_sends_to_a_full_socket_follow_in_order_and_hold_arrivals_back() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        let piece = bytes(URING_SEND_MAX - 7);
        let mut sent = 0;
        loop {
            let sending = bed.send(id, &piece);
            sent += piece.len();
            assert_ne!(sending, Sending::Failed);
            assert!(sent < 64 << 20, "no socket takes 64 MiB");
            if sending != Sending::Done {
                break;
            }
            // An engine that sends with its next round says so then.
            match &bed.poll()[..] {
                [] => {}
                [(Completion::Owes(of, owed), _)] => {
                    assert!(*of == id && 0 < *owed && *owed <= piece.len());
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        peer.write_all(b"more").unwrap();
        assert_eq!(bed.poll(), [], "who does not read is not read from");
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; sent];
            peer.read_exact(&mut got).unwrap();
            (got, peer)
        });
        assert_eq!(bed.next().0, Completion::Sent(id));
        assert_eq!(bed.next(), (Completion::Arrived(id, 4), b"more".to_vec()));
        let (got, _peer) = reader.join().unwrap();
        assert!(got.chunks(piece.len()).all(|chunk| chunk == piece));
    });
}

#[test]
fn nothing_of_a_closed_stream_reaches_the_next() {
    on_each(|bed| {
        for _ in 0..100 {
            let (old, mut peer) = bed.stream();
            assert_eq!(bed.poll(), []);
            peer.write_all(b"old").unwrap();
            bed.reactor.wait(Some(Duration::ZERO)).unwrap();
            bed.reactor.close(old);
            let (new, mut other) = bed.stream();
            other.write_all(b"new").unwrap();
            assert_eq!(bed.next(), (Completion::Arrived(new, 3), b"new".to_vec()));
            bed.reactor.close(new);
        }
        assert_eq!(bed.poll(), []);
    });
}

#[test]
fn more_streams_than_buffers_are_all_heard() {
    on_each(|bed| {
        let count = 3 * usize::from(URING_BUFFERS);
        let mut streams: Vec<_> = (0..count).map(|_| bed.stream()).collect();
        assert_eq!(bed.poll(), []);
        for (id, peer) in &mut streams {
            peer.write_all(format!("{:08}", id.0).as_bytes()).unwrap();
        }
        let mut heard: Vec<usize> = (0..count)
            .map(|_| {
                let (completion, data) = bed.next();
                let Completion::Arrived(id, 8) = completion else { panic!("{completion:?}") };
                assert_eq!(data, format!("{:08}", id.0).into_bytes());
                id.0
            })
            .collect();
        heard.sort_unstable();
        assert_eq!(heard, (0..count).collect::<Vec<_>>());
        streams.into_iter().for_each(|(id, _)| bed.reactor.close(id));
    });
}

/// Whatever is paused meanwhile, and however much comes together: in order, once, and behind it the end.
#[test]
fn little_and_much_arrive_in_order_and_the_end_behind_them() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        let all = bytes(lengths().sum());
        let sent = all.clone();
        let writer = std::thread::spawn(move || {
            let mut at = 0;
            for len in lengths() {
                peer.write_all(&sent[at..at + len]).unwrap();
                at += len;
            }
        });
        let mut got = Vec::new();
        for turn in 0.. {
            match bed.next() {
                (Completion::Arrived(of, _), data) if of == id => got.extend_from_slice(&data),
                (Completion::Closed(of), _) if of == id => break,
                other => panic!("{other:?}"),
            }
            if turn % 7 == 0 {
                bed.reactor.pause(id);
                assert!(
                    bed.poll().iter().all(|(completion, _)| !matches!(completion, Completion::Arrived(..)))
                );
                bed.reactor.resume(id);
            }
        }
        assert!(got == all, "{} of {}", got.len(), all.len());
        writer.join().unwrap();
    });
}

#[test]
fn a_long_request_arrives_whole() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        let all = bytes(3 << 20);
        let sent = all.clone();
        let writer = std::thread::spawn(move || {
            peer.write_all(&sent).unwrap();
            peer
        });
        let mut got = Vec::new();
        while got.len() < all.len() {
            let (completion, data) = bed.next();
            assert!(matches!(completion, Completion::Arrived(of, _) if of == id));
            got.extend_from_slice(&data);
        }
        assert!(got == all);
        drop(writer.join().unwrap());
    });
}

#[test]
fn a_waker_ends_a_wait_each_time() {
    on_each(|bed| {
        let waker = bed.reactor.waker();
        assert_eq!(bed.poll(), []);
        for _ in 0..3 {
            waker.wake().unwrap();
            bed.reactor.wait(None).unwrap();
        }
        let thread = std::thread::spawn(move || waker.wake().unwrap());
        bed.reactor.wait(None).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn an_alarm_ends_a_wait_at_its_moment_and_not_at_one_before() {
    on_each(|bed| {
        assert_eq!(bed.poll(), []);
        let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
        // A moment that is near instead of one in an hour comes, and the same moment again once it has come.
        for _ in 0..3 {
            for at in [ms(3_600_000), ms(5), ms(5)] {
                bed.reactor.ring_at(at, Instant::ZERO).unwrap();
            }
            bed.reactor.wait(None).unwrap();
        }
        // A wait may have ended for what rang before.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(bed.poll(), []);
        // One in an hour instead of one that is near does not come: what ends the wait is somebody who wakes it long after that.
        for at in [ms(100), ms(3_600_000)] {
            bed.reactor.ring_at(at, Instant::ZERO).unwrap();
        }
        let (waker, is_woken) = (bed.reactor.waker(), Arc::new(AtomicBool::new(false)));
        let wakes = Arc::clone(&is_woken);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(250));
            wakes.store(true, Ordering::Release);
            waker.wake().unwrap();
        });
        bed.reactor.wait(None).unwrap();
        assert!(is_woken.load(Ordering::Acquire));
        thread.join().unwrap();
        // One that is past comes at once.
        bed.reactor.ring_at(ms(0), ms(1)).unwrap();
        bed.reactor.wait(None).unwrap();
    });
}

#[test]
fn who_chooses_is_not_interrupted_when_rings_end() {
    let (_, rings) = choose(IoEngine::IoUring, 2);
    let (mut here, _there) = UnixStream::pair().unwrap();
    here.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    std::thread::spawn(move || {
        for mut ring in rings {
            ring.enter(Some(Duration::from_millis(30)), &mut Vec::new()).unwrap();
        }
    });
    let waited = here.read(&mut [0]).unwrap_err();
    assert_eq!(waited.kind(), std::io::ErrorKind::WouldBlock, "{waited}");
}

#[test]
fn an_engine_is_chosen_for_a_reason() {
    let (engine, rings) = choose(IoEngine::Epoll, 2);
    assert_eq!((engine.kind, engine.reason.as_str(), rings.len()), (IoEngine::Epoll, "as configured", 0));
    let (engine, rings) = choose(IoEngine::IoUring, 2);
    match Ring::probe() {
        Ok(()) => assert_eq!((engine.kind, rings.len()), (IoEngine::IoUring, 2)),
        Err(cause) => {
            assert_eq!((engine.kind, rings.len()), (IoEngine::Epoll, 0));
            assert!(engine.reason.contains(&cause.to_string()), "{}", engine.reason);
        }
    }
    let asked = engine.kind;
    let (engine, rings) = choose(IoEngine::Auto, 2);
    assert_eq!(engine.kind, asked, "io_uring where it is to be had");
    assert_eq!(engine.reason == "the default", !rings.is_empty());
}
