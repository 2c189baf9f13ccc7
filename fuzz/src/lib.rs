//! What reads bytes that others send, write or save, and the store, as functions that panic if something that must hold does not.
//!
//! Shape:     bytes -> a target; `main` gives them to libFuzzer, which follows the branches that they take
//! Non-goals: files of settings and HTTP, see `docs/decisions`; being part of the product; streams without feedback, which each crate's tests draw themselves

mod model;
mod trace;

pub use store::fuzzing::Target;

/// What belongs to no single crate.
const OWN: &[Target] = &[("trace", trace::fuzzed), ("store", model::fuzzed)];

fn all() -> impl Iterator<Item = Target> {
    server::fuzzing::TARGETS.iter().chain(store::fuzzing::TARGETS).chain(OWN).copied()
}

/// Every target by its name.
#[must_use]
pub fn names() -> Vec<&'static str> {
    all().map(|(name, _)| name).collect()
}

/// The target of a name.
#[must_use]
pub fn find(name: &str) -> Option<Target> {
    all().find(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_target_has_seeds_that_hold() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
        for name in names() {
            let (_, target) = find(name).expect("it is named");
            let files: Vec<_> = fs::read_dir(seeds.join(name)).expect(name).collect();
            assert!(!files.is_empty(), "{name}");
            for file in files {
                target(&fs::read(file.expect(name).path()).expect(name));
            }
        }
        let folders = fs::read_dir(seeds).expect("seeds").count();
        assert_eq!(folders, names().len(), "a folder of seeds belongs to each target, and to nothing else");
        assert!(find("nothing").is_none());
    }
}
