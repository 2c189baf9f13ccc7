//! How the program ends: what went wrong, the likely cure, and one exit code.
//!
//! Shape:   any error -> `Failure` -> `error: …`, where it helps the text with a caret, and `  try: …` on standard error ->
//!          0, 1, 2 or 3
//! Failure: an answer that standard output does not take is remembered and makes the end a failure

use harness::one_line::one_line;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The exit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    /// Success.
    Done = 0,
    /// The answer to what was asked is no.
    No = 1,
    /// A malformed option, configuration or trace.
    WrongUse = 2,
    /// The request was right and could not be carried out.
    Failed = 3,
}

/// What is told to the operator when a command cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// What is wrong and where, one line.
    pub(crate) what: String,
    /// The text that is wrong with a caret below it; may be empty.
    pub(crate) excerpt: Vec<String>,
    /// What would likely help, one line; may be empty.
    pub(crate) cure: String,
    /// What the process exits with.
    pub(crate) code: Code,
}

impl Failure {
    /// The operator asked for something that cannot be meant.
    pub(crate) fn wrong_use(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { what: what.into(), excerpt: Vec::new(), cure: cure.into(), code: Code::WrongUse }
    }

    /// The machine did not do what was rightly asked.
    pub(crate) fn failed(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { what: what.into(), excerpt: Vec::new(), cure: cure.into(), code: Code::Failed }
    }

    /// The same failure, with this cure if it has none.
    pub(crate) fn or_try(self, cure: impl Into<String>) -> Self {
        if self.cure.is_empty() { Self { cure: cure.into(), ..self } } else { self }
    }

    /// The same failure, said to have happened at `place`.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self { what: format!("{place}: {}", self.what), ..self }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(chain: anyhow::Error) -> Self {
        Self::failed(format!("{chain:#}"), "")
    }
}

impl From<server::ConfigError> for Failure {
    fn from(error: server::ConfigError) -> Self {
        Self::wrong_use(error.what, error.cure)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.what.replace('\n', " ")))?;
        for line in &self.excerpt {
            // Tabs of a text stay, so that the caret below it is where it should be.
            let parts: Vec<_> = line.split('\t').map(one_line).collect();
            write!(f, "\n    {}", parts.join("\t"))?;
        }
        if self.cure.is_empty() { Ok(()) } else { write!(f, "\n  try: {}", one_line(&self.cure)) }
    }
}

/// Why standard output did not take an answer, the first time that it did not.
static UNSAID: OnceLock<String> = OnceLock::new();

/// Tells a failure to the operator and says what the process exits with.
pub(crate) fn exit_code(result: Result<Code, Failure>) -> ExitCode {
    note_unsaid(io::stdout().lock().flush());
    let result = result.and_then(|code| UNSAID.get().map_or(Ok(code), |why| Err(unsaid(why))));
    let code = result.unwrap_or_else(|failure| {
        complain(&failure);
        failure.code
    });
    ExitCode::from(code as u8)
}

/// One answer on standard output.
pub(crate) fn say(text: impl fmt::Display) {
    note_unsaid(writeln!(io::stdout().lock(), "{text}"));
}

fn note_unsaid(written: io::Result<()>) {
    match written {
        // A reader that closed its end (`| head`) has what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _first = UNSAID.get_or_init(|| error.to_string());
        }
        _ => {}
    }
}

fn unsaid(why: &str) -> Failure {
    let what = format!("standard output did not take all of the answer: {why}");
    Failure::failed(what, "send it to a file or a pipe that can be written to")
}

/// One line on standard error.
pub(crate) fn complain(text: impl fmt::Display) {
    // Nobody is left to be told that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_chain_is_one_line_with_its_cure_below() {
        let chain =
            Err::<(), _>(std::io::Error::other("disk\nfull")).context("cannot write report").unwrap_err();
        let failure = Failure { cure: "df -h".to_owned(), ..Failure::from(chain) };
        assert_eq!(failure.to_string(), "error: cannot write report: disk full\n  try: df -h");
        assert_eq!(failure.code, Code::Failed);
    }

    #[test]
    fn names_that_clients_choose_do_not_speak_to_the_terminal() {
        let name = "\u{1b}]0;x\u{7}\u{2028}";
        let failure = Failure {
            excerpt: vec![format!("a\t= {name}")],
            ..Failure::wrong_use(format!("there is no tenant '{name}'"), format!("one of: {name}"))
        };
        let shown = r"\u{1b}]0;x\u{7}\u{2028}";
        let wanted = format!("error: there is no tenant '{shown}'\n    a\t= {shown}\n  try: one of: {shown}");
        assert_eq!(failure.to_string(), wanted);
    }

    #[test]
    fn codes_are_those_of_the_manual() {
        let codes = [Code::Done, Code::No, Code::WrongUse, Code::Failed].map(|code| code as u8);
        assert_eq!(codes, [0, 1, 2, 3]);
    }
}
