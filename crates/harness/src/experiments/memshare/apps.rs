//! Tenants made from what is known of Memcachier's applications, for the trace that is not public.
//!
//! Shape:   a table of facts (`three.csv`, `top.csv`: what was bought, and a tenant as `lab::workload` reads it) -> `Apps` -> `Mix`
//! Units:   keys of the tables are one 16th of the published ones; `scale` is relative to that
//! Source:  the statistics and the memory bought, as the tables say line by line

use lab::experiment::ExperimentError;
use lab::workload::{Tenant, parse_tenants};
use lab::{Mix, Pace};

/// The applications 3, 5 and 7 of the paper, in this order.
const THREE: &str = include_str!("three.csv");
/// The twenty applications of the paper's Table 6.
const TOP: &str = include_str!("top.csv");

/// Published keys by those of the tables.
pub(super) const KEYS_SCALED: f64 = 16.0;

/// A table's tenants with what each has bought.
pub(super) struct Apps {
    /// The tenants.
    pub(super) tenants: Vec<Tenant>,
    /// What each has bought, in bytes of the paper's trace: only the proportions matter here.
    pub(super) bought: Vec<u64>,
}

impl Apps {
    /// The table that a sweep calls `three` or `top`.
    pub(super) fn named(name: &str) -> Result<Self, ExperimentError> {
        match name {
            "three" => Self::parse(THREE),
            "top" => Self::parse(TOP),
            other => Err(ExperimentError::failed(format!("there is no table of applications '{other}'"))),
        }
    }

    /// A table whose first column is what was bought and whose others are those of a table of tenants.
    fn parse(table: &str) -> Result<Self, ExperimentError> {
        let rows =
            || table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(','));
        let bought = rows().skip(1).map(|(bought, _)| bought.parse());
        let tenants: Vec<&str> = rows().map(|(_, tenant)| tenant).collect();
        Ok(Self {
            bought: bought.collect::<Result<_, _>>().map_err(ExperimentError::failed)?,
            tenants: parse_tenants(&tenants.join("\n")).map_err(ExperimentError::failed)?,
        })
    }

    /// Each of them as a table of its own, with what it bought.
    pub(super) fn each(&self) -> Vec<(Self, u64)> {
        let one = |(tenant, bought): (&Tenant, &u64)| {
            (Self { tenants: vec![tenant.clone()], bought: vec![*bought] }, *bought)
        };
        self.tenants.iter().zip(&self.bought).map(one).collect()
    }

    /// Their requests: `requests` of them in `seconds`.
    pub(super) fn mix(&self, requests: u64, seconds: u64, scale: f64, seed: u64) -> Mix {
        let rate = u32::try_from(requests / seconds.max(1)).unwrap_or(u32::MAX);
        Mix::new(self.tenants.clone(), Pace { seed, scale, requests_per_sec: rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_complete() {
        for (name, count) in [("three", 3), ("top", 20)] {
            let apps = Apps::named(name).unwrap();
            assert_eq!((apps.tenants.len(), apps.bought.len()), (count, count), "{name}");
            let bursts = apps.tenants.iter().filter(|t| format!("{:?}", t.phase).starts_with("Burst"));
            assert_eq!(bursts.map(|t| t.name.as_str()).collect::<Vec<_>>(), ["memcachier5"]);
            assert!(apps.bought.iter().all(|bytes| 0 < *bytes));
        }
        assert!(Apps::named("four").is_err());
    }
}
