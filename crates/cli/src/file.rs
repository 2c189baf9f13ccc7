//! The settings that a TOML file gives, each with its line.
//!
//! Failure: an unknown key, a value of the wrong type and a number without a unit name the file and the line

use crate::failure::Failure;
use crate::layers::{Given, Layer, Source};
use crate::settings::{self, SETTINGS, Setting};
use crate::suggest;
use crate::tenants::{self, GROUPS, Sort, TENANTS, Tenant};
use crate::value::Kind;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One file being read.
struct File<'a> {
    name: &'a str,
    text: &'a str,
}

/// The layer that a file of this name with this text gives.
pub(crate) fn layer(name: &str, text: &str) -> Result<Layer, Failure> {
    let file = File { name, text };
    let table = DeTable::parse(text).map_err(|e| {
        let place = file.place(e.span().map_or(0, |span| span.start));
        Failure::wrong_use(format!("{place}: {}", e.message()), "write TOML: key = value, one a line")
    })?;
    let mut layer = Layer::default();
    'keys: for (key, value) in in_order(table.get_ref()) {
        let place = file.place(key.span().start);
        for (sort, named) in [(&TENANTS, &mut layer.tenants), (&GROUPS, &mut layer.groups)] {
            if key.get_ref() == sort.word {
                file.named(sort, value, &place, named)?;
                continue 'keys;
            }
        }
        let row = settings::position(key.get_ref()).ok_or_else(|| unknown(key.get_ref()).at(&place))?;
        let texts = texts(&SETTINGS[row], value.get_ref()).map_err(|e| e.at(&place))?;
        layer.given.push(Given { row, texts, source: Source::File(place) });
    }
    Ok(layer)
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;

fn in_order<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t Key<'a>, &'t Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn unknown(key: &str) -> Failure {
    let known = SETTINGS.iter().map(|s| s.name).chain([TENANTS.word, GROUPS.word]);
    let cure = settings::by_alias(key).map_or_else(
        || suggest::cure(key, known, "cotenant config reference"),
        |setting| format!("did you mean '{}'?", setting.name),
    );
    Failure::wrong_use(format!("unknown setting '{key}'"), cure)
}

impl File<'_> {
    fn place(&self, offset: usize) -> String {
        let line = 1 + self.text.bytes().take(offset).filter(|b| *b == b'\n').count();
        format!("{}:{line}", self.name)
    }

    fn named(
        &self,
        sort: &'static Sort,
        value: &Spanned<DeValue<'_>>,
        place: &str,
        named: &mut Vec<Tenant>,
    ) -> Result<(), Failure> {
        let word = sort.word;
        let fail =
            || Failure::wrong_use(format!("{word} is not a table"), format!("write [{word}.NAME]")).at(place);
        for (name, value) in in_order(value.get_ref().as_table().ok_or_else(fail)?) {
            let source = Source::File(self.place(name.span().start));
            let mut tenant = Tenant::new(sort, name.get_ref(), source)?;
            for (key, value) in in_order(value.get_ref().as_table().ok_or_else(fail)?) {
                tenants::position(sort, key.get_ref())
                    .and_then(|row| {
                        let texts = texts(&sort.settings[row], value.get_ref())?;
                        tenant.set(row, &texts.join(","))
                    })
                    .map_err(|e| e.at(self.place(key.span().start)))?;
            }
            named.push(tenant);
        }
        Ok(())
    }
}

/// The value as texts, if it has the type that the setting's kind is written in.
fn texts(setting: &Setting, value: &DeValue<'_>) -> Result<Vec<String>, Failure> {
    let kind = setting.kind;
    match value {
        DeValue::Array(items) if kind == Kind::List => items
            .iter()
            .map(|item| item.get_ref().as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| wrong_type(setting, "a list of other things than texts"))
            .and_then(|texts| match texts.iter().find(|text| text.contains(',')) {
                // They are joined by commas.
                Some(text) => Err(Failure::wrong_use(
                    format!("{} has '{text}', and what is in a list has no commas", setting.name),
                    "write each by itself; a name with a comma cannot be listed".to_owned(),
                )),
                None => Ok(texts),
            }),
        DeValue::String(text) if kind.is_quoted() => Ok(vec![text.to_string()]),
        DeValue::Boolean(on) if kind == Kind::Switch => Ok(vec![on.to_string()]),
        // A number for a size or a time goes on to be refused for its missing unit.
        DeValue::Integer(n) if kind != Kind::Switch && (!kind.is_quoted() || kind.has_unit()) => {
            let number = i64::from_str_radix(n.as_str(), n.radix());
            number.map(|n| vec![n.to_string()]).map_err(|_| wrong_type(setting, "a number beyond 64 bits"))
        }
        DeValue::Float(n) if kind == Kind::Ratio || kind.has_unit() => Ok(vec![n.as_str().to_owned()]),
        other => Err(wrong_type(setting, &format!("of type {}", other.type_str()))),
    }
}

fn wrong_type(setting: &Setting, is: &str) -> Failure {
    let example = match setting.kind {
        Kind::Switch => "true".to_owned(),
        Kind::Count | Kind::Level | Kind::Port | Kind::Ratio if setting.default.is_empty() => "1".to_owned(),
        Kind::Count | Kind::Level | Kind::Port | Kind::Ratio => setting.default.to_owned(),
        Kind::List => "[\"…\"]".to_owned(),
        _ if setting.default.is_empty() => "\"…\"".to_owned(),
        _ => format!("\"{}\"", setting.default),
    };
    Failure::wrong_use(format!("{} is {is}", setting.name), format!("write {} = {example}", setting.name))
}
