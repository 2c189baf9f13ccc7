//! `.ci/summary` counts what runners print, and fails when something failed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A ledger in a folder of its own; removed when dropped.
struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    fn begin(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("xtask-summary-{name}-{}", std::process::id()));
        let ledger = Self { folder };
        ledger.call(&["begin", "t"]);
        ledger
    }

    /// Runs the script; its output and whether it said that all is well.
    fn call(&self, arguments: &[&str]) -> (String, bool) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/summary");
        let mut command = Command::new("bash");
        let output = command
            .arg(script)
            .args(arguments)
            .env("CARGO_TARGET_DIR", &self.folder)
            .output()
            .expect("bash runs");
        (String::from_utf8(output.stdout).expect("output is text"), output.status.success())
    }

    fn run(&self, kind: &str, step: &str, shell: &str) {
        assert!(self.call(&[kind, "t", step, "sh", "-c", shell]).1, "{kind} itself never fails");
    }

    fn end(&self) -> (String, bool) {
        let (output, well) = self.call(&["end", "t"]);
        (output.lines().last().unwrap_or_default().to_owned(), well)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // What stays behind lies in the temporary folder.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

#[track_caller]
fn check(name: &str, shell: &str, expected: &str) {
    let ledger = Ledger::begin(name);
    ledger.run("run", "step", shell);
    let well = !expected.contains(" 1 failed") && !expected.contains(" 2 failed");
    assert_eq!(ledger.end(), (expected.to_owned(), well), "{shell}");
}

#[test]
fn cargo_test_is_summed() {
    let result =
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.10s";
    check("libtest", &format!("echo '{result}'; echo '{result}'"), "6 passed, 0 failed, 2 skipped");
    let failed =
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s";
    check("libtest-bad", &format!("echo '{failed}'; exit 101"), "1 passed, 2 failed, 0 skipped");
}

#[test]
fn nextest_is_understood_in_colour() {
    let line = r"printf '\033[32m     Summary\033[0m [   1.2s] 5 tests run: 4 passed (1 slow), 1 failed, 2 skipped\n'";
    check("nextest", line, "4 passed, 1 failed, 2 skipped");
}

#[test]
fn pytest_is_understood_with_and_without_frame() {
    check(
        "pytest",
        "echo '=== 1 failed, 12 passed, 3 skipped in 0.50s ==='",
        "12 passed, 1 failed, 3 skipped",
    );
    check("pytest-q", "echo '12 passed, 1 error, 1 xfailed in 0.50s'", "12 passed, 1 failed, 0 skipped");
}

#[test]
fn a_plain_line_wins_so_summaries_nest() {
    let inner = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'; echo '9 passed, 0 failed, 4 skipped'";
    check("nested", inner, "9 passed, 0 failed, 4 skipped");
}

#[test]
fn a_silent_command_counts_as_one() {
    check("silent", "true", "1 passed, 0 failed, 0 skipped");
    check("silent-bad", "false", "0 passed, 1 failed, 0 skipped");
}

#[test]
fn a_crash_after_good_tests_is_a_failure() {
    check("crash", "echo '3 passed, 0 failed, 0 skipped'; exit 3", "3 passed, 1 failed, 0 skipped");
}

#[test]
fn steps_add_up_and_preparation_counts_only_when_it_fails() {
    let ledger = Ledger::begin("steps");
    ledger.run("prepare", "setup", "true");
    ledger.run("run", "a", "echo '2 passed, 0 failed, 0 skipped'; echo 'skipped: tool: not here'");
    ledger.call(&["skip", "t", "deny", "not installed"]);
    assert_eq!(ledger.end(), ("2 passed, 0 failed, 1 skipped".to_owned(), true));
    let shown = ledger.call(&["end", "t"]).0;
    assert!(
        shown.contains("skipped: tool: not here") && shown.contains("skipped: deny: not installed"),
        "{shown}"
    );
    ledger.run("prepare", "setup", "exit 1");
    assert_eq!(ledger.end(), ("2 passed, 1 failed, 1 skipped".to_owned(), false));
}
