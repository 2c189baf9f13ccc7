//! Experiments of PolyEMT on the modelled SSD.
//!
//! Shape: YCSB on the paper's server under policies of forms -> what the splits that they end with give in the long run
//! Cost:  a search takes one to two virtual hours, about half a second

use super::{Experiment, ExperimentError, Results, Sweep};
use crate::experiment;
use crate::machine::ssd::{
    Application, Dataset, FormMachine, Mix, Noise, Scored, Ssd, Truth, best_by, every_split,
};
use control::form::Forms;
use control::{Claim, Loop};
use policy::form::{FormPolicy, Options, Parts, Steps, by_name};
use units::{Bytes, Duration, Instant, TenantId};

/// PolyEMT's experiments with policies, and the input of their plant.
pub(super) static POLYEMT: &[Experiment] = &[
    experiment!("polyemt/fig_1", fig_1),
    experiment!("polyemt/fig_6", fig_6),
    experiment!("polyemt/fig_10", fig_10),
    experiment!("polyemt/fig_11", fig_11),
    experiment!("polyemt/fig_12", fig_12),
    experiment!("polyemt/fig_13", fig_13),
    experiment!("polyemt/table_2", table_2),
];

/// The core workloads of YCSB.
const YCSB: [char; 6] = ['A', 'B', 'C', 'D', 'E', 'F'];
/// Those that read and update.
const MIXED: [char; 3] = ['A', 'B', 'F'];
/// A search that has not ended after so many virtual minutes is taken as it stands.
const MINUTES_MAX: f64 = 600.0;
/// Decisions that a loop keeps; a search makes fewer.
const JOURNAL: usize = 2_000;
/// Splits whose throughputs differ by less than this part are equal: well above rounding, well below one step.
const EQUAL: f64 = 0.001;

/// Where a search ended.
#[derive(Clone, Copy)]
struct Found {
    forms: Forms,
    truth: Truth,
    trials: f64,
    minutes: f64,
}

/// A machine with one tenant under a policy.
struct Run {
    machine: FormMachine,
    id: TenantId,
    pacer: Loop<FormPolicy>,
}

fn policy(name: &str, steps: u64) -> Result<FormPolicy, ExperimentError> {
    let steps = u8::try_from(steps).ok().and_then(Steps::new);
    let steps = steps.ok_or_else(|| ExperimentError::failed("steps must be 2 to 20"))?;
    let policy = by_name(name, Options { steps, ..Options::default() }, Parts::WRITE_CACHE);
    policy.ok_or_else(|| ExperimentError::failed("no such policy"))
}

impl Run {
    fn new(name: &str, application: Application, steps: u64, seed: u64) -> Result<Self, ExperimentError> {
        let (machine, id) = FormMachine::server(application, Noise::USUAL, seed);
        Ok(Self { machine, id, pacer: Loop::new(policy(name, steps)?, JOURNAL) })
    }

    fn has(&self, word: &str, since: Instant) -> Option<Instant> {
        let mut records = self.pacer.journal().records();
        let record = records.find(|r| since < r.at && r.notes.iter().any(|n| n.reason.word() == word));
        record.map(|r| r.at)
    }

    /// Lets the search that begins after `since` end.
    fn search(&mut self, since: Instant) -> Found {
        let limit = since + minutes(MINUTES_MAX);
        while self.has("settled", since).is_none() && self.pacer.wake_at() < limit {
            let wake = self.pacer.wake_at();
            self.machine.drive(&mut self.pacer, wake);
        }
        let records = self.pacer.journal().records().filter(|r| since < r.at);
        let notes = records.flat_map(|r| &r.notes);
        let trials = notes.filter(|n| n.reason.word() == "experiment").count();
        let last = self.pacer.journal().records().next_back();
        let forms = last.and_then(|r| r.shares.first()).map_or_else(Forms::default, |(_, forms)| *forms);
        Found {
            forms,
            truth: self.machine.settled(self.id, forms),
            trials: trials as f64,
            minutes: self.machine.now().since(since).as_secs_f64() / 60.0,
        }
    }
}

fn minutes(count: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "hours at most")]
    Duration::from_secs((count * 60.0) as u64)
}

fn ycsb(name: &str, letter: char, steps: u64, seed: u64) -> Result<Found, ExperimentError> {
    Ok(Run::new(name, Application::ycsb(letter), steps, seed)?.search(Instant::ZERO))
}

/// What one form alone gives.
fn alone(letter: char, forms: impl Fn(Bytes) -> Forms) -> Truth {
    let (machine, id) = FormMachine::server(Application::ycsb(letter), Noise::NONE, 1);
    machine.settled(id, forms(machine.pool()))
}

/// A form's part of the tier, to a millionth of a per cent: a step of the search is no whole number of bytes, and is its edge.
fn percent(part: Bytes, forms: Forms) -> f64 {
    let all = forms.write_cache + forms.memory + forms.compressed;
    (1e8 * part.0 as f64 / all.0.max(1) as f64).round() / 1e6
}

fn gain(ours: f64, base: f64) -> f64 {
    100.0 * (ours / base - 1.0)
}

fn failed(error: impl std::fmt::Display) -> ExperimentError {
    ExperimentError::failed(error.to_string())
}

fn fig_1(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let steps = sweep.count("quarters")?;
    let bytes = Bytes(sweep.count("gib")? << 30);
    let reads = sweep.number("tpcc.reads")?;
    let pages = u32::try_from(sweep.count("tpcc.pages_per_record")?).map_err(failed)?;
    let dataset = Dataset {
        records: sweep.count("tpcc.records")?,
        pages_per_record: pages,
        skew: sweep.number("tpcc.skew")?,
        ..Dataset::YCSB
    };
    let mix = Mix { reads, read_modify_writes: 1.0 - reads, ..Mix::default() };
    let load = Mix { inserts: 1.0, ..Mix::default() };
    let splits = |dataset, mix| -> Result<Vec<Scored>, ExperimentError> {
        let application = Application::new(dataset, mix, bytes).map_err(failed)?;
        let mut machine = FormMachine::new(bytes, Ssd::loaded(), Noise::NONE, 1);
        let id = machine.add(Claim::default(), application);
        Ok(every_split(&machine, id, steps).into_iter().filter(|s| s.compressed == 0).collect())
    };
    let curves = [("tpcc", splits(dataset, mix)?), ("load", splits(Dataset::YCSB, load)?)];
    for (name, curve) in &curves {
        let best = best_by(curve.iter().copied(), rate);
        results.number(format!("{name}_best_memory"), percent(best.forms.memory, best.forms));
        plot(results, name, curve);
    }
    let tpcc = &curves[0].1;
    if let (Some(cache), Some(memory)) = (tpcc.first(), tpcc.last()) {
        results.number("tpcc_write_cache_gain", gain(rate(cache), rate(memory)));
    }
    Ok(())
}

fn rate(split: &Scored) -> f64 {
    split.truth.operations_per_sec
}

fn plot(results: &mut Results, name: &str, curve: &[Scored]) {
    let points: Vec<_> = curve.iter().map(|s| (percent(s.forms.memory, s.forms), rate(s))).collect();
    results.series("throughput over the split", name, &points);
    results.axes("throughput over the split", "memory in percent of the tier", "operations per second");
}

fn fig_6(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let latencies = Ssd::latencies(sweep.number("utilisation")?);
    let (read, write) = latencies.p95_us();
    results.number("read_mean", latencies.read_us);
    results.number("read_p95", read);
    results.number("write_mean", latencies.write_us);
    results.number("write_p95", write);
    Ok(())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(f64::MIN, f64::max)
}

fn fig_10(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let steps = sweep.count("steps")?;
    let (mut speedups, mut gains) = (Vec::new(), Vec::new());
    let [mut read_cache, mut write_cache, mut read_functional, mut write_both] = [const { Vec::new() }; 4];
    for (x, letter) in (0_u8..).zip(YCSB) {
        let memory = alone(letter, |all| Forms { memory: all, ..Forms::default() });
        let cache = alone(letter, |all| Forms { write_cache: all, ..Forms::default() });
        let functional = ycsb("morph-functional", letter, steps, sweep.seed)?.truth;
        let both = ycsb("morph", letter, steps, sweep.seed)?.truth;
        let base = memory.operations_per_sec;
        speedups.push(cache.operations_per_sec / base);
        gains.push((
            letter,
            gain(functional.operations_per_sec, cache.operations_per_sec),
            gain(both.operations_per_sec, cache.operations_per_sec),
        ));
        read_cache.push(gain(cache.reads.p90_us, memory.reads.p90_us));
        read_functional.push(gain(functional.reads.p90_us, memory.reads.p90_us));
        if letter != 'C' {
            write_cache.push(gain(cache.writes.p90_us, memory.writes.p90_us));
            write_both.push(gain(both.writes.p90_us, memory.writes.p90_us));
        }
        for (name, truth) in [("write-cache", cache), ("functional", functional), ("both", both)] {
            let point = (f64::from(x), truth.operations_per_sec / base);
            results.series("throughput against DRAM-Ext", &format!("{letter} {name}"), &[point]);
        }
    }
    let mixed = |l: &char| MIXED.contains(l);
    results.number("write_cache_speedup", mean(&speedups));
    results.number("functional_gain", largest(gains.iter().map(|g| g.1)));
    results.number("both_gain", largest(gains.iter().map(|g| g.2)));
    results.number("functional_gain_mixed", largest(gains.iter().filter(|g| mixed(&g.0)).map(|g| g.1)));
    results.number("both_gain_mixed", largest(gains.iter().filter(|g| mixed(&g.0)).map(|g| g.2)));
    results.number("read_tail_write_cache", mean(&read_cache));
    results.number("write_tail_write_cache", mean(&write_cache));
    results.number("read_tail_functional", mean(&read_functional));
    results.number("write_tail_both", mean(&write_both));
    Ok(())
}

/// Splits, or runs of equal ones, that lie above their neighbours on both sides.
fn maxima(curve: &[f64]) -> usize {
    let (mut count, mut rising) = (0, true);
    for pair in curve.windows(2) {
        if pair[0] * (1.0 + EQUAL) < pair[1] {
            rising = true;
        } else if pair[1] < pair[0] * (1.0 - EQUAL) {
            count += usize::from(rising);
            rising = false;
        }
    }
    count + usize::from(rising)
}

/// Whether the best split lies between the ends and above both.
fn has_inner_maximum(curve: &[f64]) -> bool {
    let [first, inner @ .., last] = curve else { return false };
    first.max(*last) * (1.0 + EQUAL) < largest(inner.iter().copied())
}

fn fig_11(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let steps = sweep.count("steps")?;
    let (mut low, mut high, mut inner) = (100.0_f64, 0.0_f64, 0.0);
    for letter in YCSB {
        let (machine, id) = FormMachine::server(Application::ycsb(letter), Noise::NONE, 1);
        let all = every_split(&machine, id, steps);
        let curve: Vec<Scored> = all.into_iter().filter(|s| s.compressed == 0).collect();
        let best = best_by(curve.iter().copied(), rate);
        let best = percent(best.forms.memory, best.forms);
        (low, high) = (low.min(best), high.max(best));
        let rates: Vec<f64> = curve.iter().map(rate).collect();
        results.number(format!("maxima_{}", letter.to_ascii_lowercase()), maxima(&rates) as f64);
        inner += f64::from(u8::from(has_inner_maximum(&rates)));
        plot(results, &letter.to_string(), &curve);
    }
    results.number("inner_maxima", inner);
    results.number("best_spread", high - low);
    Ok(())
}

fn fig_12(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for letter in ['A', 'C', 'E', 'F'] {
        let forms = ycsb("morph", letter, sweep.count("steps")?, sweep.seed)?.forms;
        let name = letter.to_ascii_lowercase();
        results.number(format!("compressed_{name}"), percent(forms.compressed, forms));
        if letter != 'E' {
            results.number(format!("write_cache_{name}"), percent(forms.write_cache, forms));
        }
    }
    Ok(())
}

/// The search of a read-only phase, the change, and the search after it.
fn phases(
    name: &str,
    sweep: &Sweep,
    results: &mut Results,
) -> Result<(Found, Found, Option<f64>), ExperimentError> {
    let mut run = Run::new(name, Application::ycsb('C'), sweep.count("steps")?, sweep.seed)?;
    let first = run.search(Instant::ZERO);
    // A while for the policy to see what is usual.
    let change = run.machine.now() + minutes(sweep.number("pause_minutes")?);
    let mix = Mix::ycsb('A').ok_or_else(|| failed("no workload A"))?;
    run.machine.change_mix(run.id, change, mix);
    run.machine.drive(&mut run.pacer, change);
    let second = run.search(change);
    let restart = run.has("restarted", change).map(|at| at.since(change).as_secs_f64() / 60.0);
    let memory = |r: &control::journal::Record<_, Forms>| {
        r.shares.first().map(|(_, f)| (r.at.since(Instant::ZERO).as_secs_f64() / 60.0, percent(f.memory, *f)))
    };
    let points: Vec<_> = run.pacer.journal().records().filter_map(memory).collect();
    results.series("memory over time", name, &points);
    results.axes("memory over time", "virtual minutes", "percent of the tier");
    Ok((first, second, restart))
}

fn fig_13(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let start = alone('C', |all| Forms { write_cache: all, ..Forms::default() });
    results.number("start", start.operations_per_sec);
    let (read_only, mixed, _) = phases("morph-functional", sweep, results)?;
    results.number("functional", read_only.truth.operations_per_sec);
    results.number("functional_memory", percent(read_only.forms.memory, read_only.forms));
    results.number("mixed_memory", percent(mixed.forms.memory, mixed.forms));
    let (_, end, restart) = phases("morph", sweep, results)?;
    results.number("final_write_cache", percent(end.forms.write_cache, end.forms));
    results.number("final_compressed", percent(end.forms.compressed, end.forms));
    results.number("final_tail", end.truth.reads.p90_us.max(end.truth.writes.p90_us));
    results.number("restart", restart.unwrap_or(f64::NAN));
    results.number("adaptation", end.minutes);
    Ok(())
}

fn table_2(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut longest = 0.0_f64;
    for name in ["cloud_storage", "map_reduce", "search_index", "search_serve"] {
        let reads = sweep.number(&format!("reads.{name}"))?;
        let mix = Mix { reads, updates: 1.0 - reads, ..Mix::default() };
        let application = Application::ycsb('C').with_mix(mix).map_err(failed)?;
        let steps = sweep.count("steps")?;
        let found = Run::new("morph-functional", application, steps, sweep.seed)?.search(Instant::ZERO);
        results.number(format!("trials_{name}"), found.trials);
        results.number(name, found.trials * sweep.number("minutes_per_trial")?);
        longest = longest.max(found.minutes);
    }
    results.number("virtual_longest", longest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_are_counted_with_plateaus_as_one() {
        for (curve, count) in [
            (vec![1.0], 1),
            (vec![1.0, 2.0, 3.0], 1),
            (vec![3.0, 2.0, 1.0], 1),
            (vec![1.0, 2.0, 2.0, 1.0], 1),
            (vec![1.0, 2.0, 1.0, 2.0], 2),
            (vec![2.0, 1.0, 3.0, 1.0], 2),
            (vec![2.0, 2.0], 1),
        ] {
            assert_eq!(maxima(&curve), count, "{curve:?}");
        }
    }

    #[test]
    fn a_step_of_the_search_is_its_edge() {
        let pool = Bytes(6 << 30);
        for step in 0..=10 {
            let (memory, compressed) = (pool.scale(step, 10), pool.scale(10 - step, 10));
            let forms = Forms { write_cache: pool.saturating_sub(memory + compressed), memory, compressed };
            assert_eq!(percent(memory, forms).to_string(), (10 * step).to_string());
        }
    }

    #[test]
    fn a_maximum_at_an_end_is_no_inner_one() {
        for (curve, is_inner) in [
            (vec![], false),
            (vec![1.0, 2.0], false),
            (vec![1.0, 2.0, 3.0], false),
            (vec![3.0, 2.0, 3.0], false),
            (vec![2.0, 2.0, 1.0], false),
            (vec![1.0, 2.0, 1.5], true),
        ] {
            assert_eq!(has_inner_maximum(&curve), is_inner, "{curve:?}");
        }
    }
}
