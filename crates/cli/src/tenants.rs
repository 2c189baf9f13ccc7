//! One tenant, or one group of them, as it is given: a table `[tenant.NAME]` or `[group.NAME]` of the file, or
//! `name=NAME,key=value,…` in a flag.

use crate::failure::Failure;
use crate::layers::Source;
use crate::settings::{GROUP_SETTINGS, Setting, TENANT_SETTINGS};
use crate::suggest;
use crate::value::{Dialect, Kind, Value};

/// What is given by name.
#[derive(Debug)]
pub(crate) struct Sort {
    /// Its table in the file, its flag.
    pub(crate) word: &'static str,
    /// Its settings.
    pub(crate) settings: &'static [Setting],
    example: &'static str,
}

/// Tenants.
pub(crate) static TENANTS: Sort = Sort {
    word: "tenant",
    settings: TENANT_SETTINGS,
    example: "for example --tenant name=feeds,prefix=feeds:,reserved=64MiB",
};
/// Groups of tenants.
pub(crate) static GROUPS: Sort = Sort {
    word: "group",
    settings: GROUP_SETTINGS,
    example: "for example --group name=team,reserved=64MiB,weight=2",
};

/// A tenant or a group and the values of its settings, in the order of the table.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) source: Source,
    sort: &'static Sort,
    values: Vec<Option<Value>>,
}

impl Tenant {
    /// One with the defaults.
    pub(crate) fn new(sort: &'static Sort, name: &str, source: Source) -> Result<Self, Failure> {
        let values = sort.settings.iter().map(|s| s.parse(s.default, Dialect::Strict));
        Ok(Self { name: name.to_owned(), source, sort, values: values.collect::<Result<_, _>>()? })
    }

    /// Where it was given, for an error.
    pub(crate) fn place(&self) -> String {
        format!("{}: {} '{}'", self.source, self.sort.word, self.name)
    }

    /// Gives one of its settings a value.
    pub(crate) fn set(&mut self, row: usize, text: &str) -> Result<(), Failure> {
        let setting = &self.sort.settings[row];
        let value = setting.parse(text, Dialect::Strict).map_err(|e| e.at(setting.name))?;
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
        self.sort.settings.iter().position(|s| s.name == name).and_then(|row| self.values[row].as_ref())
    }

    /// Every setting and its value, where it has one.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static Setting, &Value)> {
        self.sort.settings.iter().zip(&self.values).filter_map(|(s, v)| v.as_ref().map(|v| (s, v)))
    }
}

/// The row of a setting.
pub(crate) fn position(sort: &Sort, key: &str) -> Result<usize, Failure> {
    sort.settings.iter().position(|s| s.name == key).ok_or_else(|| {
        let known = sort.settings.iter().map(|s| s.name);
        let cure = suggest::closest(key, known.clone()).map_or_else(
            || format!("a {} has {}", sort.word, known.collect::<Vec<_>>().join(", ")),
            |k| format!("did you mean '{k}'?"),
        );
        Failure::wrong_use(format!("unknown setting '{key}' of a {}", sort.word), cure)
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

/// What `name=NAME,key=value,…` describes.
pub(crate) fn from_spec(sort: &'static Sort, spec: &str, source: &Source) -> Result<Tenant, Failure> {
    let fail = |what: String| Failure::wrong_use(what, sort.example).at(source.place(sort.word));
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
    let mut tenant = Tenant::new(sort, name, source.clone())?;
    for (key, text) in pairs.iter().filter(|(key, _)| *key != "name") {
        position(sort, key)
            // Between the parts of a spec there are commas already.
            .and_then(|row| match sort.settings[row].kind {
                Kind::List => tenant.set(row, &text.replace(';', ",")),
                _ => tenant.set(row, text),
            })
            .map_err(|e| e.at(source.place(sort.word)))?;
    }
    Ok(tenant)
}

/// The specs of a variable, with semicolons between; what names nobody goes on with what is before it.
pub(crate) fn specs(text: &str) -> Vec<String> {
    let mut specs: Vec<String> = Vec::new();
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let is_named = part.split(',').any(|pair| pair.trim_start().starts_with("name="));
        match specs.last_mut() {
            Some(spec) if !is_named => spec.extend([";", part]),
            _ => specs.push(part.to_owned()),
        }
    }
    specs
}
