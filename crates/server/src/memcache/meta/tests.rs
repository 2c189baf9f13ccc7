//! Meta lines, right and wrong.

use super::*;
use crate::damaged::{damaged_texts, streams};
use crate::memcache::fuzzed;
use crate::memcache::parse::parse;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds { body_max: 1001, upload_from: 1001, flush_disabled: false };

fn command(line: &[u8]) -> Command<'_> {
    match parse(line, &BOUNDS) {
        Parsed::Request(command, taken) => {
            assert_eq!(taken, line.len());
            command
        }
        other => panic!("{:?} gives {other:?}", String::from_utf8_lossy(line)),
    }
}

#[test]
fn wrong_lines_have_their_answers() {
    let opaque = |len: usize| [b"md a O".as_slice(), &vec![b'1'; len], b"\r\n"].concat();
    for (line, answer) in [
        (b"mg\r\n".as_slice(), text::BAD_FORMAT),
        (b"mg a Z\r\n", text::INVALID_FLAG),
        (b"mg a v v\r\n", text::DUPLICATE_FLAG),
        (b"mg a \xff\r\n", text::DUPLICATE_FLAG),
        (b"mg a T\r\n", text::BAD_TOKEN),
        (b"mg a T99999999999\r\n", text::BAD_TOKEN),
        (b"mg a Tx Fx\r\n", text::BAD_TOKEN),
        (b"mg a Fx\r\n", text::BAD_FORMAT),
        (b"mg a Fx b\r\n", text::BAD_KEY),
        (b"mg a b\r\n", text::BAD_KEY),
        (b"md a v v\r\n", text::DUPLICATE_FLAG),
        (b"ma a v v\r\n", text::WRONG_FLAG),
        (b"ma a Dx\r\n", text::WRONG_FLAG),
        (b"ma a MX\r\n", text::BAD_COUNT_MODE),
        (b"me\r\n", text::BAD_FORMAT),
        (b"me a b\r\n", text::BAD_FORMAT),
        (b"mg a E-1\r\n", text::BAD_TOKEN),
        (b"ms a\r\n", text::BAD_FORMAT),
        (b"ms a S2\r\n", text::BAD_FORMAT),
        (b"mg a c f h k l q s t u v x C1 D1 E1 F1 I J1 L P\r\n", text::TOO_MANY_FLAGS),
        (&opaque(32), text::OPAQUE_TOO_LONG),
    ] {
        assert_eq!(command(line), Command::Wrong(answer), "{}", String::from_utf8_lossy(line));
    }
    assert!(matches!(command(&opaque(31)), Command::Meta(_)));
    assert_eq!(command(b"mn\r\n"), Command::MetaNoOp);
}

#[test]
fn flags_before_an_opaque_that_is_too_long_act() {
    let flags = |line: &str| {
        let line = line.replace("OX", &format!("O{}", "1".repeat(32))) + "\r\n";
        let Command::Meta(request) = command(line.as_bytes()) else { panic!("{line}") };
        assert!(request.flags.opaque_too_long, "{line}");
        (
            request.flags.touch(),
            request.flags.given(b'N', request.flags.vivify),
            request.flags.ttl_after_vivify,
        )
    };
    for (line, acted) in [
        ("mg a T80 N60 OX", (Some(80), Some(60), false)),
        ("mg a N60 T80 OX", (Some(80), Some(60), true)),
        ("ma a T80 OX N60", (Some(80), Some(0), true)),
        ("ma a N60 OX T80", (None, Some(60), true)),
        ("mg a OX T80", (None, None, false)),
    ] {
        assert_eq!(flags(line), acted, "{line}");
    }
}

#[test]
fn a_wrong_set_is_skipped_with_its_block() {
    for (line, answer) in [
        (b"ms a 1 MX\r\ny\r\n".as_slice(), text::BAD_SET_MODE),
        (b"ms a 1 M\r\ny\r\n", text::BAD_SET_MODE),
        (b"ms a 1 Fx\r\ny\r\n", text::BAD_FORMAT),
        (b"ms a 1\r\nyyy", text::BAD_CHUNK),
    ] {
        let end = line.len() as u64;
        assert!(
            matches!(parse(line, &BOUNDS), Parsed::Refused { reply: Some(r), skip, .. } if r == answer && skip == end),
            "{}",
            String::from_utf8_lossy(line)
        );
    }
}

#[test]
fn me_looks_at_no_word_but_a_b_behind_the_key() {
    let many = [b"me a".as_slice(), &b" x".repeat(30), b"\r\n"].concat();
    for (line, is_base64) in [
        (b"me a\r\n".as_slice(), false),
        (b"me a z z\r\n", false),
        (b"me YQ== v b\r\n", false),
        (b"me YQ== bb\r\n", false),
        (b"me YQ== b v z\r\n", true),
        (&many, false),
    ] {
        let Command::Meta(request) = command(line) else { panic!("{}", String::from_utf8_lossy(line)) };
        assert_eq!(request.is_base64(), is_base64, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn what_is_too_large_says_how_it_was_to_be_stored() {
    for (line, mode) in [
        (b"ms a 1002\r\n".as_slice(), Mode::Set),
        (b"ms a 1002 ME\r\n", Mode::Add),
        (b"ms a 1002 C7\r\n", Mode::Cas(7)),
        (b"ms a 1002 MA C7\r\n", Mode::Append),
    ] {
        let effect = Effect::TooLarge { key: Named::Plain(b"a"), mode, takes_older: true };
        let parsed = parse(line, &BOUNDS);
        assert!(matches!(parsed, Parsed::Refused { effect: e, .. } if e == effect), "{parsed:?}");
    }
    let parsed = parse(b"ms YQ== 1 b\r\nxxx\r\n", &BOUNDS);
    let counted = Effect::BadChunk(Named::Base64(b"YQ=="));
    assert!(matches!(parsed, Parsed::Refused { effect, .. } if effect == counted), "{parsed:?}");
}

#[test]
fn every_flag_is_in_the_table_once() {
    for (i, (letter, _)) in FLAGS.iter().enumerate() {
        assert!(bit(*letter) != 0 && FLAGS[i + 1..].iter().all(|(other, _)| other != letter));
    }
    assert_eq!(FLAGS.len(), 25, "the flags of 1.6.45");
}

const WHOLE: &[&[u8]] = &[
    b"mg key\r\n",
    b"mg key b c f h k l q s t u v x O12 I L P\r\n",
    b"mg a2V5 b k v T60 N30 R20 E9\r\n",
    b"ms key 5 T0 F7 I C3 E4 MS O1 q k s b c\r\nva\r\nl\r\n",
    b"ms key 0 MA\r\n\r\n",
    b"ms key 990\r\n",
    b"md key q I T30 x C1 E2\r\n",
    b"ma key N60 J13 D18446744073709551615 MD T5 q t c v\r\n",
    b"me key\r\n",
    b"me a2V5 b\r\n",
    b"me key z z\r\n",
    b"mn\r\n",
];

proptest! {
    #![proptest_config(streams())]

    #[test]
    fn damaged_streams_mean_the_same_at_every_cut(stream in damaged_texts(WHOLE)) {
        fuzzed::text(&stream);
    }
}
