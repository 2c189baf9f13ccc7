//! The shadow queue of the whole store: its hits are the gradient of the tenant's curve (M4).

use crate::rig::Rig;
use lab::{Op, Request};
use units::{Bytes, Instant, Rng, TenantId};

/// By how much hits may differ from the gradient.
const TOLERANCE: f64 = 0.1;
const MEMORY: Bytes = Bytes::mib(16);
const KEYS: u64 = 60_000;
const VALUE_BYTES: u32 = 500;
/// What a shadow queue represents (`store::limits`).
const REPRESENTS: Bytes = store::limits::SHADOW_REPRESENTS;

/// A tenant that asks uniformly for K keys, of which the memory holds a part: of all look-ups, those that a shadow queue
/// of S items hits are S / K, whatever the memory holds. Measured over ten turnovers of the memory, after ten more.
#[test]
fn m4_shadow_hits_of_the_store_follow_the_gradient() {
    for seed in 1..=3 {
        let tenant = TenantId(0);
        let mut rig = Rig::new(MEMORY, "partitioned", &[("uniform".to_owned(), Bytes::ZERO)]);
        let mut rng = Rng::new(seed);
        let mut look_up = |rig: &mut Rig, at: u64| {
            let key = format!("{seed:04}{:016}", rng.below(KEYS));
            let (at, value_bytes) = (Instant(at * 10_000), VALUE_BYTES);
            let request =
                Request { at, tenant: b"", key: key.as_bytes(), value_bytes, op: Op::Get, ttl_secs: 0 };
            rig.run(tenant, &request);
        };
        let turnovers = |rig: &Rig, from: u64| {
            let state = rig.store.tenant_state(tenant).unwrap();
            (rig.store.totals(tenant).evictions - from) / state.items.max(1)
        };
        let mut requests = 0;
        while turnovers(&rig, 0) < 10 {
            look_up(&mut rig, requests);
            requests += 1;
        }
        let before = rig.store.totals(tenant);
        while turnovers(&rig, before.evictions) < 10 {
            look_up(&mut rig, requests);
            requests += 1;
        }
        let window = rig.store.totals(tenant).since(&before);
        let state = rig.store.tenant_state(tenant).unwrap();
        let held_part = state.items as f64 / KEYS as f64;
        let charge = state.held.0 as f64 / state.items as f64;
        let gets = window.get_hits + window.get_misses;
        let (ours, gradient) =
            (window.shadow_hits as f64 / gets as f64, REPRESENTS.0 as f64 / charge / KEYS as f64);
        println!(
            "seed {seed}: {ours:.4} for {gradient:.4}, {held_part:.2} of the keys held, {requests} requests"
        );
        assert!(0.2 < held_part && held_part < 0.8, "seed {seed}: {held_part}");
        assert!((ours / gradient - 1.0).abs() < TOLERANCE, "seed {seed}: {ours:.4} for {gradient:.4}");
    }
}
