//! Nothing of one machine gets into the repository: no traces, no paths of somebody's folders.

use crate::Finding;

/// Largest compressed file in version control, in bytes. A guess: room for a sample of a trace, not for a trace.
const COMPRESSED_BYTES_MAX: u64 = 100_000;

/// Beginnings of absolute paths that exist on somebody's machine only. Put together so that this file passes.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp", "/bash")];

/// Checks the `sizes` (path and bytes) of all files.
#[must_use]
pub fn check_sizes(sizes: &[(String, u64)]) -> Vec<Finding> {
    let too_large = |(path, bytes): &&(String, u64)| path.ends_with(".zst") && *bytes > COMPRESSED_BYTES_MAX;
    let say =
        |(path, bytes): &(String, u64)| Finding::new(path, format!("{bytes} bytes; traces stay outside"));
    sizes.iter().filter(too_large).map(say).collect()
}

/// Checks the `files` (path and text) of all kinds.
#[must_use]
pub fn check_texts(files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files {
        for (number, line) in (1..).zip(text.lines()) {
            let named = FOLDERS.iter().filter(|folder| holds(line, folder));
            findings.extend(named.map(|folder| Finding::at(path, number, format!("names {folder}"))));
        }
    }
    findings
}

/// Whether `line` holds an absolute path into `folder`; the middle of a longer path does not count.
fn holds(line: &str, folder: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "_-.~".contains(c);
    line.match_indices(folder).any(|(start, _)| !line[..start].ends_with(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_traces_are_found() {
        let sizes = [("a.csv.zst", 100_001), ("b.csv.zst", 100_000), ("c.png", 200_000)];
        let found = check_sizes(&sizes.map(|(path, bytes)| (path.to_owned(), bytes)));
        assert_eq!(found, [Finding::new("a.csv.zst", "100001 bytes; traces stay outside")]);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for folder in FOLDERS {
            let found = |text: String| check_texts(&[("a.md".to_owned(), text)]).len();
            assert_eq!(found(format!("x\nsee `{folder}x`")), 1);
            assert_eq!(found(format!("{folder}x")), 1);
            assert_eq!(found(format!("https://example.org{folder}x, ..{folder}x")), 0);
        }
    }
}
