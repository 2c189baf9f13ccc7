//! A stream under its throttle, as the queueing model takes it: population, think time, demand at the two stations.
//!
//! Shape:      device, stream, throttle in force -> `Class`
//! Units:      nanoseconds; units (256 B of a slow tier, 64 B of DRAM) per nanosecond
//! Source:     the two-station model; NyxCache §3.3 for the brake: a busy loop before each access, so that a thread's time
//!             per access grows by exactly the delay

use super::device::Device;
use super::levers::{mba_delay_ns, quota_part};
use super::tenant::{Load, Stream};
use control::bandwidth::{Kind, Throttle};

/// Threads that a paced client has at least: it stops being paced when all of them wait. A socket's cores (guess; 8 to 64
/// change no point of the calibration).
const PACED_THREADS: f64 = 16.0;
/// Nanoseconds of one step of the brake.
const BRAKE_STEP_NS: f64 = 10.0;

/// Every constant of the streams with its name: what is frozen.
#[cfg(test)]
pub(super) const CONSTANTS: [(&str, f64); 2] =
    [("paced.threads", PACED_THREADS), ("brake.step_ns", BRAKE_STEP_NS)];

/// A stream as the model solves it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Class {
    /// Index of its tenant in the machine's order.
    pub(super) tenant: usize,
    /// Index of the stream in its tenant.
    pub(super) stream: usize,
    pub(super) kind: Kind,
    /// Useful bytes of one unit.
    pub(super) unit_bytes: f64,
    /// Units of one access.
    pub(super) units: f64,
    /// Time at the medium without contention, and at the controller.
    pub(super) demand: [f64; 2],
    /// How much of the controller's queue it sees.
    pub(super) bus_wait: f64,
    /// Units under way at most, per thread.
    pub(super) outstanding: f64,
    /// Threads: those that it has, or those that a paced client may use.
    pub(super) threads: f64,
    /// Time of a unit outside of both stations.
    pub(super) think: f64,
    /// Time that a thread spends between two accesses on purpose: brake and computation.
    pub(super) between: f64,
    /// The brake's part of it.
    pub(super) brake: f64,
    /// Units per ns that a paced client offers; none for a closed loop.
    pub(super) offered: Option<f64>,
    /// Part of the time that its threads run.
    pub(super) running: f64,
    /// What the operator's cap lets through of the tenant's traffic of this kind, bytes per ns.
    pub(super) cap: Option<f64>,
}

/// Threads that a stream keeps busy: those of a closed loop, or as many as a paced client needs on an empty machine.
#[must_use]
pub(super) fn threads_of(device: &Device, stream: &Stream) -> u16 {
    match stream.load {
        Load::Closed { threads } | Load::Thinking { threads, .. } | Load::Bursts { threads, .. } => threads,
        Load::Open { per } | Load::OpenBursts { per, .. } => {
            let interval = interval_alone(device, stream);
            let needed = (per.0 as f64 / 1e9 * interval / stream.size.0.max(1) as f64).ceil();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to u16")]
            let needed = needed.clamp(1.0, f64::from(u16::MAX)) as u16;
            needed
        }
    }
}

/// Time between two completions of one thread on an empty machine, in ns.
fn interval_alone(device: &Device, stream: &Stream) -> f64 {
    let client = device.client(stream.kind, stream.size);
    let demand = device.demand(stream.kind, stream.size);
    let units = stream.size.0.max(1) as f64 / Device::unit(stream.kind);
    units * (client.think_ns + demand[0] + demand[1]) / client.outstanding
}

impl Class {
    /// The class of a stream; `quota` is the part of the time that its tenant's threads may run.
    pub(super) fn new(
        device: &Device,
        (tenant, stream_index): (usize, usize),
        stream: &Stream,
        throttle: &Throttle,
        quota: f64,
    ) -> Self {
        let kind = stream.kind;
        let client = device.client(kind, stream.size);
        let brake = if kind.is_slow() { f64::from(throttle.delay) * BRAKE_STEP_NS } else { 0.0 };
        let computing = match stream.load {
            Load::Thinking { think, .. } => think.0 as f64,
            _ => 0.0,
        };
        let mut class = Self {
            tenant,
            stream: stream_index,
            kind,
            unit_bytes: Device::unit(kind),
            units: stream.size.0.max(1) as f64 / Device::unit(kind),
            demand: device.demand(kind, stream.size),
            bus_wait: client.bus_wait,
            outstanding: client.outstanding,
            threads: f64::from(threads_of(device, stream)),
            think: client.think_ns + mba_delay_ns(throttle.mba, kind),
            between: brake + computing,
            brake,
            offered: None,
            running: quota_part(quota),
            cap: throttle.cap.get(kind).map(|cap| cap.0 as f64 / 1e9),
        };
        if let Load::Open { per } | Load::OpenBursts { per, .. } = stream.load {
            class.pace(per.0 as f64 / 1e9 / class.unit_bytes, interval_alone(device, stream));
        }
        class
    }

    /// Makes it a paced client: offers `offered`, as far as its own threads get through the brake.
    fn pace(&mut self, offered: f64, interval_alone: f64) {
        let through = if 0.0 < self.brake {
            self.threads * self.units / (interval_alone + self.brake)
        } else {
            f64::INFINITY
        };
        self.offered = Some(offered.min(through));
        self.threads = self.threads.max(PACED_THREADS);
        self.between = 0.0;
    }

    /// Units under way at most.
    pub(super) fn population(&self) -> f64 {
        self.threads * self.outstanding
    }

    /// Time of a unit's cycle that is spent outside of the stations, in ns.
    pub(super) fn outside(&self) -> f64 {
        self.think + self.between * self.outstanding / self.units
    }

    /// Part of its own queue that an arriving unit finds: all but itself in a closed loop.
    pub(super) fn own_part(&self) -> f64 {
        if self.offered.is_some() { 1.0 } else { (1.0 - 1.0 / self.population()).max(0.0) }
    }

    /// Mean latency of an access, in ns, when `rate` units per ns come through and a unit spends `residence` ns at the
    /// stations: the access itself, its brake, and what it waits for a cap, a quota or the other accesses of a client that
    /// offers more than gets through.
    pub(super) fn latency(&self, rate: f64, residence: f64) -> f64 {
        let cycle = self.think + residence;
        let access = cycle * (self.units / self.outstanding).max(1.0);
        let interval = self.units * cycle / self.outstanding;
        let paced = self.offered.is_some_and(|offered| offered * self.running * (1.0 - 1e-6) <= rate);
        if rate <= 0.0 || paced {
            return access + self.brake;
        }
        let waited = self.units * self.threads / rate - interval - self.between;
        access + self.brake + waited.max(0.0)
    }
}
