//! A modelled memory system: its constants, and what a stream of accesses asks of its stations.
//!
//! Shape:      constants -> per stream a `Class` (population, think time, demand at the two stations)
//! Invariants: the constants are frozen: a test lists every one of them, so that no change goes unseen
//! Units:      nanoseconds, GB/s (which is bytes per nanosecond)
//! Source:     the calibration of the two-station model on OptaneStudy's and MT²'s points (17 constants by random search;
//!             `write` of 1.9 GB/s, the write contention's shape and the batch by hand), NyxCache Table 2 for its two DIMMs
//! Non-goals:  NUMA-remote access, thermal limits, misses of the address table, fences, CXL

use super::timing::{LINE, MEDIA_UNIT, Operation, lines, media_bytes_per_byte, prefetch_waste};
use control::bandwidth::{Kind, Kinds};
use control::{Amount, Pool};
use units::{Bytes, BytesPerSec};

/// How exactly the memory system is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// One utilisation and one latency factor: quick, and not for verdicts.
    Utilisation,
    /// Two queueing stations: the medium and the memory controller.
    TwoStations,
}

/// How a thread of one kind of traffic behaves, and what the memory controller makes of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Client {
    /// Units that a thread has under way at once.
    pub outstanding: f64,
    /// Time of a unit outside of both stations, in ns.
    pub think_ns: f64,
    /// Time of a 64 B line in the memory controller, relative to a read of DRAM.
    pub bus_cost: f64,
    /// How much of the controller's queue it sees: accesses to the slow tier lose against DRAM.
    pub bus_wait: f64,
}

/// A memory system.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// Modules of the slow tier that accesses are spread over.
    pub(super) dimms: f64,
    /// Reads of one module, GB/s.
    pub(super) read: f64,
    /// Writes of one module, GB/s.
    pub(super) write: f64,
    /// Reads of DRAM through the controller, GB/s.
    pub(super) bus: f64,
    /// Writes that leave for the medium together.
    pub(super) batch: f64,
    pub(super) clients: Kinds<Client>,
    /// Reads of the slow tier by size as NyxCache Table 2 has them, instead of one think time for all sizes.
    pub(super) reads_by_size: bool,
    profile_id: u32,
}

/// Clients as calibrated on six modules.
const CLIENTS: Kinds<Client> = Kinds {
    dram_read: Client { outstanding: 9.777, think_ns: 81.43, bus_cost: 1.0, bus_wait: 1.0 },
    dram_write: Client { outstanding: 6.034, think_ns: 111.6, bus_cost: 3.954, bus_wait: 1.0 },
    slow_read: Client { outstanding: 3.206, think_ns: 266.5, bus_cost: 0.742, bus_wait: 2.833 },
    slow_write: Client { outstanding: 4.025, think_ns: 205.1, bus_cost: 2.787, bus_wait: 1.437 },
};
/// Reads of 256 B on NyxCache's machine: 3.02 under way, 490 ns each (Table 2: 1.59 GB/s and .49 µs).
const NYX_READER: Client = Client { outstanding: 3.02, think_ns: 467.6, ..CLIENTS.slow_read };
/// What a read of 256 B takes there with an empty machine, and how often one completes, in ns.
const NYX_READ_NS: (f64, f64) = (490.0, 161.2);
/// Slope of a read's latency there, ns per 64 B line: (1220 − 490) / 60 of Table 2, rounded up in the notes' fit.
const NYX_READ_SLOPE: f64 = 12.3;
/// Writers beyond which the medium's buffer is contended, gain per writer, and the most that it costs (OptaneStudy: writes
/// by threads; set by hand).
const CONTENTION: (f64, f64, f64) = (4.5, 0.125, 2.8);
/// Part of a writer that a module of six feels, because accesses are spread over modules (fitted).
const SPREAD_WRITERS: f64 = 0.37;
/// Modules over which the spread is calibrated; with fewer each feels more of every writer.
const SPREAD_DIMMS: f64 = 6.0;
/// Utilisation model: bandwidth at which reads and writes of the slow tier alone use all of it, GB/s on six modules (the
/// line through MT²'s frontier points).
pub(super) const LEVEL0_LIMITS: (f64, f64) = (37.0, 10.9);
/// Utilisation model: utilisation above which it does not follow.
pub(super) const LEVEL0_FULL: f64 = 0.98;

impl Device {
    /// MT²'s machine: six modules.
    #[must_use]
    pub const fn mt2() -> Self {
        Self::of("mt2", 6.0, 6.314, 1.90, 1)
    }

    /// NyxCache's machine: two modules, one reader as in its Table 2.
    #[must_use]
    pub const fn nyx() -> Self {
        let mut device = Self::of("nyx", 2.0, 6.6, 2.3, 2);
        device.clients.slow_read = NYX_READER;
        device.reads_by_size = true;
        device
    }

    /// Six modules by the utilisation formula alone: for quick work on policies, not for verdicts.
    #[must_use]
    pub const fn level0() -> Self {
        let mut device = Self::of("level0", 6.0, 6.314, 1.90, 3);
        device.level = Level::Utilisation;
        device
    }

    /// OptaneStudy's machine with six modules, or with one.
    #[must_use]
    pub const fn optane_study(one_module: Modules) -> Self {
        match one_module {
            Modules::Six => Self::of("optane-study-6", 6.0, 6.314, 1.962, 4),
            Modules::One => Self::of("optane-study-1", 1.0, 6.55, 2.22, 5),
        }
    }

    const fn of(name: &'static str, dimms: f64, read: f64, write: f64, profile_id: u32) -> Self {
        Self {
            name,
            level: Level::TwoStations,
            dimms,
            read,
            write,
            bus: 107.0,
            batch: 4.0,
            clients: CLIENTS,
            reads_by_size: false,
            profile_id,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Reads of the slow tier at most, GB/s.
    #[must_use]
    pub fn read_limit(&self) -> f64 {
        self.dimms * self.read
    }

    /// Writes of the slow tier at most, GB/s.
    #[must_use]
    pub fn write_limit(&self) -> f64 {
        self.dimms * self.write
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
        let (free, gain, most) = CONTENTION;
        let spread = if self.dimms < SPREAD_DIMMS { SPREAD_DIMMS / self.dimms } else { 1.0 };
        let felt = if self.dimms <= 1.0 { writers } else { writers * SPREAD_WRITERS * spread };
        (1.0 + gain * (felt - free).max(0.0)).min(most)
    }

    /// Bytes of a unit: what a class counts.
    #[must_use]
    pub const fn unit(kind: Kind) -> f64 {
        if kind.is_slow() { MEDIA_UNIT as f64 } else { LINE as f64 }
    }

    /// Time that a unit takes at the medium (without contention) and at the controller, in ns.
    #[must_use]
    pub fn demand(&self, kind: Kind, size: Bytes) -> [f64; 2] {
        let unit = Self::unit(kind);
        let media = match kind {
            Kind::SlowRead => unit / self.read_limit(),
            Kind::SlowWrite => unit / self.write_limit(),
            Kind::DramRead | Kind::DramWrite => 0.0,
        };
        let prefetched = if kind == Kind::SlowRead { prefetch_waste(size) } else { 1.0 };
        let bus = unit / self.bus * self.clients.get(kind).bus_cost * prefetched;
        [media * media_bytes_per_byte(kind, size), bus]
    }

    /// How a thread that makes accesses of this kind and size behaves.
    #[must_use]
    pub fn client(&self, kind: Kind, size: Bytes) -> Client {
        let client = *self.clients.get(kind);
        if !self.reads_by_size || kind != Kind::SlowRead {
            return client;
        }
        let (alone, interval) = NYX_READ_NS;
        let slope = NYX_READ_SLOPE * (lines(size) - 4.0);
        let more_media = self.demand(kind, size)[0] - self.demand(kind, Bytes(MEDIA_UNIT))[0];
        let units = size.0 as f64 / MEDIA_UNIT as f64;
        let under_way = (alone + slope) / alone * interval / Operation::Load.interval_ns(size);
        Client {
            outstanding: client.outstanding * units * under_way,
            think_ns: (client.think_ns + slope - more_media).max(0.0),
            ..client
        }
    }

    /// Every constant of the model with its name, in a fixed order: what is frozen.
    #[must_use]
    pub fn constants() -> Vec<(String, f64)> {
        let mut all = Vec::new();
        for (kind, c) in CLIENTS.iter().chain([(Kind::SlowRead, &NYX_READER)]) {
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
                ("dimms", device.dimms),
                ("read", device.read),
                ("write", device.write),
                ("bus", device.bus),
                ("batch", device.batch),
            ];
            all.extend(named.map(|(name, value)| (format!("{}.{name}", device.name), value)));
        }
        let scalars = [
            ("nyx_read.alone_ns", NYX_READ_NS.0),
            ("nyx_read.interval_ns", NYX_READ_NS.1),
            ("nyx_read.slope_ns", NYX_READ_SLOPE),
            ("contention.free", CONTENTION.0),
            ("contention.gain", CONTENTION.1),
            ("contention.most", CONTENTION.2),
            ("contention.spread", SPREAD_WRITERS),
            ("contention.spread_dimms", SPREAD_DIMMS),
            ("level0.read", LEVEL0_LIMITS.0),
            ("level0.write", LEVEL0_LIMITS.1),
            ("level0.full", LEVEL0_FULL),
        ];
        all.extend(scalars.map(|(name, value)| (name.to_owned(), value)));
        for operation in Operation::ALL {
            let (start, slope) = operation.line();
            all.push((format!("{operation:?}.start_ns"), start));
            all.push((format!("{operation:?}.slope_ns"), slope));
        }
        all
    }
}

/// How many modules OptaneStudy's accesses were spread over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modules {
    /// One, without interleaving.
    One,
    /// All six of a socket.
    Six,
}
