//! The text of an event of the log: one line, whatever names it tells, some of which clients choose.
//!
//! Shape:      an event's message and fields -> their text, control characters and line separators escaped
//! Invariants: no event makes a line of its own choosing, and none speaks to a terminal

use std::fmt::{self, Write};
use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

/// Writes a field of an event; the message is its text alone.
pub(crate) fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut line = Line(writer);
    if field.name() == "message" { write!(line, "{value:?}") } else { write!(line, " {field}={value:?}") }
}

/// Takes text as a part of one line.
struct Line<'w, W>(&'w mut W);

impl<W: Write> Write for Line<'_, W> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        for (text, wanted) in [
            ("tenant 'ä b' was added", "tenant 'ä b' was added"),
            ("x\nERROR y\r\n", "x\\nERROR y\\r\\n"),
            ("\u{1b}[2J\u{85}\u{2028}", "\\u{1b}[2J\\u{85}\\u{2028}"),
            ("", ""),
        ] {
            let mut line = String::new();
            write!(Line(&mut line), "{text}").unwrap();
            assert_eq!(line, wanted);
        }
    }
}
