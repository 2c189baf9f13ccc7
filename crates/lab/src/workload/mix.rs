//! A generated multi-tenant mix: an endless trace.
//!
//! Shape:      tenant by its part of the requests now -> key by popularity -> op by its share -> request
//! Invariants: requests are a function of the seed, the scale, the pace and the tenants; `at` of request i is
//!             i / rate; a key's value size never changes
//! Key:        `tenant:number`, padded at the end with `.` to the tenant's key length
//! Cost:       about 150 ns per request, no allocation

use super::phase::Phase;
use super::tenant::{OpShares, Tenant, demo_tenants, out_of_range};
use super::value::ValueSizes;
use super::zipf::Zipf;
use crate::limits::{GENERATED_KEYS_MAX, KEY_BYTES_MAX};
use crate::trace::{Op, Request, TraceError, TraceReader};
use std::io::Write;
use units::{Instant, Rng};

/// How a mix is generated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Seed of all that is drawn.
    pub seed: u64,
    /// Factor on every tenant's number of keys. At 1 three million requests ask for about 192 MiB, three times
    /// 64 MiB; scale requests and memory alike.
    pub scale: f64,
    /// Requests per second of the mix's time; at least 1.
    pub requests_per_sec: u32,
}

/// The generator.
#[derive(Clone, Debug)]
pub struct Mix {
    tenants: Vec<Tenant>,
    streams: Vec<Stream>,
    rng: Rng,
    requests_per_sec: u64,
    requests_total: u64,
    key: Vec<u8>,
}

/// What is drawn from for one tenant.
#[derive(Clone, Debug)]
struct Stream {
    name: Box<[u8]>,
    key_bytes: usize,
    zipf: Zipf,
    sizes: ValueSizes,
    ops: OpShares,
    ttl_secs: u32,
    requests_per_mille: u32,
    phase: Phase,
    scanned_total: u64,
}

impl Mix {
    /// The built-in tenants.
    #[must_use]
    pub fn demo(pace: Pace) -> Self {
        Self::new(demo_tenants(), pace)
    }

    /// A mix of `tenants`.
    ///
    /// # Panics
    /// If there is no tenant, or one is out of the range that a table may state.
    #[must_use]
    pub fn new(tenants: Vec<Tenant>, pace: Pace) -> Self {
        assert!(!tenants.is_empty(), "a mix needs a tenant");
        for tenant in &tenants {
            assert_eq!(out_of_range(tenant), None, "tenant '{}' is out of range", tenant.name);
        }
        Self {
            streams: tenants.iter().map(|tenant| Stream::new(tenant, pace.scale)).collect(),
            tenants,
            rng: Rng::new(pace.seed),
            requests_per_sec: u64::from(pace.requests_per_sec.max(1)),
            requests_total: 0,
            key: Vec::with_capacity(KEY_BYTES_MAX),
        }
    }

    /// The tenants, in their table's order.
    #[must_use]
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// The next request. There is always one.
    pub fn next_request(&mut self) -> Request<'_> {
        let at = self.now();
        self.requests_total += 1;
        let chosen = choose(&self.streams, at, &mut self.rng);
        let stream = &mut self.streams[chosen];
        let number = stream.key_number(at, &mut self.rng);
        let op = stream.op(&mut self.rng);
        self.key.clear();
        self.key.extend_from_slice(&stream.name);
        // Writing to a vector cannot fail.
        let _ = write!(self.key, ":{number}");
        self.key.resize(self.key.len().max(stream.key_bytes), b'.');
        let value_bytes = stream.sizes.of((chosen as u64) << 32 | number);
        Request { at, tenant: &stream.name, key: &self.key, value_bytes, op, ttl_secs: stream.ttl_secs }
    }

    fn now(&self) -> Instant {
        let nanos = u128::from(self.requests_total) * 1_000_000_000 / u128::from(self.requests_per_sec);
        Instant(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl TraceReader for Mix {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        Ok(Some(self.next_request()))
    }
}

/// The tenant of the next request. If all are silent now, the last one.
fn choose(streams: &[Stream], now: Instant, rng: &mut Rng) -> usize {
    let weight = |stream: &Stream| u64::from(stream.requests_per_mille * stream.phase.rate(now));
    let mut drawn = rng.below(streams.iter().map(weight).sum());
    for (index, stream) in streams.iter().enumerate() {
        match drawn.checked_sub(weight(stream)) {
            Some(rest) => drawn = rest,
            None => return index,
        }
    }
    streams.len() - 1
}

impl Stream {
    fn new(tenant: &Tenant, scale: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the limits")]
        let keys = (f64::from(tenant.keys) * scale).round().clamp(1.0, f64::from(GENERATED_KEYS_MAX)) as u32;
        Self {
            name: tenant.name.as_bytes().into(),
            key_bytes: tenant.key_bytes as usize,
            zipf: Zipf::new(keys, tenant.skew),
            sizes: tenant.value_sizes(),
            ops: tenant.ops,
            ttl_secs: tenant.ttl_secs,
            requests_per_mille: tenant.requests_per_mille,
            phase: tenant.phase,
            scanned_total: 0,
        }
    }

    /// In a burst every place in the order of popularity has three keys instead of one; a scan takes keys in order.
    fn key_number(&mut self, now: Instant, rng: &mut Rng) -> u64 {
        let keys = u64::from(self.zipf.keys());
        if self.phase.is_scan(now) {
            self.scanned_total += 1;
            return (self.scanned_total - 1) % keys;
        }
        let place = u64::from(self.zipf.draw(rng));
        if self.phase.is_burst(now) {
            place + keys * rng.below(u64::from(Phase::BURST_FACTOR))
        } else {
            place
        }
    }

    fn op(&self, rng: &mut Rng) -> Op {
        let drawn = rng.unit();
        let OpShares { set, add, delete, .. } = self.ops;
        if drawn < set {
            Op::Set
        } else if drawn < set + add {
            Op::Add
        } else if drawn < set + add + delete {
            Op::Delete
        } else {
            Op::Get
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::VALUE_BYTES_MAX;
    use crate::reference::{Gdsf, Lru, Reference, Tally, apply, look_aside};
    use std::collections::HashMap;
    use units::Bytes;

    const PACE: Pace = Pace { seed: 1, scale: 0.05, requests_per_sec: 5_000 };

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let requests = |seed| {
            let mut mix = Mix::demo(Pace { seed, ..PACE });
            (0..1_000).map(|_| format!("{:?}", mix.next_request())).collect::<Vec<_>>()
        };
        assert_eq!(requests(1), requests(1));
        assert_ne!(requests(1), requests(2));
    }

    #[test]
    fn requests_are_fit_for_the_wire_and_sizes_belong_to_keys() {
        let mut mix = Mix::demo(PACE);
        let lengths: HashMap<_, _> =
            mix.tenants().iter().map(|t| (t.name.clone(), t.key_bytes as usize)).collect();
        let mut sizes = HashMap::new();
        for i in 0..200_000_u64 {
            let r = mix.next_request();
            assert_eq!(r.at, Instant(i * 200_000));
            let name = std::str::from_utf8(r.tenant).unwrap();
            assert!(r.key.starts_with(format!("{name}:").as_bytes()));
            assert_eq!(r.key.len(), lengths[name]);
            assert!(0 < r.value_bytes && r.value_bytes <= VALUE_BYTES_MAX);
            assert_eq!(*sizes.entry(r.key.to_vec()).or_insert(r.value_bytes), r.value_bytes);
        }
    }

    #[test]
    fn tenants_come_and_burst_as_their_phase_says() {
        let second = |at: Instant| usize::try_from(at.whole_secs()).unwrap();
        let mut mix = Mix::demo(PACE);
        let mut per_second: HashMap<String, Vec<u32>> = HashMap::new();
        for _ in 0..40 * 5_000 {
            let r = mix.next_request();
            let name = String::from_utf8_lossy(r.tenant).into_owned();
            per_second.entry(name).or_insert_with(|| vec![0; 40])[second(r.at)] += 1;
        }
        for tenant in demo_tenants() {
            let counts = &per_second[&tenant.name];
            match tenant.phase {
                Phase::Late { after } => {
                    let arrival = second(Instant::ZERO + after);
                    assert_eq!(counts[..arrival].iter().sum::<u32>(), 0);
                    assert!(counts[arrival] > 0);
                }
                Phase::Burst { period, .. } => {
                    let end = second(Instant::ZERO + period);
                    assert!(counts[end - 1] > 2 * counts[end], "{counts:?}");
                }
                Phase::Steady | Phase::Scan { .. } => assert!(counts.iter().all(|&n| n > 0), "{counts:?}"),
            }
        }
    }

    /// A minute at a tenth of the size.
    const TENTH: Pace = Pace { seed: 1, scale: 0.1, requests_per_sec: 5_000 };
    const REQUESTS: u64 = 60 * 5_000;

    #[test]
    fn the_footprint_is_three_times_64_mib() {
        let mut unbounded = Lru::new(Bytes(u64::MAX), Bytes(48));
        look_aside(&mut Mix::demo(TENTH), &mut unbounded, REQUESTS).unwrap();
        let of_192_mib = unbounded.held().0 as f64 / Bytes::mib(192).scale(1, 10).0 as f64;
        assert!((0.9..1.1).contains(&of_192_mib), "{of_192_mib}");
    }

    /// What the mix is for: one memory for all beats equal parts, with either order of eviction.
    #[test]
    fn sharing_gains_over_a_static_partition() {
        let memory = Bytes::mib(64).scale(1, 10);
        check_gain(0.003, memory, |memory| Box::new(Lru::new(memory, Bytes(48))));
        check_gain(0.02, memory, |memory| Box::new(Gdsf::new(memory, Bytes(48))));
    }

    #[track_caller]
    fn check_gain(gain_min: f64, memory: Bytes, cache: fn(Bytes) -> Box<dyn Reference>) {
        let shared = look_aside(&mut Mix::demo(TENTH), &mut *cache(memory), REQUESTS).unwrap().hit_ratio();
        let mut mix = Mix::demo(TENTH);
        let part = memory.scale(1, mix.tenants().len() as u64);
        let mut parts: HashMap<Vec<u8>, Box<dyn Reference>> = HashMap::new();
        let mut tally = Tally::default();
        for _ in 0..REQUESTS {
            let r = mix.next_request();
            let cache = parts.entry(r.tenant.to_vec()).or_insert_with(|| cache(part));
            tally.count(r.op, apply(&r, &mut **cache));
        }
        let divided = tally.hit_ratio();
        println!("shared {shared:.4}, divided {divided:.4}");
        assert!(divided + gain_min < shared, "shared {shared:.4}, divided {divided:.4}");
    }
}
