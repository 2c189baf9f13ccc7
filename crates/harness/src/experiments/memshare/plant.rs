//! The trace, the memory and the parts that one experiment of Memshare is about.
//!
//! Shape:      sweep -> plants: the stand-ins from a shared trace, and generated applications
//! Invariants: items of generated applications have `memcachier_` before their names
//! Failure:    without the shared trace its items are not applicable, and say where it was looked for

use super::apps::{Apps, KEYS_SCALED};
use super::baseline::{exact, partitioned, pooled};
use super::source::Source;
use crate::replay::{ReplayOptions, Tax, Weight, in_process, in_process_watched};
use crate::report::Report;
use lab::Tally;
use lab::experiment::{ExperimentError, Results, Sweep};
use lab::reference::Reference;
use store::RankKind;
use units::{Bytes, Duration, Instant};

/// Largest item.
pub(super) const ITEM_MAX: Bytes = Bytes::mib(1);
/// What stands before the items of generated applications.
pub(super) const GENERATED: &str = "memcachier_";

/// The trace and the memory that one experiment is about.
pub(super) struct Plant {
    pub(super) source: Source,
    pub(super) memory: Bytes,
    /// What stands before its items.
    pub(super) prefix: &'static str,
    /// What each tenant pays for, relative to the others; the parts are equal without.
    bought: Vec<u64>,
    /// The memory's part of that in the paper; credits are scaled by this.
    part_of_paper: f64,
    pub(super) seed: u64,
}

impl Plant {
    /// The tenants of the shared trace that the sweep names; none with a remark at every one of `items` where it is absent.
    pub(super) fn shared_trace(
        sweep: &Sweep,
        results: &mut Results,
        items: &[&str],
    ) -> Result<Option<Self>, ExperimentError> {
        let memory = Bytes::mib(sweep.count("memory_mib")?);
        match Source::open(sweep)? {
            Ok(source) => {
                let (prefix, bought, part_of_paper) = ("", Vec::new(), 1.0);
                Ok(Some(Self { source, memory, prefix, bought, part_of_paper, seed: sweep.seed }))
            }
            Err(why) => {
                items.iter().for_each(|item| results.not_applicable(*item, why.clone()));
                Ok(None)
            }
        }
    }

    /// Memcachier's applications as the sweep's table `apps` has them.
    pub(super) fn generated(sweep: &Sweep) -> Result<Self, ExperimentError> {
        let apps = Apps::named(sweep.text("apps.table")?)?;
        let (requests, seconds) = (sweep.count("apps.requests")?, sweep.count("apps.seconds")?);
        let mix = apps.mix(requests, seconds, sweep.number("apps.scale")?, sweep.seed);
        let source = Source::generated(mix, requests, seconds);
        let memory = Bytes::mib(sweep.count("apps.memory_mib")?);
        Ok(Self {
            source,
            memory,
            prefix: GENERATED,
            bought: apps.bought,
            part_of_paper: sweep.number("apps.part_of_paper")?,
            seed: sweep.seed,
        })
    }

    /// Each application of the sweep's table alone, in as much memory as any other: scaled so that this is what it bought.
    pub(super) fn each_alone(sweep: &Sweep) -> Result<Vec<Self>, ExperimentError> {
        let apps = Apps::named(sweep.text("apps.table")?)?;
        let (requests, seconds) = (sweep.count("apps.requests")?, sweep.count("apps.seconds")?);
        let memory = Bytes::mib(sweep.count("apps.memory_mib")?);
        let alone = apps.each().into_iter().map(|(app, bought)| {
            let part_of_paper = memory.0 as f64 / bought as f64;
            let mix = app.mix(requests, seconds, part_of_paper * KEYS_SCALED, sweep.seed);
            let source = Source::generated(mix, requests, seconds);
            Self { source, memory, prefix: GENERATED, bought: app.bought, part_of_paper, seed: sweep.seed }
        });
        Ok(alone.collect())
    }

    /// Both: the stand-ins from the shared trace where it is, and the generated applications.
    pub(super) fn both(
        sweep: &Sweep,
        results: &mut Results,
        items: &[&str],
    ) -> Result<Vec<Self>, ExperimentError> {
        let traced = Self::shared_trace(sweep, results, items)?;
        Ok(traced.into_iter().chain([Self::generated(sweep)?]).collect())
    }

    /// The name of an item of this plant.
    pub(super) fn item(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// What the tenants divide.
    pub(super) fn divisible(&self) -> Bytes {
        store::divisible_capacity(self.memory, ITEM_MAX, 1)
    }

    /// What each tenant may hold: by what it bought, or all alike.
    pub(super) fn parts(&self) -> Vec<Bytes> {
        let tenants = self.source.tenants().len();
        let total: u64 = self.bought.iter().sum();
        match self.bought.len() == tenants && 0 < total {
            true => self.bought.iter().map(|bought| self.divisible().scale(*bought, total)).collect(),
            false => vec![self.divisible().scale(1, tenants.max(1) as u64); tenants],
        }
    }

    /// The policy `shared` with `private_percent` of every part as a floor, and the sweep's credit.
    pub(super) fn shared(
        &self,
        sweep: &Sweep,
        private_percent: u64,
    ) -> Result<ReplayOptions, ExperimentError> {
        let credit = self.credit(sweep.number("credit_kib")?);
        Ok(ReplayOptions { credit, ..self.options("shared", private_percent) })
    }

    /// What a credit of so many KiB of the paper's is here.
    pub(super) fn credit(&self, kib: f64) -> Bytes {
        Bytes(whole(kib * 1024.0 * self.part_of_paper))
    }

    /// The policy `policy` with `private_percent` of every part as a floor.
    pub(super) fn options(&self, policy: &str, private_percent: u64) -> ReplayOptions {
        let tenants = self.source.tenants();
        let floors = self.parts().into_iter().map(|part| part.scale(private_percent.min(100), 100));
        let weights = self.bought.iter().filter_map(|bought| Weight::new(*bought as f64));
        ReplayOptions {
            memory: self.memory,
            item_max: ITEM_MAX,
            policy: policy.to_owned(),
            reserved: tenants.iter().cloned().map(Some).zip(floors).collect(),
            weights: tenants.iter().cloned().zip(weights).collect(),
            rank: RankKind::Lru,
            tenants: tenants.to_vec(),
            limit: Some(self.source.requests()),
            seed: self.seed,
            ..ReplayOptions::default()
        }
    }

    /// The idle tax as the sweep has it.
    pub(super) fn taxed(&self, sweep: &Sweep) -> Result<ReplayOptions, ExperimentError> {
        let tax = sweep.number("tax")?;
        let tax = Tax::new(tax).ok_or_else(|| ExperimentError::failed(format!("{tax} is no tax")))?;
        let idle_time = Duration::from_millis(whole(sweep.number("idle_time_s")? * 1e3));
        Ok(ReplayOptions { tax, idle_time, ..self.options("idle-tax", 0) })
    }

    pub(super) fn replay(&self, options: ReplayOptions) -> Result<Report, ExperimentError> {
        let mut reader = self.source.reader()?;
        in_process(options, &mut [&mut *reader], &mut |_| {}).map_err(ExperimentError::failed)
    }

    /// The same, looked at `looks` times.
    pub(super) fn watch(
        &self,
        options: ReplayOptions,
        looks: u64,
        look: &mut dyn FnMut(Instant, &Report),
    ) -> Result<Report, ExperimentError> {
        let mut reader = self.source.reader()?;
        let every = Duration(self.source.end().0 / looks.max(1));
        in_process_watched(options, &mut [&mut *reader], every, look).map_err(ExperimentError::failed)
    }

    /// The exact caches that stand for memcached without slab classes: a part for each tenant, in the order of the tenants.
    pub(super) fn partitioned(&self) -> Result<Vec<Tally>, ExperimentError> {
        partitioned(&mut *self.source.reader()?, &self.source, &self.parts())
    }

    /// The same of any cache.
    pub(super) fn exact(
        &self,
        cache: &dyn Fn(Bytes) -> Box<dyn Reference>,
    ) -> Result<Vec<Tally>, ExperimentError> {
        exact(&mut *self.source.reader()?, &self.source, &self.parts(), cache)
    }

    /// One exact cache for all.
    pub(super) fn pooled(&self) -> Result<Vec<Tally>, ExperimentError> {
        pooled(&mut *self.source.reader()?, &self.source, self.divisible())
    }

    /// A report's tenants in the order of the plant's.
    pub(super) fn tallies(&self, report: &Report) -> Vec<Tally> {
        let of = |name: &String| report.tenants.iter().find(|t| t.name == *name);
        let tally =
            |name| of(name).map_or(Tally::default(), |t| Tally { requests: 0, gets: t.gets, hits: t.hits });
        self.source.tenants().iter().map(tally).collect()
    }
}

/// Hits in a hundred look-ups.
pub(super) fn percent(tally: &Tally) -> f64 {
    tally.hit_ratio() * 100.0
}

/// All tenants together.
pub(super) fn sum(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |all, t| Tally {
        requests: all.requests + t.requests,
        gets: all.gets + t.gets,
        hits: all.hits + t.hits,
    })
}

/// A number of a sweep that counts something.
pub(super) fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of a sweep, below 2^53"
    )]
    let whole = number.max(0.0).round() as u64;
    whole
}
