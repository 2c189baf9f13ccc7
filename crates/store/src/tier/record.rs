//! A record of a tier: an item's value with everything that it takes to make the item again.
//!
//! ```text
//!  0     4       6      7      8       12      16      24        28       32    40
//! +-----+-------+------+------+-------+-------+-------+---------+--------+-----+-----+-------+
//! | crc | magic | klen | bits | owner | vlen  | stamp | expires | client | cas | key | value |
//! +-----+-------+------+------+-------+-------+-------+---------+--------+-----+-----+-------+
//! ```
//! Little endian. `crc` is CRC32C over everything behind it, begun with where the record lies and how often its segment was
//! used before: what an earlier life of the segment left there is no record. `owner` is the tenant's row in the notes,
//! `expires` a second of the wall clock (0 for never). `bits`: own key space, explicit CAS, the item's state from bit 4 on.
//!
//! Invariants: a record is whole or it is none; it begins at a multiple of `GRAIN`
//! Units:      bytes; seconds since 1970

use super::notes::Owner;

/// Bytes before the key.
pub(crate) const HEADER: usize = 40;
/// Records begin at multiples of this, a cache line.
pub(crate) const GRAIN: u64 = 64;
/// The format, with its version.
const MAGIC: u16 = 0xC701;

const OWN_SPACE: u8 = 1;
const CAS: u8 = 1 << 1;
const STATE_AT: u32 = 4;

/// Everything of a record but key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fields {
    pub(crate) owner: Owner,
    pub(crate) own_space: bool,
    pub(crate) stamp: u64,
    pub(crate) cas: Option<u64>,
    pub(crate) client_flags: u32,
    /// Second of the wall clock, 0 for never.
    pub(crate) expires_wall: u32,
    /// Bits of `item::state`.
    pub(crate) state: u8,
}

/// Where a record lies: what its checksum begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// Byte of the tier.
    pub(crate) at: u64,
    /// Which use of its segment it is.
    pub(crate) life: u64,
}

/// A record that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) fields: Fields,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Bytes that a record takes, up to where the next may begin.
#[inline]
pub(crate) fn footprint(key_len: usize, value_len: usize) -> u64 {
    lines(key_len, value_len) * GRAIN
}

/// The same in lines of `GRAIN`.
#[inline]
pub(crate) fn lines(key_len: usize, value_len: usize) -> u64 {
    // Lengths are far from where this would overflow; `div_ceil`, which cannot, takes three times the instructions.
    ((HEADER + key_len + value_len) as u64 + GRAIN - 1) >> GRAIN.ilog2()
}

/// Appends a record to `out`, padded to `GRAIN`.
pub(crate) fn encode(spot: Spot, fields: &Fields, key: &[u8], value: [&[u8]; 2], out: &mut Vec<u8>) {
    let from = out.len();
    let value_len = value[0].len() + value[1].len();
    let key_len = u8::try_from(key.len()).expect("keys are at most 250 bytes, checked where they are made");
    let value_len32 = u32::try_from(value_len).expect("values are smaller than a segment");
    let bits = (u8::from(fields.own_space) * OWN_SPACE) | (u8::from(fields.cas.is_some()) * CAS);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&[key_len, bits | fields.state << STATE_AT]);
    out.extend_from_slice(&fields.owner.0.to_le_bytes());
    out.extend_from_slice(&value_len32.to_le_bytes());
    out.extend_from_slice(&fields.stamp.to_le_bytes());
    out.extend_from_slice(&fields.expires_wall.to_le_bytes());
    out.extend_from_slice(&fields.client_flags.to_le_bytes());
    out.extend_from_slice(&fields.cas.unwrap_or(0).to_le_bytes());
    debug_assert_eq!(out.len() - from, HEADER);
    out.extend_from_slice(key);
    out.extend_from_slice(value[0]);
    out.extend_from_slice(value[1]);
    let crc = checksum(spot, &out[from + 4..]);
    out[from..from + 4].copy_from_slice(&crc.to_le_bytes());
    let padded = from + usize::try_from(footprint(key.len(), value_len)).unwrap_or(usize::MAX);
    out.resize(padded, 0);
}

/// Bytes of the record whose header begins `bytes`, padding included; none if it is no header.
pub(crate) fn len_of(bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..HEADER)?;
    if u16::from_le_bytes([header[4], header[5]]) != MAGIC || header[6] == 0 {
        return None;
    }
    Some(footprint(usize::from(header[6]), u32_at(header, 12) as usize))
}

/// The record at the beginning of `bytes`, which was read from `spot`; none if it is not whole.
pub(crate) fn decode(spot: Spot, bytes: &[u8]) -> Option<Record<'_>> {
    let record = parse(bytes)?;
    let end = HEADER + record.key.len() + record.value.len();
    (checksum(spot, &bytes[4..end]) == u32_at(bytes, 0)).then_some(record)
}

/// The same without a look at the checksum.
pub(crate) fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    len_of(bytes)?;
    let key_len = usize::from(bytes[6]);
    let bits = bytes[7];
    let rest = &bytes[HEADER..];
    let key = rest.get(..key_len)?;
    let value = rest.get(key_len..key_len + u32_at(bytes, 12) as usize)?;
    let fields = Fields {
        owner: Owner(u32_at(bytes, 8)),
        own_space: bits & OWN_SPACE != 0,
        stamp: u64_at(bytes, 16),
        cas: (bits & CAS != 0).then(|| u64_at(bytes, 32)),
        client_flags: u32_at(bytes, 28),
        expires_wall: u32_at(bytes, 24),
        state: bits >> STATE_AT,
    };
    Some(Record { fields, key, value })
}

fn checksum(spot: Spot, bytes: &[u8]) -> u32 {
    let begun = crc32c::crc32c(&spot.at.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(begun, &spot.life.to_le_bytes()), bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPOT: Spot = Spot { at: 4096, life: 3 };

    fn fields() -> impl Strategy<Value = Fields> {
        (any::<u32>(), any::<bool>(), any::<u64>(), any::<Option<u64>>(), any::<(u32, u32)>(), 0_u8..8)
            .prop_map(|(owner, own_space, stamp, cas, (client_flags, expires_wall), state)| Fields {
                owner: Owner(owner),
                own_space,
                stamp,
                cas,
                client_flags,
                expires_wall,
                state,
            })
    }

    fn written(fields: &Fields, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (first, second) = value.split_at(value.len() / 3);
        encode(SPOT, fields, key, [first, second], &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 500 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_record_comes_back(
            fields in fields(),
            key in prop::collection::vec(any::<u8>(), 1..250),
            value in prop::collection::vec(any::<u8>(), 0..5_000),
        ) {
            let bytes = written(&fields, &key, &value);
            prop_assert_eq!(bytes.len() as u64, footprint(key.len(), value.len()));
            prop_assert_eq!(len_of(&bytes), Some(bytes.len() as u64));
            prop_assert_eq!(decode(SPOT, &bytes), Some(Record { fields, key: &key, value: &value }));
        }

        #[test]
        fn a_flipped_bit_or_a_missing_end_is_no_record(
            fields in fields(),
            value in prop::collection::vec(any::<u8>(), 0..300),
            bit in any::<usize>(),
        ) {
            let mut bytes = written(&fields, b"a key", &value);
            let end = HEADER + 5 + value.len();
            prop_assert_eq!(decode(SPOT, &bytes[..end - 1]), None);
            bytes[bit / 8 % end] ^= 1 << (bit % 8);
            prop_assert_eq!(decode(SPOT, &bytes), None);
        }
    }

    #[test]
    fn a_record_of_another_place_or_an_earlier_life_is_none() {
        let fields = Fields {
            owner: Owner(1),
            own_space: false,
            stamp: 5,
            cas: None,
            client_flags: 0,
            expires_wall: 0,
            state: 0,
        };
        let bytes = written(&fields, b"key", b"value");
        assert!(decode(SPOT, &bytes).is_some());
        assert!(decode(Spot { at: SPOT.at + 64, ..SPOT }, &bytes).is_none());
        assert!(decode(Spot { life: SPOT.life + 1, ..SPOT }, &bytes).is_none());
        for len in 0..HEADER + 8 {
            assert!(decode(SPOT, &bytes[..len]).is_none());
        }
        assert!(decode(SPOT, &[0; 64]).is_none());
    }
}
