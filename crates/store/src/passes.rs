//! How many cleaning passes run at once, how many should, and of what kind they are.
//!
//! Shape:      segments left to writers -> passes wanted of the background; a thread that finds fewer running begins one
//! Invariants: of the background no more run than are wanted when one begins; a writer that finds no segment begins one whatever
//!             the background does
//! Source:     Memshare §5.3: cleaning runs in parallel where writers outrun it

use crate::cleaner::Full;
use crate::limits::{
    CLEANERS_MAX, GIVES_WAY_ITEMS, MARKS_MAX, MARKS_MIN, PASS_FREES_PART, PASS_WIDTH, PASS_WIDTH_MAX,
    RESERVE_SEGMENTS,
};
use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, give_way};

/// Who runs a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// A background cleaner.
    Background,
    /// A writer that found no segment.
    Writer,
}

/// How a pass chooses what it takes and what of that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// It looks at many segments and takes the best.
    Surveyed {
        /// Thousandths of what it looks at that it marks to go: the fewer, the better is what stays, and the more it costs.
        marks: usize,
    },
    /// It takes so many and frees so many of them (Memshare §3.2 and Table 7).
    Fixed(FixedPass),
}

/// A pass over a fixed number of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedPass {
    /// Segments that it takes, 2 to `PASS_WIDTH_MAX`: more keep better items, fewer cost less.
    pub takes: usize,
    /// Segments that it frees of them, at least one. One is Memshare's, which copies as much as it takes.
    pub frees: usize,
}

impl Default for FixedPass {
    fn default() -> Self {
        Self { takes: PASS_WIDTH, frees: PASS_WIDTH / PASS_FREES_PART }
    }
}

impl FixedPass {
    /// Segments that it frees if it gets so many: at least one, and never all.
    pub(crate) fn frees_of(self, sources: usize) -> usize {
        let part = (self.frees * sources).div_ceil(self.takes.max(1));
        part.min(sources.saturating_sub(1)).max(1)
    }
}

/// Passes that run, and what was counted of them.
#[derive(Debug)]
pub(crate) struct Passes {
    running: [AtomicU32; 2],
    begun: [AtomicU64; 2],
    /// Those that wait for a segment to copy into.
    waiting: AtomicU32,
    at_once_max: AtomicU32,
    /// Background cleaners that there are; none until somebody says so.
    cleaners: AtomicU32,
    marks: AtomicU32,
    reclaims_early: AtomicBool,
    /// Segments that a fixed pass takes and frees; none take where passes survey.
    fixed: [AtomicU32; 2],
    /// Where nothing may go, how little is dead.
    pub(crate) full: Full,
}

/// Passes that were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PassTotals {
    /// Begun by background cleaners.
    pub background: u64,
    /// Begun by writers that found no segment.
    pub writers: u64,
    /// Running now.
    pub running: u32,
    /// Most that ever ran at once.
    pub at_once_max: u32,
}

/// A pass that runs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    passes: &'a Passes,
    by: By,
}

impl Passes {
    pub(crate) fn new() -> Self {
        Self {
            running: [AtomicU32::new(0), AtomicU32::new(0)],
            begun: [AtomicU64::new(0), AtomicU64::new(0)],
            waiting: AtomicU32::new(0),
            at_once_max: AtomicU32::new(0),
            cleaners: AtomicU32::new(0),
            marks: AtomicU32::new(count(MARKS_MIN)),
            reclaims_early: AtomicBool::new(true),
            fixed: [AtomicU32::new(0), AtomicU32::new(0)],
            full: Full::default(),
        }
    }

    /// Passes that run, whoever runs them.
    pub(crate) fn running(&self) -> u32 {
        self.running.iter().map(|r| r.load(Ordering::Relaxed)).sum()
    }

    /// Passes that were begun so far, whoever runs them.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.iter().map(|begun| begun.load(Ordering::Relaxed)).sum()
    }

    /// Begins a pass.
    pub(crate) fn begin(&self, by: By) -> Running<'_> {
        self.running[by as usize].fetch_add(1, Ordering::Relaxed);
        self.note_begun(by)
    }

    /// Begins a pass of the background, if fewer than `wanted` run.
    pub(crate) fn begin_wanted(&self, wanted: u32) -> Option<Running<'_>> {
        let by = By::Background;
        let one_more = |running: u32| (running < wanted).then(|| running + 1);
        let begun = self.running[by as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        begun.is_ok().then(|| self.note_begun(by))
    }

    /// A pass that runs does something that may take long and frees nothing: until the answer is dropped who needs room does not
    /// count on it.
    pub(crate) fn aside(&self, by: By) -> Aside<'_> {
        self.running[by as usize].fetch_sub(1, Ordering::Relaxed);
        Aside { passes: self, by }
    }

    /// A pass waits for a segment to copy into, until the answer is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Passes that run and do not wait: what they empty comes free.
    pub(crate) fn working(&self) -> u32 {
        self.running().saturating_sub(self.waiting.load(Ordering::Relaxed))
    }

    fn note_begun(&self, by: By) -> Running<'_> {
        self.begun[by as usize].fetch_add(1, Ordering::Relaxed);
        self.at_once_max.fetch_max(self.running(), Ordering::Relaxed);
        Running { passes: self, by }
    }

    fn totals(&self) -> PassTotals {
        let begun = |by: By| self.begun[by as usize].load(Ordering::Relaxed);
        PassTotals {
            background: begun(By::Background),
            writers: begun(By::Writer),
            running: self.running(),
            at_once_max: self.at_once_max.load(Ordering::Relaxed),
        }
    }
}

/// A pass that runs and frees nothing for the moment.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    passes: &'a Passes,
    by: By,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.passes.running[self.by as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A pass that waits for a segment to copy into.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Passes);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Running<'_> {
    /// Who runs it.
    pub(crate) fn by(&self) -> By {
        self.by
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.passes.running[self.by as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Store {
    /// Says how many background cleaners there are, one to `CLEANERS_MAX`: so many passes of theirs run at once at most, and what
    /// waits for devices is left to them.
    pub fn set_cleaners(&self, cleaners: usize) {
        let cleaners = u32::try_from(cleaners.clamp(1, CLEANERS_MAX)).unwrap_or(1);
        self.passes.cleaners.store(cleaners, Ordering::Relaxed);
    }

    /// How passes choose from now on; what is out of range is brought into it.
    pub fn set_pass_kind(&self, kind: PassKind) {
        let [takes, frees] = &self.passes.fixed;
        match kind {
            PassKind::Surveyed { marks } => {
                self.passes.marks.store(count(marks.clamp(MARKS_MIN, MARKS_MAX)), Ordering::Relaxed);
                takes.store(0, Ordering::Relaxed);
            }
            PassKind::Fixed(fixed) => {
                frees.store(count(fixed.frees.max(1)), Ordering::Relaxed);
                takes.store(count(fixed.takes.clamp(2, PASS_WIDTH_MAX)), Ordering::Relaxed);
            }
        }
    }

    /// How passes choose.
    #[must_use]
    pub fn pass_kind(&self) -> PassKind {
        let [takes, frees] = self.passes.fixed.each_ref().map(|n| n.load(Ordering::Relaxed) as usize);
        if takes == 0 {
            return PassKind::Surveyed { marks: self.passes.marks.load(Ordering::Relaxed) as usize };
        }
        PassKind::Fixed(FixedPass { takes, frees })
    }

    /// Passes of background cleaners that should run at once now.
    #[must_use]
    pub fn passes_wanted(&self) -> usize {
        // What a pass copies into comes back with the next source that it empties: about a segment for each that runs.
        let available = self.log.available().saturating_add(self.passes.running());
        // What was emptied and waits is no reason to empty more, unless a pass has to have a segment before it can go on.
        let available = if available <= self.log.low_water() {
            let (segments, pages) = self.log.coming();
            let segments = if self.passes.waiting.load(Ordering::Relaxed) == 0 { segments } else { 0 };
            available.saturating_add(segments).saturating_add(pages)
        } else {
            available
        };
        let left = available.saturating_sub(RESERVE_SEGMENTS);
        let low_water = self.log.low_water() - RESERVE_SEGMENTS;
        let cleaners = self.passes.cleaners.load(Ordering::Relaxed).max(1);
        let wanted = passes_for(left, low_water, cleaners);
        // The log may have to give segments back while it has enough.
        let wanted = if wanted == 0 && 0 < self.log.excess() { 1 } else { wanted };
        wanted as usize
    }

    /// Says whether segments that are mostly dead are reclaimed before anybody needs room, as at first, or such as are dead altogether
    /// only (`effort`). Under `-M` they always are: room is what they make there, and nothing else is cheaper.
    pub fn set_reclaims_early(&self, does: bool) {
        self.passes.reclaims_early.store(does, Ordering::Relaxed);
    }

    /// Whether they are.
    #[must_use]
    pub fn reclaims_early(&self) -> bool {
        self.no_evict || self.passes.reclaims_early.load(Ordering::Relaxed)
    }

    /// Whether background cleaners run beside the workers.
    pub(crate) fn has_cleaners(&self) -> bool {
        self.passes.cleaners.load(Ordering::Relaxed) != 0
    }

    /// Lets other threads run, between items of a pass of which so many were dealt with, as long as no writer waits for it.
    pub(crate) fn let_others_run(&self, handled: usize) {
        let no_writer_cleans = || self.passes.running[By::Writer as usize].load(Ordering::Relaxed) == 0;
        if handled.is_multiple_of(GIVES_WAY_ITEMS) && self.log.has_room() && no_writer_cleans() {
            give_way();
        }
    }

    /// Passes, by who ran them.
    #[must_use]
    pub fn pass_totals(&self) -> PassTotals {
        self.passes.totals()
    }
}

/// One from the low water mark on; all before writers have nothing left.
fn passes_for(left: u32, low_water: u32, cleaners: u32) -> u32 {
    let taken = low_water.saturating_sub(left);
    if low_water < left { 0 } else { 1 + ((cleaners - 1) * taken).div_ceil(low_water.max(1)) }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::cleaner::Outcome;
    use crate::hash::Space;
    use crate::sync::GAVE_WAY;
    use crate::{Fields, Mode, Options, RankKind, TenantSpec, Worker};
    use control::Claim;
    use units::Bytes;

    #[test]
    fn who_waits_does_not_work() {
        let passes = Passes::new();
        let (one, other) = (passes.begin(By::Writer), passes.begin(By::Background));
        assert_eq!((passes.running(), passes.working()), (2, 2));
        let waits = [passes.wait(), passes.wait()];
        assert_eq!((passes.running(), passes.working()), (2, 0), "each could only wait for the other");
        drop(waits);
        drop(one);
        assert_eq!((passes.running(), passes.working()), (1, 1));
        drop(other);
        assert_eq!(passes.working(), 0);
    }

    #[test]
    fn more_passes_run_the_less_is_left() {
        let of = |low_water, cleaners| {
            (0..=low_water + 1).rev().map(|left| passes_for(left, low_water, cleaners)).collect::<Vec<_>>()
        };
        assert_eq!(of(1, 1), [0, 1, 1]);
        assert_eq!(of(1, 2), [0, 1, 2]);
        assert_eq!(of(2, 2), [0, 1, 2, 2]);
        assert_eq!(of(8, 1), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(of(8, 4), [0, 1, 2, 2, 3, 3, 3, 4, 4, 4]);
        for (low_water, cleaners) in [(2, 2), (8, 4), (16, 8), (3, 8)] {
            // A writer that takes the last segment finds everybody at it already.
            assert_eq!(passes_for(low_water / cleaners, low_water, cleaners), cleaners, "{low_water}");
        }
    }

    /// A background cleaner holds no processor for a whole time slice; a pass that a writer waits for does.
    #[test]
    fn a_pass_lets_others_run_while_writers_find_segments() {
        let (memory, item_max) = (Bytes::mib(8), Bytes::kib(64));
        let options = Options { memory, item_max, threads: 2, tenants_max: 1, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        let (name, claim) = ("t".to_owned(), Claim::default());
        let tenant =
            store.add_tenant(TenantSpec { name, own_space: false, claim, rank: RankKind::Lru }).unwrap();
        let mut worker = store.worker().unwrap();
        let mut number = 0_u32;
        let mut write_until = |worker: &mut Worker, is_enough: &dyn Fn(&Store) -> bool| {
            while !is_enough(&store) {
                number += 1;
                let bytes = number.to_be_bytes();
                let key = worker.key(Space::Shared, &bytes).unwrap();
                if worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 20]).is_err() {
                    worker.make_room().unwrap();
                }
                worker.quiesce();
            }
        };
        write_until(&mut worker, &|store| 0 < store.passes_wanted());
        assert!(store.log.has_room());
        let before = GAVE_WAY.get();
        worker.help();
        assert_eq!(store.pass_totals().background, 1);
        assert!(before + 10 < GAVE_WAY.get(), "{} times", GAVE_WAY.get() - before);
        write_until(&mut worker, &|store| !store.log.has_room());
        let before = GAVE_WAY.get();
        assert!(matches!(worker.clean(), Outcome::Freed(_)), "a writer waits for this pass");
        assert_eq!(GAVE_WAY.get(), before);
        worker.check();
    }

    #[test]
    fn no_more_begin_than_are_wanted() {
        let passes = Passes::new();
        assert!(passes.begin_wanted(0).is_none());
        let first = passes.begin_wanted(2).unwrap();
        let writer = passes.begin(By::Writer);
        let second = passes.begin_wanted(2).unwrap();
        assert!(passes.begin_wanted(2).is_none(), "a writer's does not count");
        drop(first);
        let third = passes.begin_wanted(2);
        assert!(third.is_some());
        drop((writer, second, third));
        let totals = PassTotals { background: 3, writers: 1, running: 0, at_once_max: 3 };
        assert_eq!(passes.totals(), totals);
    }
}
