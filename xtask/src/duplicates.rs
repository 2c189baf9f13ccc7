//! One version of each dependency: a second one is built and shipped only with a reason.
//!
//! Shape: Cargo.lock and deny.toml -> findings; the exceptions are deny.toml's `bans.skip`, so that this check and
//!        cargo-deny (which not everybody has) read the same list

use crate::Finding;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// An exception: versions of `name` that begin with `version` (all, if empty) do not count.
struct Exception {
    name: String,
    version: String,
}

/// Checks the text of Cargo.lock against the exceptions in the text of deny.toml.
#[must_use]
pub fn check(lock: &str, deny: &str) -> Vec<Finding> {
    let (lock, deny) = match (lock.parse(), deny.parse()) {
        (Ok(lock), Ok(deny)) => (lock, deny),
        (Err(error), _) => return vec![Finding::new("Cargo.lock", format!("cannot be read: {error}"))],
        (_, Err(error)) => return vec![Finding::new("deny.toml", format!("cannot be read: {error}"))],
    };
    let locked = versions(&lock);
    let mut findings = Vec::new();
    let mut exceptions = Vec::new();
    for entry in skipped(&deny) {
        match exception(entry) {
            Ok(known) => exceptions.push(known),
            Err(finding) => findings.push(finding),
        }
    }
    findings.extend(second_versions(&locked, &exceptions));
    findings.extend(idle_exceptions(&locked, &exceptions));
    findings
}

fn second_versions(locked: &BTreeMap<String, Vec<String>>, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, versions) in locked {
        let excepted = |version: &String| exceptions.iter().any(|exception| exception.covers(name, version));
        let counted: Vec<&str> = versions.iter().filter(|v| !excepted(v)).map(String::as_str).collect();
        if counted.len() > 1 {
            let what = format!(
                "{name} has the versions {}; join them or except one in deny.toml",
                counted.join(", ")
            );
            findings.push(Finding::new("Cargo.lock", what));
        }
    }
    findings
}

fn idle_exceptions(locked: &BTreeMap<String, Vec<String>>, exceptions: &[Exception]) -> Vec<Finding> {
    let is_idle = |exception: &&Exception| {
        let versions = locked.get(&exception.name).map_or(&[][..], Vec::as_slice);
        versions.len() < 2 || !versions.iter().any(|version| exception.covers(&exception.name, version))
    };
    let say = |exception: &Exception| {
        Finding::new(
            "deny.toml",
            format!("{}@{} is excepted without need", exception.name, exception.version),
        )
    };
    exceptions.iter().filter(is_idle).map(say).collect()
}

fn versions(lock: &Table) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| package.get(name).and_then(Value::as_str).map(str::to_owned);
        if let (Some(name), Some(version)) = (field("name"), field("version")) {
            found.entry(name).or_default().push(version);
        }
    }
    found
}

fn skipped(deny: &Table) -> impl Iterator<Item = &Value> {
    deny.get("bans").and_then(|bans| bans.get("skip")).and_then(Value::as_array).into_iter().flatten()
}

fn exception(entry: &Value) -> Result<Exception, Finding> {
    let named = entry.get("crate").and_then(Value::as_str).unwrap_or_default();
    let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default();
    if named.is_empty() || reason.is_empty() {
        let wanted = r#"{ crate = "name@version", reason = "why" }"#;
        return Err(Finding::new("deny.toml", format!("bans.skip: wanted {wanted}, found {entry}")));
    }
    let (name, version) = named.split_once('@').unwrap_or((named, ""));
    Ok(Exception { name: name.to_owned(), version: version.to_owned() })
}

impl Exception {
    fn covers(&self, name: &str, version: &str) -> bool {
        let rest = version.strip_prefix(self.version.as_str());
        self.name == name
            && rest.is_some_and(|rest| self.version.is_empty() || rest.is_empty() || rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(locked: &[(&str, &str)], skip: &str) -> usize {
        let package = |(name, version): &(&str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")
        };
        let lock: String = locked.iter().map(package).collect();
        check(&lock, &format!("[bans]\nskip = [{skip}]")).len()
    }

    const TWO: &[(&str, &str)] = &[("syn", "2.0.1"), ("syn", "3.0.0"), ("toml", "1.0.0")];

    #[test]
    fn a_second_version_is_found() {
        assert_eq!(findings(TWO, ""), 1);
        assert_eq!(findings(&TWO[1..], ""), 0);
    }

    #[test]
    fn an_exception_covers_its_version_only() {
        assert_eq!(findings(TWO, r#"{ crate = "syn@2", reason = "why" }"#), 0);
        assert_eq!(findings(TWO, r#"{ crate = "syn@2.0.1", reason = "why" }"#), 0);
        let three = [TWO, &[("syn", "20.0.0")]].concat();
        assert_eq!(findings(&three, r#"{ crate = "syn@2", reason = "why" }"#), 1);
    }

    #[test]
    fn exceptions_without_need_or_reason_are_found() {
        assert_eq!(findings(&TWO[1..], r#"{ crate = "syn@3", reason = "why" }"#), 1);
        assert_eq!(findings(TWO, r#"{ crate = "syn@1", reason = "why" }"#), 2);
        assert_eq!(findings(&TWO[2..], r#"{ crate = "syn@2" }"#), 1);
        assert_eq!(findings(&TWO[2..], r#""syn@2""#), 1);
    }

    #[test]
    fn unreadable_files_are_found() {
        assert_eq!(check("[[package", "").len(), 1);
        assert_eq!(check("", "[bans").len(), 1);
    }
}
