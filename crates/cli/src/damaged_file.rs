//! Files of settings, right, wrong and damaged: whatever one says, it is taken, or refused in one line with a cure.

use crate::args::{Request, World, request};
use crate::config_command::tests::shown;
use crate::failure::{Code, Failure};
use crate::serve::ServeOptions;
use crate::settings::{GROUP_SETTINGS, SETTINGS, TENANT_SETTINGS};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Files (guess: some seconds of a core; every setting meets every value a few times).
const FILES: u32 = 5_000;

const VALUES: &[&str] = &[
    "true",
    "false",
    "0",
    "1",
    "-1",
    "64",
    "18446744073709551616",
    "1e400",
    "nan",
    "0x10",
    "1979-05-27",
    "[]",
    "{}",
    "[\"a\", \"b\"]",
    "[1]",
    "\"\"",
    "\"64MiB\"",
    "\"1B\"",
    "\"9e999TiB\"",
    "\"99999999999TiB\"",
    "\"-1MiB\"",
    "\"64\"",
    "\"10ms\"",
    "\"5h\"",
    "\"0s\"",
    "\"99999999999h\"",
    "\"700\"",
    "\"888\"",
    "\"auto\"",
    "\"shared\"",
    "\"f / (size * t)\"",
    "\"f / (\"",
    "\"127.0.0.1:0\"",
    "\"[::1]\"",
    "\"unix:/x:999\"",
    "\"tenant[a]:proxy:localhost:1\"",
    "\"a:\"",
    "\"off\"",
    "\"\\u0000\"",
    "\"\\u00e9\"",
    "\"no_lru_crawler,hashpower=20\"",
    "'''\nx'''",
];

const HEADS: &[&str] = &[
    "[tenant.a]",
    "[tenant.b]",
    "[group.g]",
    "[tenant.\"a b\"]",
    "[tenant]",
    "[other]",
    "[[tenant.a]]",
    "[",
];

fn line() -> impl Strategy<Value = String> {
    let keys = SETTINGS.iter().chain(TENANT_SETTINGS).chain(GROUP_SETTINGS).map(|setting| setting.name);
    let keys: Vec<_> = keys.chain(["tenant.a.prefix", "group", "memroy", ""]).collect();
    prop_oneof![
        8 => (select(keys), select(VALUES)).prop_map(|(key, value)| format!("{key} = {value}")),
        2 => select(HEADS).prop_map(str::to_owned),
        1 => "[ -~\u{e9}\t\r]{0,12}",
    ]
}

fn file() -> impl Strategy<Value = String> {
    let damages = prop::collection::vec((any::<Index>(), any::<char>(), any::<bool>()), 0..3);
    (prop::collection::vec(line(), 0..6), damages).prop_map(|(lines, damages)| {
        let mut text: Vec<char> = lines.join("\n").chars().collect();
        for (at, new, replaces) in damages {
            let at = at.index(text.len() + 1);
            let end = (at + usize::from(replaces)).min(text.len());
            drop(text.splice(at..end, [new]));
        }
        text.into_iter().collect()
    })
}

fn show(file: &str) -> Result<Box<ServeOptions>, Failure> {
    let world = World {
        args: ["cotenant", "config", "show", "c.toml"].map(Into::into).to_vec(),
        environment: Vec::new(),
        read: &|_| Ok(file.to_owned()),
    };
    match request(&world)? {
        Request::ConfigShow(options) => Ok(options),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(FILES))]

    #[test]
    fn any_file_is_taken_or_refused_in_one_line_with_a_cure(file in file()) {
        match show(&file) {
            Ok(options) => {
                let text = shown(&options.in_force);
                let again = show(&text);
                prop_assert!(again.is_ok(), "{text} does not parse back: {again:?}");
            }
            Err(failure) => {
                prop_assert_eq!(failure.code, Code::WrongUse);
                prop_assert!(!failure.cure.is_empty(), "{}", &failure);
                let lines = failure.to_string().lines().count();
                prop_assert_eq!(lines, 2 + failure.excerpt.len(), "{}", &failure);
            }
        }
    }
}
