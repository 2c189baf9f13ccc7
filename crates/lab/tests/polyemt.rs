//! The search for forms against exhaustive search and against what never morphs, on the modelled SSD (checks E4 to E7).
//!
//! Known misses. E5: on YCSB's mixed workloads the model's best functional split gains .46 (B), .34 (F) and .23 (A); only
//! read-only C and the scans of E reach .5, and "up to 70 %" in the paper does not say which workload it was. E6: a search
//! takes 30 to 120 virtual minutes, not 4 to 8: it waits until forms that were given have filled, at the rate of faults.
//! On A, B, D and F the whole search makes 57 to 68 decisions, more than 50.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::Loop;
use control::form::Forms;
use lab::machine::ssd::{Application, FormMachine, Noise, Scored, Ssd, best_by, every_split};
use policy::form::{FormPolicy, Options, Parts, by_name};
use std::collections::HashMap;
use std::sync::LazyLock;
use units::{Duration, Instant};

/// Steps of a search, and of the exhaustive one that it is compared with.
const STEPS: u64 = 10;
const SEEDS: [u64; 3] = [1, 2, 3];
const YCSB: [char; 6] = ['A', 'B', 'C', 'D', 'E', 'F'];

fn policy(name: &str) -> FormPolicy {
    by_name(name, Options::default(), Parts::WRITE_CACHE).unwrap()
}

/// What a policy came to.
#[derive(Clone, Copy, Debug)]
struct End {
    forms: Forms,
    /// Operations per second that they give in the long run.
    rate: f64,
    p99_us: f64,
    /// Splits that were tried, decisions made, and virtual minutes until the search ended.
    trials: usize,
    decisions: usize,
    minutes: f64,
}

/// The ends of `morph` and of its functional step on all workloads with all seeds, under noise; worked out once.
static ENDS: LazyLock<HashMap<(&str, char, u64), End>> = LazyLock::new(|| {
    let runs = |name| YCSB.into_iter().flat_map(move |l| SEEDS.map(move |seed| (name, l, seed)));
    let half = |name| runs(name).map(|run| (run, end(run.0, run.1, Noise::USUAL, run.2))).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half("morph-functional"));
        half("morph").into_iter().chain(other.join().unwrap()).collect()
    })
});

fn searched(name: &'static str, letter: char, seed: u64) -> End {
    ENDS[&(name, letter, seed)]
}

/// Runs a policy on YCSB `letter` until its search ends, or for 40 decisions if it never searches.
fn end(name: &str, letter: char, noise: Noise, seed: u64) -> End {
    let (mut machine, id) = FormMachine::server(Application::ycsb(letter), noise, seed);
    let mut pacer = Loop::new(policy(name), 1_000);
    let is_settled = |pacer: &Loop<FormPolicy>| {
        pacer.journal().records().any(|r| r.notes.iter().any(|n| n.reason.word() == "settled"))
    };
    let limit = if name.starts_with("morph") { 400 } else { 40 };
    while !is_settled(&pacer) && pacer.journal().records().len() < limit {
        let wake = pacer.wake_at();
        machine.drive(&mut pacer, wake);
    }
    let notes = pacer.journal().records().flat_map(|r| &r.notes);
    let trials = notes.filter(|n| n.reason.word() == "experiment").count();
    let forms = pacer.journal().records().next_back().unwrap().shares[0].1;
    let truth = machine.settled(id, forms);
    End {
        forms,
        rate: truth.operations_per_sec,
        p99_us: truth.all.p99_us,
        trials,
        decisions: pacer.journal().records().len(),
        minutes: machine.now().since(Instant::ZERO).as_secs_f64() / 60.0,
    }
}

fn splits(letter: char) -> Vec<Scored> {
    let (machine, id) = FormMachine::server(Application::ycsb(letter), Noise::NONE, 1);
    every_split(&machine, id, STEPS)
}

fn rate_at(all: &[Scored], memory: u64, compressed: u64) -> f64 {
    let at = all.iter().find(|s| (s.memory, s.compressed) == (memory, compressed));
    at.unwrap().truth.operations_per_sec
}

/// E4: on write-heavy workloads a write cache beats more memory by half at least (the paper: 2.5 on average).
#[test]
fn e4_a_write_cache_beats_more_memory_where_much_is_written() {
    for letter in ['A', 'F', 'L'] {
        let rate = |name| end(name, letter, Noise::USUAL, 1).rate;
        let ratio = rate("write-cache") / rate("dram-extension");
        println!("E4 {letter}: {ratio:.2}");
        assert!(1.5 <= ratio, "{letter}: {ratio}");
    }
    // Where nothing is written it is the other way round: the check can fail.
    assert!(end("write-cache", 'C', Noise::NONE, 1).rate < end("dram-extension", 'C', Noise::NONE, 1).rate);
}

/// Gain over the write cache, per workload.
fn gains(rate: impl Fn(char) -> f64) -> Vec<(char, f64)> {
    YCSB.map(|letter| (letter, rate(letter) / rate_at(&splits(letter), 0, 0) - 1.0)).to_vec()
}

/// "Up to" as the paper has it: the largest gain of all workloads.
fn up_to(gains: &[(char, f64)]) -> f64 {
    gains.iter().map(|(_, gain)| *gain).fold(f64::MIN, f64::max)
}

fn passes_e5(functional: &[(char, f64)], both: &[(char, f64)]) -> bool {
    0.5 <= up_to(functional) && 0.7 <= up_to(both)
}

/// E5: function gains up to 50 % at least, representation up to 70 % at least (the paper: up to 70 and 90). Also on the
/// mixed workloads alone representation reaches that; function does not, see the known misses.
#[test]
fn e5_function_and_representation_gain_over_the_write_cache() {
    for seed in SEEDS {
        let of = |name| gains(|letter| searched(name, letter, seed).rate);
        let (functional, both) = (of("morph-functional"), of("morph"));
        println!("E5 seed {seed}: functional {functional:.2?} both {both:.2?}");
        assert!(passes_e5(&functional, &both), "seed {seed}: {functional:?} {both:?}");
        let mixed = |gains: &[(char, f64)]| {
            up_to(&gains.iter().copied().filter(|(l, _)| "ABF".contains(*l)).collect::<Vec<_>>())
        };
        assert!(0.7 <= mixed(&both), "seed {seed}: {both:?}");
        assert!((0.4..0.5).contains(&mixed(&functional)), "the known miss, seed {seed}: {functional:?}");
    }
    let toy = gains(|letter| end("write-cache", letter, Noise::USUAL, 1).rate);
    assert!(!passes_e5(&toy, &toy), "a tuner that stays with the write cache passes");
}

/// E6: a search tries at most 50 splits, a third of what there is at most; that is bounded by how the search walks. The check
/// asks for eight minutes or 50 decisions. Known misses: no search ends within eight virtual minutes, for it waits for forms
/// to fill (33 to 119), and while it waits it decides: the whole search makes 57 to 68 decisions on A, B, D and F.
#[test]
fn e6_a_search_ends_after_few_trials() {
    let exhaustive = splits('A').len();
    assert!(50 < exhaustive, "exhaustive search passes");
    for letter in YCSB {
        for name in ["morph-functional", "morph"] {
            for seed in SEEDS {
                let End { trials, decisions, minutes, .. } = searched(name, letter, seed);
                let said = format!(
                    "E6 {letter} {name} seed {seed}: {trials} of {exhaustive} splits, {decisions} decisions, \
                     {minutes:.0} min"
                );
                println!("{said}");
                assert!(trials <= 50 && 3 * trials <= exhaustive, "{said}");
                assert!(8.0 < minutes, "the known miss is none any more: {said}");
                let is_known_miss = name == "morph" && "ABDF".contains(letter);
                assert_eq!(50 < decisions, is_known_miss, "known misses of decisions: {said}");
            }
        }
    }
}

fn steps_of(bytes: units::Bytes, forms: Forms) -> u64 {
    let all = forms.write_cache + forms.memory + forms.compressed;
    units::Bytes(bytes.0 + all.0 / (2 * STEPS)).count_of(units::Bytes(all.0 / STEPS))
}

/// What E7 says against an end of the functional search; nothing if it is within one step of the best split.
fn functional_fault(letter: char, end: &End) -> Option<String> {
    let all = splits(letter);
    let functional = all.iter().copied().filter(|s| s.compressed == 0);
    let best = best_by(functional, |s| s.truth.operations_per_sec);
    let found = steps_of(end.forms.memory, end.forms);
    let rate = best.truth.operations_per_sec;
    (1 < found.abs_diff(best.memory))
        .then(|| format!("{letter}: {found} for {}, {:.0} of {rate:.0}", best.memory, end.rate))
}

/// What E7 says against the end of a whole search: at least the best static form - 5 %.
fn static_fault(letter: char, end: &End) -> Option<String> {
    let all = splits(letter);
    let corners = [(0, 0), (STEPS, 0), (0, STEPS)].map(|(m, k)| rate_at(&all, m, k));
    let best = corners.into_iter().fold(0.0, f64::max);
    (end.rate < 0.95 * best).then(|| format!("{letter}: {:?} {:.0} of {best:.0}", end.forms, end.rate))
}

/// E7: under noise the functional search ends within one step of exhaustive search.
#[test]
fn e7_the_functional_search_ends_within_one_step_of_exhaustive_search() {
    let mut faults = Vec::new();
    for letter in YCSB {
        for seed in SEEDS {
            faults.extend(functional_fault(letter, &searched("morph-functional", letter, seed)));
        }
    }
    println!("E7 functional: {faults:?}");
    assert!(faults.is_empty(), "{faults:?}");
    let toy = |letter| functional_fault(letter, &end("write-cache", letter, Noise::USUAL, 1));
    assert!(
        YCSB.into_iter().all(|letter| toy(letter).is_some()),
        "a tuner that stays with the write cache passes"
    );
}

/// E7: under noise the whole search is never worse than the best static form - 5 %, and comes within 5 % of exhaustive
/// search in throughput and in the tail.
#[test]
fn e7_the_search_is_never_worse_than_the_best_static_form() {
    let mut faults = Vec::new();
    for letter in YCSB {
        let all = splits(letter);
        let best = best_by(all.iter().copied(), |s| s.truth.operations_per_sec).truth;
        for seed in SEEDS {
            let end = searched("morph", letter, seed);
            let (rate, tail) = (end.rate / best.operations_per_sec, end.p99_us / best.all.p99_us);
            println!(
                "E7 {letter} seed {seed}: {:?} throughput {rate:.3} and tail {tail:.3} of exhaustive",
                end.forms
            );
            faults.extend(static_fault(letter, &end));
            assert!(0.95 <= rate && tail <= 1.05, "{letter} seed {seed}: {end:?}");
        }
    }
    assert!(faults.is_empty(), "{faults:?}");
    let toy = |letter| static_fault(letter, &end("write-cache", letter, Noise::USUAL, 1));
    assert!(
        YCSB.into_iter().all(|letter| toy(letter).is_some()),
        "a tuner that stays with the write cache passes"
    );
}

/// The search begins anew when the application changes (§3.1), and when only the SSD does (§4); without a change it
/// stays where it is.
#[test]
fn a_change_of_the_application_or_of_the_ssd_starts_a_new_search() {
    for seed in SEEDS {
        for change in ["none", "application", "ssd"] {
            let (mut machine, id) = FormMachine::server(Application::ycsb('C'), Noise::USUAL, seed);
            let mut pacer = Loop::new(policy("morph-functional"), 10_000);
            let at = Instant::ZERO + Duration::from_secs(7_200);
            match change {
                "application" => machine.change_mix(id, at, lab::machine::ssd::Mix::ycsb('A').unwrap()),
                "ssd" => machine.change_ssd(at, Ssd::new(0.85).unwrap()),
                _ => {}
            }
            machine.drive(&mut pacer, at + Duration::from_secs(3_600));
            let restarted =
                |r: &&control::journal::Record<_, _>| r.notes.iter().any(|n| n.reason.word() == "restarted");
            let first = pacer.journal().records().find(restarted).map(|r| r.at);
            match change {
                "none" => assert_eq!(first, None, "seed {seed}"),
                _ => {
                    let delay = first.expect(change).since(at);
                    assert!(
                        at <= first.unwrap() && delay <= Duration::from_secs(300),
                        "{change} {seed} {delay}"
                    );
                }
            }
        }
    }
}
