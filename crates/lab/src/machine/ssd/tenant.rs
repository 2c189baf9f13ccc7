//! One mapped application at work: what its forms hold, how they fill and convert, what its sensor counts.
//!
//! Shape:      forms in force, filled bytes -> residence and costs -> operations -> fills, flushes, counts
//! Invariants: no form holds more than its bytes in force; bytes in force never sum to more than was asked in all
//! Source:     PolyEMT §3.1 (revoked blocks of the write cache are written back first), §4 (clean pages are dropped or
//!             compressed, dirty ones keep their place until the SSD has them)

use super::application::{Application, Mix, PAGE};
use super::device::Latencies;
use super::residence::{Capacities, Residence};
use super::service::{Costs, Flow, Paths, Truth, Uses};
use super::{Noise, normal};
use control::Claim;
use control::form::{FormSignal, Forms};
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Part of the write cache that the cleaner keeps free. A guess (.05 to .2); the paper keeps a free list of unknown size.
const RESERVE: f64 = 0.1;
/// Fills that differ by less than this part of all capacity are solved as one: well below the noise.
const SAME_FILL: f64 = 0.001;
/// Tails are worked out anew when what they depend on has changed by this part.
const SAME_TAIL: f64 = 0.002;

/// A tenant of the machine.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    pub id: TenantId,
    pub claim: Claim,
    pub phases: Vec<(Instant, Mix)>,
    pub asked: Forms,
    pub in_force: Forms,
    application: Application,
    filled: Filled,
    solved: Option<(Filled, Forms)>,
    residence: Residence,
    costs: Costs,
    tail: Option<KnownTail>,
    counts: Counts,
}

/// A tail latency and what it was worked out from.
#[derive(Clone, Copy, Debug)]
struct KnownTail {
    costs: Costs,
    write_us: f64,
    waiting: f64,
    p99_us: f64,
}

/// Bytes that the forms hold.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Filled {
    memory: f64,
    write_cache: f64,
    compressed: f64,
}

/// What the sensor counted since it was last read.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    secs: f64,
    operations: f64,
    parts: f64,
    rate: f64,
    rate_squared: f64,
    tail: f64,
    tail_squared: f64,
}

fn bytes(b: Bytes) -> f64 {
    b.0 as f64
}

fn whole(b: f64) -> Bytes {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes below 2^53, clamped at 0"
    )]
    Bytes(b.max(0.0) as u64)
}

/// Bytes of all forms.
pub(super) fn sum(forms: Forms) -> Bytes {
    forms.write_cache + forms.memory + forms.compressed
}

fn page() -> f64 {
    bytes(PAGE)
}

impl Mapped {
    pub(super) fn new(id: TenantId, claim: Claim, application: Application) -> Self {
        let mut tenant = Self {
            id,
            claim,
            phases: Vec::new(),
            asked: Forms::default(),
            in_force: Forms::default(),
            application,
            filled: Filled::default(),
            solved: None,
            residence: Residence::default(),
            costs: Costs::default(),
            tail: None,
            counts: Counts::default(),
        };
        tenant.fill();
        tenant
    }

    /// Starts the phases that are due.
    pub(super) fn change(&mut self, now: Instant) {
        while self.phases.first().is_some_and(|(at, _)| *at <= now) {
            let (_, mix) = self.phases.remove(0);
            if let Ok(application) = self.application.with_mix(mix) {
                self.application = application;
                self.solved = None;
            }
        }
    }

    /// Fills every form as it is in the long run if the cleaner keeps up.
    pub(super) fn fill(&mut self) {
        self.filled = Filled {
            memory: self.memory_limit(),
            write_cache: if 0.0 < self.written_per_operation() { self.low_mark() } else { 0.0 },
            compressed: bytes(self.in_force.compressed),
        };
    }

    /// Fills the write cache to the brim if the cleaner does not keep up.
    pub(super) fn fill_up(&mut self, ssd: Latencies) {
        let wanted = self.costs.rate(ssd, Flow::Free) * self.costs.allocations;
        if super::cleaner_rate(ssd) < wanted {
            self.filled.write_cache = bytes(self.in_force.write_cache);
        }
    }

    fn written_per_operation(&self) -> f64 {
        let mix = self.application.mix;
        mix.updates + mix.read_modify_writes + mix.inserts
    }

    fn memory_limit(&self) -> f64 {
        let dataset = self.application.dataset;
        let all = dataset.records as f64 * f64::from(dataset.pages_per_record) * page();
        (bytes(self.application.dram) + bytes(self.in_force.memory)).min(all)
    }

    fn low_mark(&self) -> f64 {
        (1.0 - RESERVE) * bytes(self.in_force.write_cache)
    }

    fn uses(&self) -> Uses {
        let compressing = Bytes::ZERO < self.in_force.compressed;
        Uses { compressing, durable: compressing || Bytes::ZERO < self.in_force.write_cache }
    }

    /// Whether writes find free room.
    fn flow_state(&self) -> Flow {
        let is_full = |filled: f64, limit: Bytes| bytes(limit) <= filled + page();
        let full = is_full(self.filled.write_cache, self.in_force.write_cache)
            && is_full(self.filled.compressed, self.in_force.compressed);
        if full { Flow::Full } else { Flow::Free }
    }

    /// Whether the cleaner has work.
    fn is_draining(&self) -> bool {
        self.low_mark() <= self.filled.write_cache + page()
    }

    /// Works out where pages are and what operations cost, unless that is known.
    pub(super) fn solve(&mut self) {
        let limit = SAME_FILL * (bytes(self.application.dram) + bytes(self.in_force.write_cache) + page());
        let same = |a: f64, b: f64| (a - b).abs() <= limit;
        let known = self.solved.is_some_and(|(filled, forms)| {
            forms == self.in_force
                && same(filled.memory, self.filled.memory)
                && same(filled.write_cache, self.filled.write_cache)
                && same(filled.compressed, self.filled.compressed)
        });
        if known {
            return;
        }
        let capacity = Capacities {
            memory: self.filled.memory / page(),
            write_cache: self.filled.write_cache / page(),
            compressed: self.filled.compressed * self.application.compression() / page(),
        };
        self.residence = Residence::solve(&self.application, capacity);
        self.costs = Costs::of(&self.application, &self.residence, self.uses());
        self.solved = Some((self.filled, self.in_force));
    }

    /// Operations per second that it makes the SSD do, conversions apart.
    pub(super) fn ssd_operations(&self, ssd: Latencies) -> f64 {
        let written = match (self.costs.uses.durable, self.is_draining()) {
            (false, _) => self.costs.writes,
            (true, true) => self.costs.allocations,
            (true, false) => 0.0,
        };
        self.rate(ssd) * (self.costs.ssd_reads + written)
    }

    fn rate(&self, ssd: Latencies) -> f64 {
        self.costs.rate(ssd, self.flow_state())
    }

    fn paths(&self, ssd: Latencies) -> Paths<'_> {
        Paths {
            app: &self.application,
            at: &self.residence,
            ssd,
            uses: self.uses(),
            waiting: self.costs.waiting(ssd, self.flow_state(), self.rate(ssd)),
        }
    }

    /// What it really gets.
    pub(super) fn truth(&self, ssd: Latencies) -> Truth {
        self.paths(ssd).truth(self.rate(ssd))
    }

    /// The 99th percentile; what differs by less than [`SAME_TAIL`] in what it depends on is worked out once.
    fn p99_us(&mut self, ssd: Latencies) -> f64 {
        let waiting = self.costs.waiting(ssd, self.flow_state(), self.rate(ssd));
        let same = |a: f64, b: f64| (a - b).abs() <= SAME_TAIL * b;
        let known = self.tail.filter(|t| {
            t.costs == self.costs
                && same(t.write_us, ssd.write_us)
                && (t.waiting - waiting).abs() <= SAME_TAIL
        });
        if let Some(tail) = known {
            return tail.p99_us;
        }
        let p99_us = self.paths(ssd).p99_us();
        self.tail = Some(KnownTail { costs: self.costs, write_us: ssd.write_us, waiting, p99_us });
        p99_us
    }

    /// Counts the operations of `secs`.
    pub(super) fn work(&mut self, ssd: Latencies, secs: f64, noise: Noise, rng: &mut Rng) {
        let (rate, p99_us) = (self.rate(ssd), self.p99_us(ssd));
        // A short slice is as noisy as the second it belongs to would make it.
        let spread = secs.max(1e-3).sqrt().recip();
        let mut noisy = |value: f64, by: f64| {
            let factor = if 0.0 < by { 1.0 + by * spread * normal(rng) } else { 1.0 };
            value * factor.max(0.1)
        };
        let rate = noisy(rate, noise.rate);
        let tail = noisy(p99_us, noise.tail);
        let c = &mut self.counts;
        c.secs += secs;
        c.operations += rate * secs;
        c.parts += 1.0;
        c.rate += rate;
        c.rate_squared += rate * rate;
        c.tail += tail;
        c.tail_squared += tail * tail;
    }

    /// Lets forms fill for `secs`.
    pub(super) fn flow(&mut self, ssd: Latencies, secs: f64, cleaned: f64) {
        let rate = self.rate(ssd);
        let bytes_of = |pages_per_operation: f64| rate * pages_per_operation * page() * secs;
        let memory_limit = self.memory_limit();
        let write_limit = bytes(self.in_force.write_cache);
        let low = self.low_mark();
        let memory_full = memory_limit <= self.filled.memory + page();
        let evicted = if memory_full { self.costs.faults } else { 0.0 }
            + if self.is_draining() { self.costs.write_misses } else { 0.0 };
        let brought_in = bytes_of(self.costs.faults + self.application.new_pages());
        self.filled.memory = (self.filled.memory + brought_in).min(memory_limit);
        if self.filled.write_cache < low {
            self.filled.write_cache = (self.filled.write_cache + bytes_of(self.costs.write_misses)).min(low);
        } else {
            let net = bytes_of(self.costs.allocations) - cleaned * page() * secs;
            self.filled.write_cache = (self.filled.write_cache + net).clamp(low, write_limit);
        }
        let compressed = bytes_of(evicted) / self.application.compression();
        self.filled.compressed = (self.filled.compressed + compressed).min(bytes(self.in_force.compressed));
    }

    /// Whether it gives up more than it takes.
    pub(super) fn shrinks(&self) -> bool {
        sum(self.asked) < sum(self.in_force)
    }

    /// Whether a conversion waits for the SSD.
    pub(super) fn must_flush(&self) -> bool {
        self.asked.write_cache < self.in_force.write_cache || self.asked.compressed < self.in_force.compressed
    }

    /// Converts bytes, flushing up to `pages`: what shrinks gives up its free bytes first, then what was flushed or has
    /// moved to a growing compressed store; what grows takes what is free, its own or of the pool's `spare` bytes.
    pub(super) fn convert(&mut self, pages: f64, spare: Bytes) {
        if self.asked == self.in_force {
            return;
        }
        let (asked, now) = (self.asked, self.in_force);
        self.compress_surplus();
        self.flush(pages * page());
        let shrunk = |asked: Bytes, now: Bytes, filled: f64| {
            if asked < now { asked.max(whole(filled.ceil())).min(now) } else { now }
        };
        let mut next = Forms {
            write_cache: shrunk(asked.write_cache, now.write_cache, self.filled.write_cache),
            memory: now.memory.min(asked.memory),
            compressed: shrunk(asked.compressed, now.compressed, self.filled.compressed),
        };
        let mut free = sum(asked).min(sum(now) + spare).saturating_sub(sum(next));
        let forms = [
            (&mut next.memory, asked.memory),
            (&mut next.compressed, asked.compressed),
            (&mut next.write_cache, asked.write_cache),
        ];
        for (form, asked) in forms {
            let more = asked.saturating_sub(*form).min(free);
            *form += more;
            free -= more;
        }
        self.in_force = next;
        self.filled.memory = self.filled.memory.min(self.memory_limit());
        self.filled.write_cache = self.filled.write_cache.min(bytes(next.write_cache));
        self.filled.compressed = self.filled.compressed.min(bytes(next.compressed));
    }

    /// Pages that memory and the write cache lose move to a compressed store that grows (§4: both evict to it).
    fn compress_surplus(&mut self) {
        let (asked, ratio) = (self.asked, self.application.compression());
        if asked.compressed <= self.in_force.compressed {
            return;
        }
        let room = (bytes(asked.compressed) - self.filled.compressed).max(0.0) * ratio;
        let written = (self.filled.write_cache - bytes(asked.write_cache)).clamp(0.0, room);
        let kept = bytes(self.application.dram) + bytes(asked.memory);
        let read = (self.filled.memory - kept).clamp(0.0, room - written);
        self.filled.write_cache -= written;
        self.filled.memory -= read;
        self.filled.compressed += (written + read) / ratio;
    }

    /// Flushes up to `budget` bytes of what the write cache and the dirty part of the compressed store hold too much.
    fn flush(&mut self, budget: f64) {
        let flushed = (self.filled.write_cache - bytes(self.asked.write_cache)).clamp(0.0, budget);
        self.filled.write_cache -= flushed;
        let budget = budget - flushed;
        let over = (self.filled.compressed - bytes(self.asked.compressed)).max(0.0);
        let dirty = self.residence.dirty_part;
        self.filled.compressed -= if over * dirty <= budget { over } else { budget / dirty };
    }

    /// The signal of what was counted, and counts anew.
    pub(super) fn read(&mut self) -> FormSignal {
        let c = std::mem::take(&mut self.counts);
        let held = Some(Forms {
            write_cache: whole(self.filled.write_cache),
            memory: whole(self.filled.memory - bytes(self.application.dram)).min(self.in_force.memory),
            compressed: whole(self.filled.compressed),
        });
        if c.operations < 1.0 {
            return FormSignal { held, ..FormSignal::default() };
        }
        let error = |sum: f64, squared: f64| {
            let mean = sum / c.parts;
            let variance = (squared / c.parts - mean * mean).max(0.0);
            // At least two parts have a variance; a constant one is no measurement of it.
            (2.0 <= c.parts && 0.0 < mean).then(|| (variance / (c.parts - 1.0)).sqrt() / mean)
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count below 2^53")]
        let operations = c.operations as u64;
        let time = |us: f64| super::micros(us).unwrap_or(Duration::ZERO);
        FormSignal {
            operations,
            latency: time(c.secs * 1e6 / c.operations),
            tail: time(c.tail / c.parts),
            latency_error: error(c.rate, c.rate_squared),
            tail_error: error(c.tail, c.tail_squared),
            compression: Some(self.application.compression()),
            held,
        }
    }
}
