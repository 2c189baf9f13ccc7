//! No input makes a reader panic, hang or read for ever: random bytes, random cuts, random damage.

use lab::limits::ARC_BLOCKS_PER_LINE_MAX;
use lab::{Format, TraceReader, open_reader};
use proptest::prelude::*;

/// Reads to the end, past errors in rows; the number of calls is bounded by what the bytes can hold.
fn read(bytes: Vec<u8>, format: Option<Format>) {
    let calls_max = bytes.len() as u64 + 10;
    let Ok(mut reader) = open_reader(Box::new(std::io::Cursor::new(bytes)), "t", format) else { return };
    for _ in 0..calls_max.min(ARC_BLOCKS_PER_LINE_MAX) {
        match reader.next() {
            Ok(Some(request)) => assert!(!request.key.is_empty() && request.key.len() <= 250),
            Ok(None) => return,
            Err(error) => {
                assert!(!error.to_string().contains('\n'));
                assert!(!error.cure().is_empty());
            }
        }
    }
}

fn format() -> impl Strategy<Value = Option<Format>> {
    proptest::option::of(proptest::sample::select(Format::NAMES.map(|(format, _)| format).to_vec()))
}

/// Something like a trace: a header or none, and rows made of likely and unlikely fields.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let header = proptest::sample::select(vec![
        "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n",
        "t_ms,key,size,op\n",
        "0,key,17,213,4,get,0\n",
        "17 2 0 0\n",
        "",
    ]);
    let field = proptest::sample::select(vec![
        "",
        "0",
        "7",
        "get",
        "set",
        "delete",
        "web",
        "250",
        "251",
        "4294967296",
        "-1",
        "1.5",
        "\r",
        "\0",
        "é",
        "18446744073709551615",
        "a b",
        "99999999999999999999999",
    ]);
    let separator = proptest::sample::select(vec![",", ",", ",", " ", "\n"]);
    let fields = proptest::collection::vec((field, separator), 0..60);
    (header, fields).prop_map(|(header, fields)| {
        let rows: String = fields.into_iter().flat_map(|(field, separator)| [field, separator]).collect();
        [header, &rows].concat().into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2_000), format in format()) {
        read(bytes, format);
    }

    #[test]
    fn random_bytes_after_the_magic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        read([&[0x28, 0xB5, 0x2F, 0xFD][..], &bytes].concat(), None);
    }

    #[test]
    fn random_fields(bytes in text(), format in format()) {
        read(bytes, format);
    }

    #[test]
    fn truncated_and_damaged_archives(
        bytes in text(),
        cut in any::<prop::sample::Index>(),
        hit in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let archive = zstd::encode_all(&bytes[..], 1).expect("memory can be compressed");
        read(archive[..cut.index(archive.len())].to_vec(), None);
        let mut damaged = archive;
        let place = hit.index(damaged.len());
        damaged[place] = value;
        read(damaged, None);
    }
}
