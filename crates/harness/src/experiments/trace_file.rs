//! Where the traces of experiments are.
//!
//! Shape:   the name that a sweep has -> a file, or why there is none

use std::path::{Path, PathBuf};

/// Where the repository lies that this program was built from: traces lie beside it.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The file of that name, from here or from the repository.
///
/// # Errors
/// Where it was looked for.
pub(super) fn find(named: &str) -> Result<PathBuf, String> {
    let candidates = [PathBuf::from(named), Path::new(CHECKOUT).join(named)];
    let found = candidates.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("the trace {named} is absent, here and beside the repository"))
}
