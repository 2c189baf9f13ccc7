//! The two-station model: how many units per nanosecond get through when everybody queues at the medium and at the memory
//! controller.
//!
//! Shape:      classes -> rate and residence of each, by Bard–Schweitzer approximate mean value analysis
//! Invariants: what waits at a station never exceeds what is under way, so utilisation stays at most 1; a paced client
//!             delivers what it offers or less
//! Units:      nanoseconds, units per nanosecond
//! Cost:       O(classes) per round: the queues are summed once and shared. Tens of rounds from a solution near by, some
//!             hundreds from nothing
//! Source:     Bard and Schweitzer's approximation with a batch term for writes of the medium; the calibration's reference
//!             program does fixed 900 rounds and treats paced clients as open without bound. We stop when nothing changes,
//!             cap paced clients by their threads (offered load beyond the medium's limit is not delivered), count a
//!             braked writer by the time that it writes, and add caps and CPU quotas.

use super::class::Class;
use super::device::Device;
use control::bandwidth::Kind;

/// Part of a round's result that is taken over.
const DAMPING: f64 = 0.5;
/// The same where that does not settle (kinks of the batch term and of caps).
const DAMPING_SLOW: f64 = 0.1;
/// Rounds before damping grows, and before it ends.
const ROUNDS: (u32, u32) = (2_000, 20_000);
/// Largest relative change of a round that counts as settled; the error left is some tens of it.
const SETTLED: f64 = 1e-8;

/// A class in a solution.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Flow {
    /// Units per ns.
    pub(super) rate: f64,
    /// Units waiting or served at each station while its threads run.
    pub(super) queue: [f64; 2],
    /// Time of a unit at both stations, in ns.
    pub(super) residence: f64,
}

/// What all queues amount to.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// Time that is queued at each station, in ns.
    wait: [f64; 2],
    /// How much longer writes of the medium take.
    contention: f64,
}

/// A steady state of the memory system.
#[derive(Clone, Debug, Default)]
pub(super) struct Solution {
    pub(super) flows: Vec<Flow>,
    backlog: Backlog,
    free: Vec<f64>,
    /// Rounds that it took.
    pub(super) rounds: u32,
}

impl Flow {
    /// Where a class starts without a solution near by.
    pub(super) fn start(class: &Class) -> Self {
        let queue = if class.offered.is_some() { 0.1 } else { class.population() / 3.0 };
        Self { rate: 0.0, queue: [queue; 2], residence: class.demand.iter().sum() }
    }
}

impl Solution {
    /// Solves for `classes`, starting from `self.flows`, one per class.
    pub(super) fn solve(&mut self, device: &Device, classes: &[Class]) {
        self.rounds = 0;
        while self.rounds < ROUNDS.1 {
            let damping = if self.rounds < ROUNDS.0 { DAMPING } else { DAMPING_SLOW };
            let change = self.round(device, classes, damping);
            self.rounds += 1;
            if change < SETTLED {
                break;
            }
        }
        self.backlog = backlog(device, classes, &self.flows);
    }

    /// One round; returns the largest relative change.
    fn round(&mut self, device: &Device, classes: &[Class], damping: f64) -> f64 {
        let backlog = backlog(device, classes, &self.flows);
        let flows = &self.flows;
        self.free.clear();
        self.free.extend(classes.iter().zip(flows).map(|(class, flow)| {
            let residence: f64 = residences(device, class, flow, backlog).iter().sum();
            free_rate(class, residence)
        }));
        let mut change = 0.0_f64;
        for (i, class) in classes.iter().enumerate() {
            let rate = self.free[i] * cap_part(i, classes, &self.free);
            let flow = &mut self.flows[i];
            let residences = residences(device, class, flow, backlog);
            let running = rate / class.running.max(f64::MIN_POSITIVE);
            let mut settle = |old: &mut f64, new: f64, scale: f64| {
                change = change.max((new - *old).abs() / scale.max(1e-12));
                *old += damping * (new - *old);
            };
            settle(&mut flow.rate, rate, rate.max(1e-9));
            for (queue, residence) in flow.queue.iter_mut().zip(residences) {
                let new = running * residence;
                settle(queue, new, new.max(1e-3));
            }
            flow.residence = residences.iter().sum();
        }
        change
    }

    /// Time that a unit of `kind` takes now from its start to its end if one more comes, in ns.
    pub(super) fn probe_ns(&self, device: &Device, kind: Kind) -> f64 {
        let client = *device.typical(kind);
        let demand = device.demand(kind, units::Bytes(256));
        let contention = if kind == Kind::SlowWrite { self.backlog.contention.max(1.0) } else { 1.0 };
        let media = if kind.is_slow() { demand[0] * contention + self.backlog.wait[0] } else { 0.0 };
        client.think_ns + media + demand[1] + self.backlog.wait[1] * client.bus_wait
    }

    /// How busy the medium and the controller are, 0..=1.
    #[cfg(test)]
    pub(super) fn utilisation(&self, classes: &[Class]) -> [f64; 2] {
        [0, 1].map(|k| {
            let busy =
                |(class, flow): (&Class, &Flow)| flow.rate * demand_at(class, k, self.backlog.contention);
            classes.iter().zip(&self.flows).map(busy).sum()
        })
    }
}

fn demand_at(class: &Class, station: usize, contention: f64) -> f64 {
    let writes_media = station == 0 && class.kind == Kind::SlowWrite;
    class.demand[station] * if writes_media { contention } else { 1.0 }
}

/// Sums what is queued. A unit that arrives also meets the rest of a batch of writes that is leaving.
fn backlog(device: &Device, classes: &[Class], flows: &[Flow]) -> Backlog {
    let writers = classes.iter().zip(flows).filter(|(class, _)| class.kind == Kind::SlowWrite);
    let contention = device.contention(writers.map(|(class, flow)| busy_writers(class, flow)).sum());
    let mut wait = [0.0; 2];
    for (class, flow) in classes.iter().zip(flows) {
        for (station, wait) in wait.iter_mut().enumerate() {
            let demand = demand_at(class, station, contention);
            let batch = leaving_batch(device, class, flow, station, demand);
            *wait += class.running * (flow.queue[station] * demand + batch);
        }
    }
    Backlog { wait, contention }
}

/// Time that a unit waits on average for the rest of a batch of writes that is leaving for the medium, while the class runs.
fn leaving_batch(device: &Device, class: &Class, flow: &Flow, station: usize, demand: f64) -> f64 {
    if station != 0 || class.kind != Kind::SlowWrite {
        return 0.0;
    }
    let busy = flow.rate / class.running.max(f64::MIN_POSITIVE) * demand;
    busy.min(1.0) * (device.system.batch - 1.0) * demand * 0.5
}

/// Threads of a closed loop that are writing rather than held back. Paced writers count none, as they were calibrated.
fn busy_writers(class: &Class, flow: &Flow) -> f64 {
    if class.offered.is_some() {
        return 0.0;
    }
    let writing = flow.rate * (class.think + flow.residence) / class.outstanding;
    writing.min(class.threads)
}

/// Time of a unit at each station.
fn residences(device: &Device, class: &Class, flow: &Flow, backlog: Backlog) -> [f64; 2] {
    [0, 1].map(|k| {
        let demand = demand_at(class, k, backlog.contention);
        if demand <= 0.0 {
            return 0.0;
        }
        // While it runs it meets the others on average, but all of its own queue and batches.
        let (own, batch) = (flow.queue[k] * demand, leaving_batch(device, class, flow, k, demand));
        let others = backlog.wait[k] - class.running * (own + batch);
        let wait = others + class.own_part() * own + batch;
        demand + wait.max(0.0) * if k == 1 { class.bus_wait } else { 1.0 }
    })
}

/// Units per ns without a cap.
pub(super) fn free_rate(class: &Class, residence: f64) -> f64 {
    let closed = class.population() / (class.outside() + residence);
    class.running * class.offered.map_or(closed, |offered| offered.min(closed))
}

/// What a cap lets through of a class: the same part of every stream of its tenant and kind. A tenant's classes are
/// neighbours.
pub(super) fn cap_part(i: usize, classes: &[Class], free: &[f64]) -> f64 {
    let Class { tenant, kind, cap: Some(cap), .. } = classes[i] else { return 1.0 };
    let first = classes[..i].iter().rposition(|class| class.tenant != tenant).map_or(0, |before| before + 1);
    let own = classes[first..].iter().zip(&free[first..]).take_while(|(class, _)| class.tenant == tenant);
    let same = own.filter(|(class, _)| class.kind == kind);
    let all: f64 = same.map(|(class, free)| free * class.unit_bytes).sum();
    if all <= cap { 1.0 } else { cap / all }
}
