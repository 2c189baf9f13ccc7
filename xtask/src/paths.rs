//! The map is true: every path in backticks in ARCHITECTURE.md exists, and the map stays short.
//!
//! Shape:     a span is a path if it contains `/` or ends like a source file; it exists if the tree holds it at the
//!            root, under `crates/`, or (a bare file name) anywhere; `*` stands for any part of one name
//! Non-goals: fenced blocks; absolute paths, amounts such as `2GB/s` and what a build makes in `target/`

use crate::Finding;

/// Longest ARCHITECTURE.md, in lines: longer, it is no longer read (house style, rule 38).
const MAP_LINES_MAX: usize = 300;

/// Checks the text of the map at `path` against all `paths` of the tree.
#[must_use]
pub fn check(path: &str, text: &str, paths: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > MAP_LINES_MAX {
        findings.push(Finding::new(path, format!("{lines} lines; the map has at most {MAP_LINES_MAX}")));
    }
    for (line, span) in spans(text) {
        if is_path(&span) && !exists(&span, paths) {
            findings.push(Finding::at(path, line, format!("`{span}` does not exist")));
        }
    }
    findings
}

/// Whether the tree holds the file or folder that `named` means.
pub(crate) fn exists(named: &str, paths: &[String]) -> bool {
    !resolve(named, paths).is_empty()
}

/// The files that `named` means: itself, or all files of the folder.
pub(crate) fn resolve<'a>(named: &str, paths: &'a [String]) -> Vec<&'a str> {
    let wanted: Vec<&str> = named.trim_start_matches("./").trim_end_matches('/').split('/').collect();
    let is_meant = |path: &&String| {
        let parts: Vec<&str> = path.split('/').collect();
        let from_crates = parts.strip_prefix(&["crates"]);
        starts_with(&parts, &wanted)
            || from_crates.is_some_and(|rest| starts_with(rest, &wanted))
            || (wanted.len() == 1 && parts.last().is_some_and(|last| matches(last, wanted[0])))
    };
    paths.iter().filter(is_meant).map(String::as_str).collect()
}

/// The spans in backticks outside fenced blocks, each with its line.
pub(crate) fn spans(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (number, span.to_owned())));
        }
    }
    found
}

fn is_path(span: &str) -> bool {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || "/._-*".contains(c));
    let ends_like_one = [".rs", ".md", ".toml"].iter().any(|end| span.ends_with(end));
    let elsewhere = span.starts_with(|c: char| c == '/' || c.is_ascii_digit()) || span.starts_with("target/");
    (span.contains('/') || ends_like_one) && !span.contains(odd) && !elsewhere
}

fn starts_with(parts: &[&str], wanted: &[&str]) -> bool {
    parts.len() >= wanted.len() && parts.iter().zip(wanted).all(|(part, pattern)| matches(part, pattern))
}

/// Whether `name` fits `pattern`, in which `*` stands for anything.
fn matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(&rest[at..], after))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_map(text: &str) -> Vec<String> {
        let paths =
            ["README.md", "crates/store/src/item.rs", "docs/decisions/2026-01-01-x.md"].map(str::to_owned);
        check("ARCHITECTURE.md", text, &paths).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_exists_passes() {
        for path in [
            "README.md",
            "crates/store",
            "crates/*",
            "store/src/item.rs",
            "item.rs",
            "docs/decisions/",
            "crates/*/src/*.rs",
        ] {
            assert_eq!(check_map(&format!("see `{path}`")), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn what_does_not_exist_is_found_with_its_line() {
        assert_eq!(
            check_map("a\nsee `store/src/log.rs`"),
            ["ARCHITECTURE.md:2: `store/src/log.rs` does not exist"]
        );
        for path in ["crates/pager", "deny.toml", "crates/*/log.rs", "src/item.rs", "crates/stor"] {
            assert_eq!(check_map(&format!("see `{path}`")).len(), 1, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_passes() {
        let text = "`Store` `/metrics` `2GB/s` `make test` `a/b::c` `target/release/cotenant`\n```\n`no/such.rs`\n```";
        assert_eq!(check_map(text), Vec::<String>::new());
    }

    #[test]
    fn a_long_map_is_found() {
        assert_eq!(check_map(&"x\n".repeat(301)).len(), 1);
        assert_eq!(check_map(&"x\n".repeat(300)).len(), 0);
    }
}
