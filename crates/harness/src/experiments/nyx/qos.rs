//! Figure 8 live: a cache with a promised tail beside one that reads and one that begins to write.

use super::{failed, gets, rates, sets, warm, workers};
use crate::live::{Awake, Cores, Here, Tenant};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;
use units::Bytes;

/// Seconds of a point of a course.
const POINT_SECS: f64 = 1.0;
/// What a course is of: parts of the unregulated time, and the tail of who was promised one in microseconds.
const COURSES: [&str; 3] = ["reader", "writer", "tail"];
const LEFT: &str = "What is left from the policy's begin on";
const TAIL: &str = "The promised tail, as the client sees it";

/// What was left of the reader and of the writer once the writer had begun, relative to the unregulated time before, and the tail of who
/// was promised one, as its client saw it; and the same point by point from the policy's begin on.
struct Left {
    reader: f64,
    writer: f64,
    tail_us: f64,
    course: Vec<[f64; 3]>,
}

fn left(sweep: &Sweep, policy: &str, step: Option<Bytes>) -> Result<Left, ExperimentError> {
    let goal = format!("p99 {}", sweep.text("goal")?);
    let tenants = [Tenant::new("c", &goal), Tenant::new("r", ""), Tenant::new("w", "")];
    let _awake = Awake::start();
    let workers = workers(sweep)?;
    let here = Here::start_with(sweep.text("tier")?, "none", &tenants, workers, |config| {
        config.bandwidth_step = step
    });
    let here = here.map_err(failed)?;
    let cores = Cores::divide(workers);
    let (short, long, keys) = (sweep.number("free_s")?, sweep.number("settle_s")?, sweep.count("keys")?);
    let (reads, writes) = (sweep.count("reads")?, sweep.count("writes")?);
    let write_bytes = usize::try_from(sweep.count("write_bytes")?).unwrap_or(usize::MAX);
    let measure = || -> io::Result<Left> {
        // The reader transfers more than the writer, who takes more of the tier's time.
        let works =
            [gets("c", 256, keys, 1), gets("r", 4096, keys, reads), sets("w", write_bytes, keys, writes)];
        for work in &works {
            warm(&here, work, short / 4.0)?;
        }
        let clients = [here.work(works[0]), here.work(works[1])];
        here.pass(short);
        let writer = here.work(works[2]);
        let free = rates(&here, &[&clients[1], &writer], short);
        here.switch(policy)?;
        let tail = || clients[0].take_times().gets.quantile_us(0.99);
        let point = |seconds: f64| {
            let _before = tail();
            let held = rates(&here, &[&clients[1], &writer], seconds);
            [held[0] / free[0], held[1] / free[1], tail()]
        };
        let mut course: Vec<[f64; 3]> = Vec::new();
        while (course.len() as f64) * POINT_SECS < long {
            course.push(point(POINT_SECS));
        }
        let [reader_left, writer_left, tail_us] = point(short);
        // Who is paused is answered before it can end.
        here.switch("none")?;
        for client in clients.into_iter().chain([writer]) {
            client.end()?;
        }
        Ok(Left { reader: reader_left, writer: writer_left, tail_us, course })
    };
    let seen = measure().map_err(failed)?;
    drop(cores);
    here.end();
    Ok(seen)
}

fn title(what: &str) -> &'static str {
    if what == "tail" { TAIL } else { LEFT }
}

/// NyxCache, Figures 8 and 13, live: who pays when a tail is missed, and what an experiment's step changes of that.
pub(super) fn qos(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for (policy, name) in [("qos", "nyx"), ("qos-biggest", "biggest")] {
        let seen = left(sweep, policy, None)?;
        results.number(format!("{name}_reader_left"), seen.reader);
        results.number(format!("{name}_writer_left"), seen.writer);
        results.number(format!("{name}_tail_us"), seen.tail_us);
        for (which, what) in COURSES.into_iter().enumerate() {
            let points: Vec<_> = (1_u32..).map(|at| f64::from(at) * POINT_SECS).zip(&seen.course).collect();
            let points: Vec<_> = points.into_iter().map(|(at, point)| (at, point[which])).collect();
            results.series(title(what), &format!("{what}, {policy}"), &points);
        }
    }
    results.axes(LEFT, "s", "of what it has where nobody is held back");
    results.axes(TAIL, "s", "us");
    for step in sweep.list("steps_mb")? {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "megabytes of the settings"
        )]
        let bytes = Bytes((step * 1e6) as u64);
        let seen = left(sweep, "qos", Some(bytes))?;
        results.number(format!("step_{step}_reader_left"), seen.reader);
        results.number(format!("step_{step}_writer_left"), seen.writer);
    }
    Ok(())
}
