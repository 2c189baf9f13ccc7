//! Every opcode, cut at every byte; and whatever else a stream may hold.

use super::*;
use crate::damaged::{damaged, streams};
use crate::memcache::fuzzed;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds { body_max: 1001, upload_from: 1001, flush_disabled: false };
const CAS: u64 = 0x0102_0304_0506_0708;

/// A request's bytes, with lengths as they are.
fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let mut bytes = vec![REQUEST_MAGIC, opcode];
    bytes.extend_from_slice(&u16::try_from(key.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&[u8::try_from(extras.len()).unwrap(), 0, 0, 0]);
    bytes.extend_from_slice(&u32::try_from(extras.len() + key.len() + value.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(b"\xAA\xBB\xCC\xDD");
    bytes.extend_from_slice(&cas.to_be_bytes());
    [&bytes, extras, key, value].concat()
}

fn parsed(bytes: &[u8]) -> (Request<'_>, u64) {
    match parse(bytes, &BOUNDS) {
        Parsed::Request(request, takes) => (request, takes),
        other => panic!("{bytes:x?} gives {other:?}"),
    }
}

fn be(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// One packet of each opcode and what it means; `\0\0\0\x07\0\0\x01\0` are flags 7 and exptime 256.
fn every_opcode() -> Vec<(Vec<u8>, Body<'static>)> {
    let (flags, times) = (b"\0\0\0\x07\0\0\x01\0".as_slice(), b"\0\0\x01\0".as_slice());
    let counter = [be(3), be(9)].concat();
    let store = |mode| Body::Store { mode, key: b"key", flags: 7, exptime: 256, value: b"value" };
    let join = |mode| Body::Store { mode, key: b"key", flags: 0, exptime: 0, value: b"value" };
    let count = |up, make| Body::Count { key: b"key", up, delta: 3, make };
    let touch = |reply| Body::Touch { key: b"key", exptime: 256, reply };
    let log_in = |is_step| Body::LogIn { mechanism: b"PLAIN", message: b"\0a\0b", is_step };
    let mut cases = Vec::new();
    let mut add = |codes: &[u8], extras: &[u8], key: &[u8], value: &[u8], body: Body<'static>| {
        cases.extend(codes.iter().map(|code| (packet(*code, extras, key, value, 0), body)));
    };
    add(&[0x00, 0x09], b"", b"key", b"", Body::Get { key: b"key", with_key: false });
    add(&[0x0C, 0x0D], b"", b"key", b"", Body::Get { key: b"key", with_key: true });
    add(&[0x01, 0x11], flags, b"key", b"value", store(Mode::Set));
    add(&[0x02, 0x12], flags, b"key", b"value", store(Mode::Add));
    add(&[0x03, 0x13], flags, b"key", b"value", store(Mode::Replace));
    add(&[0x0E, 0x19], b"", b"key", b"value", join(Mode::Append));
    add(&[0x0F, 0x1A], b"", b"key", b"value", join(Mode::Prepend));
    add(&[0x04, 0x14], b"", b"key", b"", Body::Delete { key: b"key" });
    add(&[0x05, 0x15], &[&counter, times].concat(), b"key", b"", count(true, Some((9, 256))));
    add(&[0x06, 0x16], &[&counter, b"\xFF\xFF\xFF\xFF".as_slice()].concat(), b"key", b"", count(false, None));
    add(&[0x1C], times, b"key", b"", touch(Shown::Flags));
    add(&[0x1D, 0x1E], times, b"key", b"", touch(Shown::Value));
    add(&[0x23, 0x24], times, b"key", b"", touch(Shown::KeyAndValue));
    add(&[0x08, 0x18], b"", b"", b"", Body::Flush { delay: 0 });
    add(&[0x08, 0x18], times, b"", b"", Body::Flush { delay: 256 });
    add(&[0x0A], b"", b"", b"", Body::Noop);
    add(&[0x0B], b"", b"", b"", Body::Version);
    add(&[0x10], b"", b"", b"", Body::Stat(b""));
    add(&[0x10], b"", b"items", b"", Body::Stat(b"items"));
    add(&[0x07, 0x17], b"", b"", b"", Body::Quit);
    add(&[0x20], b"", b"", b"", Body::Mechanisms);
    add(&[0x21], b"", b"PLAIN", b"\0a\0b", log_in(false));
    add(&[0x22], b"", b"PLAIN", b"\0a\0b", log_in(true));
    cases
}

#[test]
fn every_opcode_is_read() {
    for (bytes, body) in every_opcode() {
        let (request, takes) = parsed(&bytes);
        assert_eq!((request.body, takes), (body, bytes.len() as u64), "{bytes:x?}");
        let is_quiet = matches!(bytes[1], 0x09 | 0x0D | 0x11..=0x1A | 0x1E | 0x24);
        assert_eq!(request.head, Head { opcode: bytes[1], opaque: *b"\xAA\xBB\xCC\xDD", cas: 0, is_quiet });
    }
}

#[test]
fn a_cas_value_makes_any_store_conditional() {
    let extras = [0; 8];
    for code in [0x01, 0x02, 0x03] {
        let bytes = packet(code, &extras, b"k", b"v", CAS);
        let (request, _) = parsed(&bytes);
        assert!(matches!(request.body, Body::Store { mode: Mode::Cas(CAS), .. }), "{request:?}");
    }
    let bytes = packet(0x0E, b"", b"k", b"v", CAS);
    let (request, _) = parsed(&bytes);
    assert!(matches!(
        request,
        Request { head: Head { cas: CAS, .. }, body: Body::Store { mode: Mode::Append, .. } }
    ));
}

#[test]
fn wrong_lengths_are_told_apart() {
    let k251 = [b'k'; 251];
    for (bytes, wrong) in [
        (packet(0x00, b"", b"", b"", 0), Wrong::Shape),
        (packet(0x00, b"\0", b"k", b"", 0), Wrong::Shape),
        (packet(0x00, b"", b"k", b"v", 0), Wrong::Shape),
        (packet(0x00, b"", &k251, b"", 0), Wrong::Shape),
        (packet(0x01, b"", b"k", b"v", 0), Wrong::Shape),
        (packet(0x01, &[0; 8], b"", b"v", 0), Wrong::Shape),
        (packet(0x05, &[0; 19], b"k", b"", 0), Wrong::Shape),
        (packet(0x05, &[0; 20], b"k", b"v", 0), Wrong::Shape),
        (packet(0x08, &[0; 3], b"", b"", 0), Wrong::Shape),
        (packet(0x08, b"", b"k", b"", 0), Wrong::Shape),
        (packet(0x0A, b"", b"", b"v", 0), Wrong::Shape),
        (packet(0x10, b"\0", b"", b"", 0), Wrong::Shape),
        (packet(0x1C, b"", b"k", b"", 0), Wrong::Shape),
        (packet(0x20, b"", b"k", b"", 0), Wrong::Shape),
        (packet(0x21, b"", b"", b"v", 0), Wrong::Shape),
        (packet(0x21, b"", &[b'M'; 33], b"v", 0), Wrong::Mechanism),
        (packet(0x21, b"", b"PLAIN", &[0; AUTH_MESSAGE_MAX + 1], 0), Wrong::Message),
        (packet(0x1B, &[0; 4], b"", b"", 0), Wrong::Opcode),
        (packet(0xFF, b"", b"k", b"v", 0), Wrong::Opcode),
        (packet(0x01, &[0; 8], b"k", &[0; 1001], 0), Wrong::TooLarge { key: b"k", mode: Mode::Set }),
        (packet(0x12, &[0; 8], b"k", &[0; 1001], 0), Wrong::TooLarge { key: b"k", mode: Mode::Add }),
        (packet(0x0E, b"", b"k", &[0; 1001], 0), Wrong::TooLarge { key: b"k", mode: Mode::Append }),
    ] {
        let (request, takes) = parsed(&bytes);
        assert_eq!((request.body, takes), (Body::Wrong(wrong), bytes.len() as u64), "{bytes:x?}");
    }
    let mut short = packet(0x00, b"", b"key", b"", 0);
    short[11] = 2;
    assert_eq!(parsed(&short).0.body, Body::Wrong(Wrong::Lengths));
}

#[test]
fn values_that_are_too_large_are_refused_before_they_come() {
    let mut bytes = packet(0x01, &[0; 8], b"k", b"", 0);
    bytes[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    let (request, takes) = parsed(&bytes);
    assert_eq!(
        (request.body, takes),
        (Body::Wrong(Wrong::TooLarge { key: b"k", mode: Mode::Set }), 24 + u64::from(u32::MAX))
    );
}

#[test]
fn other_first_bytes_are_hopeless() {
    for first in 0..=u8::MAX {
        let header = [first; HEADER];
        assert_eq!(parse(&header[..HEADER - 1], &BOUNDS), Parsed::Incomplete(HEADER), "{first}");
        let is_hopeless = parse(&header, &BOUNDS) == Parsed::Hopeless;
        assert_eq!(is_hopeless, first != REQUEST_MAGIC, "{first}");
    }
}

fn whole() -> Vec<Vec<u8>> {
    every_opcode().into_iter().map(|(bytes, _)| bytes).collect()
}

proptest! {
    #![proptest_config(streams())]

    #[test]
    fn damaged_streams_mean_the_same_at_every_cut(stream in damaged(whole())) {
        fuzzed::binary(&stream);
    }
}
