//! What the journal of a server's bandwidth says of a tenant and of the tier, window by window.
//!
//! Shape:   lines of the journal -> a row per window, oldest first; a window in which a tenant was not measured has none
//! Units:   seconds since the server began; parts of the tier's time; bytes by kind of traffic; nanoseconds of one access
//! Failure: what a line lacks is left out

use control::bandwidth::{Kind, Kinds};
use serde_json::Value;

/// What a tenant did in a window, and how it was held back in it.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// When the window ended.
    pub end_s: f64,
    /// Its length.
    pub secs: f64,
    /// The part of the tier's time that the tenant used.
    pub part: f64,
    /// Its budget ran out: it wanted more.
    pub ran_out: bool,
    /// Bytes by kind.
    pub bytes: Kinds<f64>,
    /// It was made to wait in some way: a delay, a pause, a budget or a cap.
    pub is_held_back: bool,
    /// The window was no experiment of the policy's.
    pub is_steady: bool,
}

/// How long an access of the least size took, by the mean of the server's looks in a window.
#[derive(Clone, Copy, Debug)]
pub struct Medium {
    /// When that was.
    pub end_s: f64,
    /// A read.
    pub read_ns: f64,
    /// A write.
    pub write_ns: f64,
}

/// Of each of the last so many decisions: what it saw of a tenant.
pub(super) fn used(decisions: &[Value], count: usize, tenant: u32) -> Vec<Used> {
    let first = decisions.len().saturating_sub(count);
    let before = |at: usize| at.checked_sub(1).map(|before| &decisions[before]);
    (first..decisions.len()).filter_map(|at| window(before(at), &decisions[at], tenant)).collect()
}

fn window(before: Option<&Value>, decision: &Value, tenant: u32) -> Option<Used> {
    let ns = |name: &str| decision["window"][name].as_f64().unwrap_or(0.0);
    let secs = (ns("end_ns") - ns("start_ns")) / 1e9;
    let row = decision["tenants"].as_array()?.iter().find(|row| row["tenant"] == tenant)?;
    let (signal, in_force) = (&row["signal"], &row["in_force"]);
    let caps = Kind::ALL.iter().any(|kind| !of_kind(&in_force["cap_bytes_per_sec"], *kind).is_null());
    let held = in_force["delay_10ns"].as_u64() > Some(0) || in_force["paused"] == true;
    Some(Used {
        end_s: ns("end_ns") / 1e9,
        secs,
        part: signal["cost_ps"].as_f64()? / 1e12 / secs,
        ran_out: !signal["depleted_at_ns"].is_null(),
        bytes: Kinds::from_fn(|kind| of_kind(&signal["bytes"], kind).as_f64().unwrap_or(0.0)),
        is_held_back: held || caps || !in_force["budget"].is_null(),
        // What was decided before is what held in the window.
        is_steady: before.is_some_and(|before| before["steady"] == true),
    })
}

fn of_kind(value: &Value, kind: Kind) -> &Value {
    &value[match kind {
        Kind::DramRead => "dram_read",
        Kind::DramWrite => "dram_write",
        Kind::SlowRead => "slow_read",
        Kind::SlowWrite => "slow_write",
    }]
}

/// Of each decision that timed the tier: how long an access took.
pub(super) fn medium(decisions: &[Value]) -> Vec<Medium> {
    let timed = decisions.iter().filter_map(|decision| {
        let latency = &decision["pool"]["latency_ns"];
        let end_s = decision["window"]["end_ns"].as_f64()? / 1e9;
        let of = |kind| of_kind(latency, kind).as_f64();
        Some(Medium { end_s, read_ns: of(Kind::SlowRead)?, write_ns: of(Kind::SlowWrite)? })
    });
    timed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(steady: bool, delay: u64) -> Value {
        serde_json::json!({
            "steady": steady,
            "window": {"start_ns": 1_000_000_000_u64, "end_ns": 3_000_000_000_u64, "mixed": false},
            "pool": {"latency_ns": {"dram_read": null, "dram_write": null, "slow_read": 170, "slow_write": 90}},
            "tenants": [{"tenant": 7, "signal": {
                "bytes": {"dram_read": 0, "dram_write": 0, "slow_read": 4000, "slow_write": 500},
                "cost_ps": 500_000_000_000_u64, "depleted_at_ns": null},
                "in_force": {"delay_10ns": delay, "paused": false, "budget": null,
                    "cap_bytes_per_sec": {"dram_read": null, "dram_write": null, "slow_read": null,
                        "slow_write": null}}}]
        })
    }

    #[test]
    fn a_line_is_read_as_the_journal_writes_it() {
        let lines = [line(false, 0), line(true, 3)];
        let seen = used(&lines, 2, 7);
        assert_eq!(seen.iter().map(|one| one.is_held_back).collect::<Vec<_>>(), [false, true]);
        assert!(seen.iter().all(|one| !one.is_steady), "what came before was nothing, then an experiment");
        assert!((seen[0].part - 0.25).abs() < 1e-9 && (seen[0].end_s - 3.0).abs() < 1e-9);
        assert!((seen[0].bytes.slow_write - 500.0).abs() < 1e-9 && !seen[0].ran_out);
        assert!(used(&lines, 2, 8).is_empty());
        assert!((medium(&lines)[1].write_ns - 90.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_of_some_windows_is_what_was_decided_before_them() {
        let lines = [line(false, 0), line(true, 0), line(false, 0), line(true, 0)];
        let steady = |count| used(&lines, count, 7).iter().map(|one| one.is_steady).collect::<Vec<_>>();
        assert_eq!(steady(2), [true, false]);
        assert_eq!(steady(3), [false, true, false]);
        assert_eq!(steady(usize::MAX), [false, false, true, false], "nothing is known of before the first");
    }
}
