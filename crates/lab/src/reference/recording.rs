//! A trace in memory, 16 bytes per request, so that many simulators replay it and none reads it again.
//!
//! Shape:      reader -> accesses (hash, bytes, tenant, op) -> any number of replays
//! Invariants: a replay does what `look_aside` does with the reader
//! Units:      bytes of an access are key and value, or the unit size

use super::Reference;
use super::look_aside::{Tally, act};
use crate::trace::{Op, TraceError, TraceReader};
use std::collections::{HashMap, HashSet};
use units::Bytes;

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Hash of the key.
    pub key_hash: u64,
    /// Key and value, or the unit size.
    pub bytes: u32,
    /// Number of the tenant, by first appearance.
    pub tenant: u16,
    /// What is asked.
    pub op: Op,
}

const _: () = assert!(size_of::<Access>() == 16);

/// A trace in memory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recording {
    /// Every request, in order.
    pub accesses: Vec<Access>,
    /// Names of the tenants, by number.
    pub tenants: Vec<String>,
}

impl Recording {
    /// Reads up to `requests_max` requests; with a unit size every item has that.
    ///
    /// # Errors
    /// What the reader says.
    ///
    /// # Panics
    /// If there are more than 65,536 tenants.
    pub fn read(
        reader: &mut dyn TraceReader,
        requests_max: u64,
        unit: Option<u32>,
    ) -> Result<Self, TraceError> {
        let mut numbers: HashMap<Vec<u8>, u16> = HashMap::new();
        let mut recording = Self::default();
        while (recording.accesses.len() as u64) < requests_max
            && let Some(request) = reader.next()?
        {
            let tenant = numbers.get(request.tenant).copied().unwrap_or_else(|| {
                recording.tenants.push(String::from_utf8_lossy(request.tenant).into_owned());
                let number = u16::try_from(numbers.len()).expect("a recording has at most 65,536 tenants");
                numbers.insert(request.tenant.to_vec(), number);
                number
            });
            let key_hash = rapidhash::v3::rapidhash_v3(request.key);
            let key_bytes = u32::try_from(request.key.len()).unwrap_or(u32::MAX);
            let bytes = unit.unwrap_or(request.value_bytes.saturating_add(key_bytes));
            recording.accesses.push(Access { key_hash, bytes, tenant, op: request.op });
        }
        Ok(recording)
    }

    /// Replays all of it through `cache`.
    pub fn replay(&self, cache: &mut dyn Reference) -> Tally {
        let mut tally = Tally::default();
        for access in &self.accesses {
            cache.tenant(access.tenant);
            let hit = act(access.op, access.key_hash, access.bytes, cache);
            tally.count(access.op, hit);
        }
        tally
    }

    /// Distinct keys, and what they take together at their first size with `per_item` each.
    #[must_use]
    pub fn footprint(&self, per_item: Bytes) -> (u64, Bytes) {
        let mut seen = HashSet::new();
        let new = self.accesses.iter().filter(|access| seen.insert(access.key_hash));
        let (items, bytes) = new
            .fold((0, 0), |(items, bytes), access| (items + 1, bytes + u64::from(access.bytes) + per_item.0));
        (items, Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Lru, look_aside};
    use crate::trace::open_reader;

    const TEXT: &str = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n0,a,k,5,10,get,0\n0,b,k,5,20,get,0\n\
                        0,a,k,5,10,get,0\n0,a,k,5,10,delete,0\n0,a,k,5,10,get,0\n0,b,l,5,9,incr,0\n";

    #[test]
    fn a_replay_from_memory_equals_one_from_the_reader() {
        let open = || open_reader(Box::new(TEXT.as_bytes()), "t", None).unwrap();
        let recording = Recording::read(&mut *open(), u64::MAX, None).unwrap();
        let (mut from_memory, mut from_reader) =
            (Lru::new(Bytes(99), Bytes(9)), Lru::new(Bytes(99), Bytes(9)));
        let tally = recording.replay(&mut from_memory);
        assert_eq!(tally, look_aside(&mut *open(), &mut from_reader, u64::MAX).unwrap());
        assert_eq!(tally, Tally { requests: 6, gets: 4, hits: 1 });
        assert_eq!(from_memory.held(), from_reader.held());
        assert_eq!(recording.tenants, ["a", "b"]);
        assert_eq!(recording.footprint(Bytes(1)), (3, Bytes(15 + 25 + 14 + 3)));
    }

    #[test]
    fn a_unit_size_replaces_every_size() {
        let mut reader = open_reader(Box::new(TEXT.as_bytes()), "t", None).unwrap();
        let recording = Recording::read(&mut *reader, 4, Some(7)).unwrap();
        assert!(recording.accesses.len() == 4 && recording.accesses.iter().all(|access| access.bytes == 7));
    }
}
