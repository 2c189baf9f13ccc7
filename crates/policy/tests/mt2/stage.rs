//! Where the policies step: hand-written rows, and a plant of four lines.

use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Claim, Class, CpuQuota, Goal, Levers, Mba, Note, Policy, Pool, Row, Seen, Window};
use policy::bandwidth::{Axis, EmpiricalModel, Thresholds};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

pub(crate) const PERIOD: Duration = Duration::from_millis(100);
pub(crate) const GB: u64 = 1_000_000_000;

pub(crate) type Boxed = Box<dyn Policy<Signal = BandwidthSignal, Share = Throttle>>;
pub(crate) type Rows = Vec<Row<BandwidthSignal, Throttle>>;

pub(crate) fn host() -> Levers {
    Levers { mba: Some(Mba::MT2), cpu: Some(CpuQuota { most: 6000, least: 60 }), brake: Kinds::default() }
}

pub(crate) fn only<T: Default>(kind: Kind, value: T) -> Kinds<T> {
    let mut kinds = Kinds::from_fn(|_| T::default());
    *kinds.get_mut(kind) = value;
    kinds
}

pub(crate) fn gb(rate: f64) -> u64 {
    (rate * 1e9) as u64
}

pub(crate) fn cap(kind: Kind, rate_gb: f64) -> Kinds<Option<BytesPerSec>> {
    only(kind, Some(BytesPerSec(gb(rate_gb))))
}

pub(crate) fn tenant(id: u32, class: Class) -> Row<BandwidthSignal, Throttle> {
    Row {
        id: TenantId(id),
        claim: Claim { class, levers: host(), ..Claim::default() },
        signal: None,
        in_force: None,
    }
}

/// One that a brake on both kinds of slow traffic holds back, and nothing else.
pub(crate) fn braked(id: u32, class: Class) -> Row<BandwidthSignal, Throttle> {
    let mut row = tenant(id, class);
    let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::splat(false) };
    row.claim.levers = Levers { brake, ..Levers::default() };
    row
}

/// What a thread of a tenant did that read so many bytes of the slow tier, 256 at a time.
pub(crate) fn reads(bytes: u64) -> BandwidthSignal {
    BandwidthSignal {
        bytes: only(Kind::SlowRead, Bytes(bytes)),
        accesses: only(Kind::SlowRead, bytes / 256),
        threads: 1,
        ..BandwidthSignal::default()
    }
}

pub(crate) fn critical() -> Class {
    Class::Critical { goal: Goal::Bandwidth(Kinds::default()) }
}

/// Steps a policy with hand-written rows; keeps time and what is in force.
pub(crate) struct Stage {
    pub(crate) policy: Boxed,
    pub(crate) now: Instant,
    pub(crate) pool: Pool,
    pub(crate) rows: Rows,
    pub(crate) notes: Vec<Note>,
    /// Tenants whose actuators refuse.
    pub(crate) refuse: Vec<TenantId>,
}

impl Stage {
    pub(crate) fn new(
        policy: impl Policy<Signal = BandwidthSignal, Share = Throttle> + 'static,
        rows: Rows,
    ) -> Self {
        let now = Instant::ZERO;
        Self { policy: Box::new(policy), now, pool: Pool::default(), rows, notes: vec![], refuse: vec![] }
    }

    /// One period; puts what is asked in force.
    pub(crate) fn step(&mut self) {
        self.step_for(PERIOD);
    }

    pub(crate) fn step_for(&mut self, period: Duration) {
        assert_eq!(self.ask(period), (PERIOD, true));
    }

    /// One window of any length; how long the next one is to be, and whether it is no experiment.
    pub(crate) fn ask(&mut self, period: Duration) -> (Duration, bool) {
        let window = Window { start: self.now, end: self.now + period, mixed: false };
        self.now = window.end;
        let seen = Seen::new(window, &self.pool, &self.rows).unwrap();
        let decision = self.policy.decide(self.now, &seen);
        let next = (decision.wake, decision.steady);
        self.notes = decision.notes.to_vec();
        let shares: Vec<_> = decision.shares.rows().to_vec();
        for ((id, share), row) in shares.iter().zip(&mut self.rows) {
            assert_eq!(*id, row.id);
            let refused = self.refuse.contains(id);
            row.in_force = Some(if refused { row.in_force.unwrap_or_default() } else { *share });
        }
        next
    }

    /// Gives a tenant a rate of one kind over the next period.
    pub(crate) fn runs(&mut self, at: usize, kind: Kind, rate_gb: f64) {
        let bytes = only(kind, Bytes(gb(rate_gb * PERIOD.as_secs_f64())));
        self.rows[at].signal = Some(BandwidthSignal {
            bytes,
            accesses: only(kind, bytes.get(kind).0 / 256),
            threads: 6,
            ..BandwidthSignal::default()
        });
    }

    pub(crate) fn latency(&mut self, ns: Option<u64>) {
        self.pool.latency = only(Kind::SlowRead, ns.map(Duration::from_nanos));
    }

    pub(crate) fn share(&self, at: usize) -> Throttle {
        self.rows[at].in_force.unwrap()
    }

    pub(crate) fn noted(&self, word: &str) -> usize {
        self.notes.iter().filter(|note| note.reason.word() == word).count()
    }
}

pub(crate) fn thresholds() -> Thresholds {
    Thresholds::new(only(Kind::SlowRead, Some(Duration::from_nanos(1_000)))).unwrap()
}

/// Kinds that cost 1, 4, 3 and 10 of 100 GB/s per byte.
pub(crate) fn model() -> EmpiricalModel {
    let most = Kinds { dram_read: 100, dram_write: 24, slow_read: 36, slow_write: 10 };
    let axes = Kinds::from_fn(|kind| Axis::even(BytesPerSec(most.get(kind) * GB), 8).unwrap());
    let run = |wanted: Kinds<f64>| {
        let used =
            wanted.dram_read + 4.0 * wanted.dram_write + 3.0 * wanted.slow_read + 10.0 * wanted.slow_write;
        Kinds::from_fn(|kind| wanted.get(kind) * (1e11 / used.max(1e11)))
    };
    EmpiricalModel::measured(0, axes, run).unwrap()
}

/// The rate that a tenant of the toy plant makes: proportional to CPU time; MBA holds DRAM and reads back.
pub(crate) fn toy_rate(throttle: &Throttle, kind: Kind, free_gb: f64) -> f64 {
    let cpu = throttle.cpu.map_or(1.0, |cpu| f64::from(cpu) / 6000.0);
    let mba = if kind == Kind::SlowWrite { 1.0 } else { (f64::from(throttle.mba) / 60.0).min(1.0) };
    let capped = throttle.cap.get(kind).map_or(f64::INFINITY, |cap| cap.0 as f64 / 1e9);
    (free_gb * cpu * mba).min(capped)
}
