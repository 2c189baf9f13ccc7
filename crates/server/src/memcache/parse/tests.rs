//! Lines and data blocks, right, wrong and damaged.

use super::*;
use crate::damaged::{damaged_texts, streams};
use crate::memcache::fuzzed;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds { body_max: 1001, upload_from: 1001, flush_disabled: false };

fn request(input: &[u8]) -> (Command<'_>, usize) {
    match parse(input, &BOUNDS) {
        Parsed::Request(command, taken) => (command, taken),
        other => panic!("{:?} gives {other:?}", String::from_utf8_lossy(input)),
    }
}

#[test]
fn requests_are_cut_at_their_end() {
    let stream = b"set a 5 0 3 noreply\r\nx\r\n\r\nget a bb\r\n";
    let (first, taken) = request(stream);
    let set =
        Command::Store { mode: Mode::Set, key: b"a", flags: 5, exptime: 0, value: b"x\r\n", noreply: true };
    assert_eq!(first, set);
    let (second, _) = request(&stream[taken..]);
    assert_eq!(second, Command::Get { kind: GetKind::Plain, touch: None, keys: b" a bb", goes_on: false });
    assert_eq!(keys(b" a bb ").collect::<Vec<_>>(), [b"a".as_slice(), b"bb"]);
}

#[test]
fn wrong_requests_have_their_answers() {
    let k251 = [b"get ".as_slice(), &[b'k'; 251], b"\r\n"].concat();
    for (line, answer) in [
        (b"get\r\n".as_slice(), text::BAD_FORMAT),
        (b"\r\n", text::BAD_FORMAT),
        (b"frob\r\n", text::ERROR),
        (b"SET a 0 0 1\r\n", text::ERROR),
        (b"set a 0 0 -1\r\n", text::BAD_FORMAT),
        (b"set a 0 0 2147483647\r\n", text::BAD_FORMAT),
        (b"incr a b\r\n", text::BAD_DELTA),
        (b"touch a b\r\n", text::BAD_EXPTIME),
        (b"flush_all b\r\n", text::BAD_EXPTIME),
        (b"incr a -1\r\n", text::BAD_DELTA),
        (b"incr a -9223372036854775808\r\n", text::BAD_DELTA),
        (b"incr a +\r\n", text::BAD_DELTA),
        (b"incr a +-1\r\n", text::BAD_DELTA),
        (b"incr a 18446744073709551616\r\n", text::BAD_DELTA),
        (b"cache_memlimit x\r\n", text::ERROR),
        (b"cache_memlimit\r\n", text::ERROR),
        (b"verbosity\r\n", text::BAD_FORMAT),
        (&k251, text::BAD_FORMAT),
    ] {
        assert_eq!(request(line).0, Command::Wrong(answer), "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn keys_before_one_that_is_none_are_asked_for() {
    let k251 = "k".repeat(251);
    for (line, touch, before) in [
        (format!("get a bb {k251} c\r\n"), None, " a bb"),
        (format!("gets a  {k251}\r\n"), None, " a"),
        (format!("gat 5 a {k251}\r\n"), Some(5), " a"),
    ] {
        let wanted = Command::Get { kind: GetKind::Wrong, touch, keys: before.as_bytes(), goes_on: false };
        assert_eq!(request(line.as_bytes()).0, wanted, "{line}");
    }
}

#[test]
fn spaces_stand_before_commands_about_no_item_only() {
    for line in [" flush_all", "  lru tune", " slabs x", " verbosity 1", " cache_memlimit 64 noreply"] {
        let line = format!("{line}\r\n");
        assert_eq!(request(line.as_bytes()).0, request(line.trim_start().as_bytes()).0, "{line}");
        assert_ne!(request(line.as_bytes()).0, Command::Wrong(text::ERROR), "{line}");
    }
    for line in [" get a", " version", " mn", " stats", "  quit", " flush", "    "] {
        assert_eq!(request(format!("{line}\r\n").as_bytes()).0, Command::Wrong(text::ERROR), "{line}");
    }
}

#[test]
fn words_of_stats_are_parted_by_spaces_alone() {
    assert_eq!(request(b"stats  reset \r\n").0, Command::Stats(b"  reset "));
    assert_eq!(request(b"stats reset\t\r\r\n").0, Command::Stats(b" reset\t\r"));
}

#[test]
fn numbers_without_a_sign_of_their_own_may_have_one() {
    for (word, value) in [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("18446744073709551615", u64::MAX),
        ("+18446744073709551615", u64::MAX),
        ("-18446744073709551615", 1),
        ("-9223372036854775809", i64::MAX.cast_unsigned()),
    ] {
        let line = format!("incr a {word}\r\n");
        let (command, _) = request(line.as_bytes());
        assert!(matches!(command, Command::Count { delta, .. } if delta == value), "{line:?} is {command:?}");
    }
    let (command, _) = request(b"cas a +7 0 1 +9\r\nx\r\n");
    assert!(matches!(command, Command::Store { flags: 7, mode: Mode::Cas(9), .. }), "{command:?}");
    let refused = parse(b"set a -5 0 1\r\nx\r\n", &BOUNDS);
    assert!(matches!(refused, Parsed::Refused { reply: Some(text::BAD_FORMAT), .. }), "{refused:?}");
}

#[test]
fn refused_blocks_are_skipped() {
    let skip = |line: &'static [u8]| match parse(line, &BOUNDS) {
        Parsed::Refused { reply, effect, skip } => (reply, effect, skip),
        other => panic!("{other:?}"),
    };
    let key = Named::Plain(b"a");
    let too_large = |mode, takes_older| Effect::TooLarge { key, mode, takes_older };
    let removes = too_large(Mode::Set, true);
    assert_eq!(skip(b"set a 0 0 1001\r\n"), (Some(text::TOO_LARGE), removes, 16 + 1003));
    assert_eq!(skip(b"add a 0 0 1001 noreply\r\n"), (None, too_large(Mode::Add, false), 24 + 1003));
    assert_eq!(skip(b"set a x 0 3\r\n"), (Some(text::BAD_FORMAT), Effect::None, 13 + 5));
    assert_eq!(skip(b"set a 0 0 1\r\nbcd\r\n"), (Some(text::BAD_CHUNK), Effect::BadChunk(key), 16));
}

#[test]
fn endless_lines_are_hopeless_unless_they_read() {
    assert!(matches!(parse(&[b'x'; LINE_MAX + 1], &BOUNDS), Parsed::Hopeless));
    let ended = |len: usize| [&b"delete "[..], &vec![b'k'; len - 8], b"\n"].concat();
    assert_eq!(parse(&ended(LINE_MAX), &BOUNDS), Parsed::Request(Command::Wrong(text::BAD_FORMAT), LINE_MAX));
    assert_eq!(parse(&ended(LINE_MAX + 1), &BOUNDS), Parsed::Hopeless);
    let mut get = b"get ".to_vec();
    get.resize(LINE_MAX + 100, b'k');
    assert!(matches!(parse(&get, &BOUNDS), Parsed::Incomplete(_)));
    get.resize(GET_LINE_MAX, b'k');
    assert!(matches!(parse(&get, &BOUNDS), Parsed::Hopeless));
    assert!(matches!(parse(b"GET / HTTP/1.1\r\n", &BOUNDS), Parsed::Hopeless));
}

const WHOLE: &[&[u8]] = &[
    b"get a bb ccc\r\n",
    b"gets a\r\n",
    b"gat 60 a b\r\n",
    b"gats -1 a\r\n",
    b"set key 7 0 5\r\nva\r\nl\r\n",
    b"set key +7 0 1\r\nx\r\n",
    b"incr key -0\r\n",
    b"add key 0 60 0 noreply\r\n\r\n",
    b"replace key 4294967295 -1 3\r\nabc\r\n",
    b"append key 0 0 1\r\nx\r\n",
    b"prepend key 0 0 990\r\n",
    b"cas key 0 0 2 77 noreply\r\nxy\r\n",
    b"delete key\r\n",
    b"delete key 0 noreply\r\n",
    b"incr key 1\r\n",
    b"decr key 18446744073709551615 noreply\r\n",
    b"touch key 60\r\n",
    b"flush_all\r\n",
    b"flush_all 10 noreply\r\n",
    b"verbosity 1\r\n",
    b"version\n",
    b"stats items\r\n",
    b"stats\r\n",
    b"cache_memlimit 64\r\n",
    b"lru_crawler metadump all\r\n",
    b"slabs reassign 1 2\r\n",
    b"watch fetchers mutations\r\n",
    b"refresh_certs\r\n",
    b"shutdown graceful\r\n",
    b"quit\r\n",
    b"GET / HTTP/1.1\r\n",
];

proptest! {
    #![proptest_config(streams())]

    #[test]
    fn damaged_streams_mean_the_same_at_every_cut(stream in damaged_texts(WHOLE)) {
        fuzzed::text(&stream);
    }
}

#[test]
fn large_values_are_announced_by_their_line() {
    let bounds = Bounds { upload_from: 100, ..BOUNDS };
    let line = b"append a 5 7 100 noreply\r\n";
    let Parsed::Upload { command, taken, len } = parse(line, &bounds) else { panic!() };
    assert_eq!((taken, len), (line.len(), 100));
    let whole =
        Command::Store { mode: Mode::Append, key: b"a", flags: 5, exptime: 7, value: b"v", noreply: true };
    assert_eq!(command.with_value(b"v"), whole);
    assert!(matches!(parse(b"ms a 100 T7\r\n", &bounds), Parsed::Upload { len: 100, .. }));
    assert!(matches!(parse(b"set a 5 7 99\r\n", &bounds), Parsed::Incomplete(_)));
    assert!(matches!(parse(b"set a 5 7 1001\r\n", &bounds), Parsed::Refused { .. }));
}
