//! Time and the environment are arguments: only who is named here reads a clock, or a variable of the environment.
//!
//! Non-goals: waiting and deadlines inside the operating system, which need no reading; arguments of programs

use crate::Finding;
use crate::rust::{code_only, lines_with_word};

/// Calls that few may make.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What a call does, for a finding.
    act: &'static str,
    calls: &'static [&'static str],
    /// Who may call them, by the path's beginning, each with the reason.
    owners: &'static [(&'static str, &'static str)],
}

/// Who reads a clock.
pub const CLOCKS: Rule = Rule {
    act: "reads a clock",
    calls: &["Instant::now", "SystemTime::now", "clock_gettime", "gettimeofday", "_rdtsc", "__rdtscp"],
    owners: &[
        ("crates/cli/", "the binary builds the clock and passes time down"),
        (
            "crates/media/src/stopwatch.rs",
            "accesses to tiers, holds of brakes and probes are shorter than a clock's step",
        ),
        (
            "crates/harness/src/live/clock.rs",
            "the clock of a server inside the harness, and stopwatches of its loads",
        ),
        (
            "crates/harness/src/experiments/memshare/live.rs",
            "how long a request takes that an experiment sends",
        ),
        (
            "crates/harness/src/bench/growth.rs",
            "what an operation takes by the clock is told beside its CPU time",
        ),
        ("crates/harness/src/bench/in_process.rs", "CPU time of what is measured"),
        ("crates/harness/peers/segcache/src/main.rs", "CPU time of a peer, a program of its own"),
    ],
};

/// Who reads the environment.
pub const ENVIRONMENT: Rule = Rule {
    act: "reads the environment",
    calls: &["env::var", "env::var_os", "env::vars", "env::vars_os"],
    owners: &[
        ("crates/cli/", "the binary reads settings and passes them down"),
        ("crates/harness/src/live/peer.rs", "where programs are that the load is compared with"),
        ("crates/harness/src/bench/memtier.rs", "where a program is that makes loads"),
        ("crates/harness/tests/", "tests are told where traces are, and how long to run"),
        ("crates/lab/tests/", "tests are told where traces are"),
        ("crates/store/tests/restart/", "tests start themselves again as a child that is killed"),
        ("crates/media/src/dax/tests.rs", "tests are told what the machine has"),
        ("crates/media/src/numa.rs", "its tests are told what the machine has"),
        ("crates/server/src/damaged.rs", "tests are told how many streams to damage"),
        ("fuzz/src/main.rs", "which target to run: the arguments are libFuzzer's"),
    ],
};

/// Checks the Rust `files` (path and text) against a rule.
#[must_use]
pub fn check(files: &[(String, String)], rule: &Rule) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut idle = rule.owners.to_vec();
    for (path, text) in files {
        let code = code_only(text);
        let calls = rule.calls.iter().map(|call| (call, lines_with_word(&code, call)));
        let calls: Vec<_> = calls.filter(|(_, lines)| !lines.is_empty()).collect();
        if !rule.owners.iter().any(|(owner, _)| path.starts_with(owner)) {
            let each = calls.iter().flat_map(|(call, lines)| lines.iter().map(move |&line| (call, line)));
            findings
                .extend(each.map(|(call, line)| Finding::at(path, line, format!("{}: {call}", rule.act))));
        } else if !calls.is_empty() {
            idle.retain(|(owner, _)| !path.starts_with(owner));
        }
    }
    findings.extend(idle.iter().map(|(owner, _)| {
        Finding::new(owner, format!("is listed in {} among who {}, and does not", file!(), rule.act))
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { owners: &[("crates/cli/", "why")], ..CLOCKS };

    fn findings(path: &str, text: &str, rule: &Rule) -> usize {
        let owner = ("crates/cli/src/main.rs".to_owned(), "Instant::now(); env::vars_os()".to_owned());
        check(&[owner, (path.to_owned(), text.to_owned())], rule).len()
    }

    #[test]
    fn a_reading_outside_the_binary_is_found() {
        assert_eq!(findings("crates/store/src/a.rs", "let t = std::time::Instant::now();", &RULE), 1);
        assert_eq!(findings("crates/server/tests/a.rs", "SystemTime::now().elapsed()", &RULE), 1);
        assert_eq!(findings("crates/lab/src/a.rs", "rustix::time::clock_gettime(clock)", &RULE), 1);
        assert_eq!(findings("crates/lab/src/a.rs", "unsafe { core::arch::x86_64::_rdtsc() }", &RULE), 1);
    }

    #[test]
    fn a_variable_outside_the_binary_is_found() {
        let rule = Rule { owners: RULE.owners, ..ENVIRONMENT };
        assert_eq!(findings("crates/store/src/a.rs", "std::env::var(\"A\")", &rule), 1);
        assert_eq!(findings("crates/store/src/a.rs", "std::env::var_os(\"A\")\nenv::vars()", &rule), 2);
        assert_eq!(findings("crates/store/src/a.rs", "env!(\"A\"); std::env::args()", &rule), 0);
    }

    #[test]
    fn the_binary_and_comments_pass() {
        assert_eq!(findings("crates/cli/src/clock.rs", "Instant::now()", &RULE), 0);
        assert_eq!(findings("crates/store/src/a.rs", "// Instant::now\nInstant::nowhere()", &RULE), 0);
    }

    #[test]
    fn an_owner_that_reads_nothing_is_found() {
        assert_eq!(
            check(&[("crates/cli/src/main.rs".to_owned(), "fn main() {}".to_owned())], &RULE).len(),
            1
        );
        assert_eq!(check(&[], &RULE).len(), 1);
    }
}
