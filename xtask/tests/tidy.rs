//! Every tidy check, run on this repository.

use xtask::{Finding, Tree, clocks, duplicates, front_page, glossary, layers, leaks};
use xtask::{modules, paths, promises, report, unfinished, unsafety};

fn tree() -> Tree {
    Tree::of_this_repository()
}

fn text(path: &str) -> String {
    tree().text(path).unwrap_or_else(|| panic!("{path} is missing or not UTF-8"))
}

#[track_caller]
fn expect_none(findings: &[Finding]) {
    assert!(findings.is_empty(), "{} found:\n{}\n", findings.len(), report(findings));
}

#[test]
fn dependencies_point_down() {
    let manifests = tree().texts(layers::is_manifest);
    assert!(manifests.len() > 1, "no manifests were found");
    expect_none(&layers::check(&manifests));
}

#[test]
fn the_map_is_true() {
    expect_none(&paths::check("ARCHITECTURE.md", &text("ARCHITECTURE.md"), tree().paths()));
}

#[test]
fn promises_have_tests() {
    let tree = tree();
    let read = |path: &str| tree.text(path);
    expect_none(&promises::check("SPECIFICATION.md", &text("SPECIFICATION.md"), tree.paths(), read));
}

#[test]
fn modules_say_what_they_are() {
    expect_none(&modules::check(&tree().rust()));
}

#[test]
fn nothing_is_left_unfinished() {
    expect_none(&unfinished::check(&tree().texts(unfinished::is_source)));
}

#[test]
fn unsafe_code_is_fenced() {
    expect_none(&unsafety::check(&tree().rust(), unsafety::FENCES));
}

#[test]
fn only_who_is_named_reads_a_clock_or_the_environment() {
    expect_none(&clocks::check(&tree().rust(), &clocks::CLOCKS));
    expect_none(&clocks::check(&tree().rust(), &clocks::ENVIRONMENT));
}

#[test]
fn dependencies_have_one_version() {
    expect_none(&duplicates::check(&text("Cargo.lock"), &text("deny.toml")));
}

#[test]
fn nothing_leaks_from_a_machine() {
    let tree = tree();
    expect_none(&leaks::check_sizes(&tree.sizes()));
    expect_none(&leaks::check_texts(&tree.texts(|_| true)));
}

#[test]
fn the_glossary_is_complete() {
    expect_none(&glossary::check("docs/glossary.md", &text("docs/glossary.md")));
}

#[test]
fn visitors_find_what_they_look_for() {
    expect_none(&front_page::check(tree().paths(), &text("README.md")));
}
