//! One target under libFuzzer: that named by `FUZZ_TARGET`; the options are libFuzzer's own.
#![no_main]

use fuzz::Target;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let Some(target) = fuzz::find(&name) else {
            eprintln!("FUZZ_TARGET is none of: {}", fuzz::names().join(" "));
            std::process::exit(2);
        };
        let _first = TARGET.set(target);
    },
    |data: &[u8]| {
        if let Some((_, target)) = TARGET.get() {
            target(data);
        }
    }
);
