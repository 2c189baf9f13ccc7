//! Text as a part of one line, whatever is in it: names of tenants are what clients choose.
//!
//! Shape:      control characters and separators of lines are escaped, everything else is as it was
//! Invariants: nothing that passes begins a line, and nothing speaks to a terminal

use std::fmt::{self, Write};

/// Takes text as a part of one line.
#[derive(Debug)]
pub struct OneLine<W>(pub W);

impl<W: Write> Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        for part in text.split_inclusive(breaks) {
            match part.char_indices().next_back().filter(|(_, last)| breaks(*last)) {
                Some((at, last)) => write!(self.0, "{}{}", &part[..at], last.escape_default())?,
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// A text as a part of one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = OneLine(String::with_capacity(text.len()));
    // A string takes every write.
    let _ = line.write_str(text);
    line.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_whatever_is_in_it() {
        for (text, wanted) in [
            ("tenant 'ä b' was added", "tenant 'ä b' was added"),
            ("x\nERROR y\r\n", "x\\nERROR y\\r\\n"),
            ("\u{1b}[2J\u{85}\u{2028}", "\\u{1b}[2J\\u{85}\\u{2028}"),
            ("", ""),
        ] {
            assert_eq!(one_line(text), wanted);
        }
    }
}
