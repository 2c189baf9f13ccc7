//! The two-station model solved while it runs: what everybody did lately decides how long an access takes now.
//!
//! Shape:      accesses are counted as they come; once per round the counts become rates, and rates become the wait at the
//!             medium and at the memory controller that each kind of access meets from then on
//! Invariants: state is shared: who accesses lengthens everybody's accesses. What waits for a kind never exceeds what its
//!             threads have under way. Time is handed in and need not be real
//! Units:      nanoseconds; units (256 B of a slow tier, 64 B of DRAM) per nanosecond
//! Cost:       five additions to counters of the thread's stripe and a table's row per access; one thread solves a round
//! Source:     algorithm of `lab/src/machine/stations.rs` (Bard–Schweitzer mean values with a batch term) with measured rates
//!             in place of solved ones: threads that wait as long as the model says are the model's closed clients
//! Failure:    a thread that does not run does not count; what was measured then is what happened

use crate::Access;
use crate::model::{Client, LINE, MemorySystem};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::{Bytes, Duration, Instant};

/// Length of a round. Guess: long enough for a hundred accesses of a thread, short beside any policy's tick (5 to 200 µs
/// change no check).
pub const ROUND: Duration = Duration::from_micros(20);
/// Part of a round's result that is taken over.
const DAMPING: f64 = 0.2;
/// Rounds without an access after which the past says nothing.
const FORGOTTEN: u64 = 32;
/// Threads of one kind that count at most, so that accesses that nobody waits for stay finite. Guess: more than a socket's
/// cores.
const BUSY_MAX: f64 = 64.0;
/// Sizes that have a row of their own: multiples of a line up to 4 KiB.
const ROWS: usize = 64;
/// Counters are kept apart for so many threads; more share them.
const STRIPES: usize = 64;
/// Four kinds of traffic.
const KINDS: usize = 4;

/// A memory system that is in use.
#[derive(Debug)]
pub struct Stations {
    system: MemorySystem,
    round: Duration,
    rows: Box<[[Row; ROWS]; KINDS]>,
    stripes: Box<[Stripe; STRIPES]>,
    /// When the round ends, in ns.
    round_end: AtomicU64,
    waits: [Wait; KINDS],
    /// How much longer a write of the medium takes, as the bits of an `f64`.
    contention: AtomicU64,
    solver: Mutex<Solver>,
}

/// What an access of one kind and size asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// Units of the access.
    units: f64,
    /// Time of a unit at the medium, without contention, and at the controller.
    demand: [f64; 2],
    /// Time of a unit outside of both.
    think: f64,
    /// Units that a thread has under way.
    outstanding: f64,
}

/// What a kind of access waits at each station, as the bits of an `f64`.
#[derive(Debug, Default)]
struct Wait([AtomicU64; 2]);

/// Sums over the accesses of some threads.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe([Sums; KINDS]);

/// Sums over accesses of one kind.
#[derive(Debug, Default)]
struct Sums {
    bytes: AtomicU64,
    media_ps: AtomicU64,
    bus_ps: AtomicU64,
    held_ps: AtomicU64,
    /// Units under way × time held, in ps.
    under_way_ps: AtomicU64,
}

/// What one round measured of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Units per ns.
    rate: f64,
    /// Time of a unit at each station, without contention.
    demand: [f64; 2],
    /// Threads that it kept busy.
    busy: f64,
    /// Units under way at most.
    population: f64,
}

#[derive(Debug, Default)]
struct Solver {
    solved_at: Instant,
    seen: [[u64; 5]; KINDS],
    flows: [Flow; KINDS],
    /// Units waiting or served at each station.
    queues: [[f64; 2]; KINDS],
}

/// What an access takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    /// How long the thread is held: the time between its completions.
    pub held_ns: f64,
    /// From start to end. A thread that overlaps accesses is held for less.
    pub latency_ns: f64,
}

impl Stations {
    /// An idle `system`.
    #[must_use]
    pub fn new(system: MemorySystem) -> Self {
        Self::in_rounds(system, ROUND)
    }

    /// The same in rounds of another length.
    #[must_use]
    pub fn in_rounds(system: MemorySystem, round: Duration) -> Self {
        let row = |access: Access, i: usize| Row::new(&system, access, Bytes(LINE * (i as u64 + 1)));
        let rows = Access::ALL.map(|access| std::array::from_fn(|i| row(access, i)));
        Self {
            system,
            round,
            rows: Box::new(rows),
            stripes: Box::new(std::array::from_fn(|_| Stripe::default())),
            round_end: AtomicU64::new(0),
            waits: std::array::from_fn(|_| Wait::default()),
            contention: AtomicU64::new(1.0_f64.to_bits()),
            solver: Mutex::new(Solver::default()),
        }
    }

    /// Its constants.
    #[must_use]
    pub fn system(&self) -> &MemorySystem {
        &self.system
    }

    /// Counts an access that begins at `now` and says what it takes.
    #[inline]
    pub fn access(&self, now: Instant, access: Access, size: Bytes) -> Timing {
        self.accesses(now, access, size, 1)
    }

    /// Counts several accesses that begin at `now` and says what each takes.
    #[inline]
    pub fn accesses(&self, now: Instant, access: Access, size: Bytes, count: u32) -> Timing {
        if self.round_end.load(Relaxed) <= now.0 {
            self.solve(now);
        }
        let row = self.row(access, size);
        let timing = self.timing(access, &row);
        self.count(access, size, &row, timing.held_ns, count);
        timing
    }

    /// Bytes of a kind that were accessed so far.
    #[cfg(test)]
    pub(super) fn bytes(&self, access: Access) -> u64 {
        self.seen()[access as usize][0]
    }

    fn row(&self, access: Access, size: Bytes) -> Row {
        let line = size.0.max(1).div_ceil(LINE);
        match self.rows[access as usize].get(usize::try_from(line - 1).unwrap_or(usize::MAX)) {
            Some(row) if size.0.is_multiple_of(LINE) => *row,
            _ => Row::new(&self.system, access, size),
        }
    }

    fn timing(&self, access: Access, row: &Row) -> Timing {
        let load = |bits: &AtomicU64| f64::from_bits(bits.load(Relaxed));
        let kind = access as usize;
        let contention = if access == Access::SlowWrite { load(&self.contention) } else { 1.0 };
        let media =
            row.demand[0] * contention + if access.is_slow() { load(&self.waits[kind].0[0]) } else { 0.0 };
        let bus = row.demand[1] + load(&self.waits[kind].0[1]);
        let cycle = row.think + media + bus;
        let held_ns = cycle * row.units / row.outstanding;
        Timing { held_ns, latency_ns: cycle * (row.units / row.outstanding).max(1.0) }
    }

    fn count(&self, access: Access, size: Bytes, row: &Row, held_ns: f64, count: u32) {
        let sums = &self.stripes[stripe()].0[access as usize];
        sums.bytes.fetch_add(size.0.max(1).saturating_mul(u64::from(count)), Relaxed);
        let count = f64::from(count);
        let add = |sum: &AtomicU64, value: f64| sum.fetch_add(rounded(value * count), Relaxed);
        add(&sums.media_ps, row.demand[0] * row.units * 1e3);
        add(&sums.bus_ps, row.demand[1] * row.units * 1e3);
        add(&sums.held_ps, held_ns * 1e3);
        add(&sums.under_way_ps, held_ns * row.outstanding * 1e3);
    }

    /// Ends the round, unless another thread does.
    #[cold]
    fn solve(&self, now: Instant) {
        let Ok(mut solver) = self.solver.try_lock() else { return };
        let passed = now.since(solver.solved_at);
        if passed < self.round {
            return;
        }
        let seen = self.seen();
        solver.measure(&seen, passed);
        solver.queue(&self.system, passed.0 as f64 / self.round.0 as f64);
        solver.solved_at = now;
        self.publish(&solver);
        self.round_end.store((now + self.round).0, Relaxed);
    }

    fn seen(&self) -> [[u64; 5]; KINDS] {
        let mut seen = [[0_u64; 5]; KINDS];
        for stripe in self.stripes.iter() {
            for (seen, sums) in seen.iter_mut().zip(&stripe.0) {
                let all = [&sums.bytes, &sums.media_ps, &sums.bus_ps, &sums.held_ps, &sums.under_way_ps];
                for (seen, sum) in seen.iter_mut().zip(all) {
                    *seen = seen.wrapping_add(sum.load(Relaxed));
                }
            }
        }
        seen
    }

    fn publish(&self, solver: &Solver) {
        let (backlog, contention) = solver.backlog(&self.system);
        for access in Access::ALL {
            let wait = solver.wait(&self.system, access, backlog, contention);
            for (bits, wait) in self.waits[access as usize].0.iter().zip(wait) {
                bits.store(wait.to_bits(), Relaxed);
            }
        }
        self.contention.store(contention.to_bits(), Relaxed);
    }
}

impl Row {
    fn new(system: &MemorySystem, access: Access, size: Bytes) -> Self {
        let Client { outstanding, think_ns, .. } = system.client(access, size);
        Self {
            units: size.0.max(1) as f64 / MemorySystem::unit(access),
            demand: system.demand(access, size),
            think: think_ns,
            outstanding,
        }
    }
}

impl Solver {
    /// Takes what happened since the latest round into account.
    fn measure(&mut self, seen: &[[u64; 5]; KINDS], passed: Duration) {
        let ns = passed.0.max(1) as f64;
        for (kind, access) in Access::ALL.into_iter().enumerate() {
            let [bytes, media_ps, bus_ps, held_ps, under_way_ps] =
                std::array::from_fn(|i| seen[kind][i].wrapping_sub(self.seen[kind][i]) as f64);
            let units = bytes / MemorySystem::unit(access);
            let flow = &mut self.flows[kind];
            flow.rate = units / ns;
            flow.busy = (held_ps / 1e3 / ns).min(BUSY_MAX);
            flow.population = flow.busy * under_way_ps / held_ps.max(1.0);
            if 0.0 < units {
                flow.demand = [media_ps / 1e3 / units, bus_ps / 1e3 / units];
            }
        }
        self.seen = *seen;
    }

    /// What queues at the stations at these rates: one step of the fixed point.
    fn queue(&mut self, system: &MemorySystem, rounds: f64) {
        if (FORGOTTEN as f64) < rounds {
            self.queues = Default::default();
        }
        let (backlog, contention) = self.backlog(system);
        let part = 1.0 - (1.0 - DAMPING).powf(rounds);
        for (kind, access) in Access::ALL.into_iter().enumerate() {
            let wait = self.wait(system, access, backlog, contention);
            let flow = self.flows[kind];
            for (station, wait) in wait.into_iter().enumerate() {
                let residence = self.demand_at(access, station, contention) + wait;
                let queue = (flow.rate * residence).min(flow.population);
                let old = &mut self.queues[kind][station];
                *old += part * (queue - *old);
            }
        }
    }

    fn demand_at(&self, access: Access, station: usize, contention: f64) -> f64 {
        let writes_media = station == 0 && access == Access::SlowWrite;
        self.flows[access as usize].demand[station] * if writes_media { contention } else { 1.0 }
    }

    /// Time that is queued at each station, and how much longer writes of the medium take.
    fn backlog(&self, system: &MemorySystem) -> ([f64; 2], f64) {
        let contention = system.contention(self.flows[Access::SlowWrite as usize].busy);
        let wait = [0, 1].map(|station| {
            let of = |access| self.own(system, access, station, contention);
            Access::ALL.into_iter().map(|access| of(access).0 + of(access).1).sum()
        });
        (wait, contention)
    }

    /// Time that a kind itself has queued at a station, and that a unit waits for the rest of a batch of writes that leaves.
    fn own(&self, system: &MemorySystem, access: Access, station: usize, contention: f64) -> (f64, f64) {
        let demand = self.demand_at(access, station, contention);
        let queued = self.queues[access as usize][station] * demand;
        let batches = station == 0 && access == Access::SlowWrite;
        let busy = (self.flows[access as usize].rate * demand).min(1.0);
        (queued, if batches { busy * (system.batch - 1.0) * demand * 0.5 } else { 0.0 })
    }

    /// What a unit of a kind waits at each station: everybody else's queue, and of its own kind's all but itself.
    fn wait(&self, system: &MemorySystem, access: Access, backlog: [f64; 2], contention: f64) -> [f64; 2] {
        let population = self.flows[access as usize].population;
        let own_part = if 1.0 < population { 1.0 - 1.0 / population } else { 0.0 };
        [0, 1].map(|station| {
            if station == 0 && !access.is_slow() {
                return 0.0;
            }
            let (own, batch) = self.own(system, access, station, contention);
            let others = backlog[station] - own - batch;
            let wait = (others + own_part * own + batch).max(0.0);
            wait * if station == 1 { system.typical(access).bus_wait } else { 1.0 }
        })
    }
}

/// The calling thread's stripe of counters.
fn stripe() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Relaxed) % STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; not below zero")]
fn rounded(value: f64) -> u64 {
    (value + 0.5) as u64
}
