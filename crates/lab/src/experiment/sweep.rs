//! The parameters of an experiment: `sweep.toml`, at the size that is run.
//!
//! Shape:      keys of the run, and of the runner: `title`, `plant` (model, live or vm; model without it) and `seeds`
//!             (1 without it); the table `[quick]` replaces values when the run is quick, `[tiny]` also when it is tiny
//! Invariants: a replacement names a key that exists and gives it a value of the same kind
//! Failure:    malformed TOML is an error with line and column; a key that the run asks for in vain names the file

use super::error::{ExperimentError, place};
use crate::limits::SEEDS_MAX;
use std::fmt;
use toml::{Table, Value};

/// How much of an experiment is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// As little as shows that it runs.
    Tiny,
    /// Seconds, at the cost of precision.
    Quick,
    /// All of it.
    Full,
}

/// What a number was measured on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plant {
    /// The laboratory, in virtual time.
    Model,
    /// This machine, in real time.
    Live,
    /// A virtual machine on this one.
    Vm,
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Model => "model",
            Self::Live => "live",
            Self::Vm => "vm",
        })
    }
}

/// The parameters of one run.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Whether the run should take seconds only.
    pub quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    file: String,
    title: String,
    plant: Plant,
    seeds: u32,
    values: Table,
}

impl Sweep {
    /// The parameters in `text`, the sweep of the experiment `name`, at `size`; `seed` is the first of its seeds.
    ///
    /// # Errors
    /// If the text is malformed.
    pub fn parse(name: &str, text: &str, size: Size, seed: u64) -> Result<Self, ExperimentError> {
        let file = format!("{name}/sweep.toml");
        let mut values: Table = text.parse().map_err(|e: toml::de::Error| {
            let (line, column) = place(text, e.span().map_or(0, |span| span.start));
            let what = e.message().replace('\n', " ");
            ExperimentError::Data { file: file.clone(), line, column, what }
        })?;
        let [quick, tiny] = ["quick", "tiny"].map(|size| values.remove(size));
        let layers = match size {
            Size::Full => vec![],
            Size::Quick => vec![("quick", quick)],
            Size::Tiny => vec![("quick", quick), ("tiny", tiny)],
        };
        for (name, layer) in layers {
            let replaced = layer.map_or(Ok(()), |layer| replace(&mut values, layer, name));
            replaced.map_err(|what| ExperimentError::Key { file: file.clone(), what })?;
        }
        let mut sweep = Self {
            quick: size != Size::Full,
            seed,
            file,
            title: String::new(),
            plant: Plant::Model,
            seeds: 1,
            values,
        };
        sweep.read_settings()?;
        Ok(sweep)
    }

    fn read_settings(&mut self) -> Result<(), ExperimentError> {
        if self.values.contains_key("title") {
            self.title = self.text("title")?.to_owned();
        }
        if self.values.contains_key("plant") {
            self.plant = match self.text("plant")? {
                "model" => Plant::Model,
                "live" => Plant::Live,
                "vm" => Plant::Vm,
                _ => return Err(self.wanted("plant", "model, live or vm")),
            };
        }
        if self.values.contains_key("seeds") {
            let seeds = u32::try_from(self.count("seeds")?).ok().filter(|n| (1..=SEEDS_MAX).contains(n));
            self.seeds = seeds.ok_or_else(|| self.wanted("seeds", &format!("1 to {SEEDS_MAX}")))?;
        }
        Ok(())
    }

    /// The experiment's title; may be empty.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What it runs on.
    #[must_use]
    pub fn plant(&self) -> Plant {
        self.plant
    }

    /// With how many seeds it is run.
    #[must_use]
    pub fn seeds(&self) -> u32 {
        self.seeds
    }

    /// The same parameters with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    /// The number under `key`. A dot in a key leads into a table.
    ///
    /// # Errors
    /// If there is none.
    pub fn number(&self, key: &str) -> Result<f64, ExperimentError> {
        number(self.value(key)?).ok_or_else(|| self.wanted(key, "a number"))
    }

    /// The whole number under `key`.
    ///
    /// # Errors
    /// If there is none, or it is negative.
    pub fn count(&self, key: &str) -> Result<u64, ExperimentError> {
        let count = self.value(key)?.as_integer().and_then(|n| u64::try_from(n).ok());
        count.ok_or_else(|| self.wanted(key, "a whole number from 0"))
    }

    /// The list of numbers under `key`.
    ///
    /// # Errors
    /// If there is none.
    pub fn list(&self, key: &str) -> Result<Vec<f64>, ExperimentError> {
        let list = self.value(key)?.as_array().and_then(|list| list.iter().map(number).collect());
        list.ok_or_else(|| self.wanted(key, "a list of numbers"))
    }

    /// The text under `key`.
    ///
    /// # Errors
    /// If there is none.
    pub fn text(&self, key: &str) -> Result<&str, ExperimentError> {
        self.value(key)?.as_str().ok_or_else(|| self.wanted(key, "a text"))
    }

    /// The list of texts under `key`.
    ///
    /// # Errors
    /// If there is none.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>, ExperimentError> {
        let list = self.value(key)?.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        list.ok_or_else(|| self.wanted(key, "a list of texts"))
    }

    /// The switch under `key`.
    ///
    /// # Errors
    /// If there is none.
    pub fn switch(&self, key: &str) -> Result<bool, ExperimentError> {
        self.value(key)?.as_bool().ok_or_else(|| self.wanted(key, "true or false"))
    }

    fn value(&self, key: &str) -> Result<&Value, ExperimentError> {
        let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
        let found = rest.into_iter().flat_map(|rest| rest.split('.'));
        let found = found.fold(self.values.get(first), |at, part| at?.as_table()?.get(part));
        found.ok_or_else(|| self.wanted(key, "a value"))
    }

    fn wanted(&self, key: &str, what: &str) -> ExperimentError {
        ExperimentError::Key { file: self.file.clone(), what: format!("the key '{key}' must have {what}") }
    }
}

fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "parameters are far below 2^53")]
    let whole = value.as_integer().map(|n| n as f64);
    whole.or_else(|| value.as_float()).filter(|n| n.is_finite())
}

/// Lays `layer`, the table `name`, over `values`.
fn replace(values: &mut Table, layer: Value, name: &str) -> Result<(), String> {
    let Value::Table(layer) = layer else { return Err(format!("'{name}' must be a table")) };
    for (key, value) in layer {
        let path = format!("{name}.{key}");
        match (values.get_mut(&key), value) {
            (None, _) => return Err(format!("the key '{path}' replaces none")),
            (Some(Value::Table(inner)), value @ Value::Table(_)) => replace(inner, value, &path)?,
            (Some(Value::Float(old)), Value::Integer(new)) => {
                *old = number(&Value::Integer(new)).unwrap_or_default();
            }
            (Some(old), new) if old.same_type(&new) || (number(old).is_some() && number(&new).is_some()) => {
                *old = new;
            }
            (Some(old), _) => return Err(format!("the key '{path}' must have a {}", old.type_str())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"A\"\nseeds = 3\nx = 1.5\nn = 100\nxs = [1, 2.5]\nnames = [\"a\"]\non = true\n\
        [inner]\ny = 2\n[quick]\nn = 10\ninner = { y = 3 }\n[tiny]\nn = 1\nseeds = 1\n";

    #[test]
    fn values_are_read_at_their_size() {
        for (size, n, y, seeds) in
            [(Size::Full, 100, 2.0, 3), (Size::Quick, 10, 3.0, 3), (Size::Tiny, 1, 3.0, 1)]
        {
            let sweep = Sweep::parse("p/t", TEXT, size, 7).unwrap();
            assert_eq!((sweep.count("n"), sweep.number("inner.y")), (Ok(n), Ok(y)), "{size:?}");
            assert_eq!((sweep.seeds(), sweep.quick, sweep.seed), (seeds, size != Size::Full, 7));
            assert_eq!((sweep.number("x"), sweep.number("n").is_ok()), (Ok(1.5), true));
            assert_eq!((sweep.list("xs"), sweep.texts("names")), (Ok(vec![1.0, 2.5]), Ok(vec!["a"])));
            assert_eq!((sweep.switch("on"), sweep.title(), sweep.plant()), (Ok(true), "A", Plant::Model));
        }
    }

    #[test]
    fn missing_and_mistaken_keys_name_the_file() {
        let sweep = Sweep::parse("p/t", TEXT, Size::Full, 1).unwrap();
        let said = |error: ExperimentError| error.to_string();
        let at = "experiments/p/t/sweep.toml: the key";
        assert_eq!(sweep.number("zz").map_err(said), Err(format!("{at} 'zz' must have a value")));
        assert_eq!(sweep.number("xs").map_err(said), Err(format!("{at} 'xs' must have a number")));
        assert_eq!(sweep.count("x").map_err(said), Err(format!("{at} 'x' must have a whole number from 0")));
        assert_eq!(
            sweep.list("names").map_err(said),
            Err(format!("{at} 'names' must have a list of numbers"))
        );
        assert_eq!(sweep.text("x.y").map_err(said), Err(format!("{at} 'x.y' must have a value")));
    }

    #[test]
    fn malformed_sweeps_are_refused() {
        let at = "experiments/p/t/sweep.toml:";
        for (text, fault) in [
            ("x = 1\ny = = 2\n", format!("{at}2:5: ")),
            ("plant = \"moon\"", format!("{at} the key 'plant' must have model, live or vm")),
            ("seeds = 0", format!("{at} the key 'seeds' must have 1 to {SEEDS_MAX}")),
            ("x = 1\n[quick]\ny = 1", format!("{at} the key 'quick.y' replaces none")),
            ("x = 1\n[quick]\nx = \"1\"", format!("{at} the key 'quick.x' must have a integer")),
            ("x = 1\nquick = 1", format!("{at} 'quick' must be a table")),
            ("x = nan\nseeds = 1.5", format!("{at} the key 'seeds' must have a whole number from 0")),
        ] {
            let found = Sweep::parse("p/t", text, Size::Quick, 1).map(|_| ()).map_err(|e| e.to_string());
            assert!(found.clone().is_err_and(|e| e.starts_with(&fault)), "{text:?}: {found:?}");
        }
    }
}
