//! How long operations take, given where pages are: means for throughput, mixtures of branches for tails.
//!
//! Shape:  mix, residence -> costs per operation -> (with the SSD's latencies) throughput -> quantiles
//! Units:  microseconds; operations per second
//! Source: PolyEMT Fig. 4c (4 and 11 µs), §3.1 (a cleaner frees written pages in the background; who finds no free page
//!         waits for one write of the SSD), §4 (what a fault and an msync do), §5.2 (write misses still go to the SSD)
//! Non-goals: queueing of clients behind each other: one client, one operation at a time

use super::application::Application;
use super::device::{Branch, Latencies, quantile_us};
use super::residence::Residence;

/// A page fault that finds its page in the tier: measured at 10 to 15 µs with userfaultfd.
const FAULT_US: f64 = 10.0;
/// An msync of one page into the write cache: protect, copy, unprotect. A guess (5 to 20).
const MSYNC_US: f64 = 10.0;
/// Reading a compressed page (PolyEMT Fig. 4c).
const DECOMPRESS_US: f64 = 4.0;
/// Compressing a page (PolyEMT Fig. 4c).
const COMPRESS_US: f64 = 11.0;
/// Spread of an operation that finds all in memory, as the standard deviation of its logarithm. A guess (.05 to .3).
const CPU_SPREAD: f64 = 0.15;

/// What one operation costs on average.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Costs {
    /// Without the SSD.
    pub fixed_us: f64,
    /// Reads of the SSD.
    pub ssd_reads: f64,
    /// Pages brought into memory.
    pub faults: f64,
    /// Pages written and persisted that the write cache does not hold.
    pub write_misses: f64,
    /// Pages written that no form holds: each costs a write of the SSD sooner or later.
    pub allocations: f64,
    /// All pages written and persisted.
    pub writes: f64,
    /// What the forms do.
    pub uses: Uses,
}

/// Latency at quantiles.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tail {
    /// At the 90th percentile.
    pub p90_us: f64,
    /// At the 95th percentile.
    pub p95_us: f64,
    /// At the 99th percentile.
    pub p99_us: f64,
}

/// What an application really gets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Truth {
    /// Operations per second.
    pub operations_per_sec: f64,
    /// Mean of all operations.
    pub mean_us: f64,
    /// Of operations that only read.
    pub reads: Tail,
    /// Of operations that write.
    pub writes: Tail,
    /// Of all operations.
    pub all: Tail,
}

/// What the tier's forms do for an application.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Uses {
    /// What leaves memory is compressed.
    pub compressing: bool,
    /// Some form is durable; without one every msync waits for the SSD.
    pub durable: bool,
}

/// Whether writes find free pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Flow {
    /// The cleaner keeps up, or there is free room.
    Free,
    /// Every page that the cleaner has not freed is evicted by who needs it.
    Full,
}

impl Costs {
    /// The costs of an operation of `app`.
    pub(super) fn of(app: &Application, at: &Residence, uses: Uses) -> Self {
        let (mix, pages) = (app.mix, app.pages_per_record());
        let evict_us = if uses.compressing { COMPRESS_US } else { 0.0 };
        let updates = mix.updates + mix.read_modify_writes;
        // Pages asked for, by popularity and by anybody's turn in a scan. An update touches its one page; after a read
        // of the same record that page is there.
        let popular = (mix.reads + mix.read_modify_writes + mix.scans) * pages + mix.updates;
        let any = mix.scans * (Application::scan_records() - 1.0) * pages;
        let faults = popular * (1.0 - at.popular.hit) + any * (1.0 - at.any.hit);
        let near = popular * at.popular.near + any * at.any.near;
        let ssd_reads = popular * at.popular.far + any * at.any.far;
        let writes = updates + app.new_pages();
        let write_misses = updates * (1.0 - at.written.hit) + app.new_pages();
        let cpu = Application::cpu_us()
            * (mix.reads + mix.updates + mix.inserts + 2.0 * mix.read_modify_writes)
            + Application::scan_cpu_us() * mix.scans;
        Self {
            fixed_us: cpu
                + faults * (FAULT_US + evict_us)
                + near * DECOMPRESS_US
                + writes * MSYNC_US
                + if uses.durable { write_misses * evict_us } else { 0.0 },
            ssd_reads,
            faults,
            write_misses,
            allocations: updates * at.written.miss + app.new_pages(),
            writes,
            uses,
        }
    }

    /// Time of an operation that finds free pages.
    fn free_us(&self, ssd: Latencies) -> f64 {
        let synchronous = if self.uses.durable { 0.0 } else { self.writes };
        self.fixed_us + self.ssd_reads * ssd.read_us + synchronous * ssd.write_us
    }

    /// Operations per second. A cleaner writes one page at a time; while the cache is full, what it does not free in time
    /// is written by who needs the room.
    pub(super) fn rate(&self, ssd: Latencies, flow: Flow) -> f64 {
        let free = 1e6 / self.free_us(ssd);
        if flow == Flow::Free || !self.uses.durable || free * self.allocations <= cleaner_rate(ssd) {
            return free;
        }
        2e6 / (self.free_us(ssd) + self.allocations * ssd.write_us)
    }

    /// Part of the allocations that wait at `rate` operations per second.
    pub(super) fn waiting(&self, ssd: Latencies, flow: Flow, rate: f64) -> f64 {
        match (self.uses.durable, flow) {
            (false, _) => 1.0,
            (true, Flow::Free) => 0.0,
            (true, Flow::Full) if rate * self.allocations <= 0.0 => 0.0,
            (true, Flow::Full) => (1.0 - cleaner_rate(ssd) / (rate * self.allocations)).max(0.0),
        }
    }
}

/// Pages per second that a cleaner frees.
pub(super) fn cleaner_rate(ssd: Latencies) -> f64 {
    1e6 / ssd.write_us
}

impl Tail {
    fn of(branches: &[Branch]) -> Self {
        Self {
            p90_us: quantile_us(branches, 0.9),
            p95_us: quantile_us(branches, 0.95),
            p99_us: quantile_us(branches, 0.99),
        }
    }
}

/// The ways that operations can go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths<'a> {
    pub app: &'a Application,
    pub at: &'a Residence,
    pub ssd: Latencies,
    /// What the forms do.
    pub uses: Uses,
    /// Chance that an allocation waits for the SSD.
    pub waiting: f64,
}

impl Paths<'_> {
    /// The 99th percentile of all operations.
    pub(super) fn p99_us(&self) -> f64 {
        let mut all = Vec::new();
        self.reading(&mut all);
        self.writing(&mut all);
        quantile_us(&all, 0.99)
    }

    /// The whole truth at `rate` operations per second.
    pub(super) fn truth(&self, rate: f64) -> Truth {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        self.reading(&mut reads);
        self.writing(&mut writes);
        let all: Vec<Branch> = reads.iter().chain(&writes).copied().collect();
        Truth {
            operations_per_sec: rate,
            mean_us: 1e6 / rate,
            reads: Tail::of(&reads),
            writes: Tail::of(&writes),
            all: Tail::of(&all),
        }
    }

    fn reading(&self, into: &mut Vec<Branch>) {
        self.read(self.app.mix.reads, into);
        self.scan(self.app.mix.scans, into);
    }

    fn writing(&self, into: &mut Vec<Branch>) {
        self.update(self.app.mix.updates, into);
        self.read_modify_write(self.app.mix.read_modify_writes, into);
        self.insert(self.app.mix.inserts, into);
    }

    fn evict_us(&self) -> f64 {
        if self.uses.compressing { COMPRESS_US } else { 0.0 }
    }

    fn cpu(part: f64, us: f64) -> Branch {
        Branch::spread(part, us, CPU_SPREAD)
    }

    /// A record's pages were touched together: they are all in memory, all compressed, or all old.
    fn record(&self, cpu: Branch) -> [Branch; 3] {
        let (at, pages) = (self.at.popular, self.app.pages_per_record());
        let part = |part: f64, branch: Branch| Branch { part: branch.part * part, ..branch };
        let faulted = cpu.later(pages * (FAULT_US + self.evict_us()));
        let far_pages = if 0.0 < at.old { pages * at.far / at.old } else { 0.0 };
        [
            part(at.hit, cpu),
            part(at.near, faulted.later(pages * DECOMPRESS_US)),
            part(at.old, faulted).then(self.ssd.read(), far_pages),
        ]
    }

    fn read(&self, part: f64, into: &mut Vec<Branch>) {
        into.extend(self.record(Self::cpu(part, Application::cpu_us())));
    }

    fn scan(&self, part: f64, into: &mut Vec<Branch>) {
        let (pages, records) = (self.app.pages_per_record(), Application::scan_records() - 1.0);
        let (first, rest) = (self.at.popular, self.at.any);
        let sum = |first: f64, rest: f64| pages * (first + records * rest);
        let us = sum(1.0 - first.hit, 1.0 - rest.hit) * (FAULT_US + self.evict_us())
            + sum(first.near, rest.near) * DECOMPRESS_US;
        let scan = Self::cpu(part, Application::scan_cpu_us()).later(us);
        into.push(scan.then(self.ssd.read(), sum(first.far, rest.far)));
    }

    /// An update: its page is in memory, near, in the write cache alone or far, and in the write cache, dirty compressed,
    /// or in neither. What is far was not written for so long that it misses.
    fn update(&self, part: f64, into: &mut Vec<Branch>) {
        let (at, written) = (self.at.popular, self.at.written);
        let cpu = Self::cpu(part, Application::cpu_us());
        let fault_us = FAULT_US + self.evict_us();
        let far = at.far.min(written.miss);
        let rest = (1.0 - far).max(f64::MIN_POSITIVE);
        let cached = (1.0 - at.hit - at.near - far).max(0.0);
        for (chance, us) in [(at.hit, 0.0), (at.near, fault_us + DECOMPRESS_US), (cached, fault_us)] {
            let there = Branch { part: cpu.part * chance / rest, ..cpu.later(us) };
            self.persist(there, [written.hit, written.near, written.miss - far], into);
        }
        let absent = cpu.later(fault_us).then(self.ssd.read(), 1.0);
        self.persist(absent, [0.0, 0.0, far], into);
    }

    fn read_modify_write(&self, part: f64, into: &mut Vec<Branch>) {
        let written = self.at.written;
        for read in self.record(Self::cpu(part, 2.0 * Application::cpu_us())) {
            self.persist(read, [written.hit, written.near, written.miss], into);
        }
    }

    /// Persists one page: `chances` of finding it in the write cache, dirty compressed, in neither.
    fn persist(&self, before: Branch, chances: [f64; 3], into: &mut Vec<Branch>) {
        let [hit, near, miss] = chances;
        let part = |part: f64, branch: Branch| Branch { part: branch.part * part, ..branch };
        let synced = before.later(MSYNC_US);
        if !self.uses.durable {
            into.extend(self.ssd.write().map(|write| part(hit + near + miss, synced).then(write, 1.0)));
            return;
        }
        let evicting = synced.later(self.evict_us());
        into.push(part(hit, synced));
        into.push(part(near + miss * (1.0 - self.waiting), evicting));
        into.extend(self.ssd.write().map(|write| part(miss * self.waiting, evicting).then(write, 1.0)));
    }

    fn insert(&self, part: f64, into: &mut Vec<Branch>) {
        let pages = self.app.pages_per_record();
        let evict_us = if self.uses.durable { self.evict_us() } else { 0.0 };
        let synced = Self::cpu(part, Application::cpu_us()).later(pages * (MSYNC_US + evict_us));
        let writes = self.ssd.write();
        let mean_us: f64 = writes.iter().map(|w| w.part * w.mean_us).sum();
        let square: f64 = writes.iter().map(|w| w.part * (w.variance + w.mean_us * w.mean_us)).sum();
        let write = Branch { part: 1.0, mean_us, variance: square - mean_us * mean_us };
        into.push(synced.then(write, pages * self.waiting));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ssd::device::Ssd;
    use crate::machine::ssd::residence::Capacities;

    #[test]
    fn an_update_of_a_page_in_the_write_cache_alone_decompresses_nothing() {
        let (ssd, app) = (Ssd::latencies(0.8), Application::ycsb('A'));
        let at = Residence::solve(&app, Capacities { memory: 1e6, write_cache: 3e6, compressed: 0.0 });
        assert!(0.05 < at.popular.old - at.popular.far, "some are in the write cache alone: {at:?}");
        let uses = Uses { compressing: false, durable: true };
        let paths = Paths { app: &app, at: &at, ssd, uses, waiting: 0.0 };
        let mut all = Vec::new();
        paths.reading(&mut all);
        paths.writing(&mut all);
        let mean: f64 = all.iter().map(|b| b.part * b.mean_us).sum();
        let costs = Costs::of(&app, &at, uses).free_us(ssd);
        assert!((mean - costs).abs() < 0.01, "{mean} us on the paths, {costs} as costs");
    }

    /// The branches and the costs say the same about the mean.
    #[test]
    fn the_mean_of_the_paths_is_the_mean_of_the_costs() {
        let ssd = Ssd::latencies(0.8);
        for letter in ['A', 'B', 'C', 'D', 'E', 'F', 'L'] {
            let app = Application::ycsb(letter);
            for (write_cache, compressed, flow) in [
                (0.0, 0.0, Flow::Free),
                (3e5, 0.0, Flow::Full),
                (3e5, 1e6, Flow::Full),
                (1e6, 1e6, Flow::Free),
            ] {
                let at = Residence::solve(&app, Capacities { memory: 7e6, write_cache, compressed });
                let uses = Uses { compressing: 0.0 < compressed, durable: 0.0 < write_cache + compressed };
                let costs = Costs::of(&app, &at, uses);
                let rate = costs.rate(ssd, flow);
                let waiting = costs.waiting(ssd, flow, rate);
                let paths = Paths { app: &app, at: &at, ssd, uses, waiting };
                let mut all = Vec::new();
                paths.reading(&mut all);
                paths.writing(&mut all);
                let parts: f64 = all.iter().map(|b| b.part).sum();
                let mean: f64 = all.iter().map(|b| b.part * b.mean_us).sum();
                assert!((parts - 1.0).abs() < 1e-6, "{letter} {parts}");
                assert!((mean * rate / 1e6 - 1.0).abs() < 0.03, "{letter} {flow:?}: {mean} {}", 1e6 / rate);
            }
        }
    }
}
