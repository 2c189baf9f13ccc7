//! The utilisation model: one number for how busy the slow tier is, one factor for how long everything takes.
//!
//! Shape:      classes -> rates: U = reads / 37 + writes / 10.9 (GB/s, amplified), latency × 1 / (1 − U)
//! Invariants: utilisation stays at most .98: what is offered beyond is scaled down for everybody alike
//! Non-goals:  verdicts; DRAM traffic, which neither waits nor makes others wait here

use super::class::Class;
use super::device::{Device, LEVEL0_FULL, LEVEL0_LIMITS};
use super::stations::{Flow, Solution, cap_part, free_rate};
use control::bandwidth::Kind;

/// Halvings of the search for the utilisation: 2⁻⁶⁰ of its range is below a double's steps.
const HALVINGS: u32 = 60;

/// Solves for `classes`; returns how long a slow unit takes relative to an empty machine.
pub(super) fn solve(device: &Device, classes: &[Class], solution: &mut Solution) -> f64 {
    let (mut low, mut high) = (0.0, LEVEL0_FULL);
    let mut free = Vec::new();
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if middle < utilisation(device, classes, middle, &mut free) { low = middle } else { high = middle }
    }
    let wanted = utilisation(device, classes, high, &mut free);
    let through = if high < wanted { high / wanted } else { 1.0 };
    solution.flows.clear();
    solution.flows.extend(classes.iter().enumerate().map(|(i, class)| {
        let part = if class.kind.is_slow() { through } else { 1.0 };
        let rate = free[i] * cap_part(i, classes, &free) * part;
        Flow { rate, queue: [0.0; 2], residence: residence(class, high) }
    }));
    factor(high)
}

/// How much longer a unit of the slow tier takes.
fn factor(utilisation: f64) -> f64 {
    1.0 / (1.0 - utilisation.min(LEVEL0_FULL))
}

/// What the classes would use if the tier were used by `guess`: falls as the guess rises. Leaves in `free` what each of
/// them would get through without a cap.
fn utilisation(device: &Device, classes: &[Class], guess: f64, free: &mut Vec<f64>) -> f64 {
    free.clear();
    free.extend(classes.iter().map(|class| free_rate(class, residence(class, guess))));
    let capped = |i: usize| free[i] * cap_part(i, classes, free);
    classes.iter().enumerate().map(|(i, class)| capped(i) * weight(device, class)).sum()
}

/// Part of the tier that one unit per ns uses.
fn weight(device: &Device, class: &Class) -> f64 {
    // The demand at the medium carries the amplification; the formula's own limits replace the device's.
    match class.kind {
        Kind::SlowRead => class.demand[0] * device.read_limit() / LEVEL0_LIMITS.0,
        Kind::SlowWrite => class.demand[0] * device.write_limit() / LEVEL0_LIMITS.1,
        Kind::DramRead | Kind::DramWrite => 0.0,
    }
}

/// Time that the tier adds to a unit, in ns.
fn residence(class: &Class, utilisation: f64) -> f64 {
    let longer = if class.kind.is_slow() { factor(utilisation) } else { 1.0 };
    class.think * (longer - 1.0)
}
