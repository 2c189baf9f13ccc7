//! What the log is told of each request where it is to be told all: its line, never a value or a password.
//!
//! Cost: one comparison per request where it is not

use super::batch::{Awaiting, Step};
use super::parse::Command;
use crate::limits::LOGGED_LINE_MAX;

/// Whether the log is to be told.
#[inline]
pub(super) fn is_wanted() -> bool {
    tracing::enabled!(tracing::Level::TRACE)
}

/// Tells the log of a request; `bytes` are all of it that was taken off the input.
#[cold]
pub(super) fn say(connection: usize, step: &Step<'_>, bytes: &[u8]) {
    tracing::trace!("connection {connection}: {}", said(step, bytes));
}

fn said(step: &Step<'_>, bytes: &[u8]) -> String {
    match step {
        Step::LogIn(_) => "says who it is".to_owned(),
        // It may be a part of a value whose length was wrong.
        Step::Run(Command::Wrong(_) | Command::Silent) => "sends what is no request".to_owned(),
        Step::Binary(request)
        | Step::Await(Awaiting::Binary(request), _)
        | Step::Lose(Awaiting::Binary(request)) => {
            let key = request.key().unwrap_or_default();
            format!("opcode {:#04x} {}", request.head.opcode, key.escape_ascii())
        }
        Step::Run(_) | Step::Refuse { .. } | Step::Await(..) | Step::Lose(_) => {
            let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let shown = line[..line.len().min(LOGGED_LINE_MAX)].escape_ascii();
            format!("{shown}{}", if LOGGED_LINE_MAX < line.len() { " …" } else { "" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_in::Message;
    use super::super::parse::{Bounds, Parsed, parse};
    use super::*;

    fn of_text(bytes: &[u8]) -> String {
        let bounds = Bounds { body_max: 1001, upload_from: 1001, flush_disabled: false };
        let Parsed::Request(command, _) = parse(bytes, &bounds) else { panic!("{}", bytes.escape_ascii()) };
        said(&Step::Run(command), bytes)
    }

    #[test]
    fn a_request_is_its_line_without_value_or_password() {
        assert_eq!(of_text(b"set a 0 0 6\r\nsecret\r\n"), "set a 0 0 6");
        assert_eq!(of_text(b"get a\xff b\n"), "get a\\xff b");
        assert_eq!(of_text(b"secret of a value\r\n"), "sends what is no request");
        let long = [b"get ".as_slice(), &b"key ".repeat(100), b"\r\n"].concat();
        let line = of_text(&long);
        assert!(line.ends_with(" …") && line.len() < LOGGED_LINE_MAX + 8, "{line}");
        let shows = Step::LogIn(Message::Show { user: b"ann", password: b"secret" });
        assert_eq!(said(&shows, b"set k 0 0 10\r\nann secret\r\n"), "says who it is");
    }
}
