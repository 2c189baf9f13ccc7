//! How streams end, on both engines, over real sockets.

use super::tests::{Bed, bytes, on_each, pair};
use super::{Completion, Reactor, Sending, StreamId};
use crate::limits::{RECEIVE_BUFFER, URING_SEND_MAX};
use socket2::{SockRef, Socket};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use units::Duration;

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
        while bed.reactor.next(&mut bed.buffer, &mut ()) != Some(Completion::Sent(id)) {
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
            let mut told: Vec<_> = bed.reactor.next(&mut bed.buffer, &mut ()).into_iter().collect();
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

/// What arrives until the end is told, and whether that is a failure; `act` beside each arrival.
fn until_over(
    bed: &mut Bed,
    id: StreamId,
    mut act: impl FnMut(&mut dyn Reactor, StreamId),
) -> (Vec<u8>, bool) {
    let (mut got, mut in_vain) = (Vec::new(), 0);
    loop {
        bed.reactor.wait(Some(Duration::from_secs(1))).unwrap();
        in_vain = if bed.reactor.has_ready() { 0 } else { in_vain + 1 };
        assert!(in_vain < 10, "it is waited for what does not come, behind {} bytes", got.len());
        while let Some(completion) = bed.reactor.next(&mut bed.buffer, &mut ()) {
            match completion {
                Completion::Arrived(of, len) if of == id => got.extend_from_slice(&bed.buffer[..len]),
                last => {
                    let has_failed = last == Completion::Failed(id);
                    assert!(has_failed || last == Completion::Closed(id), "{last:?}");
                    return (got, has_failed);
                }
            }
            act(&mut *bed.reactor, id);
        }
    }
}

/// What arrives of a client that writes all of it, then ends as `end` says, and whether that is a failure; `act` beside each arrival.
fn written(
    bed: &mut Bed,
    all: &[u8],
    end: fn(TcpStream),
    act: impl FnMut(&mut dyn Reactor, StreamId),
) -> (Vec<u8>, bool) {
    let (ours, mut theirs) = tcp_pair();
    let id = bed.reactor.register(ours).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            theirs.write_all(all).unwrap();
            end(theirs);
        });
        until_over(bed, id, act)
    })
}

#[test]
fn a_reset_is_told_behind_whatever_was_unread() {
    let all = bytes(8 << 20);
    let reset =
        |theirs: TcpStream| SockRef::from(&theirs).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    on_each(|bed| {
        for round in 0..64 {
            let (got, has_failed) = written(bed, &all, reset, |_, _| {});
            assert!(has_failed, "round {round}");
            assert!(all.starts_with(&got), "round {round}: {} bytes", got.len());
        }
    });
}

#[test]
fn what_is_unread_at_the_end_comes_whole_and_in_order() {
    let all = bytes(8 << 20);
    on_each(|bed| {
        for round in 0..8 {
            let mut arrivals = 0;
            let (got, has_failed) = written(bed, &all, drop, |reactor, id| {
                arrivals += 1;
                // It is not read from in some rounds, and more than once asked for in others.
                if arrivals % 3 == 0 {
                    reactor.pause(id);
                    reactor.wait(Some(Duration::ZERO)).unwrap();
                }
                reactor.resume(id);
                reactor.resume(id);
            });
            assert!(!has_failed, "round {round}");
            assert!(got == all, "round {round}: {} of {} bytes", got.len(), all.len());
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
            match bed.reactor.next(&mut bed.buffer, &mut ()) {
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
        assert!(!bed.reactor.has_left(id));
        drop(peer);
        assert_eq!(bed.poll(), []);
        assert!(bed.reactor.has_left(id), "it is known while nothing is delivered");
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
