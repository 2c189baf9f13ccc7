//! The store against a map, under operations that bytes say.

#[path = "../../crates/store/tests/model/pair.rs"]
#[allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]
mod pair;

use pair::{Below, KEYS, Op, Pair};
use units::Bytes;

/// Bytes of an operation.
const OP: usize = 6;

/// The first byte says what is below DRAM, the others operations.
pub(crate) fn fuzzed(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let below = [Below::Nothing, Below::All, Below::Some][usize::from(*first) % 3];
    let mut pair = Pair::new(Bytes::mib(1), Bytes::kib(64), u64::from(first >> 4), below);
    for bytes in rest.as_chunks::<OP>().0 {
        pair.run(&op(*bytes));
    }
    pair.finish();
}

fn op([kind, a, b, c, d, e]: [u8; OP]) -> Op {
    let key = u16::from_le_bytes([a, b]) % KEYS;
    let size = u32::from(u16::from_le_bytes([c, d]));
    match kind % 16 {
        0..3 => Op::Get(key),
        3..7 => Op::Set { key, mode: 0, size, ttl: 0, flags: e % 3 },
        7..9 => Op::Set { key, mode: e % 5, size: size % 300, ttl: e % 20, flags: c % 3 },
        9 => Op::Cas { key, right: e % 2 == 0, size: size % 5_000 },
        10 => Op::Delete(key),
        11 => Op::Count { key, delta: size, up: e % 2 == 0 },
        12 => Op::Touch { key, ttl: e % 20 },
        13 => Op::Flush { tenant: e % 3, delay: d % 4 },
        14 => Op::Tick(e % 5),
        _ => Op::Maintain,
    }
}
