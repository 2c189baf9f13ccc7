//! Figure 4: what it gains that keys are not in the tier with their values, and that values are stored past the caches.
//!
//! Shape:  one thread's look-ups on an emulated tier, with and without a read of the key's line -> medians of pieces in turns;
//!         costs of both ways to store -> their ratio
//! Units:  nanoseconds by this machine's clock; gains as parts (0.5 is half as much again), of sets as factors

use super::median;
use super::rig::{Rig, whole};
use lab::experiment::{ExperimentError, Results, Sweep};
use media::emulated::Dimms;
use media::model::{LINE, Operation};
use media::{Device, Profile, SlowAccess};
use units::{Bytes, Rng};

/// NyxCache, Figure 4.
pub(super) fn apart(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut rng = Rng::new(sweep.seed);
    let mut gains = Vec::new();
    for size in sweep.list("value_bytes")? {
        let mut rig =
            Rig::filled(size, sweep.count("items")?, sweep.seed).map_err(ExperimentError::failed)?;
        let (gets, key) = (sweep.count("gets")?, Bytes(sweep.count("key_bytes")?));
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..sweep.count("pieces")? {
            without.push(rig.piece(&mut rng, gets, |_| ())?);
            with.push(rig.piece(&mut rng, gets, |tier| tier.take_time(SlowAccess::Read, key))?);
        }
        gains.push((size, median(&mut with) / median(&mut without) - 1.0));
    }
    let most = gains.iter().map(|(_, gain)| *gain).fold(f64::NEG_INFINITY, f64::max);
    results.number("gets_gain_most", most);
    results.number("gets_gain_smallest", gains.first().map_or(f64::NAN, |(_, gain)| *gain));
    results.number("gets_gain_largest", gains.last().map_or(f64::NAN, |(_, gain)| *gain));
    results.series("(a) Gets of one thread", "keys in DRAM", &gains);
    results.axes("(a) Gets of one thread", "value, bytes", "gain");
    sets(sweep, results)
}

/// Part (b), from Table 2 and from what the modelled modules bear.
fn sets(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let profile = Profile::new(&Profile::modelled(&Dimms::Two.system())).map_err(ExperimentError::failed)?;
    let cost = |kind, size| profile.cost_ps(kind, Bytes(size)) as f64;
    let line = cost(SlowAccess::Read, LINE) + cost(SlowAccess::Write, LINE);
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for size in sweep.list("store_bytes")? {
        let bytes = whole(size);
        let interval = |operation: Operation| operation.interval_ns(bytes);
        one.push((size, interval(Operation::Store) / interval(Operation::NonTemporalStore)));
        all.push((size, bytes.0.div_ceil(LINE) as f64 * line / cost(SlowAccess::Write, bytes.0)));
    }
    let most = |gains: &[(f64, f64)]| gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
    results.number("sets_gain_one_thread", most(&one));
    results.number("sets_gain_in_cost", most(&all));
    results.series("(b) Sets", "one thread, Table 2", &one);
    results.series("(b) Sets", "as many as the modules bear", &all);
    results.axes("(b) Sets", "value, bytes", "times as many");
    Ok(())
}
