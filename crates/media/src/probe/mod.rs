//! Measures a tier: random reads and writes of every size that it distinguishes, up to 4 KiB, alone (its MaxIOPS profile), and of one
//! size together at a grid of rates.
//!
//! Shape:      tier, time to take -> one row per size; a table of what reads and writes leave each other. Mapped tiers by threads
//!             that copy, others by queues of reads and threads that write, emulated ones by as many threads in virtual time as it takes
//! Invariants: content stays: what is written is what was there; the tier is the prober's alone
//! Units:      accesses per second
//! Cost:       the time given, a third of it for both kinds together, and that of writing `REGION_MAX` once; emulated tiers some
//!             seconds of computation
//! Source:     NyxCache §3.3 (random reads and writes from 64 B to 4 KiB in steps of 64 B, once per server). We step by the tier's
//!             own access unit: 4 KiB for direct I/O. MT² §5.1 (bandwidths alone and together)
//! Failure:    an error of the tier ends it

#![allow(
    unsafe_code,
    reason = "writes what was read, each thread into a part of its own; see the SAFETY comment"
)]

mod competition;
mod crew;
mod modelled;
mod pace;
mod stored;

pub use competition::{Competition, RUNS};
pub use stored::{ProfileFile, ProfileFileError, machine_id, machine_name};

use crate::emulated::Emulation;
use crate::model::{LINE, MEDIA_UNIT};
use crate::spec::{TierMedium, TierSpec};
use crate::{Buffer, Device, PROFILE_MAX, ProfileRow, SlowAccess, Stopwatch};
use crew::Gate;
use pace::Pace;
use std::io;
use std::thread::Builder;
use units::{Bytes, Duration, Rng};

/// Longest time for one kind and size, and for one pair of rates: more says no more. Guesses.
const POINT_MAX: Duration = Duration::from_secs(4);
const PAIR_MAX: Duration = Duration::from_secs(1);
/// One in so many parts of the time is for both kinds together.
const TOGETHER_ONE_IN: u64 = 3;
/// Reads under way per thread, and threads that write, where bytes are not mapped (what drives are rated with).
const DEPTH: u32 = 32;
const WRITERS: usize = 16;
/// Blocks that a thread writes to, one after the other in random order.
const BLOCKS: usize = 256;
/// Of a tier so much is read and written, its first bytes; what is larger would take long to write once.
const REGION_MAX: Bytes = Bytes::mib(1_024);
/// It is written in pieces of this size.
const PIECE: Bytes = Bytes::mib(1);
/// Reads between two looks at the clock, and writes.
const STRIDE: u64 = 64;
const WRITES_STRIDE: u64 = 16;

/// Sizes that a tier with this access unit distinguishes.
pub fn sizes(unit: Bytes) -> impl Iterator<Item = Bytes> {
    let step = unit.0.clamp(LINE, PROFILE_MAX.0);
    (1..=PROFILE_MAX.0 / step).map(move |i| Bytes(i * step))
}

/// What a probe has measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Probed {
    /// MaxIOPS by size.
    pub rows: Vec<ProfileRow>,
    /// What reads and writes leave each other.
    pub competition: Competition,
}

/// Probes a tier that is open for `total`; `told` hears how many points of how many are done.
///
/// # Errors
/// If the tier fails.
pub fn probe(
    spec: &TierSpec,
    device: &dyn Device,
    total: Duration,
    told: &dyn Fn(usize, usize),
) -> io::Result<Probed> {
    let sizes: Vec<Bytes> = sizes(device.access_unit()).collect();
    let points = sizes.len() * 2 + RUNS;
    if !matches!(spec.medium, TierMedium::Emulated(_)) {
        write_once(device)?;
    }
    let together = Duration(total.0 / TOGETHER_ONE_IN);
    let each = Duration((total - together).0 / (sizes.len() as u64 * 2)).min(POINT_MAX);
    let mut rows = Vec::with_capacity(sizes.len());
    for (i, size) in sizes.iter().copied().enumerate() {
        let measure = |access, done| {
            told(done, points);
            match &spec.medium {
                TierMedium::Emulated(emulation) => {
                    Ok(emulation.rate(modelled::most_per_sec(emulation.dimms.system(), access, size)))
                }
                _ => alone(device, access, size, each),
            }
        };
        let read_iops = measure(SlowAccess::Read, 2 * i)?;
        let write_iops = measure(SlowAccess::Write, 2 * i + 1)?;
        rows.push(ProfileRow { size, read_iops, write_iops });
    }
    let competition = match &spec.medium {
        TierMedium::Emulated(emulation) => modelled_competition(*emulation),
        _ => {
            let size = Bytes(device.access_unit().0.clamp(MEDIA_UNIT, PROFILE_MAX.0));
            let each = Duration(together.0 / RUNS as u64).min(PAIR_MAX);
            let bytes = size.0 as f64;
            let mut done = sizes.len() * 2;
            Competition::measured(size, |wanted| {
                told(done, points);
                done += 1;
                let got = together_at(device, size, wanted.map(|rate| rate / bytes), each)?;
                Ok::<_, io::Error>(got.map(|per_sec| per_sec * bytes))
            })?
        }
    };
    told(points, points);
    Ok(Probed { rows, competition })
}

/// What the model of an emulated tier says of reads and writes together, in virtual time: what a probe of it would find. Takes some
/// tenths of a second to compute.
#[must_use]
pub fn modelled_competition(emulation: Emulation) -> Competition {
    modelled::competition(emulation.dimms.system()).at(|rate| emulation.rate(rate))
}

/// Accesses per second of one kind, as fast as all threads together can, over about `each`.
fn alone(device: &dyn Device, access: SlowAccess, size: Bytes, each: Duration) -> io::Result<f64> {
    let mut wanted = [0.0; 2];
    wanted[access as usize] = f64::INFINITY;
    Ok(together_at(device, size, wanted, each)?[access as usize])
}

/// Accesses per second of reads and of writes that are made at once, at so many per second at most, over about `each`.
fn together_at(device: &dyn Device, size: Bytes, wanted: [f64; 2], each: Duration) -> io::Result<[f64; 2]> {
    let is_mapped = device.mapped().is_some();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let team = |access: SlowAccess, threads: usize| {
        let per_sec = wanted[access as usize];
        let threads = if 0.0 < per_sec { threads } else { 0 };
        std::iter::repeat_n((access, per_sec / threads as f64), threads)
    };
    let writers = if is_mapped { cores } else { WRITERS };
    let jobs: Vec<_> = team(SlowAccess::Read, cores).chain(team(SlowAccess::Write, writers)).collect();
    // Each thread has a part of its own.
    let part = region(device).0 / jobs.len().max(1) as u64 / PROFILE_MAX.0 * PROFILE_MAX.0;
    if part < PROFILE_MAX.0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the tier is too small to be probed"));
    }
    let watch = Stopwatch::new();
    let run = |thread: usize, &(access, per_sec): &(SlowAccess, f64), gate: &Gate| -> io::Result<f64> {
        let place = Part { base: thread as u64 * part, len: part, seed: thread as u64 };
        let mut blocks =
            if access == SlowAccess::Write { place.blocks(device, size) } else { Ok(Vec::new()) };
        gate.pass()?;
        let pace = Pace::new(&watch, each, per_sec);
        let done = match (access, &mut blocks) {
            (_, Err(e)) => return Err(io::Error::new(e.kind(), e.to_string())),
            (SlowAccess::Write, Ok(blocks)) => writes(device, blocks, size, &pace)?,
            (SlowAccess::Read, _) if is_mapped => copies(device, &place, size, &pace)?,
            (SlowAccess::Read, _) => reads(device, &place, size, &pace)?,
        };
        Ok(pace.per_sec(done))
    };
    let each_found = crew::at_once(&jobs, |_thread| Ok(Builder::new()), run)?;
    let mut found = [0.0; 2];
    for ((access, _), per_sec) in jobs.iter().zip(each_found) {
        found[*access as usize] += per_sec;
    }
    Ok(found)
}

/// What of a tier is read and written.
fn region(device: &dyn Device) -> Bytes {
    device.size().min(REGION_MAX)
}

/// Writes the region as it is. Blocks of a file that were never written are read without the disk.
fn write_once(device: &dyn Device) -> io::Result<()> {
    let mut piece = Buffer::new(PIECE).map_err(io::Error::other)?;
    let end = region(device).0;
    for at in (0..end).step_by(PIECE.as_usize()) {
        let bytes = &mut piece.bytes_mut()[..Bytes(end - at).min(PIECE).as_usize()];
        device.read(at, bytes)?;
        // SAFETY: the tier is the prober's alone, and no other thread of it has begun.
        unsafe { device.write(at, bytes) }?;
    }
    device.settle()
}

/// A thread's part of the tier.
struct Part {
    base: u64,
    len: u64,
    seed: u64,
}

impl Part {
    /// Somewhere that `size` bytes fit, at a line or a page.
    fn somewhere(&self, rng: &mut Rng, size: Bytes, unit: Bytes) -> u64 {
        self.base + rng.below((self.len - size.0) / unit.0 + 1) * unit.0
    }

    /// Blocks with their content, so that writing them changes nothing.
    fn blocks(&self, device: &dyn Device, size: Bytes) -> io::Result<Vec<(u64, Buffer)>> {
        let mut rng = Rng::new(self.seed);
        let at = (0..BLOCKS).map(|_| self.somewhere(&mut rng, size, device.access_unit()));
        // All are read before any is written, so blocks that overlap change nothing either.
        at.map(|at| {
            let mut buffer = Buffer::new(size).map_err(io::Error::other)?;
            device.read(at, buffer.bytes_mut())?;
            Ok((at, buffer))
        })
        .collect()
    }
}

fn writes(device: &dyn Device, blocks: &[(u64, Buffer)], size: Bytes, pace: &Pace<'_>) -> io::Result<u64> {
    let (mut done, mut next) = (0, blocks.iter().cycle());
    loop {
        let some = pace.wait_for_some(done, WRITES_STRIDE);
        if some == 0 {
            break;
        }
        for (at, buffer) in next.by_ref().take(usize::try_from(some).unwrap_or(1)) {
            let began = device.begin();
            // SAFETY: the tier is the prober's alone, and this part of it the thread's.
            unsafe { device.write(*at, buffer.bytes()) }?;
            device.take_time_since(began, SlowAccess::Write, size);
            done += 1;
        }
    }
    device.settle()?;
    Ok(done)
}

fn copies(device: &dyn Device, part: &Part, size: Bytes, pace: &Pace<'_>) -> io::Result<u64> {
    let mut rng = Rng::new(part.seed);
    let mut into = vec![0; size.as_usize()];
    let mut done = 0;
    loop {
        let some = pace.wait_for_some(done, STRIDE);
        if some == 0 {
            return Ok(done);
        }
        for _ in 0..some {
            let began = device.begin();
            device.read(part.somewhere(&mut rng, size, device.access_unit()), &mut into)?;
            std::hint::black_box(&into);
            device.take_time_since(began, SlowAccess::Read, size);
        }
        done += some;
    }
}

fn reads(device: &dyn Device, part: &Part, size: Bytes, pace: &Pace<'_>) -> io::Result<u64> {
    let mut rng = Rng::new(part.seed);
    let Some(mut queue) = device.read_queue(DEPTH, None)? else {
        return copies(device, part, size, pace);
    };
    let mut buffers: Vec<Buffer> =
        (0..DEPTH).map(|_| Buffer::new(size).map_err(io::Error::other)).collect::<io::Result<_>>()?;
    let (mut begun, mut done) = (0, 0);
    loop {
        // Who has reads under way waits for those.
        let idle = queue.under_way() == 0;
        let most = buffers.len() as u64;
        let some = if idle { pace.wait_for_some(begun, most) } else { pace.some(begun, most) };
        for buffer in buffers.drain(buffers.len() - usize::try_from(some).unwrap_or(0)..) {
            let at = part.somewhere(&mut rng, size, device.access_unit());
            queue
                .fetch(at, buffer)
                .map_err(|_| io::Error::other("a queue as deep as its buffers is full"))?;
        }
        begun += some;
        if queue.under_way() == 0 {
            return Ok(done);
        }
        queue.wait()?;
        while let Some(completed) = queue.completed() {
            completed.result?;
            buffers.push(completed.buffer);
            done += 1;
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
