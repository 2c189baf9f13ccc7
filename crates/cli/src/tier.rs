//! Tiers below DRAM, as settings name them.
//!
//! Shape: `--tier` and memcached's `-o ext_path` -> checked specifications; what is there of them only a start finds out

use crate::extended::EXT_PATH;
use crate::failure::Failure;
use crate::layers::InForce;
use crate::value::Value;
use media::{TIER_MIN, TierError, TierSpec};
use server::TierConfig;
use units::Bytes;

/// The tiers below DRAM; each of memcached's `-o ext_path=PATH:SIZE` is one of a file.
pub(crate) fn tiers(in_force: &InForce) -> Result<Vec<TierConfig>, Failure> {
    let (value, source) = in_force.get("tier");
    let given = if let Some(Value::List(texts)) = value { texts.as_slice() } else { &[] };
    let place = source.place("tier");
    let parse = |text: &String, place: &str| {
        let tier = TierConfig::parse(text).map_err(|e| {
            Failure::wrong_use(format!("{place}: {e}"), format!("a tier is one of {}", media::SPEC_FORMS))
        })?;
        check_size(&tier.spec).map_err(|e| e.at(place)).map(|()| tier)
    };
    let mut tiers = given.iter().map(|text| parse(text, &place)).collect::<Result<Vec<_>, _>>()?;
    for (at, text) in (1..).zip(in_force.options(EXT_PATH)) {
        let name = if at == 1 { String::new() } else { format!("file{at}=") };
        tiers.push(parse(&format!("{name}{}", ext_path(text)), "-o ext_path")?);
    }
    Ok(tiers)
}

/// Refuses a tier that is smaller than any can be.
pub(crate) fn check_size(spec: &TierSpec) -> Result<(), Failure> {
    let size = spec.size;
    if size < TIER_MIN {
        let error = TierError::TooSmall { size, min: TIER_MIN };
        let cure = error.cure().unwrap_or_default();
        return Err(Failure::wrong_use(format!("'{spec}': {error}"), cure));
    }
    Ok(())
}

/// memcached's `PATH:SIZE` as a tier. A size is one of ours, or memcached's: a number of MiB, or with one letter of another
/// binary unit.
fn ext_path(text: &str) -> String {
    let Some((path, size)) = text.rsplit_once(':').filter(|(_, size)| size.parse::<Bytes>().is_err()) else {
        return format!("file:{text}");
    };
    let letters = size.trim_end_matches(['b', 'B']);
    let digits = letters.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match letters[digits.len()..].to_ascii_uppercase().as_str() {
        _ if digits.is_empty() => format!("file:{text}"),
        "" => format!("file:{path}:{digits}MiB"),
        unit => format!("file:{path}:{digits}{unit}iB"),
    }
}
