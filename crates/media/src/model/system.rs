//! A memory system's constants, and what a stream of accesses asks of its two stations.
//!
//! Shape:      kind, size -> demand at the medium and at the memory controller; threads under way, time outside of both
//! Invariants: the constants are frozen: a test of the laboratory lists every one of them, so that no change goes unseen
//! Units:      nanoseconds, GB/s (which is bytes per nanosecond)
//! Source:     the calibration of the two-station model on OptaneStudy's and MT²'s points (17 constants by random search;
//!             `write` of 1.9 GB/s, the write contention's shape and the batch by hand), NyxCache Table 2 for its two DIMMs

use super::operation::{LINE, MEDIA_UNIT, Operation, lines, media_bytes_per_byte, prefetch_waste};
use crate::Access;
use units::Bytes;

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
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemorySystem {
    /// Modules of the slow tier that accesses are spread over.
    pub dimms: f64,
    /// Reads of one module, GB/s.
    pub read: f64,
    /// Writes of one module, GB/s.
    pub write: f64,
    /// Reads of DRAM through the controller, GB/s.
    pub bus: f64,
    /// Writes that leave for the medium together.
    pub batch: f64,
    /// How threads behave, by kind of traffic in the order of [`Access::ALL`].
    clients: [Client; 4],
    /// Reads of the slow tier by size as NyxCache Table 2 has them, instead of one think time for all sizes.
    reads_by_size: bool,
}

/// How many modules OptaneStudy's accesses were spread over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modules {
    /// One, without interleaving.
    One,
    /// All six of a socket.
    Six,
}

/// Clients as calibrated on six modules, in the order of [`Access::ALL`].
const CLIENTS: [Client; 4] = [
    Client { outstanding: 9.777, think_ns: 81.43, bus_cost: 1.0, bus_wait: 1.0 },
    Client { outstanding: 6.034, think_ns: 111.6, bus_cost: 3.954, bus_wait: 1.0 },
    Client { outstanding: 3.206, think_ns: 266.5, bus_cost: 0.742, bus_wait: 2.833 },
    Client { outstanding: 4.025, think_ns: 205.1, bus_cost: 2.787, bus_wait: 1.437 },
];
/// Reads of 256 B on NyxCache's machine: 3.02 under way, 490 ns each (Table 2: 1.59 GB/s and .49 µs).
const NYX_READER: Client =
    Client { outstanding: 3.02, think_ns: 467.6, ..CLIENTS[Access::SlowRead as usize] };
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

/// Constants that no public field shows, with their names.
pub const SCALARS: [(&str, f64); 8] = [
    ("nyx_read.alone_ns", NYX_READ_NS.0),
    ("nyx_read.interval_ns", NYX_READ_NS.1),
    ("nyx_read.slope_ns", NYX_READ_SLOPE),
    ("contention.free", CONTENTION.0),
    ("contention.gain", CONTENTION.1),
    ("contention.most", CONTENTION.2),
    ("contention.spread", SPREAD_WRITERS),
    ("contention.spread_dimms", SPREAD_DIMMS),
];

impl MemorySystem {
    /// MT²'s machine: six modules.
    #[must_use]
    pub const fn mt2() -> Self {
        Self::of(6.0, 6.314, 1.90)
    }

    /// NyxCache's machine: two modules, one reader as in its Table 2.
    #[must_use]
    pub const fn nyx() -> Self {
        let mut system = Self::of(2.0, 6.6, 2.3);
        system.clients[Access::SlowRead as usize] = NYX_READER;
        system.reads_by_size = true;
        system
    }

    /// OptaneStudy's machine with six modules, or with one.
    #[must_use]
    pub const fn optane_study(modules: Modules) -> Self {
        match modules {
            Modules::Six => Self::of(6.0, 6.314, 1.962),
            Modules::One => Self::of(1.0, 6.55, 2.22),
        }
    }

    const fn of(dimms: f64, read: f64, write: f64) -> Self {
        Self { dimms, read, write, bus: 107.0, batch: 4.0, clients: CLIENTS, reads_by_size: false }
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

    /// How much longer a write of the medium takes because `writers` write at once.
    #[must_use]
    pub fn contention(&self, writers: f64) -> f64 {
        let (free, gain, most) = CONTENTION;
        let spread = if self.dimms < SPREAD_DIMMS { SPREAD_DIMMS / self.dimms } else { 1.0 };
        let felt = if self.dimms <= 1.0 { writers } else { writers * SPREAD_WRITERS * spread };
        (1.0 + gain * (felt - free).max(0.0)).min(most)
    }

    /// Bytes of a unit: what the stations count.
    #[must_use]
    pub const fn unit(access: Access) -> f64 {
        if access.is_slow() { MEDIA_UNIT as f64 } else { LINE as f64 }
    }

    /// Time that a unit takes at the medium (without contention) and at the controller, in ns.
    #[must_use]
    pub fn demand(&self, access: Access, size: Bytes) -> [f64; 2] {
        let unit = Self::unit(access);
        let media = match access {
            Access::SlowRead => unit / self.read_limit(),
            Access::SlowWrite => unit / self.write_limit(),
            Access::DramRead | Access::DramWrite => 0.0,
        };
        let prefetched = if access == Access::SlowRead { prefetch_waste(size) } else { 1.0 };
        let bus = unit / self.bus * self.typical(access).bus_cost * prefetched;
        [media * media_bytes_per_byte(access, size), bus]
    }

    /// How a thread of this kind behaves at the size that was calibrated.
    #[must_use]
    pub const fn typical(&self, access: Access) -> &Client {
        &self.clients[access as usize]
    }

    /// How a thread that makes accesses of this kind and size behaves.
    #[must_use]
    pub fn client(&self, access: Access, size: Bytes) -> Client {
        let client = *self.typical(access);
        if !self.reads_by_size || access != Access::SlowRead {
            return client;
        }
        let (alone, interval) = NYX_READ_NS;
        let slope = NYX_READ_SLOPE * (lines(size) - 4.0);
        let more_media = self.demand(access, size)[0] - self.demand(access, Bytes(MEDIA_UNIT))[0];
        let units = size.0 as f64 / MEDIA_UNIT as f64;
        let under_way = (alone + slope) / alone * interval / Operation::Load.interval_ns(size);
        Client {
            outstanding: client.outstanding * units * under_way,
            think_ns: (client.think_ns + slope - more_media).max(0.0),
            ..client
        }
    }

    /// Most accesses per second of one kind and size that the tier bears alone; none for DRAM, which is not divided.
    #[must_use]
    pub fn max_iops(&self, access: Access, size: Bytes) -> Option<f64> {
        let bytes_per_sec = match access {
            Access::SlowRead => self.read_limit() * 1e9,
            Access::SlowWrite => self.write_limit() * 1e9,
            Access::DramRead | Access::DramWrite => return None,
        };
        Some(bytes_per_sec / (size.0.max(1) as f64 * media_bytes_per_byte(access, size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_max_iops_of_4_kb_loads_is_3_million_on_two_dimms() {
        let iops = MemorySystem::nyx().max_iops(Access::SlowRead, Bytes(4096)).unwrap();
        assert!((iops / 3.0e6 - 1.0).abs() <= 0.10, "{iops}");
        assert_eq!(MemorySystem::nyx().max_iops(Access::DramRead, Bytes(64)), None);
    }

    #[test]
    fn a_lone_reader_on_two_modules_completes_as_table_2_has_it() {
        let system = MemorySystem::nyx();
        for (size, gbps) in [(256, 1.59), (4096, 4.08)] {
            let client = system.client(Access::SlowRead, Bytes(size));
            let [media, bus] = system.demand(Access::SlowRead, Bytes(size));
            let units = size as f64 / MEDIA_UNIT as f64;
            let ours = size as f64 * client.outstanding / (units * (client.think_ns + media + bus));
            assert!((ours / gbps - 1.0).abs() <= 0.06, "{size} B: {ours} against {gbps}");
        }
    }
}
