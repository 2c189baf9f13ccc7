//! What is told of a request: to the log, where it is to be told all, its line; to the list of slow ones its command. Never a value or a
//! password.
//!
//! Cost: one comparison per request where it is not

use super::batch::{Awaiting, Step};
use super::binary::REQUEST_MAGIC;
use super::parse::Command;
use crate::limits::LOGGED_LINE_MAX;
use std::borrow::Cow;

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

/// Commands of the text protocol.
const COMMANDS: [&str; 32] = [
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "delete",
    "incr",
    "decr",
    "touch",
    "mg",
    "ms",
    "md",
    "ma",
    "me",
    "mn",
    "flush_all",
    "version",
    "refresh_certs",
    "verbosity",
    "stats",
    "quit",
    "cache_memlimit",
    "lru_crawler",
    "lru",
    "slabs",
    "watch",
    "shutdown",
];

/// The command that input begins with: its word, or its opcode as `0x00`; empty for what is no command, which may be a part of a value.
pub(crate) fn command_in(input: &[u8]) -> Cow<'static, str> {
    if let [REQUEST_MAGIC, opcode, ..] = input {
        return Cow::Owned(format!("{opcode:#04x}"));
    }
    let spaces = input.iter().take_while(|byte| **byte == b' ').count();
    let word = input[spaces..].split(u8::is_ascii_whitespace).next().unwrap_or_default();
    Cow::Borrowed(COMMANDS.into_iter().find(|known| known.as_bytes() == word).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::log_in::Message;
    use super::super::parse::{Bounds, Parsed, parse};
    use super::super::reply::text;
    use super::*;

    fn of_text(bytes: &[u8]) -> String {
        let bounds = Bounds { body_max: 1001, upload_from: 1001, flush_disabled: false };
        let Parsed::Request(command, _) = parse(bytes, &bounds) else { panic!("{}", bytes.escape_ascii()) };
        said(&Step::Run(command), bytes)
    }

    #[test]
    fn a_command_is_a_known_word_or_an_opcode() {
        for known in COMMANDS {
            assert_eq!(command_in(format!("{known} a\r\n").as_bytes()), known);
            assert_eq!(command_in(format!("{known}\r\n").as_bytes()), known);
            let bounds = Bounds { body_max: 1001, upload_from: 1001, flush_disabled: false };
            let line = format!("{known} 10 0 0\r\n");
            assert!(!matches!(
                parse(line.as_bytes(), &bounds),
                Parsed::Request(Command::Wrong(text::ERROR), _)
            ));
        }
        for (input, command) in
            [(&b"\x80\x0a\0\0"[..], "0x0a"), (b"secret 1\r\n", ""), (b"\r\n", ""), (b"", "")]
        {
            assert_eq!(command_in(input), command, "{input:?}");
        }
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
