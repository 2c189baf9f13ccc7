//! The kinds of values that settings have: text in, checked value out, and back to TOML.
//!
//! Units:      sizes and times carry one; only memcached's own flags `-m` (MiB) and `-I` (bytes, k, m, g) may do without
//! Invariants: `parse(kind, value.plain())` is the value again

use crate::failure::Failure;
use store::{RankError, RankKind};
use units::{Bytes, Duration};

/// What kind of value a setting has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// On or off.
    Switch,
    /// A switch that may be given several times; the number of times counts.
    Level,
    /// A whole number, not negative.
    Count,
    /// A TCP or UDP port, or -1.
    Port,
    /// A fraction.
    Ratio,
    /// File permissions in octal.
    Octal,
    /// A size.
    Size,
    /// A size; a bare number in a flag counts MiB.
    Mebibytes,
    /// A size; in a flag memcached's `512k`, `2m` and a bare number of bytes, too.
    ItemSize,
    /// A length of time.
    Time,
    /// Any text.
    Text,
    /// One printable ASCII character.
    Char,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// An eviction order: a name or an expression.
    Rank,
    /// A list of texts, separated by commas.
    List,
}

/// A value of some kind.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// Of a `Switch`.
    Switch(bool),
    /// Of a `Level`, `Count` or `Port`.
    Number(i64),
    /// Of a `Ratio`.
    Ratio(f64),
    /// Of a `Size`, `Mebibytes` or `ItemSize`.
    Size(Bytes),
    /// Of a `Time`.
    Time(Duration),
    /// Of a `Text`, `Octal`, `Char`, `Choice` or `Rank`.
    Text(String),
    /// Of a `List`.
    List(Vec<String>),
}

/// Whether a size may be a bare number, as memcached's flags have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// A unit is needed.
    Strict,
    /// The kind says what a bare number counts.
    Memcached,
}

impl Kind {
    /// What stands for the value in a usage text.
    pub(crate) const fn placeholder(self) -> &'static str {
        match self {
            Self::Switch | Self::Level => "",
            Self::Count | Self::Ratio => "N",
            Self::Port => "PORT",
            Self::Octal => "MODE",
            Self::Size | Self::Mebibytes | Self::ItemSize => "SIZE",
            Self::Time => "TIME",
            Self::Text => "TEXT",
            Self::Char => "CHAR",
            Self::Choice(_) => "WORD",
            Self::Rank => "RANK",
            Self::List => "LIST",
        }
    }

    /// Whether TOML writes the value as text.
    pub(crate) const fn is_quoted(self) -> bool {
        !matches!(self, Self::Switch | Self::Level | Self::Count | Self::Port | Self::Ratio)
    }

    /// Whether the value needs a unit.
    pub(crate) const fn has_unit(self) -> bool {
        matches!(self, Self::Size | Self::Mebibytes | Self::ItemSize | Self::Time)
    }
}

/// The value that `text` says; no text is no value. What is too large or no number may lack a cure: `Setting::parse` has one.
pub(crate) fn parse(kind: Kind, text: &str, dialect: Dialect) -> Result<Option<Value>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = match kind {
        Kind::Switch => Value::Switch(switch(text)?),
        Kind::Level | Kind::Count => Value::Number(number(text, 0, i64::MAX)?),
        Kind::Port => Value::Number(number(text, -1, 65_535)?),
        Kind::Ratio => Value::Ratio(ratio(text)?),
        Kind::Size | Kind::Mebibytes | Kind::ItemSize => Value::Size(size(kind, text, dialect)?),
        Kind::Time => Value::Time(text.parse().map_err(|e| lacks_unit(&e, text, "s"))?),
        Kind::Text => Value::Text(text.to_owned()),
        Kind::Octal if let Ok(mode @ ..=0o777) = u32::from_str_radix(text, 8) => {
            Value::Text(format!("{mode:o}"))
        }
        Kind::Octal => return wrong(text, "a file mode in octal", "700"),
        Kind::Char if text.len() == 1 && text.bytes().all(|b| b.is_ascii_graphic()) => {
            Value::Text(text.to_owned())
        }
        Kind::Char => return wrong(text, "one printable ASCII character", ":"),
        Kind::Choice(words) if words.contains(&text) => Value::Text(text.to_owned()),
        Kind::Choice(words) => {
            return Err(Failure::wrong_use(
                format!("'{text}' is not one of {}", words.join(", ")),
                crate::suggest::closest(text, words.iter().copied()).map_or_else(
                    || format!("choose one of {}", words.join(", ")),
                    |w| format!("did you mean '{w}'?"),
                ),
            ));
        }
        Kind::Rank => Value::Text(rank(text)?.to_string()),
        Kind::List => {
            Value::List(text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect())
        }
    };
    Ok(Some(value))
}

fn wrong<T>(text: &str, wanted: &str, example: &str) -> Result<T, Failure> {
    Err(Failure::wrong_use(format!("'{text}' is not {wanted}"), format!("for example {example}")))
}

fn switch(text: &str) -> Result<bool, Failure> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => wrong(text, "true or false", "true"),
    }
}

fn number(text: &str, low: i64, high: i64) -> Result<i64, Failure> {
    match text.parse() {
        Ok(n) if low <= n && n <= high => Ok(n),
        _ if high == i64::MAX && is_digits(text) => Err(too_large(text)),
        _ if high == i64::MAX => wrong(text, "a whole number", "4"),
        _ => Err(Failure::wrong_use(
            format!("'{text}' is not a number from {low} to {high}"),
            "for example 11211, or 0 for any free port",
        )),
    }
}

fn ratio(text: &str) -> Result<f64, Failure> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() => Ok(n),
        _ => {
            let percent = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
            let cure = percent.filter(|n| n.is_finite()).map(|n| format!("write it as {}", n / 100.0));
            Err(Failure::wrong_use(format!("'{text}' is not a number"), cure.unwrap_or_default()))
        }
    }
}

/// Without a cure: whoever knows the setting knows how much it may be.
fn too_large(text: &str) -> Failure {
    Failure::wrong_use(format!("'{text}' is too large"), "")
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The eviction order that `text` says.
pub(crate) fn rank(text: &str) -> Result<RankKind, Failure> {
    text.parse().map_err(|error: RankError| {
        let list =
            "write density, lhd, lru, lfu, slru, gdsf, hyperbolic, or an expression over t, f, size, age and ttl_left";
        let cure = error.unknown.as_deref().map(|word| {
            crate::suggest::closest(word, RankKind::words())
                .map_or_else(|| list.to_owned(), |known| format!("did you mean '{known}'?"))
        });
        let cure = cure.unwrap_or_else(|| error.cure.clone());
        Failure { excerpt: error.excerpt().to_vec(), ..Failure::wrong_use(error.what, cure) }
    })
}

fn size(kind: Kind, text: &str, dialect: Dialect) -> Result<Bytes, Failure> {
    let strict = || text.parse().map_err(|e| lacks_unit(&e, text, "MiB"));
    if dialect == Dialect::Strict || kind == Kind::Size {
        return strict();
    }
    let (digits, shift) = match (kind, text.char_indices().last()) {
        (Kind::ItemSize, Some((end, 'k' | 'K'))) => (&text[..end], 10),
        (Kind::ItemSize, Some((end, 'm' | 'M'))) => (&text[..end], 20),
        (Kind::ItemSize, Some((end, 'g' | 'G'))) => (&text[..end], 30),
        (Kind::Mebibytes, Some((end, 'm' | 'M'))) => (&text[..end], 20),
        (Kind::Mebibytes, _) => (text, 20),
        _ => (text, 0),
    };
    match digits.parse::<u64>() {
        Ok(n) if n <= (i64::MAX as u64) >> shift => Ok(Bytes(n << shift)),
        _ if is_digits(digits) => Err(too_large(text)),
        _ => strict(),
    }
}

fn lacks_unit(error: &units::ParseError, text: &str, unit: &str) -> Failure {
    if error.is_too_large() {
        return too_large(text);
    }
    let number = text.trim();
    let is_bare = number.parse::<f64>().is_ok() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    // No time is a time, no memory is no memory.
    let is_meant = is_bare && (unit == "s" || number.bytes().any(|b| (b'1'..=b'9').contains(&b)));
    Failure::wrong_use(
        error.to_string(),
        format!("for example {}{unit}", if is_meant { number } else { "64" }),
    )
}

impl Value {
    /// The value as a flag or an environment variable takes it.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Switch(on) => on.to_string(),
            Self::Number(n) => n.to_string(),
            // `{:?}` keeps the point, which TOML needs.
            Self::Ratio(r) => format!("{r:?}"),
            Self::Size(bytes) => exact(*bytes),
            Self::Time(Duration::ZERO) => "0s".to_owned(),
            Self::Time(time) => time.to_string(),
            Self::Text(text) => text.clone(),
            Self::List(texts) => texts.join(","),
        }
    }

    /// The value as a TOML file has it.
    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Switch(_) | Self::Number(_) | Self::Ratio(_) => self.plain(),
            Self::Size(_) | Self::Time(_) | Self::Text(_) => quoted(&self.plain()),
            Self::List(texts) => {
                format!("[{}]", texts.iter().map(|t| quoted(t)).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Whether the value turns nothing on.
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::Switch(false)
    }
}

/// A size in the largest unit that says it exactly.
fn exact(bytes: Bytes) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = |(_, shift): &(&str, u32)| bytes != Bytes::ZERO && bytes.0.is_multiple_of(1 << shift);
    let (unit, shift) = units.into_iter().find(fits).unwrap_or(("B", 0));
    format!("{}{unit}", bytes.0 >> shift)
}

/// `text` as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, text: &str, dialect: Dialect, wanted: Result<&str, &str>) {
        let got = parse(kind, text, dialect).map(|v| v.unwrap().plain()).map_err(|f| f.what);
        match wanted {
            Ok(plain) => assert_eq!(got.as_deref(), Ok(plain), "{kind:?} {text}"),
            Err(part) => {
                assert!(got.as_ref().is_err_and(|what| what.contains(part)), "{kind:?} {text}: {got:?}")
            }
        }
        if let Ok(plain) = got {
            let again = parse(kind, &plain, Dialect::Strict).unwrap().unwrap();
            assert_eq!(again.plain(), plain, "{kind:?} {text}");
        }
    }

    #[test]
    fn each_kind_takes_its_own_texts() {
        use Dialect::{Memcached, Strict};
        check(Kind::Mebibytes, "64", Memcached, Ok("64MiB"));
        check(Kind::Mebibytes, "64m", Memcached, Ok("64MiB"));
        check(Kind::Mebibytes, "1g", Memcached, Err("not a size with a unit"));
        check(Kind::Mebibytes, "64", Strict, Err("not a size with a unit"));
        check(Kind::Mebibytes, "1.5GiB", Strict, Ok("1536MiB"));
        check(Kind::Mebibytes, "99999999999999", Memcached, Err("'99999999999999' is too large"));
        check(Kind::Mebibytes, "99999999999999MiB", Strict, Err("is too large"));
        check(Kind::ItemSize, "99999999999g", Memcached, Err("'99999999999g' is too large"));
        check(Kind::Time, "1000000d", Strict, Err("'1000000d' is too large"));
        check(Kind::Time, "0h", Strict, Ok("0s"));
        check(Kind::Count, "99999999999999999999", Strict, Err("is too large"));
        check(Kind::ItemSize, "2m", Memcached, Ok("2MiB"));
        check(Kind::ItemSize, "512K", Memcached, Ok("512KiB"));
        check(Kind::ItemSize, "1000", Memcached, Ok("1000B"));
        check(Kind::ItemSize, "2m", Strict, Err("not a size"));
        check(Kind::Size, "64", Memcached, Err("not a size"));
        check(Kind::Size, "3B", Strict, Ok("3B"));
        check(Kind::Time, "90s", Strict, Ok("90s"));
        check(Kind::Time, "90", Strict, Err("not a time with a unit"));
        check(Kind::Port, "-1", Strict, Ok("-1"));
        check(Kind::Port, "65536", Strict, Err("from -1 to 65535"));
        check(Kind::Count, "-1", Strict, Err("not a whole number"));
        check(Kind::Octal, "0700", Strict, Ok("700"));
        check(Kind::Octal, "888", Strict, Err("octal"));
        check(Kind::Char, "::", Strict, Err("one printable"));
        check(Kind::Ratio, "nan", Strict, Err("not a number"));
        check(Kind::Ratio, "2", Strict, Ok("2.0"));
        check(Kind::Choice(&["lru", "lfu"]), "lrv", Strict, Err("not one of lru, lfu"));
        check(Kind::Rank, "slru", Strict, Ok("slru"));
        check(Kind::Rank, " f / size ", Strict, Ok("f / size"));
        check(Kind::Rank, "f / sise", Strict, Err("unknown variable 'sise'"));
        check(Kind::Switch, "on", Strict, Ok("true"));
        check(Kind::Switch, "maybe", Strict, Err("true or false"));
        check(Kind::List, "a, b", Strict, Ok("a,b"));
    }

    #[test]
    fn a_missing_unit_is_proposed() {
        let failure = parse(Kind::Size, "64", Dialect::Strict).unwrap_err();
        assert_eq!(failure.cure, "for example 64MiB");
        for (kind, text, cure) in [
            (Kind::Size, "0", "for example 64MiB"),
            (Kind::Size, "7", "for example 7MiB"),
            (Kind::Time, "0", "for example 0s"),
            (Kind::Ratio, "95%", "write it as 0.95"),
        ] {
            assert_eq!(parse(kind, text, Dialect::Strict).unwrap_err().cure, cure, "{text}");
        }
    }
}
