//! The range of a setting, read from the words that the help and the reference show.
//!
//! Shape:      `LOW to HIGH`, `LOW and up`, `above LOW`, and after that `, at most HIGH` or `, below HIGH`; LOW and HIGH are
//!             values of the setting's kind
//! Invariants: what is shown is what is enforced; other words bound nothing (a test names the settings that have such)

use crate::value::{Dialect, Kind, Value, parse};
use std::ops::{Bound, RangeBounds as _};

/// Whether the value is in the range that `words` say.
pub(crate) fn has(kind: Kind, words: &str, value: &Value) -> bool {
    let bounds = || bounds(kind, words);
    magnitude(value).is_none_or(|size| bounds().is_none_or(|bounds| bounds.contains(&size)))
}

/// The two ends, if the words are those of a range.
fn bounds(kind: Kind, words: &str) -> Option<(Bound<f64>, Bound<f64>)> {
    let at = |text: &str| magnitude(&parse(kind, text, Dialect::Strict).ok()??);
    if let Some(low) = words.strip_suffix(" and up") {
        return Some((Bound::Included(at(low)?), Bound::Unbounded));
    }
    let Some(rest) = words.strip_prefix("above ") else {
        let (low, high) = words.split_once(" to ")?;
        return Some((Bound::Included(at(low)?), Bound::Included(at(high)?)));
    };
    let (low, high) = rest.split_once(", ").map_or((rest, None), |(low, high)| (low, Some(high)));
    let high = match high {
        None => Bound::Unbounded,
        Some(high) => match (high.strip_prefix("at most "), high.strip_prefix("below ")) {
            (Some(high), _) => Bound::Included(at(high)?),
            (_, Some(high)) => Bound::Excluded(at(high)?),
            _ => return None,
        },
    };
    Some((Bound::Excluded(at(low)?), high))
}

/// What is compared: a number as it is, a size in bytes, a time in nanoseconds; none of a text.
fn magnitude(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number as f64),
        Value::Ratio(ratio) => Some(*ratio),
        Value::Size(size) => Some(size.0 as f64),
        Value::Time(time) => Some(time.0 as f64),
        Value::Switch(_) | Value::Text(_) | Value::List(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{DEMO, DOCTOR, EXPERIMENT, PLAN, PROBE, REPLAY, TENANT};
    use crate::settings::{GROUP_SETTINGS, SETTINGS, TENANT_SETTINGS};

    #[test]
    fn words_are_a_range_with_both_its_ends() {
        for (kind, words, inside, outside) in [
            (Kind::Count, "1 to 256", &["1", "256"][..], &["0", "257"][..]),
            (Kind::Size, "1B and up", &["1B", "9TiB"], &["0B"]),
            (Kind::Ratio, "above 0, at most 1", &["0.001", "1"], &["0", "1.01"]),
            (Kind::Ratio, "above 0, below 1", &["0.5"], &["0", "1"]),
            (Kind::Time, "above 0s", &["1ns", "5h"], &["0s"]),
            (Kind::Time, "1s to 49710d", &["1s", "49710d"], &["500ms", "49711d"]),
            (Kind::Size, "a size", &["0B", "1TiB"], &[]),
        ] {
            let has = |text: &&str| {
                has(kind, words, &parse(kind, text, Dialect::Strict).expect("of the kind").expect("a value"))
            };
            assert!(inside.iter().all(has), "{words}: {inside:?}");
            assert!(!outside.iter().any(has), "{words}: {outside:?}");
        }
    }

    #[test]
    fn numbers_without_a_range_are_few_and_known() {
        let numeric = |kind| {
            matches!(
                kind,
                Kind::Level
                    | Kind::Count
                    | Kind::Port
                    | Kind::Ratio
                    | Kind::Size
                    | Kind::Mebibytes
                    | Kind::ItemSize
                    | Kind::Time
            )
        };
        let tables = [
            SETTINGS,
            TENANT_SETTINGS,
            GROUP_SETTINGS,
            DEMO,
            REPLAY,
            PLAN,
            PROBE,
            DOCTOR,
            EXPERIMENT,
            TENANT,
        ];
        let unbounded =
            tables.into_iter().flatten().filter(|s| numeric(s.kind) && bounds(s.kind, s.range).is_none());
        let names: Vec<_> = unbounded.map(|s| s.name).collect();
        // A port's kind has its bounds, memory that is reserved is held against what there is, zero is none of a size.
        assert_eq!(names, ["port", "bandwidth_step", "udp_port", "reserved", "reserved"]);
    }
}
