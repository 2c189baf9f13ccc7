//! The settings in force: defaults, over them the file, over it the environment, over it the flags.
//!
//! Shape:      each place gives a `Layer` of texts -> `InForce` checks them as values and remembers who gave them
//! Invariants: a setting with a default always has a value; a tenant is given whole by one place

use crate::extended::{self, Chosen, ExtendedEffect};
use crate::failure::Failure;
use crate::settings::{self, Effect, SETTINGS, Setting, VARIABLE_PREFIX};
use crate::suggest;
use crate::tenants::{self, GROUPS, TENANTS, Tenant};
use crate::value::{Dialect, Kind, Value};
use std::fmt;

/// Who gave a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Nobody.
    Default,
    /// `FILE:LINE`.
    File(String),
    /// A variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

/// The texts that one place gives.
#[derive(Default, Debug)]
pub(crate) struct Layer {
    pub(crate) given: Vec<Given>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) groups: Vec<Tenant>,
}

/// One setting as given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) row: usize,
    pub(crate) texts: Vec<String>,
    pub(crate) source: Source,
}

/// Every setting with its value and who gave it.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    values: Vec<(Option<Value>, Source)>,
    /// Options of `-o` that set nothing else.
    pub(crate) extended: Vec<(Chosen, Source)>,
    /// Configured tenants, in the order given.
    pub(crate) tenants: Vec<Tenant>,
    /// Configured groups, in the order given.
    pub(crate) groups: Vec<Tenant>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => write!(f, "file {place}"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

impl Source {
    /// Where `key` was given, for an error.
    pub(crate) fn place(&self, key: &str) -> String {
        match self {
            Self::Default => key.to_owned(),
            Self::File(place) => format!("{place}: {key}"),
            Self::Environment(name) | Self::Flag(name) => name.clone(),
        }
    }
}

impl InForce {
    /// The defaults.
    pub(crate) fn defaults() -> Result<Self, Failure> {
        let value = |s: &Setting| s.parse(s.default, Dialect::Strict).map(|v| (v, Source::Default));
        let values = SETTINGS.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Self { values, extended: Vec::new(), tenants: Vec::new(), groups: Vec::new() })
    }

    /// Puts a layer over what is in force.
    pub(crate) fn lay(&mut self, layer: Layer) -> Result<(), Failure> {
        // Extended options go first: within one place the setting's own name wins.
        let (extended, plain): (Vec<_>, Vec<_>) =
            layer.given.into_iter().partition(|given| SETTINGS[given.row].name == "extended");
        for given in extended {
            for text in given.texts.iter().flat_map(|t| t.split(',')).map(str::trim).filter(|t| !t.is_empty())
            {
                self.lay_extended(text, &given.source)?;
            }
        }
        for given in plain {
            self.lay_setting(given)?;
        }
        lay_named(&mut self.tenants, layer.tenants);
        lay_named(&mut self.groups, layer.groups);
        Ok(())
    }

    fn lay_extended(&mut self, text: &str, source: &Source) -> Result<(), Failure> {
        let chosen = extended::chosen(text).map_err(|e| e.at(source.place("extended")))?;
        if let ExtendedEffect::Seconds(target) = chosen.row.effect {
            let row =
                settings::position(target).expect("targets of options exist, see the test of the table");
            let texts = vec![format!("{}s", chosen.value)];
            return self.lay_setting(Given { row, texts, source: source.clone() });
        }
        let counts_too = |of: &Source| chosen.row.adds_up() && of == source;
        self.extended.retain(|(other, of)| other.row.name != chosen.row.name || counts_too(of));
        self.extended.push((chosen, source.clone()));
        Ok(())
    }

    fn lay_setting(&mut self, given: Given) -> Result<(), Failure> {
        let Given { row, texts, source } = given;
        let setting = &SETTINGS[row];
        let dialect = if matches!(source, Source::Flag(_)) { Dialect::Memcached } else { Dialect::Strict };
        let place = source.place(setting.name);
        let value = setting.parse(&texts.join(","), dialect).map_err(|e| e.at(&place))?;
        if value.is_none() && !setting.default.is_empty() {
            return Err(Failure::wrong_use(
                format!("{place}: is empty"),
                format!("leave it out for the default {}", setting.default),
            ));
        }
        check_available(setting, value.as_ref()).map_err(|e| e.at(&place))?;
        self.values[row] = (value, source);
        Ok(())
    }

    /// Every setting, its value if it has one, and who gave it.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static Setting, Option<&Value>, &Source)> {
        SETTINGS.iter().zip(&self.values).map(|(setting, (value, source))| (setting, value.as_ref(), source))
    }

    /// The value of a setting and who gave it.
    pub(crate) fn get(&self, name: &str) -> (Option<&Value>, &Source) {
        let row = settings::position(name).expect("the program names only settings of its table");
        (self.values[row].0.as_ref(), &self.values[row].1)
    }

    /// The value of a number, zero where there is none.
    pub(crate) fn number(&self, name: &str) -> i64 {
        if let (Some(Value::Number(n)), _) = self.get(name) { *n } else { 0 }
    }

    /// The value of a size, zero where there is none.
    pub(crate) fn size(&self, name: &str) -> units::Bytes {
        if let (Some(Value::Size(size)), _) = self.get(name) { *size } else { units::Bytes::ZERO }
    }

    /// The value of a text, empty where there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        if let (Some(Value::Text(text)), _) = self.get(name) { text } else { "" }
    }

    /// The value of an option of `-o`, if it was given.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options(name).next()
    }

    /// The values of one that adds up.
    pub(crate) fn options(&self, name: &str) -> impl Iterator<Item = &str> {
        let chosen = self.extended.iter().filter(move |(option, _)| option.row.name == name);
        chosen.map(|(option, _)| option.value.as_str())
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).0 == Some(&Value::Switch(true))
    }
}

fn check_available(setting: &Setting, value: Option<&Value>) -> Result<(), Failure> {
    let (Effect::Unavailable { except, instead }, Some(value)) = (setting.effect, value) else {
        return Ok(());
    };
    let plain = value.plain();
    if value.is_off() || except.contains(&plain.as_str()) {
        return Ok(());
    }
    let what = match setting.kind {
        Kind::Switch | Kind::Text => setting.help.to_owned(),
        _ => format!("{} {plain}", setting.name),
    };
    Err(Failure::wrong_use(format!("'{what}' is not available in this version"), instead))
}

/// Puts what is given by name over what was: each is given whole by one place.
fn lay_named(in_force: &mut Vec<Tenant>, given: Vec<Tenant>) {
    let earlier = in_force.len();
    for one in given {
        match in_force[..earlier].iter_mut().find(|t| t.name == one.name) {
            Some(same) => *same = one,
            None => in_force.push(one),
        }
    }
}

/// What the environment gives, and the variables that mean nothing.
pub(crate) fn environment(variables: &[(String, String)]) -> Result<(Layer, Vec<String>), Failure> {
    let mut layer = Layer::default();
    let mut notes = Vec::new();
    for (variable, text) in variables {
        let Some(name) = variable.strip_prefix(VARIABLE_PREFIX) else { continue };
        let known = SETTINGS.iter().position(|s| s.variable() == *variable);
        if text.starts_with("tcp://") || known.is_none() && is_service_link(name) {
            continue;
        }
        let source = Source::Environment(variable.clone());
        if let Some(row) = known {
            layer.given.push(Given { row, texts: vec![text.clone()], source });
        } else if name == "TENANT" {
            for spec in tenants::specs(text) {
                layer.tenants.push(tenants::from_spec(&TENANTS, &spec, &source)?);
            }
        } else if name == "GROUP" {
            for spec in tenants::specs(text) {
                layer.groups.push(tenants::from_spec(&GROUPS, &spec, &source)?);
            }
        } else if name != "CONFIG" {
            // Not an error: the environment is not only ours.
            notes.push(format!("the variable {variable} is no setting; {}", meant(name)));
        }
    }
    Ok((layer, notes))
}

/// Which variable is meant by one that means nothing, told without what all begin with.
fn meant(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let known = SETTINGS.iter().map(|s| s.name).chain(["config", TENANTS.word, GROUPS.word]);
    let alias = settings::by_alias(&name).map(|s| s.name);
    match alias.or_else(|| suggest::closest(&name, known)) {
        Some(known) => format!("did you mean '{VARIABLE_PREFIX}{}'?", known.to_ascii_uppercase()),
        None => "cotenant config reference lists every one".to_owned(),
    }
}

/// Whether Kubernetes or Docker set the variable, as they do for a service that is named cotenant.
fn is_service_link(name: &str) -> bool {
    name.contains("SERVICE_") || name.contains("PORT_")
}
