//! The memory system at one moment: everybody's streams and throttles in, steady rates and latencies out.
//!
//! Shape:      tenants with streams and throttles -> classes -> solution -> one `Steady` per tenant
//! Cost:       O(streams) per round of the solution, which starts from the previous one

use super::class::{Class, threads_of};
use super::device::{Device, Level};
use super::history::Steady;
use super::level0;
use super::stations::{Flow, Solution};
use super::tenant::Stream;
use control::bandwidth::{Kind, Kinds, Throttle};
use units::TenantId;

/// What a tenant asks of the memory now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) id: TenantId,
    pub(super) streams: &'a [Stream],
    /// Whether each stream runs now rather than pausing between bursts.
    pub(super) on: &'a [bool],
    pub(super) throttle: Throttle,
    /// Whether its budget ran out: no access to the slow tier.
    pub(super) depleted: bool,
}

/// A memory system with its latest solution.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) device: Device,
    classes: Vec<Class>,
    /// Which stream each class is, in ascending order: solutions start from those of the same streams.
    keys: Vec<(TenantId, usize)>,
    old_keys: Vec<(TenantId, usize)>,
    old_flows: Vec<Flow>,
    solution: Solution,
    /// How much longer a slow unit takes, in the utilisation model.
    factor: f64,
}

impl Model {
    pub(super) fn new(device: Device) -> Self {
        Self {
            device,
            classes: Vec::new(),
            keys: Vec::new(),
            old_keys: Vec::new(),
            old_flows: Vec::new(),
            solution: Solution::default(),
            factor: 1.0,
        }
    }

    /// Finds the steady state of `tenants` (in the order of ids) and writes one state per tenant into `steady`.
    pub(super) fn solve<'a>(
        &mut self,
        tenants: impl Iterator<Item = Asked<'a>> + Clone,
        steady: &mut Vec<Steady>,
    ) {
        self.classify(tenants.clone());
        match self.device.level {
            Level::TwoStations => {
                self.start_near();
                self.solution.solve(&self.device, &self.classes);
            }
            Level::Utilisation => {
                self.factor = level0::solve(&self.device, &self.classes, &mut self.solution);
            }
        }
        steady.clear();
        steady.extend(tenants.clone().map(|_| Steady::default()));
        let streams: Vec<&[Stream]> = tenants.map(|asked| asked.streams).collect();
        for (class, flow) in self.classes.iter().zip(&self.solution.flows) {
            let size = streams[class.tenant][class.stream].size;
            let state = &mut steady[class.tenant];
            let accesses = flow.rate / class.units * 1e9;
            *state.bytes_per_sec.get_mut(class.kind) += flow.rate * class.unit_bytes * 1e9;
            *state.accesses_per_sec.get_mut(class.kind) += accesses;
            *state.cost.get_mut(class.kind) += accesses * self.device.cost_ps(class.kind, size) / 1e12;
            state.latencies.push((class.latency(flow.rate, flow.residence), accesses));
        }
    }

    fn classify<'a>(&mut self, tenants: impl Iterator<Item = Asked<'a>>) {
        std::mem::swap(&mut self.keys, &mut self.old_keys);
        std::mem::swap(&mut self.solution.flows, &mut self.old_flows);
        self.classes.clear();
        self.keys.clear();
        for (index, asked) in tenants.enumerate() {
            let quota = quota_of(&self.device, &asked);
            let stopped = asked.depleted || asked.throttle.paused;
            for (at, stream) in asked.streams.iter().enumerate() {
                let runs = asked.on[at] && !(stopped && stream.kind.is_slow()) && 0.0 < quota;
                if runs && 0 < threads_of(&self.device, stream) {
                    self.classes.push(Class::new(&self.device, (index, at), stream, &asked.throttle, quota));
                    self.keys.push((asked.id, at));
                }
            }
        }
    }

    /// Starts each class where its stream was in the previous solution.
    fn start_near(&mut self) {
        self.solution.flows.clear();
        let mut old = self.old_keys.iter().zip(&self.old_flows).peekable();
        for (key, class) in self.keys.iter().zip(&self.classes) {
            while old.next_if(|(known, _)| *known < key).is_some() {}
            let near = old.next_if(|(known, _)| *known == key).map(|(_, flow)| *flow);
            self.solution.flows.push(near.unwrap_or_else(|| Flow::start(class)));
        }
    }

    /// Mean latency of the medium itself now, by kind, in ns.
    pub(super) fn medium_ns(&self) -> Kinds<f64> {
        Kinds::from_fn(|kind: Kind| match self.device.level {
            Level::TwoStations => self.solution.probe_ns(&self.device, kind),
            Level::Utilisation => {
                let think = self.device.typical(kind).think_ns;
                if kind.is_slow() { think * self.factor } else { think }
            }
        })
    }
}

/// Threads that a tenant's streams keep busy.
pub(super) fn threads(device: &Device, streams: &[Stream]) -> u16 {
    streams.iter().fold(0, |sum: u16, stream| sum.saturating_add(threads_of(device, stream)))
}

/// Part of the time that a tenant's threads may run.
fn quota_of(device: &Device, asked: &Asked<'_>) -> f64 {
    asked.throttle.cpu.map_or(1.0, |cpu| {
        let wanted = f64::from(threads(device, asked.streams)) * 1000.0;
        (f64::from(cpu) / wanted.max(1.0)).min(1.0)
    })
}
