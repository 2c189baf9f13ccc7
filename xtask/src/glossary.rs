//! One word per concept: the glossary has a row for each term of the house style, and one only.

use crate::Finding;
use std::collections::BTreeMap;

/// The terms that code and documents use (house style, rule 9).
const TERMS: &[&str] = &[
    "tenant",
    "item",
    "segment",
    "cleaner",
    "rank",
    "hit ratio",
    "miss ratio",
    "miss ratio curve",
    "reuse distance",
    "shadow queue",
    "medium",
    "tier",
    "NUMA node",
    "socket",
    "bandwidth",
    "share",
    "target",
    "in force",
    "reservation",
    "limit",
    "slowdown",
    "idle tax",
];

/// Checks the text of the glossary at `path`.
#[must_use]
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for term in text.lines().filter_map(first_cell) {
        *rows.entry(term).or_default() += 1;
    }
    let missing = TERMS.iter().filter(|term| !rows.contains_key(**term));
    let twice = rows.iter().filter(|(_, count)| **count > 1);
    let findings = missing.map(|term| Finding::new(path, format!("has no row for '{term}'")));
    findings.chain(twice.map(|(term, _)| Finding::new(path, format!("explains '{term}' twice")))).collect()
}

fn first_cell(line: &str) -> Option<String> {
    let cell = line.trim().strip_prefix('|')?.split('|').next()?.trim();
    let is_rule = cell.starts_with(['-', ':']) || cell == "Use";
    (!is_rule).then(|| cell.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glossary(terms: &[&str]) -> String {
        let rows: String = terms.iter().map(|term| format!("| {term} | what it is | – |\n")).collect();
        format!(
            "# Glossary\n\n| Use | for | not |\n|---|---|---|\n{rows}\n| Use | for |\n|---|---|\n| other | x |\n"
        )
    }

    #[test]
    fn a_full_glossary_passes() {
        assert_eq!(check("g", &glossary(TERMS)), []);
    }

    #[test]
    fn missing_and_repeated_terms_are_found() {
        assert_eq!(check("g", &glossary(&TERMS[1..])), [Finding::new("g", "has no row for 'tenant'")]);
        let twice = [TERMS, &["tenant"]].concat();
        assert_eq!(check("g", &glossary(&twice)), [Finding::new("g", "explains 'tenant' twice")]);
    }
}
