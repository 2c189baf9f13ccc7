//! The papers that a stranger looks for are there, and README.md opens with the two commands to type.

use crate::Finding;

/// Files in the root that every visitor expects.
const PAPERS: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "SPECIFICATION.md",
];

/// What the first code block of README.md shows.
const COMMANDS: &[&str] = &["make demo", "make test"];

/// Checks the tree's `paths` and the text of README.md.
#[must_use]
pub fn check(paths: &[String], readme: &str) -> Vec<Finding> {
    let absent = PAPERS.iter().filter(|paper| !paths.iter().any(|path| path == *paper));
    let mut findings: Vec<Finding> = absent.map(|paper| Finding::new(paper, "is missing")).collect();
    let block = first_block(readme);
    let unsaid = COMMANDS.iter().filter(|command| !block.contains(*command));
    findings.extend(
        unsaid.map(|command| Finding::new("README.md", format!("first code block lacks '{command}'"))),
    );
    findings
}

fn first_block(text: &str) -> String {
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let inside = text.lines().skip_while(|line| !is_fence(line)).skip(1);
    inside.take_while(|line| !is_fence(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_papers() -> Vec<String> {
        PAPERS.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_commands_stand_in_the_first_block() {
        assert_eq!(check(&all_papers(), "# X\n```sh\nmake demo\nmake test\n```"), []);
        assert_eq!(check(&all_papers(), "```\nmake demo\n```\n```\nmake test\n```").len(), 1);
        assert_eq!(check(&all_papers(), "make demo, make test").len(), 2);
    }

    #[test]
    fn a_missing_paper_is_found() {
        let found = check(&all_papers()[1..], "```\nmake demo; make test\n```");
        assert_eq!(found, [Finding::new("ARCHITECTURE.md", "is missing")]);
    }
}
