//! Mapped applications over DRAM, a tier that changes form, and an SSD, in virtual time.
//!
//! Shape:      applications, forms in force -> (slices of a second) residence -> costs -> the SSD's load -> throughput,
//!             fill and flush of the forms -> signals with noise
//! Invariants: constants were chosen before any policy ran, conversions between forms were changed once after the first
//!             runs; a test freezes what forms give in balance; the same seed gives the same signals; forms in force never sum to more than was given; time moves forward
//! Units:      bytes in force, microseconds inside, virtual nanoseconds outside
//! Cost:       about 0.3 ms per tenant and virtual second while forms fill, less once they are full
//! Source:     PolyEMT §3 to §5, constants in the files beside this one
//! Failure:    signals may be missing and orders refused ([`Faults`]); a lapsed lease returns to the last steady forms
//!
//! What the model cannot say. Pages are caches in balance (Che's approximation): after a change of mix their content
//! follows at once, only amounts take time. Popularity is Zipf's law with independent references, one client, one operation
//! at a time; there is no queue in front of an application, so a slow write never delays another's read except through
//! the SSD. The SSD is a formula of its load, fitted to four numbers. The tier's bytes are as fast as DRAM. Data that
//! compress by 2 to 7 are the paper's, not YCSB's random bytes. Whether write misses wait follows one rule: a cleaner that
//! writes one page at a time. Figures that rest on that are the model's, not a machine's.

mod application;
mod device;
mod residence;
mod service;
mod split;
mod tenant;

pub use application::{Application, ApplicationError, Dataset, Mix, PAGE};
pub use device::{Latencies, Ssd};
pub use service::{Tail, Truth};
pub use split::{Scored, best_by, every_split};

use control::form::{FormSignal, Forms};
use control::{Actuator, Amount, Claim, Decision, Lease, Loop, Policy, Pool, Row, Sensor};
use service::cleaner_rate;
use tenant::Mapped;
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Length of a slice: forms fill by less than one part in a hundred meanwhile.
const SLICE: Duration = Duration::from_secs(1);
/// Part of the operations that others leave free which a conversion flushes with. A guess (0.25 to 1).
const FLUSH_PART: f64 = 0.5;
/// Standard deviation of the measured latency of the SSD over a window. A guess (0 to .1).
const SSD_NOISE: f64 = 0.03;

/// How much signals deviate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noise {
    /// Standard deviation of the throughput of one second, relative.
    pub rate: f64,
    /// Standard deviation of the tail latency of one second, relative.
    pub tail: f64,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Chance that a tenant's signal is missing.
    pub missing: f64,
    /// Chance that a tenant's share is refused.
    pub refused: f64,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct FormMachine {
    now: Instant,
    pool: Bytes,
    ssd: Ssd,
    ssd_changes: Vec<(Instant, Ssd)>,
    tenants: Vec<Mapped>,
    next_id: u32,
    noise: Noise,
    faults: Faults,
    rng: Rng,
    lease: Lease<Forms>,
    seen: SsdWindow,
    flush_debt: f64,
}

/// What the SSD did since it was last read.
#[derive(Clone, Copy, Debug, Default)]
struct SsdWindow {
    secs: f64,
    read_us: f64,
    write_us: f64,
}

impl Noise {
    /// No noise at all.
    pub const NONE: Self = Self { rate: 0.0, tail: 0.0 };
    /// One second differs from the next by 5 % in throughput and 20 % in its 99th percentile. A guess: a benchmark in a
    /// virtual machine shows 2 to 10 % and 10 to 40 %.
    pub const USUAL: Self = Self { rate: 0.05, tail: 0.2 };
}

impl FormMachine {
    /// A machine with `pool` bytes of the tier before `ssd`.
    #[must_use]
    pub fn new(pool: Bytes, ssd: Ssd, noise: Noise, seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            pool,
            ssd,
            ssd_changes: Vec::new(),
            tenants: Vec::new(),
            next_id: 0,
            noise,
            faults: Faults::default(),
            rng: Rng::new(seed),
            lease: Lease::default(),
            seen: SsdWindow::default(),
            flush_debt: 0.0,
        }
    }

    /// The paper's server (§5.2): a tier of 6 GB, a loaded SSD, and one application that has run for long with all of
    /// the tier as write cache.
    #[must_use]
    pub fn server(application: Application, noise: Noise, seed: u64) -> (Self, TenantId) {
        let pool = Bytes(6 << 30);
        let mut machine = Self::new(pool, Ssd::loaded(), noise, seed);
        let id = machine.add(Claim::default(), application);
        machine.settle_at(id, Forms { write_cache: pool, ..Forms::default() });
        (machine, id)
    }

    /// Switches faults on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Adds a tenant without any byte of the tier.
    pub fn add(&mut self, claim: Claim, application: Application) -> TenantId {
        let id = TenantId(self.next_id);
        self.next_id += 1;
        self.tenants.push(Mapped::new(id, claim, application));
        id
    }

    /// Takes a tenant away.
    pub fn remove(&mut self, id: TenantId) {
        self.tenants.retain(|tenant| tenant.id != id);
    }

    /// From `at` on, tenant `id` runs `mix`.
    pub fn change_mix(&mut self, id: TenantId, at: Instant, mix: Mix) {
        if let Some(tenant) = self.tenants.iter_mut().find(|t| t.id == id) {
            tenant.phases.push((at, mix));
            tenant.phases.sort_by_key(|(at, _)| *at);
        }
    }

    /// From `at` on, the SSD is `ssd`.
    pub fn change_ssd(&mut self, at: Instant, ssd: Ssd) {
        self.ssd_changes.push((at, ssd));
        self.ssd_changes.sort_by_key(|(at, _)| *at);
    }

    /// The tier's bytes.
    #[must_use]
    pub fn pool(&self) -> Bytes {
        self.pool
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass.
    pub fn advance(&mut self, until: Instant) {
        while self.now < until {
            self.change();
            let next = self.now + SLICE;
            let end = self.next_change().map_or(next, |at| at.min(next)).min(until);
            self.slice(end.since(self.now).as_secs_f64());
            self.now = end;
            if let Some(steady) = self.lease.lapsed(end) {
                for tenant in &mut self.tenants {
                    if let Ok(at) = steady.binary_search_by_key(&tenant.id, |(id, _)| *id) {
                        tenant.asked = steady[at].1;
                    }
                }
                self.convert(0.0);
            }
        }
    }

    /// Converts forms to what was asked for, flushing up to `pages` of each tenant: who gives up bytes does so first, who
    /// takes some finds them, and nobody gets more than the pool has.
    fn convert(&mut self, pages: f64) {
        let mut order: Vec<usize> = (0..self.tenants.len()).collect();
        order.sort_by_key(|&at| !self.tenants[at].shrinks());
        for at in order {
            let in_force: Bytes = self.tenants.iter().map(|t| tenant::sum(t.in_force)).sum();
            self.tenants[at].convert(pages, self.pool.saturating_sub(in_force));
        }
    }

    /// Runs a loop until `until`: it is stepped whenever it wakes.
    pub fn drive<P>(&mut self, pacer: &mut Loop<P>, until: Instant)
    where
        P: Policy<Signal = FormSignal, Share = Forms>,
    {
        loop {
            let wake = pacer.wake_at();
            if until < wake {
                break;
            }
            self.advance(wake);
            pacer.step(self.now, self);
        }
        self.advance(until);
    }

    /// What tenant `id` really gets now; zeros if there is none.
    #[must_use]
    pub fn truth(&self, id: TenantId) -> Truth {
        let mut copy = self.clone();
        let u = copy.balance();
        let tenant = copy.tenants.iter().find(|t| t.id == id);
        tenant.map_or_else(Truth::default, |t| t.truth(Ssd::latencies(u)))
    }

    /// What tenant `id` would really get in the long run with `forms`, the others with what they have.
    #[must_use]
    pub fn settled(&self, id: TenantId, forms: Forms) -> Truth {
        let mut copy = self.clone();
        copy.settle_at(id, forms);
        copy.truth(id)
    }

    /// The forms that tenant `id` really has now.
    #[must_use]
    pub fn in_force(&self, id: TenantId) -> Forms {
        self.tenants.iter().find(|t| t.id == id).map_or_else(Forms::default, |t| t.in_force)
    }

    /// Gives `forms` to tenant `id` at once and fills all forms as they are in the long run.
    pub fn settle_at(&mut self, id: TenantId, forms: Forms) {
        if let Some(tenant) = self.tenants.iter_mut().find(|t| t.id == id) {
            tenant.in_force = forms;
            tenant.asked = forms;
        }
        self.flush_debt = 0.0;
        for tenant in &mut self.tenants {
            tenant.fill();
        }
        let ssd = Ssd::latencies(self.balance());
        for tenant in &mut self.tenants {
            tenant.fill_up(ssd);
        }
    }

    /// Makes the changes that are due.
    fn change(&mut self) {
        while self.ssd_changes.first().is_some_and(|(at, _)| *at <= self.now) {
            self.ssd = self.ssd_changes.remove(0).1;
        }
        for tenant in &mut self.tenants {
            tenant.change(self.now);
        }
    }

    fn next_change(&self) -> Option<Instant> {
        let phases = self.tenants.iter().filter_map(|t| t.phases.first().map(|(at, _)| *at));
        phases.chain(self.ssd_changes.first().map(|(at, _)| *at)).min()
    }

    /// The utilisation of the SSD at which what tenants do is what it lets them do; more load means fewer operations, so
    /// that there is one.
    fn balance(&mut self) -> f64 {
        for tenant in &mut self.tenants {
            tenant.solve();
        }
        let flushed = self.flush_debt;
        let own = |u: f64| -> f64 {
            flushed + self.tenants.iter().map(|t| t.ssd_operations(Ssd::latencies(u))).sum::<f64>()
        };
        let (mut low, mut high) = (self.ssd.others(), self.ssd.utilisation(f64::MAX));
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if middle < self.ssd.utilisation(own(middle)) { low = middle } else { high = middle }
        }
        high
    }

    fn slice(&mut self, secs: f64) {
        let utilisation = self.balance();
        let ssd = Ssd::latencies(utilisation);
        self.seen.secs += secs;
        self.seen.read_us += secs * ssd.read_us;
        self.seen.write_us += secs * ssd.write_us;
        let converting = self.tenants.iter().filter(|t| t.must_flush()).count();
        let flush_pages =
            if converting == 0 { 0.0 } else { self.ssd.spare_iops() * FLUSH_PART / converting as f64 };
        self.flush_debt = flush_pages * converting as f64;
        for tenant in &mut self.tenants {
            tenant.work(ssd, secs, self.noise, &mut self.rng);
            tenant.flow(ssd, secs, cleaner_rate(ssd));
        }
        self.convert(flush_pages * secs);
    }
}

/// A standard normal draw.
fn normal(rng: &mut Rng) -> f64 {
    // Sum of 12 uniforms: mean 6, variance 1.
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

/// Microseconds as a duration; none if they are no time.
fn micros(us: f64) -> Option<Duration> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    (us.is_finite() && 0.0 < us && us < 1e12).then(|| Duration::from_nanos((us * 1e3) as u64))
}

impl Sensor for FormMachine {
    type Signal = FormSignal;
    type Share = Forms;

    fn read(&mut self, _now: Instant, rows: &mut Vec<Row<FormSignal, Forms>>) -> Pool {
        for tenant in &mut self.tenants {
            let signal = tenant.read();
            let missing = 0.0 < self.faults.missing && self.rng.chance(self.faults.missing);
            rows.push(Row {
                id: tenant.id,
                claim: tenant.claim.clone(),
                signal: (!missing).then_some(signal),
                in_force: None,
            });
        }
        let mut pool = Pool { capacity: Amount::memory(self.pool), ..Pool::default() };
        let window = std::mem::take(&mut self.seen);
        if 0.0 < window.secs {
            let noise = if self.noise == Noise::NONE { 0.0 } else { SSD_NOISE };
            let mut measured =
                |us: f64| micros(us / window.secs * (1.0 + noise * normal(&mut self.rng)).max(0.1));
            pool.latency.slow_read = measured(window.read_us);
            pool.latency.slow_write = measured(window.write_us);
        }
        pool
    }
}

impl Actuator for FormMachine {
    type Share = Forms;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Forms>,
        in_force: &mut Vec<(TenantId, Forms)>,
    ) -> bool {
        self.lease.renew(now, decision);
        in_force.clear();
        let mut whole = true;
        for tenant in &mut self.tenants {
            let refused = 0.0 < self.faults.refused && self.rng.chance(self.faults.refused);
            if let (Some(share), false) = (decision.shares.get(tenant.id), refused) {
                tenant.asked = *share;
            }
        }
        // What needs no flush is converted at once.
        self.convert(0.0);
        for tenant in &self.tenants {
            whole &= decision.shares.get(tenant.id).is_none_or(|share| *share == tenant.in_force);
            in_force.push((tenant.id, tenant.in_force));
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Bytes = Bytes(6 << 30);
    const PART: Bytes = Bytes(2 << 30);

    /// Two writers on one pool, and what they have.
    fn two(first: Forms, second: Forms) -> FormMachine {
        let mut machine = FormMachine::new(POOL, Ssd::loaded(), Noise::NONE, 1);
        for forms in [first, second] {
            let id = machine.add(Claim::default(), Application::ycsb('A'));
            machine.settle_at(id, forms);
        }
        machine
    }

    fn in_force(machine: &FormMachine) -> Bytes {
        machine.tenants.iter().map(|t| tenant::sum(t.in_force)).sum()
    }

    #[test]
    fn what_several_tenants_have_never_exceeds_the_pool() {
        let (nothing, all) = (Forms::default(), Forms { write_cache: POOL, ..Forms::default() });
        let (taken, left) = (
            Forms { memory: POOL - PART, ..Forms::default() },
            Forms { write_cache: PART, ..Forms::default() },
        );
        for giver in [0, 1] {
            let mut machine = if giver == 0 { two(all, nothing) } else { two(nothing, all) };
            machine.tenants[giver].asked = left;
            machine.tenants[1 - giver].asked = taken;
            machine.convert(0.0);
            let mut seconds = 0;
            while machine.tenants.iter().any(|t| t.asked != t.in_force) {
                assert!(in_force(&machine) <= POOL, "{} in force after {seconds} s", in_force(&machine));
                seconds += 1;
                assert!(seconds < 7_200, "who takes never gets what was freed");
                machine.advance(machine.now() + Duration::from_secs(1));
            }
            assert!(1 < seconds, "what is flushed takes time");
        }
    }

    #[test]
    fn what_is_given_up_at_once_is_there_for_who_takes_it() {
        let memory = |bytes| Forms { memory: bytes, ..Forms::default() };
        for giver in [0, 1] {
            let (less, more) = (memory(PART), memory(POOL - PART));
            let mut machine = if giver == 0 { two(more, less) } else { two(less, more) };
            machine.tenants[giver].asked = less;
            machine.tenants[1 - giver].asked = more;
            machine.convert(0.0);
            assert!(machine.tenants.iter().all(|t| t.asked == t.in_force), "giver {giver}");
        }
    }
}
