//! One tenant as it is given: a table `[tenant.NAME]` of the file, or `name=NAME,key=value,…` in a flag.

use crate::failure::Failure;
use crate::layers::Source;
use crate::settings::{Setting, TENANT_SETTINGS};
use crate::suggest;
use crate::value::{Dialect, Value, parse};

/// A tenant and the values of its settings, in the order of the table.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) source: Source,
    values: Vec<Option<Value>>,
}

impl Tenant {
    /// A tenant with the defaults.
    pub(crate) fn new(name: &str, source: Source) -> Result<Self, Failure> {
        let values = TENANT_SETTINGS.iter().map(|s| parse(s.kind, s.default, Dialect::Strict));
        Ok(Self { name: name.to_owned(), source, values: values.collect::<Result<_, _>>()? })
    }

    /// Gives one of its settings a value.
    pub(crate) fn set(&mut self, row: usize, text: &str) -> Result<(), Failure> {
        let setting = &TENANT_SETTINGS[row];
        let value = parse(setting.kind, text, Dialect::Strict).map_err(|e| e.at(setting.name))?;
        if value.is_none() && !setting.default.is_empty() {
            return Err(Failure::wrong_use(
                format!("{} is empty", setting.name),
                format!("leave it out for the default {}", setting.default),
            ));
        }
        self.values[row] = value;
        Ok(())
    }

    /// The value of one of its settings.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        TENANT_SETTINGS.iter().position(|s| s.name == name).and_then(|row| self.values[row].as_ref())
    }

    /// Every setting and its value, where it has one.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static Setting, &Value)> {
        TENANT_SETTINGS.iter().zip(&self.values).filter_map(|(s, v)| v.as_ref().map(|v| (s, v)))
    }
}

/// The row of a tenant's setting.
pub(crate) fn position(key: &str) -> Result<usize, Failure> {
    TENANT_SETTINGS.iter().position(|s| s.name == key).ok_or_else(|| {
        let known = TENANT_SETTINGS.iter().map(|s| s.name);
        let cure = suggest::closest(key, known.clone()).map_or_else(
            || format!("a tenant has {}", known.collect::<Vec<_>>().join(", ")),
            |k| format!("did you mean '{k}'?"),
        );
        Failure::wrong_use(format!("unknown setting '{key}' of a tenant"), cure)
    })
}

/// The parts between commas; a rank's commas within parentheses are its own.
fn parts(spec: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(spec);
    let next = move || {
        let text = rest?;
        let is_rank = text.trim_start().starts_with("rank=");
        let mut open = 0_i32;
        let end = text.find(|c| {
            open += i32::from(is_rank && c == '(') - i32::from(is_rank && c == ')');
            c == ',' && open <= 0
        });
        let (part, after) = end.map_or((text, None), |end| (&text[..end], Some(&text[end + 1..])));
        rest = after;
        Some(part.trim())
    };
    std::iter::from_fn(next).filter(|part| !part.is_empty())
}

/// The tenant that `name=NAME,key=value,…` describes.
pub(crate) fn from_spec(spec: &str, source: &Source) -> Result<Tenant, Failure> {
    let example = "for example --tenant name=feeds,prefix=feeds:,reserved=64MiB";
    let fail = |what: String| Failure::wrong_use(what, example).at(source.place("tenant"));
    let mut pairs = Vec::new();
    for part in parts(spec) {
        pairs.push(part.split_once('=').ok_or_else(|| fail(format!("'{part}' is not key=value")))?);
    }
    let named = |key: &str| pairs.iter().filter(|(k, _)| *k == key).count();
    if let Some((key, _)) = pairs.iter().find(|(key, _)| 1 < named(key)) {
        return Err(fail(format!("'{key}' is given twice in '{spec}'")));
    }
    let (_, name) =
        pairs.iter().find(|(key, _)| *key == "name").ok_or_else(|| fail(format!("'{spec}' has no name=")))?;
    let mut tenant = Tenant::new(name, source.clone())?;
    for (key, text) in pairs.iter().filter(|(key, _)| *key != "name") {
        position(key).and_then(|row| tenant.set(row, text)).map_err(|e| e.at(source.place("tenant")))?;
    }
    Ok(tenant)
}
