//! Why a text is no rank: what is wrong, where, and the likely cure.

/// Why a text is no rank.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct RankError {
    /// What is wrong, one line.
    pub what: String,
    /// What would likely help, one line. Empty where `unknown` is a word.
    pub cure: String,
    /// The text that is no rank, as far as it was read.
    pub text: String,
    /// Where in it, in characters from its beginning.
    pub column: usize,
    /// So many characters are wrong; none at the end of the text.
    pub width: usize,
    /// A word that means nothing, to be compared with `RankKind::words`.
    pub unknown: Option<String>,
}

impl RankError {
    /// The text, and below it a caret under what is wrong.
    #[must_use]
    pub fn excerpt(&self) -> [String; 2] {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let carets = "^".repeat(self.width.max(1));
        [self.text.chars().map(plain).collect(), format!("{}{carets}", " ".repeat(self.column))]
    }
}
