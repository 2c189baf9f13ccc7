//! Explore.
use control::Loop;
use control::form::Forms;
use lab::machine::ssd::*;
use policy::form::{Options, Parts, by_name};
use units::{Bytes, Duration, Instant};

#[test]
fn explore() {
    for l in ['A', 'B', 'C', 'D', 'E', 'F', 'L'] {
        let (m, id) = FormMachine::server(Application::ycsb(l), Noise::NONE, 1);
        let p = m.pool();
        for (n, f) in [
            ("wc", Forms { write_cache: p, ..Forms::default() }),
            ("mem", Forms { memory: p, ..Forms::default() }),
            ("cmp", Forms { compressed: p, ..Forms::default() }),
        ] {
            let t = m.settled(id, f);
            println!(
                "{l} {n}: {:.0} op/s p90r {:.0} p90w {:.0} p99 {:.0}",
                t.operations_per_sec, t.reads.p90_us, t.writes.p90_us, t.all.p99_us
            );
        }
        let all = every_split(&m, id, 10);
        let line: Vec<String> = all
            .iter()
            .filter(|s| s.compressed == 0)
            .map(|s| format!("{:.0}", s.truth.operations_per_sec))
            .collect();
        println!("{l} func {}", line.join(" "));
        let b = best_by(all.iter().copied().filter(|s| s.compressed == 0), |s| s.truth.operations_per_sec);
        let bb = best_by(all.iter().copied(), |s| s.truth.operations_per_sec);
        let bt = best_by(all.iter().copied(), |s| -s.truth.all.p99_us);
        for (n, b) in [("F", b), ("all", bb), ("tail", bt)] {
            println!(
                "{l} best {n} m{} k{} {:.0} p99 {:.0}",
                b.memory, b.compressed, b.truth.operations_per_sec, b.truth.all.p99_us
            );
        }
        for name in ["morph-functional", "morph"] {
            for seed in 1..=3 {
                let (mut m, id) = FormMachine::server(Application::ycsb(l), Noise::USUAL, seed);
                let mut pacer = Loop::new(by_name(name, Options::default(), Parts::MEMORY).unwrap(), 10_000);
                let mut n = 0;
                while n < 400 {
                    n += 1;
                    let w = pacer.wake_at();
                    m.drive(&mut pacer, w);
                    let done = pacer
                        .journal()
                        .records()
                        .next_back()
                        .unwrap()
                        .notes
                        .iter()
                        .any(|n| n.reason.word() == "settled");
                    if done {
                        break;
                    }
                }
                let trials = pacer
                    .journal()
                    .records()
                    .flat_map(|r| &r.notes)
                    .filter(|n| n.reason.word() == "experiment")
                    .count();
                let f = pacer.journal().records().next_back().unwrap().shares[0].1;
                let t = m.settled(id, f);
                println!(
                    "{l} {name} seed {seed}: calls {n} trials {trials} at {:?} m{:.1} k{:.1} {:.0} p99 {:.0}",
                    m.now(),
                    f.memory.0 as f64 / p.0 as f64,
                    f.compressed.0 as f64 / p.0 as f64,
                    t.operations_per_sec,
                    t.all.p99_us
                );
            }
        }
    }
    let _ = (Bytes(0), Duration(0), Instant(0));
}
