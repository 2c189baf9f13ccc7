//! A file of users: `user:password` in each line, as memcached's `-Y` has it; the password may be an Argon2 hash.
//!
//! Invariants: no error holds a password; blank lines mean nothing

use super::secret::Secret;
use crate::limits::{USER_NAME_MAX, USERS_MAX};
use std::collections::HashSet;

/// A user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line<'t> {
    /// Counted from one.
    pub(super) number: usize,
    pub(super) user: &'t str,
    pub(super) password: &'t [u8],
}

/// A line that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wrong {
    /// Counted from one.
    pub(super) line: usize,
    pub(super) what: &'static str,
}

/// The users of a file, in its order.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Line<'_>>, Wrong> {
    let mut lines = Vec::new();
    let mut names = HashSet::new();
    for (at, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        let number = at + 1;
        let wrong = |what| Wrong { line: number, what };
        let colon = line.iter().position(|b| *b == b':').ok_or(wrong("no ':' between user and password"))?;
        let (user, password) = (&line[..colon], &line[colon + 1..]);
        let is_name = |user: &&str| {
            (1..=USER_NAME_MAX).contains(&user.len())
                && !user.chars().any(|c| c.is_whitespace() || c.is_control())
        };
        let user = str::from_utf8(user).ok().filter(is_name);
        let user = user.ok_or(wrong("the user's name is not 1 to 64 bytes of text without white space"))?;
        if password.is_empty() {
            return Err(wrong("the password is empty"));
        }
        if !names.insert(user) {
            return Err(wrong("the user was there already"));
        }
        if USERS_MAX < names.len() {
            return Err(wrong("there are more than 65000 users"));
        }
        lines.push(Line { number, user, password });
    }
    Ok(lines)
}

fn users(text: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    Some(parse(text).ok()?.iter().map(|line| (line.user, line.password)).collect())
}

/// What must hold of a file whatever is in it, for fuzzers and tests: it has its lines, or the one that is wrong is named.
pub(crate) fn fuzzed(text: &[u8]) {
    let lines: Vec<_> = text.split(|b| *b == b'\n').collect();
    match parse(text) {
        Ok(users) => {
            for user in users {
                let line = [user.user.as_bytes(), b":", user.password].concat();
                let there = lines[user.number - 1];
                assert_eq!(&line[..], there.strip_suffix(b"\r").unwrap_or(there));
                // A password that is none is refused, and no hash makes its reader fail.
                let _any = Secret::new(user.user, user.password);
            }
        }
        Err(wrong) => {
            // The lines before it are right; with it they are not.
            let before = lines[..wrong.line - 1].join(&b'\n');
            assert!(users(&before).is_some());
            assert!(users(&[&before, b"\n".as_slice(), lines[wrong.line - 1]].concat()).is_none());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damaged::{damaged_texts, streams};
    use proptest::prelude::*;

    #[test]
    fn users_and_passwords_come_back() {
        let lines = parse(b"ann:one\r\n\n  \nbob:two:with:colons \n").unwrap();
        let users: Vec<_> = lines.iter().map(|l| (l.number, l.user, l.password)).collect();
        assert_eq!(users, [(1, "ann", b"one".as_slice()), (4, "bob", b"two:with:colons ")]);
        assert!(parse(b"").unwrap().is_empty());
    }

    #[test]
    fn wrong_lines_are_named_and_their_text_is_not() {
        for (text, line, what) in [
            (b"ann:one\nbob".as_slice(), 2, "no ':'"),
            (b":one", 1, "name"),
            (b"a n:one", 1, "name"),
            (b"\xff:one", 1, "name"),
            (&[&[b'u'; USER_NAME_MAX + 1], b":one".as_slice()].concat(), 1, "name"),
            (b"ann:", 1, "empty"),
            (b"ann:one\n\nann:two", 3, "already"),
        ] {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.line, line);
            assert!(wrong.what.contains(what), "{wrong:?}");
        }
    }

    const WHOLE: &[&[u8]] = &[
        b"ann:one\n",
        b"bob:two:with:colons \r\n",
        b"\n",
        b"cee:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n",
        "d\u{e9}:\u{e9}\n".as_bytes(),
    ];

    proptest! {
        #![proptest_config(streams())]

        #[test]
        fn a_damaged_file_has_its_lines_or_names_the_one_that_is_wrong(text in damaged_texts(WHOLE)) {
            fuzzed(&text);
        }

        #[test]
        fn a_file_cut_between_lines_has_the_same_users(text in damaged_texts(WHOLE), at: prop::sample::Index) {
            let ends: Vec<_> = (1..=text.len()).filter(|end| text[end - 1] == b'\n').collect();
            let cut = if ends.is_empty() { 0 } else { *at.get(&ends) };
            if let Some(all) = users(&text) {
                let parts = [users(&text[..cut]), users(&text[cut..])];
                prop_assert_eq!(parts.into_iter().map(Option::unwrap).collect::<Vec<_>>().concat(), all);
            }
        }
    }
}
