//! A modelled memory system: its constants, and what a stream of accesses asks of its stations.
//!
//! Shape:      constants -> per stream a `Class` (population, think time, demand at the two stations)
//! Invariants: the constants are frozen: a test lists every one of them, so that no change goes unseen
//! Units:      nanoseconds, GB/s (which is bytes per nanosecond)
//! Source:     `media::model`, which the emulated tier takes its time by as well
//! Non-goals:  NUMA-remote access, thermal limits, misses of the address table, fences, CXL

use control::bandwidth::Kind;
use control::{Amount, Pool};
use media::Access;
pub use media::model::{Client, Modules};
use media::model::{MemorySystem, Operation, SCALARS};
use units::{Bytes, BytesPerSec};

/// How exactly the memory system is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// One utilisation and one latency factor: quick, and not for verdicts.
    Utilisation,
    /// Two queueing stations: the medium and the memory controller.
    TwoStations,
}

/// A memory system, and how it is modelled.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) system: MemorySystem,
    profile_id: u32,
}

/// Utilisation model: bandwidth at which reads and writes of the slow tier alone use all of it, GB/s on six modules (the
/// line through MT²'s frontier points).
pub(super) const LEVEL0_LIMITS: (f64, f64) = (37.0, 10.9);
/// Utilisation model: utilisation above which it does not follow.
pub(super) const LEVEL0_FULL: f64 = 0.98;

impl Device {
    /// MT²'s machine: six modules.
    #[must_use]
    pub const fn mt2() -> Self {
        Self::of("mt2", MemorySystem::mt2(), 1)
    }

    /// NyxCache's machine: two modules, one reader as in its Table 2.
    #[must_use]
    pub const fn nyx() -> Self {
        Self::of("nyx", MemorySystem::nyx(), 2)
    }

    /// Six modules by the utilisation formula alone: for quick work on policies, not for verdicts.
    #[must_use]
    pub const fn level0() -> Self {
        let mut device = Self::of("level0", MemorySystem::mt2(), 3);
        device.level = Level::Utilisation;
        device
    }

    /// OptaneStudy's machine with six modules, or with one.
    #[must_use]
    pub const fn optane_study(modules: Modules) -> Self {
        let system = MemorySystem::optane_study(modules);
        match modules {
            Modules::Six => Self::of("optane-study-6", system, 4),
            Modules::One => Self::of("optane-study-1", system, 5),
        }
    }

    const fn of(name: &'static str, system: MemorySystem, profile_id: u32) -> Self {
        Self { name, level: Level::TwoStations, system, profile_id }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Reads of the slow tier at most, GB/s.
    #[must_use]
    pub fn read_limit(&self) -> f64 {
        self.system.read_limit()
    }

    /// Writes of the slow tier at most, GB/s.
    #[must_use]
    pub fn write_limit(&self) -> f64 {
        self.system.write_limit()
    }

    /// What there is to divide: the slow tier's time, and its reads as bandwidth.
    #[must_use]
    pub fn pool(&self) -> Pool {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tens of GB/s")]
        let bandwidth = BytesPerSec((self.read_limit() * 1e9) as u64);
        let capacity = Amount { bandwidth, cost: control::bandwidth::Cost::SECOND, ..Amount::default() };
        Pool { capacity, profile: self.profile_id, ..Pool::default() }
    }

    /// How much longer a write of the medium takes because `writers` write at once.
    #[must_use]
    pub fn contention(&self, writers: f64) -> f64 {
        self.system.contention(writers)
    }

    /// Bytes of a unit: what a class counts.
    #[must_use]
    pub const fn unit(kind: Kind) -> f64 {
        MemorySystem::unit(access(kind))
    }

    /// Time that a unit takes at the medium (without contention) and at the controller, in ns.
    #[must_use]
    pub fn demand(&self, kind: Kind, size: Bytes) -> [f64; 2] {
        self.system.demand(access(kind), size)
    }

    /// How a thread of this kind behaves at the size that was calibrated.
    #[must_use]
    pub const fn typical(&self, kind: Kind) -> &Client {
        self.system.typical(access(kind))
    }

    /// How a thread that makes accesses of this kind and size behaves.
    #[must_use]
    pub fn client(&self, kind: Kind, size: Bytes) -> Client {
        self.system.client(access(kind), size)
    }

    /// Every constant of the model with its name, in a fixed order: what is frozen.
    #[must_use]
    pub fn constants() -> Vec<(String, f64)> {
        let mut all = Vec::new();
        let (six, nyx) = (Self::mt2(), Self::nyx());
        let clients = Kind::ALL.into_iter().map(|kind| (kind, six.typical(kind)));
        for (kind, c) in clients.chain([(Kind::SlowRead, nyx.typical(Kind::SlowRead))]) {
            let named = [
                ("outstanding", c.outstanding),
                ("think_ns", c.think_ns),
                ("bus_cost", c.bus_cost),
                ("bus_wait", c.bus_wait),
            ];
            all.extend(named.map(|(name, value)| (format!("{kind:?}.{name}"), value)));
        }
        for device in [
            Self::mt2(),
            Self::nyx(),
            Self::level0(),
            Self::optane_study(Modules::Six),
            Self::optane_study(Modules::One),
        ] {
            let named = [
                ("dimms", device.system.dimms),
                ("read", device.system.read),
                ("write", device.system.write),
                ("bus", device.system.bus),
                ("batch", device.system.batch),
            ];
            all.extend(named.map(|(name, value)| (format!("{}.{name}", device.name), value)));
        }
        let level0 = [
            ("level0.read", LEVEL0_LIMITS.0),
            ("level0.write", LEVEL0_LIMITS.1),
            ("level0.full", LEVEL0_FULL),
        ];
        all.extend(SCALARS.into_iter().chain(level0).map(|(name, value)| (name.to_owned(), value)));
        for operation in Operation::ALL {
            let (start, slope) = operation.line();
            all.push((format!("{operation:?}.start_ns"), start));
            all.push((format!("{operation:?}.slope_ns"), slope));
        }
        all
    }
}

/// A kind of traffic as the media name it.
pub(super) const fn access(kind: Kind) -> Access {
    match kind {
        Kind::DramRead => Access::DramRead,
        Kind::DramWrite => Access::DramWrite,
        Kind::SlowRead => Access::SlowRead,
        Kind::SlowWrite => Access::SlowWrite,
    }
}
