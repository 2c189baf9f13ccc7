//! What a request asks for: the operation, whatever the protocol, and the class that it is of.
//!
//! Shape: the text protocol's words name operations; `gets` and `mg` are `get`, `gats` is `gat`, `ms` is what its mode says, `ma`
//!        is `incr` or `decr`, `md` is `delete`, `me` is `debug`; so are the opcodes of the binary protocol

use store::Mode;

/// What kind of thing a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandClass {
    /// Looks items up.
    Read,
    /// Stores an item.
    Write,
    /// Deletes an item.
    Delete,
    /// Counts or touches an item that is there.
    Change,
    /// Everything without a key.
    Other,
}

impl CommandClass {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Delete, Self::Change, Self::Other];

    /// One word for people and labels.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Change => "change",
            Self::Other => "other",
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Looks items up.
    Get,
    /// Shows what is known of an item.
    Debug,
    /// Stores an item.
    Set,
    /// Stores an item if there is none.
    Add,
    /// Stores an item if there is one.
    Replace,
    /// Writes behind a value.
    Append,
    /// Writes before a value.
    Prepend,
    /// Stores an item if it is the one that was seen.
    Cas,
    /// Deletes an item.
    Delete,
    /// Counts up.
    Incr,
    /// Counts down.
    Decr,
    /// Gives an item another time to live.
    Touch,
    /// Looks items up and gives them another time to live.
    Gat,
    /// Everything without a key.
    Other,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Get,
        Self::Debug,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Cas,
        Self::Delete,
        Self::Incr,
        Self::Decr,
        Self::Touch,
        Self::Gat,
        Self::Other,
    ];

    /// One word for people and labels.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Debug => "debug",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Cas => "cas",
            Self::Delete => "delete",
            Self::Incr => "incr",
            Self::Decr => "decr",
            Self::Touch => "touch",
            Self::Gat => "gat",
            Self::Other => "other",
        }
    }

    /// What kind of thing it is.
    #[inline]
    #[must_use]
    pub fn class(self) -> CommandClass {
        match self {
            Self::Get | Self::Debug => CommandClass::Read,
            Self::Set | Self::Add | Self::Replace | Self::Append | Self::Prepend | Self::Cas => {
                CommandClass::Write
            }
            Self::Delete => CommandClass::Delete,
            Self::Incr | Self::Decr | Self::Touch | Self::Gat => CommandClass::Change,
            Self::Other => CommandClass::Other,
        }
    }
}

impl From<Mode> for Operation {
    #[inline]
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Set => Self::Set,
            Mode::Add => Self::Add,
            Mode::Replace => Self::Replace,
            Mode::Append => Self::Append,
            Mode::Prepend => Self::Prepend,
            Mode::Cas(_) => Self::Cas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_words_are_different() {
        for (place, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, place);
        }
        for (place, class) in CommandClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place);
        }
        let words: std::collections::BTreeSet<_> = Operation::ALL.map(Operation::word).into();
        assert_eq!(words.len(), Operation::ALL.len());
    }
}
