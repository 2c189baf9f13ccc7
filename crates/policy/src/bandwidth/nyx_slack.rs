//! How far a critical tenant is inside its goal.
//!
//! Units:  parts of the goal
//! Source: NyxCache §3.4, Algorithm 2 (of latencies); that of a bandwidth is our own

use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Goal, Row, Window};
use units::{Bytes, BytesPerSec};

type Case = Row<BandwidthSignal, Throttle>;

/// Whether the class has a goal that this policy can hold against signals.
pub(super) fn measurable(class: &Class) -> bool {
    match class {
        Class::Critical { goal: Goal::Bandwidth(asked) } => *asked != Kinds::default(),
        Class::Critical { goal } => matches!(goal, Goal::Latency { .. }),
        Class::BestEffort | Class::Exempt => false,
    }
}

/// How far a critical tenant is inside its goal, as a part of the goal; none without a goal or a measurement.
pub(super) fn slack(class: &Class, row: &Case, window: Window) -> Option<f64> {
    let Class::Critical { goal } = class else { return None };
    let signal = row.signal.as_ref()?;
    match goal {
        Goal::Latency { at_most, .. } => {
            let (goal, tail) = (at_most.0.max(1) as f64, signal.tail_latency?.0 as f64);
            Some((goal - tail) / goal)
        }
        Goal::Bandwidth(kinds) => {
            // Who asks for nothing of a kind misses nothing of it.
            let is_asked = |&kind: &Kind| BytesPerSec(0) < *kinds.get(kind) && signal.bytes.get(kind).0 != 0;
            let asked = Kind::ALL.into_iter().filter(is_asked);
            let slacks = asked.map(|kind| {
                let rate = window.per_sec(signal.bytes.get(kind).0)?;
                Some(rate / kinds.get(kind).0 as f64 - 1.0)
            });
            slacks.reduce(|a, b| Some(a?.min(b?))).flatten()
        }
        Goal::Slowdown(_) => None,
    }
}

/// How far off a slack may be because of the steps in which a tail is told, as a deviation. Four steps to a doubling are a seventh to a quarter
/// of the tail wide, which is .04 to .07 of it where all places in one are alike (a server's histograms; the value in between is a guess).
pub(super) fn grain(class: &Class, slack: f64) -> f64 {
    const OF_TAIL: f64 = 0.0625;
    match class {
        Class::Critical { goal: Goal::Latency { .. } } => (1.0 - slack).max(0.0) * OF_TAIL,
        _ => 0.0,
    }
}

/// Whether a critical tenant did nothing that its goal is about.
pub(super) fn is_idle(class: &Class, row: &Case) -> bool {
    let (Class::Critical { goal }, Some(signal)) = (class, &row.signal) else { return false };
    match goal {
        Goal::Latency { .. } => signal.operations == 0,
        Goal::Bandwidth(kinds) => kinds
            .iter()
            .all(|(kind, asked)| *asked == BytesPerSec(0) || *signal.bytes.get(kind) == Bytes::ZERO),
        Goal::Slowdown(_) => false,
    }
}

/// The same slack by the mean latency: a companion of the tail that is less noisy.
pub(super) fn mean_slack(row: &Case) -> Option<f64> {
    let Class::Critical { goal: Goal::Latency { at_most, .. } } = row.claim.class else { return None };
    let mean = row.signal.as_ref()?.mean_latency?;
    Some(1.0 - mean.0 as f64 / at_most.0.max(1) as f64)
}

/// Whether a class has a bandwidth for its goal: less of that may be all that its tenant asks for.
pub(super) fn asks_for_bandwidth(class: &Class) -> bool {
    matches!(class, Class::Critical { goal: Goal::Bandwidth(_) })
}

/// Whether a class has a latency for its goal.
pub(super) fn asks_for_latency(class: &Class) -> bool {
    matches!(class, Class::Critical { goal: Goal::Latency { .. } })
}
