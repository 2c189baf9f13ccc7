//! Figure 8 live: a cache with a promised tail beside one that reads and one that begins to write.

use super::{failed, gets, rates, sets};
use crate::live::{Awake, Here, Tenant};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;
use units::Bytes;

/// What was left of the reader and of the writer once the writer had begun, relative to the unregulated time before.
struct Left {
    reader: f64,
    writer: f64,
}

fn left(sweep: &Sweep, policy: &str, step: Option<Bytes>) -> Result<Left, ExperimentError> {
    let goal = format!("p99 {}", sweep.text("goal")?);
    let tenants = [Tenant::new("c", &goal), Tenant::new("r", ""), Tenant::new("w", "")];
    let _awake = Awake::start();
    let workers = usize::try_from(sweep.count("workers")?).unwrap_or(1);
    let here = Here::start_with(sweep.text("tier")?, "none", &tenants, workers, |config| {
        config.bandwidth_step = step
    });
    let here = here.map_err(failed)?;
    let (short, long, keys) = (sweep.number("free_s")?, sweep.number("settle_s")?, sweep.count("keys")?);
    let measure = || -> io::Result<Left> {
        let works = [gets("c", 256, keys, 1), gets("r", 4096, keys, 2), sets("w", 16 << 10, keys, 4)];
        for work in &works {
            here.fill(work)?;
        }
        let clients = [here.work(works[0]), here.work(works[1])];
        here.pass(short);
        let writer = here.work(works[2]);
        let free = rates(&here, &[&clients[1], &writer], short);
        here.switch(policy)?;
        here.pass(long);
        let held = rates(&here, &[&clients[1], &writer], short);
        // Who is paused is answered before it can end.
        here.switch("none")?;
        for client in clients.into_iter().chain([writer]) {
            client.end()?;
        }
        Ok(Left { reader: held[0] / free[0], writer: held[1] / free[1] })
    };
    let seen = measure().map_err(failed)?;
    here.end();
    Ok(seen)
}

/// NyxCache, Figures 8 and 13, live: who pays when a tail is missed, and what an experiment's step changes of that.
pub(super) fn qos(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for (policy, name) in [("qos", "nyx"), ("qos-biggest", "biggest")] {
        let seen = left(sweep, policy, None)?;
        results.number(format!("{name}_reader_left"), seen.reader);
        results.number(format!("{name}_writer_left"), seen.writer);
    }
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
