//! The text of an event of the log: one line, whatever names it tells, some of which clients choose.
//!
//! Shape:      an event's message and fields -> their text, control characters and line separators escaped
//! Invariants: no event makes a line of its own choosing, and none speaks to a terminal

use harness::one_line::OneLine;
use std::fmt::{self, Write as _};
use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

/// Writes a field of an event; the message is its text alone.
pub(crate) fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut line = OneLine(writer);
    if field.name() == "message" { write!(line, "{value:?}") } else { write!(line, " {field}={value:?}") }
}
