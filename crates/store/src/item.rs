//! An item's bytes in a segment.
//!
//! ```text
//!  0        2      3       4          6           10
//! +--------+------+-------+----------+-----------+----------------------------------------+-----+-------+
//! | tenant | klen | flags | vlen     | stamp     | [vlen 4] [level 1, expiry 4] [client 4] | key | value |
//! +--------+------+-------+----------+-----------+ [cas 8] [state 1] [tier reference 10]   +-----+-------+
//! ```
//! Little endian. Optional fields in this order, each present if its flag is set. `vlen` 0xFFFF says that the length
//! is in the 4-byte field. `stamp` counts from the base of its segment. A value in pages of its own (`log::values`) has
//! its first page and its length, four bytes each, in its place.
//!
//! The byte of the state has what is remembered of the key (`ghosts`) in its upper bits.
//! The length is 0 where a tier reference stands for the value (`tier`).
//!
//! Invariants: published bytes never change, but for the flag of an item that is gone; a new value, expiry or client flag
//!             is a new item

use crate::limits::GAP;
use crate::tier::{REFERENCE, Reference};
use units::TenantId;

mod sizes;

pub(crate) use sizes::{Apart, INDEX_SHARE, Sizes};

/// Bytes of the fixed part.
pub(crate) const HEADER: usize = 10;
/// Where in it the flags are.
pub(crate) const FLAGS_AT: usize = 3;
const LONG: u16 = u16::MAX;

/// Bytes that an item may take beside its key and value: the header, every optional field that is written, and room
/// for a CAS value that a move may have to write out.
pub const ITEM_OVERHEAD_MAX: usize = HEADER + 4 + 5 + 4 + 8 + 1 + 8;

/// Flags of an item.
pub(crate) mod flag {
    /// Has an expiry.
    pub(crate) const TTL: u8 = 1;
    /// Has client flags other than zero.
    pub(crate) const CLIENT: u8 = 1 << 1;
    /// Has a CAS value of its own; otherwise its CAS is its stamp.
    pub(crate) const CAS: u8 = 1 << 2;
    /// Has a state other than zero, see `state`, or something is remembered of its key.
    pub(crate) const STATE: u8 = 1 << 3;
    /// The value is in another tier, at the reference.
    pub(crate) const TIER: u8 = 1 << 4;
    /// The index points at it no more. Set where it lies, when it no longer does.
    pub(crate) const GONE: u8 = 1 << 5;
    /// The value lies in pages of its own; a reference takes its place.
    pub(crate) const APART: u8 = 1 << 6;
    /// The key is in the tenant's own key space.
    pub(crate) const OWN_SPACE: u8 = 1 << 7;
    /// Every flag that an item is written with.
    pub(crate) const WRITTEN: u8 = TTL | CLIENT | CAS | STATE | TIER | APART | OWN_SPACE;
    const _: () = assert!(WRITTEN | GONE == u8::MAX);
}

/// What the meta commands know of an item beside its fields.
pub(crate) mod state {
    /// It is out of date and is served until it is stored again.
    pub(crate) const STALE: u8 = 1;
    /// Some client was told to store it again.
    pub(crate) const TOKEN_SENT: u8 = 1 << 1;
    /// Its key was given in base64, and is shown so.
    pub(crate) const BINARY_KEY: u8 = 1 << 2;
    /// All of them. What is remembered of the item stands above them in their byte.
    pub(super) const ALL: u8 = STALE | TOKEN_SENT | BINARY_KEY;
    pub(super) const REMEMBERED_AT: u32 = 3;
    const _: () = assert!(ALL < 1 << REMEMBERED_AT);
}

/// When an item expires: absolute seconds of the store's clock, and the level of its accounting (`expiry`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expiry {
    pub(crate) at: u32,
    pub(crate) level: u8,
}

/// Everything of an item but key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) tenant: TenantId,
    pub(crate) own_space: bool,
    pub(crate) client_flags: u32,
    pub(crate) expiry: Option<Expiry>,
    /// Explicit CAS, if it cannot be told from the stamp.
    pub(crate) cas: Option<u64>,
    /// Bits of `state`.
    pub(crate) state: u8,
    /// What ghosts remembered of its key when it was stored: 0 if nothing, else one more than the use counter that it had. Below 16.
    pub(crate) remembered: u8,
    /// Where the value is, if it is not here.
    pub(crate) away: Option<Reference>,
    /// Stamp less the segment's base.
    pub(crate) stamp: u32,
    /// The value lies in pages of its own.
    pub(crate) is_apart: bool,
}

/// The fixed part of an item, as it was when it was read.
pub(crate) type Header = [u8; HEADER];

/// A view of one item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    header: Header,
    /// Behind that.
    rest: &'a [u8],
    /// Where in `rest` the key begins.
    body: usize,
    value: &'a [u8],
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bytes of the optional fields.
#[inline]
fn optional(flags: u8, long: bool) -> usize {
    usize::from(long) * 4
        + usize::from(flags & flag::TTL != 0) * 5
        + usize::from(flags & flag::CLIENT != 0) * 4
        + usize::from(flags & flag::CAS != 0) * 8
        + usize::from(flags & flag::STATE != 0)
        + usize::from(flags & flag::TIER != 0) * REFERENCE
}

impl Meta {
    fn flags(&self) -> u8 {
        (u8::from(self.expiry.is_some()) * flag::TTL)
            | (u8::from(self.client_flags != 0) * flag::CLIENT)
            | (u8::from(self.cas.is_some()) * flag::CAS)
            | (u8::from(self.state_byte() != 0) * flag::STATE)
            | (u8::from(self.away.is_some()) * flag::TIER)
            | (u8::from(self.is_apart) * flag::APART)
            | (u8::from(self.own_space) * flag::OWN_SPACE)
    }

    fn state_byte(&self) -> u8 {
        self.state | self.remembered << state::REMEMBERED_AT
    }

    /// Bytes of the whole item, without rounding.
    pub(crate) fn item_len(&self, key_len: usize, value_len: usize) -> usize {
        let value_len = if self.away.is_some() { 0 } else { value_len };
        HEADER + optional(self.flags(), usize::from(LONG) <= value_len) + key_len + value_len
    }

    /// Writes everything before the key into `out` and returns its length.
    pub(crate) fn encode(&self, key_len: usize, value_len: usize, out: &mut [u8; 48]) -> usize {
        let value_len = if self.away.is_some() { 0 } else { value_len };
        let long = usize::from(LONG) <= value_len;
        let tenant = u16::try_from(self.tenant.0).expect("a store has at most TENANTS_MAX tenants");
        out[..2].copy_from_slice(&tenant.to_le_bytes());
        out[2] = u8::try_from(key_len).expect("keys are at most 250 bytes, checked where they are made");
        out[3] = self.flags();
        let short = u16::try_from(value_len).unwrap_or(LONG);
        out[4..6].copy_from_slice(&short.to_le_bytes());
        out[6..10].copy_from_slice(&self.stamp.to_le_bytes());
        let mut at = HEADER;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if long {
            put(&u32::try_from(value_len).expect("values are smaller than a segment").to_le_bytes());
        }
        if let Some(expiry) = self.expiry {
            put(&[expiry.level]);
            put(&expiry.at.to_le_bytes());
        }
        if self.client_flags != 0 {
            put(&self.client_flags.to_le_bytes());
        }
        if let Some(cas) = self.cas {
            put(&cas.to_le_bytes());
        }
        if self.state_byte() != 0 {
            put(&[self.state_byte()]);
        }
        if let Some(reference) = self.away {
            put(&reference.encode());
        }
        at
    }
}

/// Whether the index had ceased to point at the item of a header when that was read.
#[inline]
pub(crate) fn is_gone(header: &Header) -> bool {
    header[FLAGS_AT] & flag::GONE != 0
}

/// An item that is gone, and was nobody's: what a walk passes over.
pub(crate) const GONE: [u8; GAP] = {
    let mut item = [0; GAP];
    item[FLAGS_AT] = flag::GONE;
    #[expect(clippy::cast_possible_truncation, reason = "a gap is some bytes")]
    let value_len = ((GAP - HEADER) as u16).to_le_bytes();
    (item[4], item[5]) = (value_len[0], value_len[1]);
    item
};

/// Bytes of an item behind its header; `next_four` reads the first of them, and is called where they have the value's length.
#[inline]
pub(crate) fn len_behind(header: &Header, next_four: impl FnOnce() -> [u8; 4]) -> usize {
    let short = u16_at(header, 4);
    let long = short == LONG;
    let value = if long { u32::from_le_bytes(next_four()) as usize } else { usize::from(short) };
    optional(header[FLAGS_AT], long) + usize::from(header[2]) + value
}

impl<'a> View<'a> {
    /// The item of a header and what is behind that.
    #[inline]
    pub(crate) fn new(header: Header, rest: &'a [u8]) -> Self {
        let long = u16_at(&header, 4) == LONG;
        let body = optional(header[FLAGS_AT], long);
        Self { header, rest, body, value: &rest[body + usize::from(header[2])..] }
    }

    /// The same item with its value, which lies apart.
    pub(crate) fn with_value(self, value: &'a [u8]) -> Self {
        Self { value, ..self }
    }

    /// Where its value is, if that is in pages of its own.
    #[inline]
    pub(crate) fn apart(&self) -> Option<Apart> {
        let at = self.body + self.key_len();
        (self.flags() & flag::APART != 0)
            .then(|| Apart { first: u32_at(self.rest, at), len: u32_at(self.rest, at + 4) })
    }

    /// What it takes.
    #[inline]
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::new(self.len(), self.apart()).with_below(self.footprint())
    }

    /// Bytes in its segment.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        HEADER + self.rest.len()
    }

    /// Everything behind its header.
    pub(crate) fn behind_header(&self) -> &'a [u8] {
        self.rest
    }

    /// Its header where segments count from `base`, if nothing else of it is another there: it leads nowhere, does not expire,
    /// and the stamp can be told from the base.
    #[inline]
    pub(crate) fn plain_at(&self, stamp: u64, base: u64) -> Option<Header> {
        const OTHERS: u8 = flag::TTL | flag::CAS | flag::TIER | flag::APART | flag::GONE;
        let stamp = u32::try_from(stamp.checked_sub(base)?).ok()?;
        let mut header = self.header;
        header[6..].copy_from_slice(&stamp.to_le_bytes());
        (self.flags() & OTHERS == 0).then_some(header)
    }

    #[inline]
    fn key_len(&self) -> usize {
        usize::from(self.header[2])
    }

    #[inline]
    pub(crate) fn key(&self) -> &'a [u8] {
        &self.rest[self.body..self.body + self.key_len()]
    }

    /// The value, if it is here; empty if it is not.
    #[inline]
    pub(crate) fn value(&self) -> &'a [u8] {
        self.value
    }

    /// What stands behind the key in the segment: the value, or the reference to it.
    pub(crate) fn tail(&self) -> &'a [u8] {
        &self.rest[self.body + self.key_len()..]
    }

    /// Whether the value is in a tier.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.flags() & flag::TIER != 0
    }

    /// Where the value is, if it is not here.
    #[inline]
    pub(crate) fn away(&self) -> Option<Reference> {
        self.field(flag::TIER).map(|at| Reference::decode(&self.rest[at..at + REFERENCE]))
    }

    /// Bytes of the value, wherever it is.
    #[inline]
    pub(crate) fn value_len(&self) -> usize {
        self.away().map_or(self.value.len(), |away| away.value_len as usize)
    }

    /// Bytes of key and value, wherever that is.
    pub(crate) fn stored_len(&self) -> u64 {
        let value = self.apart().map_or(self.value_len(), |apart| apart.len as usize);
        (self.key_len() + value) as u64
    }

    /// Bytes of a tier that the item takes.
    #[inline]
    pub(crate) fn footprint(&self) -> u64 {
        self.away().map_or(0, |away| away.footprint(self.key_len()))
    }

    #[inline]
    pub(crate) fn tenant(&self) -> TenantId {
        TenantId(u32::from(u16_at(&self.header, 0)))
    }

    /// Whether the index had ceased to point at it when it was read.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        is_gone(&self.header)
    }

    #[inline]
    fn flags(&self) -> u8 {
        self.header[FLAGS_AT]
    }

    #[inline]
    pub(crate) fn own_space(&self) -> bool {
        self.flags() & flag::OWN_SPACE != 0
    }

    #[inline]
    pub(crate) fn stamp(&self) -> u32 {
        u32_at(&self.header, 6)
    }

    /// Where the optional field of `wanted` begins.
    fn field(&self, wanted: u8) -> Option<usize> {
        let flags = self.flags();
        let before = flags & (wanted - 1);
        (flags & wanted != 0).then(|| optional(before, u16_at(&self.header, 4) == LONG))
    }

    #[inline]
    pub(crate) fn expiry(&self) -> Option<Expiry> {
        let at = self.field(flag::TTL)?;
        Some(Expiry { level: self.rest[at], at: u32_at(self.rest, at + 1) })
    }

    /// When it expires; 0 if it does not.
    #[inline]
    pub(crate) fn expires_at(&self) -> u32 {
        self.field(flag::TTL).map_or(0, |at| u32_at(self.rest, at + 1))
    }

    #[inline]
    pub(crate) fn client_flags(&self) -> u32 {
        self.field(flag::CLIENT).map_or(0, |at| u32_at(self.rest, at))
    }

    pub(crate) fn cas(&self) -> Option<u64> {
        let at = self.field(flag::CAS)?;
        let low = u64::from(u32_at(self.rest, at));
        Some(low | u64::from(u32_at(self.rest, at + 4)) << 32)
    }

    /// Bits of `state`.
    #[inline]
    pub(crate) fn state(&self) -> u8 {
        self.state_byte() & state::ALL
    }

    /// What ghosts remembered of its key when it was stored (`Meta::remembered`).
    #[inline]
    pub(crate) fn remembered(&self) -> u8 {
        self.state_byte() >> state::REMEMBERED_AT
    }

    #[inline]
    fn state_byte(&self) -> u8 {
        self.field(flag::STATE).map_or(0, |at| self.rest[at])
    }

    /// Everything but key and value.
    pub(crate) fn meta(&self) -> Meta {
        Meta {
            tenant: self.tenant(),
            own_space: self.own_space(),
            client_flags: self.client_flags(),
            expiry: self.expiry(),
            cas: self.cas(),
            state: self.state(),
            remembered: self.remembered(),
            away: self.away(),
            stamp: self.stamp(),
            is_apart: self.flags() & flag::APART != 0,
        }
    }
}

/// A plain item, for tests.
#[cfg(test)]
pub(crate) const PLAIN: Meta = Meta {
    tenant: TenantId(0),
    own_space: false,
    client_flags: 0,
    expiry: None,
    cas: None,
    state: 0,
    remembered: 0,
    away: None,
    stamp: 0,
    is_apart: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(meta: Meta, key: &[u8], value: &[u8]) -> usize {
        let mut head = [0; 48];
        let len = meta.encode(key.len(), value.len(), &mut head);
        let mut bytes = head[..len].to_vec();
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        assert_eq!(bytes.len(), meta.item_len(key.len(), value.len()));
        let (header, rest) = bytes.split_first_chunk().unwrap();
        assert_eq!(len_behind(header, || *rest.first_chunk().unwrap()), rest.len());
        let view = View::new(*header, rest);
        assert_eq!((view.len(), view.is_gone()), (bytes.len(), false));
        assert_eq!(view.meta(), meta);
        assert_eq!((view.key(), view.value()), (key, value));
        bytes.len()
    }

    #[test]
    fn every_combination_of_fields_comes_back() {
        for bits in 0..64 {
            for value_len in [0, 1, 65_534, 65_535, 70_000] {
                let meta = Meta {
                    tenant: TenantId(65_000),
                    own_space: bits & 1 != 0,
                    client_flags: (bits & 2) * 77,
                    expiry: (bits & 4 != 0).then_some(Expiry { at: u32::MAX, level: 17 }),
                    cas: (bits & 8 != 0).then_some(u64::MAX - 5),
                    state: u8::from(bits & 16 != 0) * (state::STALE | state::BINARY_KEY),
                    remembered: u8::from(bits & 32 != 0) * 15,
                    away: None,
                    stamp: 0xDEAD_BEEF,
                    is_apart: false,
                };
                round_trip(meta, b"key", &vec![7; value_len]);
                let away = Reference { tier: 3, at: 1 << 40, value_len: u32::try_from(value_len).unwrap() };
                let away = Meta { away: Some(away), ..meta };
                assert!(round_trip(away, b"key", b"") <= HEADER + 21 + REFERENCE + 3);
            }
        }
    }

    #[test]
    fn a_plain_item_costs_ten_bytes() {
        let meta = Meta { tenant: TenantId(1), stamp: 1, ..PLAIN };
        assert_eq!(round_trip(meta, &[b'k'; 23], &[b'v'; 25]), 58);
    }
}
