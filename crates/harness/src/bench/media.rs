//! Slow tiers: does the emulated one keep the model's time? (What metering costs is in `metered.rs`.)
//!
//! Shape:      a thread that accesses, alone or telling of a neighbour
//! Invariants: a piece in which the thread was preempted does not count, nor does the one after it: a thread that does not run
//!             is no property of a tier. Victim and neighbour are one thread, so that both stop together
//! Units:      GB/s in the median of a round's pieces
//! Source:     NyxCache Table 2 (one thread, two modules), Fig. 1 (a victim that loads 256 B beside reads and writes)

use crate::in_process::thread_cpu_nanos;
use crate::table::{Goal, Row, median};
use crate::{Bench, BenchError};
use media::emulated::{Dimms, Emulated};
use media::{Access, Device, SlowAccess};
use std::io;
use units::{Bytes, Duration};

/// One piece of a timing, how many count in a round, and how many are tried for them.
const PIECE: Duration = Duration::from_millis(1);
const PIECES: usize = 50;
const TRIED_MAX: u32 = 4_000;
/// Part of a piece that the thread may not have run in: the clock's own step, and an interrupt.
const LOST_MAX: f64 = 0.02;
/// Longest time whose neighbours are told of at once: what is due after a preemption is not made up for.
const TOLD_MAX: Duration = Duration::from_micros(20);

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("slow tiers");
    let tier = Emulated::new(Dimms::Two, Bytes::mib(1)).map_err(|e| failed(io::Error::other(e)))?;
    let rounds = bench.rounds;
    let each = |measure: &dyn Fn() -> f64| (0..rounds).map(|_| measure()).collect::<Vec<f64>>();
    let row = |measure: String, unit, ours, goal| Row { measure, unit, ours, peer: None, goal };
    bench.add(row(
        "emulated access, time taken / time of the model".to_owned(),
        "",
        each(&|| run_pieces(&tier, (SlowAccess::Read, Bytes(256)), None).taken),
        Goal::AtMost(1.03),
    ));
    for (access, size, known) in [
        (SlowAccess::Read, 256, "Table 2: 1.59"),
        (SlowAccess::Read, 4096, "Table 2: 4.08"),
        (SlowAccess::Write, 256, "Table 2: 3.73, model 2.62"),
        (SlowAccess::Write, 4096, "Table 2: 3.44, model 2.62"),
    ] {
        let measure = format!("emulated, 2 modules, {access:?} of {size} B");
        bench.add(row(
            measure,
            "GB/s",
            each(&|| run_pieces(&tier, (access, Bytes(size)), None).gbps),
            Goal::None(known),
        ));
    }
    for (access, size, rate, known) in NEIGHBOURS {
        let measure = format!("victim kept beside {rate} GB/s of {access:?} of {size} B");
        let ours = each(&|| {
            let victim = (SlowAccess::Read, Bytes(256));
            let beside = run_pieces(&tier, victim, Some((access, Bytes(size), rate)));
            beside.gbps / run_pieces(&tier, victim, None).gbps
        });
        bench.add(row(measure, "", ours, Goal::None(known)));
    }
    Ok(())
}

/// Neighbours of a victim that loads 256 B, and what the laboratory's solution lets it keep (`model_tests`, P6 and P7).
const NEIGHBOURS: [(Access, u64, f64, &str); 7] = [
    (Access::SlowRead, 256, 8.0, "model .92"),
    (Access::SlowWrite, 256, 1.0, "model .92"),
    (Access::SlowWrite, 64, 1.0, "model .11"),
    (Access::SlowWrite, 128, 1.0, "model .67"),
    (Access::SlowWrite, 192, 1.0, "model .85"),
    (Access::SlowWrite, 320, 1.0, "model .78"),
    (Access::SlowWrite, 512, 1.0, "model .92"),
];

pub(crate) fn failed(source: io::Error) -> BenchError {
    BenchError::Peer { peer: "a slow tier", source }
}

/// What a thread's accesses came to.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    gbps: f64,
    /// Time taken ÷ time that the model wanted.
    taken: f64,
}

/// Accesses of one thread, alone or telling of a neighbour that makes so many GB/s.
fn run_pieces(tier: &Emulated, victim: (SlowAccess, Bytes), neighbour: Option<(Access, Bytes, f64)>) -> Pace {
    let (mut gbps, mut taken) = (Vec::new(), Vec::new());
    let mut was_whole = false;
    for _ in 0..TRIED_MAX {
        let (started, cpu) = (tier.begin(), thread_cpu_nanos());
        let (bytes, wanted_ns) = piece(tier, victim, neighbour);
        let (wall, cpu) = (tier.begin().since(started).0 as f64, thread_cpu_nanos() - cpu);
        let is_whole = wall - cpu <= LOST_MAX * wall;
        if is_whole && was_whole {
            gbps.push(bytes as f64 / wall);
            taken.push(wall / wanted_ns);
        }
        was_whole = is_whole;
        if gbps.len() == PIECES {
            break;
        }
    }
    Pace { gbps: middle(&gbps), taken: middle(&taken) }
}

/// The middle of a round's pieces; no number where fewer count than should.
fn middle(pieces: &[f64]) -> f64 {
    if pieces.len() < PIECES { f64::NAN } else { median(pieces) }
}

/// Bytes that the victim accessed in one piece, and the time that the model wanted for them.
fn piece(
    tier: &Emulated,
    (access, size): (SlowAccess, Bytes),
    neighbour: Option<(Access, Bytes, f64)>,
) -> (u64, f64) {
    let start = tier.begin();
    let (mut now, mut bytes, mut wanted_ns, mut due) = (start, 0, 0.0, 0.0);
    while now < start + PIECE {
        let before = now;
        let (timing, ended) = tier.take(before, access, size);
        now = ended;
        wanted_ns += timing.held_ns;
        bytes += size.0;
        if let Some((access, size, rate)) = neighbour {
            due += now.since(before).min(TOLD_MAX).0 as f64 * rate / size.0 as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "some accesses per microsecond"
            )]
            let count = due as u32;
            tier.tell(access, size, count);
            due -= f64::from(count);
        }
    }
    (bytes, wanted_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_reaches_no_goal() {
        let reached = |pieces: usize| {
            let (ours, goal) = (vec![middle(&vec![1.0; pieces])], Goal::AtMost(1.03));
            Row { measure: "m".to_owned(), unit: "", ours, peer: None, goal }.is_reached()
        };
        assert_eq!([0, PIECES - 1, PIECES].map(reached), [Some(false), Some(false), Some(true)]);
    }
}
