//! What the levers do to a stream: brake, caps, memory bandwidth allocation, CPU quota.
//!
//! Shape:      throttle in force -> longer think time, part of the time that threads run
//! Units:      nanoseconds per unit; parts of one
//! Source:     MT² Fig. 4 (a): reads of DRAM by 14 threads stay flat down to MBA 60, drop at 30, reach 28 of 102 GB/s at 10;
//!             70, 80 and 90 act alike (§4); hardly any effect on writes of a slow tier (b). Table 2: half of the CPU time
//!             makes pagerank 118.2 s of 56.5 s. NyxCache §3.3: a delay is a busy loop before each access.
//! Non-goals:  the delay between two MBA levels, which hardware does not have; CLOS shortage

use control::bandwidth::Kind;

/// Longer think time of a unit at MBA 10, 20, … 100, in ns. The end is fitted to 28 GB/s, the flat part to Fig. 4; 20, 40 and
/// 50 are guesses between them (20 in 110..=160, 40 in 15..=40; the figure prints no numbers there).
const MBA_NS: [f64; 10] = [231.0, 140.0, 80.0, 25.0, 12.0, 4.0, 2.0, 2.0, 2.0, 0.0];

/// Part of the CPU time's loss that a quota costs on top: halved time makes 118.179 s of 56.459 s instead of twice
/// (MT² Table 2), so half a quota gives .4777 and not .5. That it vanishes towards a full quota is a guess.
const QUOTA_LOSS: f64 = 0.0890;

/// How much of MBA's delay a kind feels: the controller sits between core and shared cache, which non-temporal stores of a
/// slow tier pass by (Fig. 4 (b): almost completely ineffective; .05 is a guess in 0..=.1).
const fn mba_part(kind: Kind) -> f64 {
    match kind {
        Kind::SlowWrite => 0.05,
        Kind::DramRead | Kind::DramWrite | Kind::SlowRead => 1.0,
    }
}

/// Longer think time of a unit under memory bandwidth allocation, in ns. A percentage between two levels acts as the next
/// tighter one.
#[must_use]
pub fn mba_delay_ns(percent: u8, kind: Kind) -> f64 {
    let level = usize::from(percent / 10).clamp(1, MBA_NS.len());
    MBA_NS[level - 1] * mba_part(kind)
}

/// What is left of a tenant's rates when its threads may run for a part `quota` (0..=1) of the time.
#[must_use]
pub fn quota_part(quota: f64) -> f64 {
    let quota = quota.clamp(0.0, 1.0);
    quota * (1.0 - QUOTA_LOSS * (1.0 - quota))
}

/// Every constant of the levers with its name: what is frozen.
#[must_use]
pub fn constants() -> Vec<(String, f64)> {
    let mba = MBA_NS.iter().zip(1..).map(|(&ns, level): (&f64, u8)| (format!("mba_{}0_ns", level), ns));
    let rest = [
        ("mba.slow_write_part".to_owned(), mba_part(Kind::SlowWrite)),
        ("mba.slow_read_part".to_owned(), mba_part(Kind::SlowRead)),
        ("mba.dram_read_part".to_owned(), mba_part(Kind::DramRead)),
        ("mba.dram_write_part".to_owned(), mba_part(Kind::DramWrite)),
        ("quota.loss".to_owned(), QUOTA_LOSS),
    ];
    mba.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_cpu_time_leaves_what_table_2_says() {
        assert!((quota_part(0.5) - 56.459 / 118.179).abs() < 1e-3, "{}", quota_part(0.5));
        assert!((quota_part(1.0) - 1.0).abs() < 1e-12 && quota_part(0.0).abs() < 1e-12);
    }

    #[test]
    fn mba_is_coarse_and_never_looser_at_a_lower_percentage() {
        for percent in 1..=100_u8 {
            let tighter = mba_delay_ns(percent.saturating_sub(1), Kind::DramRead);
            assert!(mba_delay_ns(percent, Kind::DramRead) <= tighter, "{percent}");
        }
        let alike = [70, 80, 90].map(|percent| mba_delay_ns(percent, Kind::DramRead));
        assert!(alike.iter().all(|ns| (ns - alike[0]).abs() < 1e-12));
    }
}
