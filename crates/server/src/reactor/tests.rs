//! What both engines promise, over real sockets.

use super::{Completion, Epoll, IoEngine, Reactor, Ring, Sending, StreamId, Uring, choose};
use crate::limits::{RECEIVE_BUFFER, URING_BUFFERS, URING_SEND_MAX};
use crate::testing;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Duration, Instant};

/// A reactor and what came out of it.
struct Bed {
    reactor: Box<dyn Reactor>,
    buffer: Vec<u8>,
}

/// Runs `act` on every engine that this system allows.
fn on_each(act: impl Fn(&mut Bed)) {
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

fn pair() -> (Socket, Socket) {
    let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

/// Bytes that tell their place.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

/// Rounds in which something may happen at most.
const ROUNDS: usize = 10_000;

impl Bed {
    fn stream(&mut self) -> (StreamId, Socket) {
        let (ours, theirs) = pair();
        (self.reactor.register(ours).unwrap(), theirs)
    }

    /// The next completion and its data, waiting for it.
    fn next(&mut self) -> (Completion, Vec<u8>) {
        for _ in 0..ROUNDS {
            if let Some(completion) = self.reactor.next(&mut self.buffer) {
                let len = if let Completion::Arrived(_, len) = completion { len } else { 0 };
                return (completion, self.buffer[..len].to_vec());
            }
            self.reactor.wait(Some(Duration::from_secs(10))).unwrap();
        }
        panic!("nothing completes");
    }

    /// Everything that is there now.
    fn poll(&mut self) -> Vec<(Completion, Vec<u8>)> {
        let mut all = Vec::new();
        for _ in 0..3 {
            self.reactor.wait(Some(Duration::ZERO)).unwrap();
            while let Some(completion) = self.reactor.next(&mut self.buffer) {
                let len = if let Completion::Arrived(_, len) = completion { len } else { 0 };
                all.push((completion, self.buffer[..len].to_vec()));
            }
        }
        all
    }

    fn send(&mut self, id: StreamId, bytes: &[u8]) -> Sending {
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
fn the_last_reply_goes_before_the_end() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        assert_eq!(bed.send(id, b"bye"), Sending::Done);
        bed.reactor.close(id);
        assert_eq!(bed.send(id, b"more"), Sending::Failed);
        assert_eq!(bed.poll(), []);
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"bye");
        let (id, mut peer) = bed.stream();
        assert_eq!(bed.send(id, b"bye"), Sending::Done);
        bed.reactor.finish(id);
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"byebye");
    });
}

/// The other side ends what it sends and takes nothing for a while: nobody is busy with that.
#[test]
fn who_has_ended_and_does_not_read_wakes_nobody() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        let Sending::Later(_) = bed.send(id, &bytes(8 << 20)) else { panic!("no socket takes 8 MiB") };
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let reader = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let mut got = Vec::new();
            peer.read_to_end(&mut got).unwrap();
            got.len()
        });
        let mut rounds = 0;
        while bed.reactor.next(&mut bed.buffer) != Some(Completion::Sent(id)) {
            bed.reactor.wait(Some(Duration::from_secs(10))).unwrap();
            rounds += 1;
        }
        // Some hundred while nothing is read, and one or two for each part of what is.
        assert!(rounds < 2_000, "{rounds} rounds");
        bed.reactor.close(id);
        assert_eq!(reader.join().unwrap(), 8 << 20);
    });
}

/// The other side asks, ends what it sends, and does not take the answer.
#[test]
fn a_last_reply_that_does_not_fit_is_owed_before_the_end_is_told() {
    on_each(|bed| {
        let (ours, mut peer) = pair();
        ours.set_send_buffer_size(1).unwrap();
        let id = bed.reactor.register(ours).unwrap();
        peer.write_all(b"ask").unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        // What was asked and the end are both there when it is answered.
        for _ in 0..10 {
            bed.reactor.wait(Some(Duration::ZERO)).unwrap();
        }
        assert_eq!(bed.next(), (Completion::Arrived(id, 3), b"ask".to_vec()));
        let answer = bytes(URING_SEND_MAX);
        if bed.send(id, &answer) == Sending::Done {
            // The end is what comes next, if nothing is said of the answer.
            let mut told: Vec<_> = bed.reactor.next(&mut bed.buffer).into_iter().collect();
            told.extend(bed.poll().into_iter().map(|(completion, _)| completion));
            assert!(matches!(told[..], [Completion::Owes(of, owed)] if of == id && 0 < owed), "{told:?}");
        }
        assert_eq!(bed.poll(), [], "the end is told when they have gone");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).unwrap();
            got
        });
        assert_eq!(bed.next().0, Completion::Sent(id));
        assert_eq!(bed.next().0, Completion::Closed(id));
        assert!(reader.join().unwrap() == answer);
    });
}

/// What is sent and the end come while a receive is under way, on another processor.
#[test]
fn the_end_is_told_when_it_comes_right_behind_the_last_bytes() {
    on_each(|bed| {
        for round in 0..500 {
            let (id, mut peer) = bed.stream();
            assert_eq!(bed.poll(), []);
            let sender = std::thread::spawn(move || peer.write_all(&[7; 5_000]));
            let mut got = 0;
            loop {
                match bed.next() {
                    (Completion::Arrived(_, len), _) => got += len,
                    (last, _) => break assert_eq!(last, Completion::Closed(id)),
                }
            }
            assert_eq!(got, 5_000, "round {round}");
            sender.join().unwrap().unwrap();
        }
    });
}

/// A connection by TCP; who writes to what nobody reads is told so some time.
fn tcp_pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    theirs.set_write_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let ours = Socket::from(listener.accept().unwrap().0);
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

/// What arrives until the end is told, `act` beside each arrival.
fn until_closed(bed: &mut Bed, id: StreamId, mut act: impl FnMut(&mut dyn Reactor)) -> Vec<u8> {
    let (mut got, mut in_vain) = (Vec::new(), 0);
    loop {
        bed.reactor.wait(Some(Duration::from_secs(1))).unwrap();
        in_vain = if bed.reactor.has_ready() { 0 } else { in_vain + 1 };
        assert!(in_vain < 10, "it is waited for what does not come, behind {} bytes", got.len());
        while let Some(completion) = bed.reactor.next(&mut bed.buffer) {
            match completion {
                Completion::Arrived(of, len) if of == id => got.extend_from_slice(&bed.buffer[..len]),
                last => {
                    assert_eq!(last, Completion::Closed(id));
                    return got;
                }
            }
            act(&mut *bed.reactor);
        }
    }
}

#[test]
fn a_reset_is_told_behind_whatever_was_unread() {
    let all = bytes(8 << 20);
    on_each(|bed| {
        for round in 0..64 {
            let (ours, mut theirs) = tcp_pair();
            let id = bed.reactor.register(ours).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    theirs.write_all(&all).unwrap();
                    SockRef::from(&theirs).set_linger(Some(std::time::Duration::ZERO)).unwrap();
                    drop(theirs);
                });
                let got = until_closed(bed, id, |_| {});
                assert!(all.starts_with(&got), "round {round}: {} bytes", got.len());
            });
        }
    });
}

#[test]
fn what_is_unread_at_the_end_comes_whole_and_in_order() {
    let all = bytes(8 << 20);
    on_each(|bed| {
        for round in 0..8 {
            let (ours, mut theirs) = tcp_pair();
            let id = bed.reactor.register(ours).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    theirs.write_all(&all).unwrap();
                    drop(theirs);
                });
                let mut arrivals = 0;
                let got = until_closed(bed, id, |reactor| {
                    arrivals += 1;
                    // It is not read from in some rounds, and more than once asked for in others.
                    if arrivals % 3 == 0 {
                        reactor.pause(id);
                        reactor.wait(Some(Duration::ZERO)).unwrap();
                    }
                    reactor.resume(id);
                    reactor.resume(id);
                });
                assert!(got == all, "round {round}: {} of {} bytes", got.len(), all.len());
            });
        }
    });
}

#[test]
fn what_is_left_of_a_stream_that_has_ended_is_known_to_be_there() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        peer.set_nonblocking(true).unwrap();
        bed.reactor.pause(id);
        assert_eq!(bed.poll(), []);
        // What comes first may be kept aside; nothing else is received then.
        let mut sent = peer.write(b"x").unwrap();
        assert_eq!(bed.poll(), []);
        while let Ok(len) = peer.write(&bytes(16 << 10)) {
            sent += len;
        }
        assert!(2 * RECEIVE_BUFFER < sent, "it takes several rounds: {sent}");
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(bed.poll(), []);
        bed.reactor.resume(id);
        let mut got = 0;
        while got < sent {
            assert!(bed.reactor.has_ready(), "{got} of {sent}, and nothing is there");
            match bed.reactor.next(&mut bed.buffer) {
                Some(Completion::Arrived(_, len)) => got += len,
                Some(other) => panic!("{other:?} behind {got} of {sent}"),
                None => bed.reactor.wait(Some(Duration::ZERO)).unwrap(),
            }
        }
        assert_eq!(bed.next().0, Completion::Closed(id));
    });
}

#[test]
fn a_paused_stream_keeps_what_arrives_and_its_end_comes_last() {
    on_each(|bed| {
        let (id, mut peer) = bed.stream();
        assert_eq!(bed.poll(), []);
        bed.reactor.pause(id);
        peer.write_all(b"abc").unwrap();
        assert_eq!(bed.poll(), []);
        peer.write_all(b"def").unwrap();
        assert_eq!(bed.poll(), []);
        drop(peer);
        assert_eq!(bed.poll(), []);
        bed.reactor.resume(id);
        let mut got = Vec::new();
        loop {
            match bed.next() {
                (Completion::Arrived(_, _), data) => got.extend_from_slice(&data),
                (last, _) => break assert_eq!(last, Completion::Closed(id)),
            }
        }
        assert_eq!(got, b"abcdef");
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
