//! Generated traffic against the published statistics that it is made from.

use super::{Experiment, ExperimentError, Results, Sweep};
use crate::trace::Op;
use crate::workload::{Mix, OpShares, Pace, Phase, Tenant};
use std::collections::HashMap;
use units::mix64;

/// Experiments that need a workload only.
pub(super) const WORKLOAD: &[Experiment] = &[crate::experiment!("nyx/table_3", table_3)];

/// What was seen of one tenant.
#[derive(Default)]
struct Seen {
    requests: u64,
    gets: u64,
    key_bytes: u64,
    /// Value size by the key's hash: the table's averages are over keys.
    values: HashMap<u64, u32>,
}

/// NyxCache, Table 3: the three Twitter traces as generated tenants have their published sizes and operations.
fn table_3(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let tenants = sweep.texts("traces")?.into_iter().map(|name| tenant(sweep, name));
    let tenants: Vec<Tenant> = tenants.collect::<Result<_, _>>()?;
    let mut seen: Vec<Seen> = tenants.iter().map(|_| Seen::default()).collect();
    let pace = Pace { seed: sweep.seed, scale: 1.0, requests_per_sec: 1000 };
    let mut mix = Mix::new(tenants.clone(), pace);
    for _ in 0..sweep.count("requests")? {
        let request = mix.next_request();
        let Some(index) = tenants.iter().position(|t| t.name.as_bytes() == request.tenant) else { continue };
        let seen = &mut seen[index];
        seen.requests += 1;
        seen.gets += u64::from(request.op == Op::Get);
        seen.key_bytes += request.key.len() as u64;
        let hash = request.key.iter().fold(0, |hash, byte| mix64(hash ^ u64::from(*byte)));
        seen.values.insert(hash, request.value_bytes);
    }
    for (tenant, seen) in tenants.iter().zip(&seen) {
        let requests = seen.requests.max(1) as f64;
        let values: f64 = seen.values.values().map(|&bytes| f64::from(bytes)).sum();
        results.number(format!("{}_key_bytes", tenant.name), seen.key_bytes as f64 / requests);
        results.number(format!("{}_value_bytes", tenant.name), values / seen.values.len().max(1) as f64);
        results.number(format!("{}_get_part", tenant.name), seen.gets as f64 / requests);
    }
    Ok(())
}

fn tenant(sweep: &Sweep, name: &str) -> Result<Tenant, ExperimentError> {
    let count = |key: &str| -> Result<u32, ExperimentError> {
        u32::try_from(sweep.count(key)?).map_err(|e| ExperimentError::failed(format!("{key}: {e}")))
    };
    let get = sweep.number(&format!("{name}.get_part"))?;
    Ok(Tenant {
        name: name.to_owned(),
        key_bytes: count(&format!("{name}.key_bytes"))?,
        value_bytes_mean: sweep.number(&format!("{name}.value_bytes"))?,
        value_sigma: sweep.number("value_sigma")?,
        keys: count("keys")?,
        skew: sweep.number("skew")?,
        ops: OpShares { get, set: 1.0 - get, add: 0.0, delete: 0.0 },
        ttl_secs: 0,
        requests_per_mille: 1,
        phase: Phase::Steady,
        source: "NyxCache, Table 3".to_owned(),
    })
}
