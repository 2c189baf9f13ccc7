//! What parsers are shown in tests: requests put behind each other, then damaged.
//!
//! Shape:      whole requests -> some of them in a row -> a few damages -> a stream -> what must hold of a parser (`fuzzing.rs`)
//! Invariants: every stream can be repeated: `PROPTEST_RNG_SEED` is a seed, `PROPTEST_CASES` asks for more or fewer streams
//! Non-goals:  following the branches that a stream takes, which is what `make fuzz` does

use proptest::prelude::*;
use proptest::sample::Index;

/// Streams of each parser (guess: all parsers together take some ten seconds of a core; damages of each sort meet each seed hundreds of times).
const STREAMS: u32 = 10_000;
/// Requests in a row at most.
const REQUESTS_MAX: usize = 4;
/// Damages of one stream at most.
const DAMAGES_MAX: usize = 6;

/// What parsers stumble over, wherever it stands.
const STONES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\0",
    b"\x80",
    b"\xff",
    b":",
    b"-1",
    b"0",
    b"+",
    b"2147483645",
    b"2147483646",
    b"4294967295",
    b"4294967296",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b" noreply",
    b"\xff\xff\xff\xff",
    &[b'k'; 251],
];

/// One damage, at a place that depends on the length.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Insert(Index, Index),
    Overwrite(Index, Index),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Cut(Index),
}

/// How many streams a parser is shown.
pub(crate) fn streams() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let usual = ProptestConfig::default();
    if asked { usual } else { ProptestConfig { cases: STREAMS, ..usual } }
}

/// Some of these in a row, damaged; now and then whole.
pub(crate) fn damaged(whole: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let row = prop::collection::vec(prop::sample::select(whole), 1..=REQUESTS_MAX);
    (row, prop::collection::vec(damage(), 0..=DAMAGES_MAX)).prop_map(|(row, damages)| {
        let mut stream = row.concat();
        damages.iter().for_each(|damage| damage.befall(&mut stream));
        stream
    })
}

/// The same of texts.
pub(crate) fn damaged_texts(whole: &[&[u8]]) -> impl Strategy<Value = Vec<u8>> + use<> {
    damaged(whole.iter().map(|text| text.to_vec()).collect())
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    // Long streams cost the square of their length.
    prop_oneof![
        8 => (index(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        8 => (index(), index()).prop_map(|(at, stone)| Damage::Insert(at, stone)),
        8 => (index(), index()).prop_map(|(at, stone)| Damage::Overwrite(at, stone)),
        8 => (index(), 1..9_usize).prop_map(|(at, len)| Damage::Remove(at, len)),
        1 => (index(), 1..9_usize, 2..300_usize).prop_map(|(at, len, times)| Damage::Repeat(at, len, times)),
        4 => index().prop_map(Damage::Cut),
    ]
}

impl Damage {
    fn befall(&self, stream: &mut Vec<u8>) {
        let (Self::Flip(at, _)
        | Self::Insert(at, _)
        | Self::Overwrite(at, _)
        | Self::Remove(at, _)
        | Self::Repeat(at, ..)
        | Self::Cut(at)) = self;
        let at = at.index(stream.len() + 1);
        let end = |len: usize| (at + len).min(stream.len());
        match self {
            Self::Flip(_, bits) => stream[at..].iter_mut().take(1).for_each(|byte| *byte ^= bits),
            Self::Insert(_, stone) => drop(stream.splice(at..at, stone.get(STONES).iter().copied())),
            Self::Overwrite(_, stone) => {
                let stone = stone.get(STONES);
                drop(stream.splice(at..end(stone.len()), stone.iter().copied()));
            }
            Self::Remove(_, len) => drop(stream.drain(at..end(*len))),
            Self::Repeat(_, len, times) => {
                let part = stream[at..end(*len)].repeat(*times);
                drop(stream.splice(at..at, part));
            }
            Self::Cut(_) => stream.truncate(at),
        }
    }
}
