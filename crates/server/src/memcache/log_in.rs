//! Text authentication: the first `set` of a connection carries `user password`.
//!
//! Shape:      a buffer -> one message -> its answer, and who the connection is from then on
//! Invariants: nothing of a stranger's is stored, read or kept; nothing here panics on input
//! Source:     memcached 1.6.45's `-Y`; `version` is answered to strangers too, as in the binary protocol

use super::batch::{Hashed, Next, Prepared, Step, gather};
use super::reply::{Replies, text};
use super::session::Session;
use super::turn::{Ended, Turn, WaitsFor};
use crate::auth::{Grant, Identity, Said};
use crate::connection::Parting;
use crate::limits::{AUTH_LINE_MAX, AUTH_MESSAGE_MAX};
use memchr::memchr;
use std::sync::atomic::Ordering;

/// What a stranger says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message<'b> {
    /// Asks for the version.
    Version,
    /// Shows a password.
    Show {
        /// Who it is.
        user: &'b [u8],
        /// The password.
        password: &'b [u8],
    },
    /// Anything else, with its answer.
    Wrong(&'static [u8]),
}

/// What the buffer begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parsed<'b> {
    /// A message, and the bytes of the stream that it takes.
    Message(Message<'b>, u64),
    /// More bytes are needed: so many in all, as far as is known.
    Incomplete(usize),
    /// This is no client.
    Hopeless,
}

/// Reads one message off the front of `input`.
pub(super) fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(end) = memchr(b'\n', &input[..input.len().min(AUTH_LINE_MAX)]) else {
        return if AUTH_LINE_MAX <= input.len() {
            Parsed::Hopeless
        } else {
            Parsed::Incomplete(input.len() + 1)
        };
    };
    let taken = end + 1;
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let wrong = |reply| Parsed::Message(Message::Wrong(reply), taken as u64);
    if line == b"version" {
        return Parsed::Message(Message::Version, taken as u64);
    }
    let mut words = line.split(|b| *b == b' ').filter(|word| !word.is_empty());
    let (Some(b"set"), Some(len)) = (words.next(), words.nth(3)) else { return wrong(text::UNAUTHENTICATED) };
    let len = str::from_utf8(len).ok().and_then(|len| len.parse::<u32>().ok());
    let Some(len) = len else { return wrong(text::UNAUTHENTICATED) };
    let all = taken as u64 + u64::from(len) + 2;
    let len = len as usize;
    if AUTH_MESSAGE_MAX < len {
        return Parsed::Message(Message::Wrong(text::BAD_AUTH_TOKEN), all);
    }
    let Some(block) = input[taken..].get(..len + 2) else { return Parsed::Incomplete(taken + len + 2) };
    let (shown, rest) = block.split_at(len);
    if rest != b"\r\n" {
        return Parsed::Message(Message::Wrong(text::BAD_TERMINATION), all);
    }
    // A password may have spaces.
    let message = match memchr(b' ', shown).map(|at| (&shown[..at], &shown[at + 1..])) {
        Some((user, password)) => Message::Show { user, password },
        None => Message::Wrong(text::BAD_AUTH_TOKEN),
    };
    Parsed::Message(message, all)
}

/// Gathers what a stranger says. A password ends the batch.
pub(super) fn prepare<'b>(
    session: &Session<'_>,
    input: &'b [u8],
    turn: &mut Turn,
    batch: &mut Vec<Prepared<'b>>,
    hashed: &mut Hashed<'b>,
) {
    gather(session.requests_max, input, turn, batch, hashed, |rest, turn, _| match parse(rest) {
        Parsed::Message(message, takes) => {
            turn.take(takes, input.len());
            let step = Step::LogIn(message);
            if matches!(message, Message::Show { .. }) { Next::Last(step) } else { Next::Step(step) }
        }
        Parsed::Incomplete(needed) => Next::Incomplete(needed),
        Parsed::Hopeless => Next::Hopeless,
    });
}

/// Answers a stranger.
pub(super) fn execute(
    session: &Session<'_>,
    message: Message<'_>,
    replies: &mut Replies<'_>,
    identity: &mut Option<Identity>,
) -> Result<(), Ended> {
    match message {
        Message::Version => {
            replies.put(b"VERSION ");
            replies.put(session.shared.config.version.as_bytes());
            replies.put(b"\r\n");
        }
        Message::Wrong(reply) => replies.put(reply),
        Message::Show { user, password } => {
            let grant = check(session, user, password)?;
            replies.put(if grant.is_some() { text::STORED } else { text::AUTH_FAILURE });
            let after = session.identity.after(grant);
            *identity = Some(after);
            if after.is_worn_out() {
                return Err(Ended::Quit(Parting::Error));
            }
        }
    }
    Ok(())
}

/// What a user with this password is granted; counts the attempt. Ends the turn before it if that cannot be said yet.
pub(super) fn check(session: &Session<'_>, user: &[u8], password: &[u8]) -> Result<Option<Grant>, Ended> {
    let Some(auth) = &session.shared.auth else { return Ok(None) };
    let grant = match session.verdict.take() {
        Some(grant) => grant,
        None => match auth.attempt(user, password, session.address, session.now) {
            Said::Grant(grant) => grant,
            Said::Dear => return Err(Ended::Verifies),
            Said::NotBefore(at) => return Err(Ended::Waits(at, WaitsFor::LogIn)),
        },
    };
    let counters = &session.shared.counters;
    counters.auth_cmds.fetch_add(1, Ordering::Relaxed);
    if grant.is_none() {
        counters.auth_errors.fetch_add(1, Ordering::Relaxed);
    }
    Ok(grant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damaged::{damaged_texts, streams};
    use crate::memcache::fuzzed;
    use proptest::prelude::*;

    #[test]
    fn messages_have_their_answers() {
        let show = |user: &'static [u8], password: &'static [u8]| Message::Show { user, password };
        for (input, message, takes) in [
            (b"version\r\n".as_slice(), Message::Version, 9),
            (b"get a\r\n", Message::Wrong(text::UNAUTHENTICATED), 7),
            (b"\r\n", Message::Wrong(text::UNAUTHENTICATED), 2),
            (b"set a 0 0\r\n", Message::Wrong(text::UNAUTHENTICATED), 11),
            (b"SET a 0 0 3\r\n", Message::Wrong(text::UNAUTHENTICATED), 13),
            (b"set a 0 0 x\r\n", Message::Wrong(text::UNAUTHENTICATED), 13),
            (b"set a 0 0 3\r\na b\r\n", show(b"a", b"b"), 18),
            (b"set a x y 7 noreply\r\na  b c \r\nget", show(b"a", b" b c "), 30),
            (b"set a 0 0 4\r\n a b\r\n", show(b"", b"a b"), 19),
            (b"set a 0 0 2\r\na \r\n", show(b"a", b""), 17),
            (b"set a 0 0 3\r\nabc\r\n", Message::Wrong(text::BAD_AUTH_TOKEN), 18),
            (b"set a 0 0 3\r\na bcd", Message::Wrong(text::BAD_TERMINATION), 18),
            (b"set a 0 0 2000\r\n", Message::Wrong(text::BAD_AUTH_TOKEN), 2018),
        ] {
            assert_eq!(parse(input), Parsed::Message(message, takes), "{}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn endless_lines_are_hopeless() {
        assert_eq!(parse(&[b'x'; AUTH_LINE_MAX]), Parsed::Hopeless);
    }

    const WHOLE: &[&[u8]] = &[
        b"version\r\n",
        b"set auth 0 0 11\r\nuser secret\r\n",
        b"set a x y 7 noreply\r\n a  b c\r\n",
        b"set a 0 0 1024\r\n",
        b"get a\r\n",
    ];

    proptest! {
        #![proptest_config(streams())]

        #[test]
        fn damaged_messages_mean_the_same_at_every_cut(stream in damaged_texts(WHOLE)) {
            fuzzed::log_in(&stream);
        }
    }
}
