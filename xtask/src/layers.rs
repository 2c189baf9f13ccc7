//! Dependencies point strictly down: a crate sees crates of lower layers only, in tests and build scripts too.
//!
//! Shape: manifests -> findings. Layers: ARCHITECTURE.md

use crate::Finding;
use toml::{Table, Value};

/// Every crate of the workspace with its layer. A new crate is entered here, and in ARCHITECTURE.md.
const LAYERS: &[(&str, u8)] = &[
    ("units", 0),
    ("control", 1),
    ("media", 1),
    ("policy", 2),
    ("store", 2),
    ("pager", 2),
    ("host", 2),
    ("cluster", 2),
    ("server", 3),
    ("lab", 3),
    ("harness", 4),
    ("cli", 5),
    ("fuzz", 5),
    ("xtask", 6),
];

const KINDS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Whether `path` is the manifest of a crate with a layer.
#[must_use]
pub fn is_manifest(path: &str) -> bool {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", _, "Cargo.toml"] => true,
        _ => matches!(path, "fuzz/Cargo.toml" | "xtask/Cargo.toml"),
    }
}

/// Checks every manifest among `files` (path and text).
#[must_use]
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    files.iter().flat_map(|(path, text)| check_manifest(path, text)).collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, format!("is no manifest: {error}"))],
    };
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    if name != Some(folder) {
        return vec![Finding::new(path, format!("folder {folder} and package name {name:?} differ"))];
    }
    let Some(layer) = layer_of(folder) else {
        return vec![Finding::new(path, format!("crate {folder} has no layer; enter it in {}", file!()))];
    };
    let mut findings = Vec::new();
    for (dependency, inside) in dependencies(&manifest) {
        match layer_of(&dependency) {
            Some(below) if below < layer => {}
            Some(other) => findings.push(Finding::new(
                path,
                format!("{folder} (layer {layer}) depends on {dependency} (layer {other}); only lower layers may be used"),
            )),
            None if inside => {
                findings.push(Finding::new(path, format!("depends on {dependency} by path, which has no layer")));
            }
            None => {}
        }
    }
    findings
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

/// Package names that `manifest` depends on, each with whether it is named by path.
fn dependencies(manifest: &Table) -> Vec<(String, bool)> {
    let for_targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places = std::iter::once(manifest).chain(for_targets.filter_map(Value::as_table));
    let tables = places.flat_map(|place| KINDS.iter().filter_map(|kind| place.get(*kind)?.as_table()));
    tables.flatten().map(|(key, value)| (package_name(key, value), value.get("path").is_some())).collect()
}

fn package_name(key: &str, value: &Value) -> String {
    value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(folder: &str, dependencies: &str) -> usize {
        let text = format!("[package]\nname = \"{folder}\"\n{dependencies}");
        check(&[(format!("crates/{folder}/Cargo.toml"), text)]).len()
    }

    #[test]
    fn down_is_allowed() {
        assert_eq!(findings("server", "[dependencies]\nstore.workspace = true\nmio = \"1\""), 0);
        assert_eq!(findings("store", "[dev-dependencies]\nunits.workspace = true"), 0);
    }

    #[test]
    fn sideways_and_up_are_refused_everywhere() {
        for kind in
            ["dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"]
        {
            assert_eq!(findings("server", &format!("[{kind}]\nlab.workspace = true")), 1, "{kind}");
            assert_eq!(
                findings("store", &format!("[{kind}]\npolicy = {{ path = \"../policy\" }}")),
                1,
                "{kind}"
            );
            assert_eq!(findings("store", &format!("[{kind}]\nserver.workspace = true")), 1, "{kind}");
            assert_eq!(findings("cli", &format!("[{kind}]\nxtask.workspace = true")), 1, "{kind}");
        }
    }

    #[test]
    fn a_new_name_does_not_hide_a_dependency() {
        assert_eq!(
            findings("policy", "[dependencies]\nlog = { package = \"store\", path = \"../store\" }"),
            1
        );
    }

    #[test]
    fn unknown_crates_are_refused() {
        assert_eq!(findings("common", ""), 1);
        assert_eq!(findings("cli", "[dependencies]\ncommon = { path = \"../common\" }"), 1);
        assert_eq!(check(&[("crates/store/Cargo.toml".into(), "[package]\nname = \"log\"".into())]).len(), 1);
        assert_eq!(check(&[("crates/store/Cargo.toml".into(), "[package".into())]).len(), 1);
    }

    #[test]
    fn manifests_are_recognised() {
        assert!(
            is_manifest("crates/store/Cargo.toml")
                && is_manifest("xtask/Cargo.toml")
                && is_manifest("fuzz/Cargo.toml")
        );
        assert!(!is_manifest("Cargo.toml") && !is_manifest("crates/store/tests/x/Cargo.toml"));
    }
}
