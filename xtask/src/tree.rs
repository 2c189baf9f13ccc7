//! The repository as the checks see it: every file that is, or could be, in version control.
//!
//! Shape:   paths relative to the root, with `/`, sorted
//! Failure: without git, or outside a checkout, the folders are walked instead and the known build outputs left out

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold no sources: `.gitignore`'s, and git's own. Used only where git cannot be asked.
const OUTPUTS: &[&str] = &[".git", ".venv", "__pycache__", "out", "target"];

/// The files of one checkout.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    paths: Vec<String>,
}

impl Tree {
    /// The checkout that this crate was built from.
    ///
    /// # Panics
    ///
    /// When the crate's folder has no parent.
    #[must_use]
    pub fn of_this_repository() -> Self {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root");
        Self::at(root)
    }

    /// The checkout at `root`.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        let mut paths = listed_by_git(root).unwrap_or_else(|| {
            let mut walked = Vec::new();
            walk(root, "", &mut walked);
            walked
        });
        paths.retain(|path| root.join(path).is_file());
        paths.sort();
        paths.dedup();
        Self { root: root.to_owned(), paths }
    }

    /// Every path, sorted.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The text of one file; `None` if it is absent or not UTF-8.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// Paths and texts of the files for which `wanted` says yes. Files that are not UTF-8 are left out.
    #[must_use]
    pub fn texts(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let chosen = self.paths.iter().filter(|path| wanted(path));
        chosen.filter_map(|path| Some((path.clone(), self.text(path)?))).collect()
    }

    /// Paths and texts of all Rust files.
    #[must_use]
    pub fn rust(&self) -> Vec<(String, String)> {
        self.texts(|path| path.ends_with(".rs"))
    }

    /// Every path with the file's size in bytes.
    #[must_use]
    pub fn sizes(&self) -> Vec<(String, u64)> {
        let size = |path: &String| Some((path.clone(), fs::metadata(self.root.join(path)).ok()?.len()));
        self.paths.iter().filter_map(size).collect()
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").arg("-C").arg(root).args(listing).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path, folder: &str, found: &mut Vec<String>) {
    // A folder that cannot be read holds nothing that a check could read either.
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !OUTPUTS.contains(&name.as_str()) => walk(root, &path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_leaves_outputs_out() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        for folder in ["crates/a", "target/release"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["crates/a/lib.rs", "target/release/a", "README.md"] {
            fs::write(root.join(file), "").unwrap();
        }
        let mut found = Vec::new();
        walk(&root, "", &mut found);
        found.sort();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["README.md", "crates/a/lib.rs"]);
    }

    #[test]
    fn this_repository_holds_this_file() {
        let tree = Tree::of_this_repository();
        assert!(tree.paths().iter().any(|path| path == "xtask/src/tree.rs"));
        assert!(tree.text("xtask/src/tree.rs").is_some());
    }
}
