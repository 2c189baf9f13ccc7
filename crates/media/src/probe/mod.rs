//! Measures a tier's MaxIOPS profile: random reads and writes of every size that it distinguishes, up to 4 KiB.
//!
//! Shape:      tier, time to take -> one row per size. Mapped tiers by threads that copy, others by queues of reads and threads that
//!             write, emulated ones by as many threads in virtual time as it takes
//! Invariants: content stays: what is written is what was there; the tier is the prober's alone
//! Units:      accesses per second
//! Cost:       the time given, divided evenly; emulated tiers some seconds of computation
//! Source:     NyxCache §3.3 (random reads and writes from 64 B to 4 KiB in steps of 64 B, once per server). We step by the tier's
//!             own access unit: 4 KiB for direct I/O
//! Failure:    an error of the tier ends it

#![allow(
    unsafe_code,
    reason = "writes what was read, each thread into a part of its own; see the SAFETY comment"
)]

mod modelled;
mod stored;

pub use stored::{ProfileFile, ProfileFileError, machine_name};

use crate::model::LINE;
use crate::spec::{TierMedium, TierSpec};
use crate::{Buffer, Device, PROFILE_MAX, ProfileRow, SlowAccess, Stopwatch};
use std::io;
use std::sync::Barrier;
use units::{Bytes, Duration, Instant, Rng};

/// Longest time for one kind and size: more says no more. Guess.
const POINT_MAX: Duration = Duration::from_secs(4);
/// Reads under way per thread, and threads that write, where bytes are not mapped (what drives are rated with).
const DEPTH: u32 = 32;
const WRITERS: usize = 16;
/// Blocks that a thread writes to, one after the other in random order.
const BLOCKS: usize = 256;
/// Accesses between two looks at the clock.
const STRIDE: u64 = 64;

/// Sizes that a tier with this access unit distinguishes.
pub fn sizes(unit: Bytes) -> impl Iterator<Item = Bytes> {
    let step = unit.0.clamp(LINE, PROFILE_MAX.0);
    (1..=PROFILE_MAX.0 / step).map(move |i| Bytes(i * step))
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
) -> io::Result<Vec<ProfileRow>> {
    let sizes: Vec<Bytes> = sizes(device.access_unit()).collect();
    let points = sizes.len() * 2;
    let each = Duration(total.0 / points as u64).min(POINT_MAX);
    let mut rows = Vec::with_capacity(sizes.len());
    for (i, size) in sizes.iter().copied().enumerate() {
        let measure = |access, done| {
            told(done, points);
            match &spec.medium {
                TierMedium::Emulated(emulation) => {
                    Ok(emulation.rate(modelled::most_per_sec(emulation.dimms.system(), access, size)))
                }
                _ => measured(device, access, size, each),
            }
        };
        let read_iops = measure(SlowAccess::Read, 2 * i)?;
        let write_iops = measure(SlowAccess::Write, 2 * i + 1)?;
        rows.push(ProfileRow { size, read_iops, write_iops });
    }
    told(points, points);
    Ok(rows)
}

/// Accesses per second of all threads together, over about `each`.
fn measured(device: &dyn Device, access: SlowAccess, size: Bytes, each: Duration) -> io::Result<f64> {
    let is_mapped = device.mapped().is_some();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if is_mapped || access == SlowAccess::Read { cores } else { WRITERS };
    // Each thread has a part of its own.
    let part = device.size().0 / threads as u64 / PROFILE_MAX.0 * PROFILE_MAX.0;
    if part < PROFILE_MAX.0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the tier is too small to be probed"));
    }
    let (watch, start) = (Stopwatch::new(), Barrier::new(threads));
    let run = |thread: usize| -> io::Result<f64> {
        let place = Part { base: thread as u64 * part, len: part, seed: thread as u64 };
        let mut blocks =
            if access == SlowAccess::Write { place.blocks(device, size) } else { Ok(Vec::new()) };
        start.wait();
        let begin = watch.now();
        let end = begin + each;
        let done = match (access, &mut blocks) {
            (_, Err(e)) => return Err(io::Error::new(e.kind(), e.to_string())),
            (SlowAccess::Write, Ok(blocks)) => writes(device, blocks, size, &watch, end)?,
            (SlowAccess::Read, _) if is_mapped => copies(device, &place, size, &watch, end)?,
            (SlowAccess::Read, _) => reads(device, &place, size, &watch, end)?,
        };
        Ok(done as f64 / watch.now().since(begin).as_secs_f64())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let results =
            running.into_iter().map(|thread| thread.join().map_err(|_| io::Error::other("a prober died"))?);
        results.sum::<io::Result<f64>>()
    })
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

fn writes(
    device: &dyn Device,
    blocks: &[(u64, Buffer)],
    size: Bytes,
    watch: &Stopwatch,
    end: Instant,
) -> io::Result<u64> {
    let mut done = 0;
    while watch.now() < end {
        for (at, buffer) in blocks.iter().cycle().skip(usize::try_from(done).unwrap_or(0) % BLOCKS).take(16) {
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

fn copies(device: &dyn Device, part: &Part, size: Bytes, watch: &Stopwatch, end: Instant) -> io::Result<u64> {
    let mut rng = Rng::new(part.seed);
    let mut into = vec![0; size.as_usize()];
    let mut done = 0;
    while watch.now() < end {
        for _ in 0..STRIDE {
            let began = device.begin();
            device.read(part.somewhere(&mut rng, size, device.access_unit()), &mut into)?;
            std::hint::black_box(&into);
            device.take_time_since(began, SlowAccess::Read, size);
        }
        done += STRIDE;
    }
    Ok(done)
}

fn reads(device: &dyn Device, part: &Part, size: Bytes, watch: &Stopwatch, end: Instant) -> io::Result<u64> {
    let mut rng = Rng::new(part.seed);
    let Some(mut queue) = device.read_queue(DEPTH, None)? else {
        return copies(device, part, size, watch, end);
    };
    let mut buffers: Vec<Buffer> =
        (0..DEPTH).map(|_| Buffer::new(size).map_err(io::Error::other)).collect::<io::Result<_>>()?;
    let mut done = 0;
    loop {
        let is_over = end <= watch.now();
        while !is_over && let Some(buffer) = buffers.pop() {
            let at = part.somewhere(&mut rng, size, device.access_unit());
            queue
                .fetch(at, buffer)
                .map_err(|_| io::Error::other("a queue as deep as its buffers is full"))?;
        }
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
