//! A slow tier that is DRAM with the timing of persistent memory: every access takes the time that a calibrated model of one,
//! two or six modules says, in real time.
//!
//! Shape:       bytes in an anonymous mapping; `take_time` asks the stations, which all threads share, and waits
//! Invariants:  tenants interfere: an access counts for everybody's next ones, whoever makes it
//! Assumptions: 1. the caller calls `take_time` once for each access, on the thread that makes it; what the access itself took
//!              counts where it says when it began; 2. a thread overlaps its accesses as NyxCache's and OptaneStudy's do: it is
//!              held for the time between completions, which is shorter than an access's latency (161 ns of 490 ns for reads of
//!              256 B on two modules); 3. a thread that waits has a core when its wait ends: one that is preempted is late, and
//!              interferes less. Waits of 300 us and more, which slower tiers have, leave the core to others until just before
//!              they end; 4. the time stamp counter's step (10 ns here) and what a wait is too long are carried to the thread's
//!              next access, so means are kept and single accesses are off by two steps; 5. traffic of DRAM is not seen unless
//!              it is told of; 6. content ends with the process
//! Failure:     none of its own; the mapping may be refused
//! Source:      `model` (constants), `stations.rs` (algorithm); the shim of the notes' check P10

#![allow(unsafe_code, reason = "bytes of the mapping: the contract of `Device::write` keeps others away")]

mod stations;
#[cfg(test)]
#[cfg(not(miri))]
mod stations_tests;

pub use stations::{ROUND, Stations, Timing};

use crate::device::{copy_in, copy_out};
use crate::model::{MemorySystem, Modules};
use crate::{
    Access, Device, MapError, Profile, ProfileRow, Region, SlowAccess, Stopwatch, Survival, WordRegion,
};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::str::FromStr;
use units::{Bytes, Duration, Instant};

/// How many modules of persistent memory are emulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimms {
    /// One module, as OptaneStudy measured it.
    One,
    /// Two modules: NyxCache's machine.
    Two,
    /// Six modules, interleaved: MT²'s machine.
    Six,
}

impl Dimms {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::Six];

    /// Its name in the specification of a tier.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "1dimm",
            Self::Two => "2dimm",
            Self::Six => "6dimm",
        }
    }

    /// The constants that it stands for.
    #[must_use]
    pub const fn system(self) -> MemorySystem {
        match self {
            Self::One => MemorySystem::optane_study(Modules::One),
            Self::Two => MemorySystem::nyx(),
            Self::Six => MemorySystem::mt2(),
        }
    }
}

/// What is emulated: modules of persistent memory, or something so many times slower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emulation {
    /// The modules.
    pub dimms: Dimms,
    /// How much longer everything takes than on them, 1 for what was measured: a machine with few cores uses a slower tier up.
    pub slowed: NonZeroU32,
}

impl Emulation {
    /// Accesses per second of the modules -> of the tier.
    #[must_use]
    pub fn rate(self, of_modules: f64) -> f64 {
        of_modules / f64::from(self.slowed.get())
    }

    /// The model's own profile of it.
    #[must_use]
    pub fn profile(self) -> Vec<ProfileRow> {
        let mut rows = Profile::modelled(&self.dimms.system());
        for row in &mut rows {
            (row.read_iops, row.write_iops) = (self.rate(row.read_iops), self.rate(row.write_iops));
        }
        rows
    }
}

impl From<Dimms> for Emulation {
    fn from(dimms: Dimms) -> Self {
        Self { dimms, slowed: NonZeroU32::MIN }
    }
}

/// `2dimm`, or `2dimm/8` for an eighth of its speed.
impl fmt::Display for Emulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slowed {
            NonZeroU32::MIN => write!(f, "{}", self.dimms.name()),
            slowed => write!(f, "{}/{slowed}", self.dimms.name()),
        }
    }
}

/// A text that names no emulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "none of 1dimm, 2dimm, 6dimm, nor one of them with '/' and how many times slower it is, {SLOWED_MAX} at most"
)]
pub struct EmulationError;

impl FromStr for Emulation {
    type Err = EmulationError;

    fn from_str(text: &str) -> Result<Self, EmulationError> {
        let (name, slowed) = text.split_once('/').unwrap_or((text, "1"));
        let dimms = Dimms::ALL.into_iter().find(|dimms| dimms.name() == name).ok_or(EmulationError)?;
        let slowed: NonZeroU32 = slowed.parse().map_err(|_| EmulationError)?;
        if slowed.get() <= SLOWED_MAX { Ok(Self { dimms, slowed }) } else { Err(EmulationError) }
    }
}

/// A piece of emulated persistent memory.
#[derive(Debug)]
pub struct Emulated {
    region: Region,
    stations: Stations,
    watch: Stopwatch,
    slowed: u32,
}

/// What a processor moves at once: writes of 64 B are possible, and cost what 256 B cost.
const LINE: Bytes = Bytes(crate::model::LINE);
/// How many times slower than its modules a tier may be: slower than a disk is of no use.
const SLOWED_MAX: u32 = 1_000;
/// A round of the modules' time is at least so long: some accesses of a thread.
const ROUND_LEAST: Duration = Duration::from_micros(5);
/// What is accessed at once at most; of more each part begins when the one before has ended, so that neighbours meet a long access all the time that
/// it takes and not only when it begins.
const PART: Bytes = Bytes::kib(16);
/// Longest time that a thread carries from one access to the next: what one preemption costs is not made up for.
const CARRIED_MAX: Duration = Duration(200);

thread_local! {
    /// What the thread's latest access took too long.
    static CARRIED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Emulated {
    /// Zeroed memory of `size` with the timing of `emulation`.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub fn new(emulation: impl Into<Emulation>, size: Bytes) -> Result<Self, MapError> {
        let Emulation { dimms, slowed } = emulation.into();
        let region = Region::anonymous(size)?;
        region.prefer_huge_pages();
        region.leave_out_of_dumps();
        // In the modules' time, of which less passes on a slower tier: what it remembers of who asked it is gone as soon as it can be.
        let round = Duration((ROUND.0 / u64::from(slowed.get())).max(ROUND_LEAST.0));
        let stations = Stations::in_rounds(dimms.system(), round);
        Ok(Self { region, stations, watch: Stopwatch::new(), slowed: slowed.get() })
    }

    /// Counts accesses that nobody waits for here: traffic of DRAM, or of a neighbour that the caller stands for.
    pub fn tell(&self, access: Access, size: Bytes, count: u32) -> Timing {
        self.stations.accesses(self.of_modules(self.watch.now()), access, size, count)
    }

    /// The modules' time: it passes more slowly the slower the tier is.
    fn of_modules(&self, now: Instant) -> Instant {
        Instant(now.0 / u64::from(self.slowed))
    }

    /// The same as [`Device::take_time_since`]; says what the model wanted of the modules, and when it ended.
    #[inline]
    pub fn take(&self, began: Instant, access: SlowAccess, size: Bytes) -> (Timing, Instant) {
        let parts = size.0.div_ceil(PART.0).max(1);
        // Alike, for a small rest would be an access of its own kind.
        let part = Bytes(size.0.div_ceil(parts).next_multiple_of(LINE.0));
        let (mut all, mut ended) = self.take_part(began, access, size.min(part));
        let mut rest = size - size.min(part);
        while Bytes::ZERO < rest {
            let (timing, then) = self.take_part(ended, access, rest.min(part));
            all.held_ns += timing.held_ns;
            all.latency_ns += timing.latency_ns;
            (rest, ended) = (rest - rest.min(part), then);
        }
        (all, ended)
    }

    #[inline]
    fn take_part(&self, began: Instant, access: SlowAccess, size: Bytes) -> (Timing, Instant) {
        let timing = self.stations.access(self.of_modules(began), access.into(), size);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
        let held = Duration((timing.held_ns * f64::from(self.slowed)).round() as u64);
        let end = began + (held - CARRIED.get());
        let ended = self.watch.wait_until(end);
        let late = ended.since(end);
        CARRIED.set(if late <= CARRIED_MAX { late } else { Duration::ZERO });
        (timing, ended)
    }
}

impl Device for Emulated {
    fn size(&self) -> Bytes {
        Bytes(self.region.len() as u64)
    }

    fn access_unit(&self) -> Bytes {
        LINE
    }

    fn survival(&self) -> Survival {
        Survival::Nothing
    }

    fn mapped(&self) -> Option<&Region> {
        Some(&self.region)
    }

    fn notes(&self) -> Option<&WordRegion> {
        None
    }

    fn settle_notes(&self, _words: Range<usize>) {}

    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the caller keeps others away.
        unsafe { copy_in(&self.region, at, bytes) }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        copy_out(&self.region, at, into)
    }

    fn settle(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn take_time(&self, access: SlowAccess, size: Bytes) {
        self.take(self.watch.now(), access, size);
    }

    fn begin(&self) -> Instant {
        self.watch.now()
    }

    fn take_time_since(&self, began: Instant, access: SlowAccess, size: Bytes) {
        self.take(began, access, size);
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::device::write_alone;

    #[test]
    fn an_access_takes_at_least_what_the_model_says() {
        let tier = Emulated::new(Dimms::Two, Bytes::mib(1)).unwrap();
        let (mut wanted, start) = (0.0, tier.begin());
        for i in 0..1000_u64 {
            write_alone(&tier, i * 256, &[1; 256]).unwrap();
            let (access, size) = if i % 2 == 0 { (SlowAccess::Read, 256) } else { (SlowAccess::Write, 4096) };
            wanted += tier.take(tier.begin(), access, Bytes(size)).0.held_ns;
        }
        let took = tier.begin().since(start);
        // What one access is too long is taken off the next; the last one's is still owed.
        assert!(wanted - 500.0 <= (took + CARRIED_MAX).0 as f64, "{took} for {wanted} ns");
        assert!(100.0 * 500.0 < wanted, "{wanted} ns");
    }

    #[test]
    fn who_is_told_of_slows_who_accesses() {
        let tier = Emulated::new(Dimms::Two, Bytes::mib(1)).unwrap();
        let alone = tier.take(tier.begin(), SlowAccess::Read, Bytes(256)).0.held_ns;
        let busy = tier.begin() + Duration::from_millis(2);
        let mut beside = alone;
        while tier.begin() < busy {
            tier.tell(Access::SlowWrite, Bytes(64), 64);
            beside = tier.take(tier.begin(), SlowAccess::Read, Bytes(256)).0.held_ns;
        }
        assert!(2.0 * alone < beside, "{beside} ns beside writes, {alone} alone");
    }

    #[test]
    fn a_tier_of_an_eighth_of_the_speed_holds_a_thread_eight_times_as_long() {
        let tier = Emulated::new("2dimm/8".parse::<Emulation>().unwrap(), Bytes::mib(1)).unwrap();
        let (mut wanted, start) = (0.0, tier.begin());
        for _ in 0..200 {
            wanted += tier.take(tier.begin(), SlowAccess::Write, Bytes(4096)).0.held_ns;
        }
        let took = tier.begin().since(start);
        assert!(200.0 * 500.0 < wanted, "{wanted} ns of the modules' time");
        assert!(8.0 * wanted - 500.0 <= (took + CARRIED_MAX).0 as f64, "{took} for 8 times {wanted} ns");
    }

    #[test]
    fn a_long_access_is_met_by_others_part_by_part() {
        let tier = Emulated::new(Dimms::Two, Bytes::mib(1)).unwrap();
        let part = tier.take(tier.begin(), SlowAccess::Read, PART).0.held_ns;
        let (whole, start) = (PART + PART + PART + Bytes(100), tier.begin());
        let counted = |tier: &Emulated| tier.stations.bytes(Access::SlowRead);
        let before = counted(&tier);
        let (timing, end) = tier.take(start, SlowAccess::Read, whole);
        assert_eq!(counted(&tier) - before, whole.0, "every part counts, and once");
        assert!(
            3.0 * part < timing.held_ns && timing.held_ns < 8.0 * part,
            "{} ns of {part}",
            timing.held_ns
        );
        assert!(timing.held_ns - 500.0 <= (end.since(start) + CARRIED_MAX).0 as f64);
    }

    #[test]
    fn what_costs_an_eighth_of_the_rate_costs_eight_times_as_much() {
        let (whole, slow): (Emulation, Emulation) = ("2dimm".parse().unwrap(), "2dimm/8".parse().unwrap());
        let cost = |emulation: Emulation| {
            Profile::new(&emulation.profile()).unwrap().cost_ps(SlowAccess::Read, Bytes(1024)) as f64
        };
        assert!((cost(slow) / cost(whole) - 8.0).abs() < 0.01);
        assert_eq!((whole.to_string(), slow.to_string()), ("2dimm".to_owned(), "2dimm/8".to_owned()));
        for wrong in ["2dimm/0", "2dimm/", "2dimm/-1", "2dimm/1001", "/8", "3dimm", "2dimm/8/8"] {
            assert_eq!(wrong.parse::<Emulation>(), Err(EmulationError), "{wrong}");
        }
    }

    #[test]
    fn presets_have_names_of_their_own() {
        let names = Dimms::ALL.map(Dimms::name);
        assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)));
        let limits = Dimms::ALL.map(|dimms| dimms.system().read_limit());
        assert!(limits.is_sorted(), "{limits:?}");
    }
}
