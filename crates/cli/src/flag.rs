//! The value of one flag, by the setting that describes it.
//!
//! Shape: what clap parsed, a setting -> its value, checked; of a flag that was not given its default

use crate::failure::Failure;
use crate::settings::{Setting, row};
use crate::value::{Dialect, Kind, Value};
use clap::ArgMatches;
use clap::parser::ValueSource;
use harness::replay::Tax;
use units::{Bytes, Duration};

/// The most that `-v` counts, the end of the range of `verbose`.
const VERBOSITY_MAX: u8 = 3;

/// The texts that were given.
pub(crate) fn texts(flags: &ArgMatches, setting: &Setting) -> Vec<String> {
    match setting.kind {
        Kind::Switch => vec![flags.get_flag(setting.name).to_string()],
        // As memcached takes it, more of them say no more.
        Kind::Level => vec![flags.get_count(setting.name).min(VERBOSITY_MAX).to_string()],
        _ => flags.get_many::<String>(setting.name).into_iter().flatten().cloned().collect(),
    }
}

/// The value of a flag of a command that has no file.
pub(crate) fn value(flags: &ArgMatches, setting: &Setting) -> Result<Option<Value>, Failure> {
    let is_given = flags.value_source(setting.name) == Some(ValueSource::CommandLine);
    let text = if is_given { texts(flags, setting).join(",") } else { setting.default.to_owned() };
    setting.parse(&text, Dialect::Memcached).map_err(|e| e.at(setting.flags()))
}

pub(crate) fn number(flags: &ArgMatches, setting: &Setting) -> Result<Option<u64>, Failure> {
    let value = value(flags, setting)?;
    Ok(if let Some(Value::Number(n)) = value { u64::try_from(n).ok() } else { None })
}

pub(crate) fn size(flags: &ArgMatches, setting: &Setting) -> Result<Bytes, Failure> {
    match value(flags, setting)? {
        Some(Value::Size(size)) if size != Bytes::ZERO => Ok(size),
        _ => Err(Failure::wrong_use(
            format!("{}: no size", setting.flags()),
            format!("for example {}", setting.default),
        )),
    }
}

pub(crate) fn time(flags: &ArgMatches, setting: &Setting) -> Result<Duration, Failure> {
    Ok(if let Some(Value::Time(time)) = value(flags, setting)? { time } else { Duration::ZERO })
}

pub(crate) fn tax(flags: &ArgMatches) -> Result<Tax, Failure> {
    let part = if let Some(Value::Ratio(part)) = value(flags, row("tax"))? { Tax::new(part) } else { None };
    Ok(part.unwrap_or(Tax::HALF))
}

pub(crate) fn text(flags: &ArgMatches, setting: &Setting) -> Result<Option<String>, Failure> {
    Ok(value(flags, setting)?.map(|v| v.plain()))
}

/// A setting of one command.
pub(crate) fn own(table: &'static [Setting], name: &str) -> &'static Setting {
    table.iter().find(|s| s.name == name).expect("the program names only settings of its table")
}
