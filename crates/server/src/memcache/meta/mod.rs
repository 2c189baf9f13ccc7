//! The meta protocol's grammar: `mg ms md ma me mn` and their flags.
//!
//! Shape:      a line -> verb, key and flags; replies are written by walking the flags again, in the order given
//! Invariants: nothing here panics on input; a request's parts borrow from the buffer
//! Source:     memcached 1.6.45: every flag is taken by every verb, and has no effect where it has no meaning

mod base64;
mod execute;

pub(super) use base64::decode;
pub(crate) use base64::encode_into;
pub(super) use execute::{execute, lose};

use super::numbers::{number, time, unsigned};
use super::parse::{Bounds, Command, Effect, Named, Parsed, Words, is_key};
use super::reply::text;
use crate::limits::{KEY_MAX, META_OPAQUE_MAX, META_WORDS_MAX};
use crate::observe::Operation;
use store::Mode;

/// Which command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    /// `mg`
    Get,
    /// `ms`
    Set,
    /// `md`
    Delete,
    /// `ma`
    Arithmetic,
    /// `me`
    Debug,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request<'b> {
    pub(super) verb: Verb,
    /// As given: perhaps in base64.
    pub(super) key: &'b [u8],
    /// The words behind key and length.
    pub(super) words: &'b [u8],
    pub(super) flags: Flags,
    pub(super) value: &'b [u8],
}

/// What the flags say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags {
    /// One bit per letter.
    seen: u64,
    /// `C`
    pub(super) compare: u64,
    /// `E`
    pub(super) cas: u64,
    /// `J`
    pub(super) initial: u64,
    /// `D`
    pub(super) delta: u64,
    /// `T`
    pub(super) ttl: i32,
    /// `N`
    pub(super) vivify: i32,
    /// `R`
    pub(super) recache: i32,
    /// `F`
    pub(super) client_flags: u32,
    /// `M`, 0 without it.
    pub(super) mode: u8,
    /// `T` stands before `R`.
    pub(super) ttl_before_recache: bool,
    /// `T` stands behind `N`.
    pub(super) ttl_after_vivify: bool,
    /// An opaque is too long: that is the answer. What reads or counts has acted by then, with the flags before it.
    pub(super) opaque_too_long: bool,
    /// `T` stands behind that opaque, and sets no time.
    ttl_is_lost: bool,
}

/// What stands behind a flag's letter.
#[derive(Clone, Copy)]
enum Token {
    /// Nothing that is looked at.
    Free,
    /// The key is in base64.
    Base64,
    /// Seconds, or a date.
    Time(fn(&mut Flags) -> &mut i32),
    /// A number below 2^64, and what is said of others.
    Number(fn(&mut Flags) -> &mut u64, &'static [u8]),
    /// The client's flags.
    ClientFlags,
    /// A letter.
    Mode,
    /// Copied to the reply.
    Opaque,
}

/// Every flag of 1.6.45.
const FLAGS: &[(u8, Token)] = &[
    (b'b', Token::Base64),
    (b'c', Token::Free),
    (b'f', Token::Free),
    (b'h', Token::Free),
    (b'k', Token::Free),
    (b'l', Token::Free),
    (b'q', Token::Free),
    (b's', Token::Free),
    (b't', Token::Free),
    (b'u', Token::Free),
    (b'v', Token::Free),
    (b'x', Token::Free),
    (b'C', Token::Number(|f| &mut f.compare, text::BAD_TOKEN)),
    (b'D', Token::Number(|f| &mut f.delta, text::BAD_DELTA_VALUE)),
    (b'E', Token::Number(|f| &mut f.cas, text::BAD_TOKEN)),
    (b'F', Token::ClientFlags),
    (b'I', Token::Free),
    (b'J', Token::Number(|f| &mut f.initial, text::BAD_INITIAL)),
    (b'L', Token::Free),
    (b'M', Token::Mode),
    (b'N', Token::Time(|f| &mut f.vivify)),
    (b'O', Token::Opaque),
    (b'P', Token::Free),
    (b'R', Token::Time(|f| &mut f.recache)),
    (b'T', Token::Time(|f| &mut f.ttl)),
];

/// The bit of a letter.
fn bit(letter: u8) -> u64 {
    match letter {
        b'a'..=b'z' => 1 << (letter - b'a'),
        b'A'..=b'Z' => 1 << (letter - b'A' + 26),
        _ => 0,
    }
}

impl Flags {
    /// Whether a flag was given.
    #[inline]
    pub(super) fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }

    /// How `ms` stores.
    pub(super) fn store_mode(&self) -> Mode {
        match self.mode {
            b'E' => Mode::Add,
            b'A' => Mode::Append,
            b'P' => Mode::Prepend,
            _ if self.has(b'C') => Mode::Cas(self.compare),
            b'R' => Mode::Replace,
            _ => Mode::Set,
        }
    }

    /// Whether `ma` counts up.
    pub(super) fn counts_up(&self) -> bool {
        !matches!(self.mode, b'D' | b'-')
    }

    /// The time of `T`, where it sets one.
    pub(super) fn touch(&self) -> Option<i32> {
        self.given(b'T', self.ttl).filter(|_| !self.ttl_is_lost)
    }

    /// Whether an `mg` leaves the item as if nobody had read it: where its opaque is too long, so do those that memcached
    /// holds the item for.
    pub(super) fn is_no_use(&self) -> bool {
        let is_held = || b"hlNRT".iter().any(|flag| self.has(*flag));
        self.has(b'u') || self.opaque_too_long && is_held()
    }

    /// What a flag with a token says; none without the flag.
    pub(super) fn given<T>(&self, letter: u8, value: T) -> Option<T> {
        self.has(letter).then_some(value)
    }
}

impl<'b> Request<'b> {
    /// What it asks for.
    #[inline]
    pub(super) fn operation(&self) -> Operation {
        match self.verb {
            Verb::Get => Operation::Get,
            Verb::Debug => Operation::Debug,
            Verb::Set => self.flags.store_mode().into(),
            Verb::Delete => Operation::Delete,
            Verb::Arithmetic if self.flags.counts_up() => Operation::Incr,
            Verb::Arithmetic => Operation::Decr,
        }
    }

    /// The key as given.
    pub(super) fn key(&self) -> &'b [u8] {
        self.key
    }

    /// The key, and how it is given.
    pub(super) fn named(&self) -> Named<'b> {
        if self.is_base64() { Named::Base64(self.key) } else { Named::Plain(self.key) }
    }

    /// The words, each with its letter.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (u8, &[u8])> {
        Words::of(self.words).map(|word| (word[0], word))
    }

    /// Whether it may change an item: a read does where it touches, makes, or asks to store again.
    pub(super) fn writes(&self) -> bool {
        match self.verb {
            Verb::Set | Verb::Delete | Verb::Arithmetic => true,
            Verb::Get => [b'T', b'N', b'R'].into_iter().any(|flag| self.flags.has(flag)),
            Verb::Debug => false,
        }
    }

    /// Whether the key is in base64.
    pub(super) fn is_base64(&self) -> bool {
        self.flags.has(b'b')
    }
}

/// Reads the flags of a request whose key is `key`. Says what is wrong with the last that is wrong; `F` speaks up only
/// if nobody has before it.
fn flags(words: &[u8], key: &[u8]) -> Result<Flags, &'static [u8]> {
    let mut flags = Flags { delta: 1, ..Flags::default() };
    let mut wrong = None;
    for word in Words::of(words) {
        let (letter, rest) = (word[0], &word[1..]);
        if letter >= 127 || flags.has(letter) {
            return Err(text::DUPLICATE_FLAG);
        }
        let Some((_, token)) = FLAGS.iter().find(|(known, _)| *known == letter) else {
            return Err(text::INVALID_FLAG);
        };
        flags.seen |= bit(letter);
        wrong = match (flags.take(*token, rest, key), wrong) {
            (Err(_), Some(before)) if letter == b'F' => Some(before),
            (Err(now), _) => Some(now),
            (Ok(()), before) => before,
        };
        match letter {
            b'T' => (flags.ttl_after_vivify, flags.ttl_is_lost) = (flags.has(b'N'), flags.opaque_too_long),
            // What is made never expires, unless `T` says so.
            b'N' if flags.opaque_too_long => (flags.vivify, flags.ttl_after_vivify) = (0, true),
            b'R' => flags.ttl_before_recache = flags.has(b'T'),
            _ => {}
        }
    }
    wrong.map_or(Ok(flags), Err)
}

impl Flags {
    fn take(&mut self, token: Token, rest: &[u8], key: &[u8]) -> Result<(), &'static [u8]> {
        match token {
            Token::Free => {}
            Token::Base64 => {
                decode(key, &mut [0; KEY_MAX]).ok_or(text::BAD_KEY)?;
            }
            Token::Time(field) => {
                let time = time(rest);
                *field(self) = time.ok_or(text::BAD_TOKEN)?;
            }
            Token::Number(field, wrong) => *field(self) = unsigned(rest).ok_or(wrong)?,
            Token::ClientFlags => {
                let flags = unsigned(rest).and_then(|n| u32::try_from(n).ok());
                self.client_flags = flags.ok_or(text::BAD_FORMAT)?;
            }
            // Without a letter it is the space behind it, which is no mode.
            Token::Mode => self.mode = rest.first().copied().unwrap_or(b' '),
            Token::Opaque => self.opaque_too_long = META_OPAQUE_MAX <= rest.len(),
        }
        Ok(())
    }
}

/// Checks what must hold of the mode.
fn check_mode(verb: Verb, flags: &Flags) -> Result<(), &'static [u8]> {
    match (verb, flags.mode) {
        (Verb::Set, 0 | b'E' | b'A' | b'P' | b'R' | b'S')
        | (Verb::Arithmetic, 0 | b'I' | b'+' | b'D' | b'-')
        | (Verb::Get | Verb::Delete | Verb::Debug, _) => Ok(()),
        (Verb::Set, _) => Err(text::BAD_SET_MODE),
        (Verb::Arithmetic, _) => Err(text::BAD_COUNT_MODE),
    }
}

/// The flags of a request, if all of it is right.
fn checked(verb: Verb, key: &[u8], words: &[u8], before: usize) -> Result<Flags, &'static [u8]> {
    if !is_key(key) {
        return Err(text::BAD_FORMAT);
    }
    if META_WORDS_MAX < before + Words::of(words).count() {
        return Err(text::TOO_MANY_FLAGS);
    }
    let told = |wrong| if verb == Verb::Arithmetic { text::WRONG_FLAG } else { wrong };
    let flags = flags(words, key).map_err(told)?;
    check_mode(verb, &flags)?;
    match verb {
        Verb::Set | Verb::Delete if flags.opaque_too_long => Err(text::OPAQUE_TOO_LONG),
        _ => Ok(flags),
    }
}

/// A request without a data block; `rest` stands behind the verb.
pub(super) fn request(verb: Verb, rest: &[u8]) -> Command<'_> {
    let mut words = Words::of(rest);
    let Some(key) = words.next() else { return Command::Wrong(text::BAD_FORMAT) };
    let words = words.rest();
    if verb == Verb::Debug {
        return debug(key, words);
    }
    match checked(verb, key, words, 2) {
        Ok(flags) => Command::Meta(Request { verb, key, words, flags, value: &[] }),
        Err(wrong) => Command::Wrong(wrong),
    }
}

/// `me`, which looks at no word but a `b` right behind the key.
fn debug<'b>(key: &'b [u8], words: &'b [u8]) -> Command<'b> {
    let is_base64 = Words::of(words).next() == Some(b"b");
    if !is_key(key) {
        return Command::Wrong(text::BAD_FORMAT);
    }
    if is_base64 && decode(key, &mut [0; KEY_MAX]).is_none() {
        return Command::Wrong(text::BAD_FORMAT);
    }
    let flags = Flags { seen: if is_base64 { bit(b'b') } else { 0 }, ..Flags::default() };
    Command::Meta(Request { verb: Verb::Debug, key, words, flags, value: &[] })
}

/// `ms`, with its data block behind the `taken` bytes of the line.
pub(super) fn set<'b>(input: &'b [u8], taken: usize, rest: &'b [u8], bounds: &Bounds) -> Parsed<'b> {
    let verb = Verb::Set;
    let mut words = Words::of(rest);
    let (Some(key), Some(len)) = (words.next(), words.next()) else {
        return Parsed::Request(Command::Wrong(text::BAD_FORMAT), taken);
    };
    let len = number(len).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= (i32::MAX - 2) as usize);
    let Some(len) = len else { return Parsed::Request(Command::Wrong(text::BAD_FORMAT), taken) };
    let words = words.rest();
    let refuse =
        |reply, effect| Parsed::Refused { reply: Some(reply), effect, skip: (taken + len + 2) as u64 };
    let flags = match checked(verb, key, words, 3) {
        Ok(flags) => flags,
        Err(wrong) => return refuse(wrong, Effect::None),
    };
    let request = Request { verb, key, words, flags, value: &[] };
    if bounds.body_max < key.len() + len {
        let (key, mode) = (request.named(), flags.store_mode());
        return refuse(text::TOO_LARGE, Effect::TooLarge { key, mode, takes_older: true });
    }
    if bounds.upload_from < key.len() + len {
        return Parsed::Upload { command: Command::Meta(request), taken, len };
    }
    let block = &input[taken..];
    if block.len() < len + 2 {
        return Parsed::Incomplete(taken + len + 2);
    }
    let (value, end) = block.split_at(len);
    if !end.starts_with(b"\r\n") {
        return refuse(text::BAD_CHUNK, Effect::BadChunk(request.named()));
    }
    Parsed::Request(Command::Meta(Request { value, ..request }), taken + len + 2)
}

#[cfg(test)]
mod tests;
