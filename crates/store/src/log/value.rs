//! What is known of one value in pages of its own: how far it has come, and which of its pages cost memory.
//!
//! Shape:      `lend` says up to where it has memory; kept pages behind that are its already and count once
//! Invariants: the kept pages lie among its own, behind what it was lent
//! Units:      bytes, and pages of `VALUE_PAGE`

use super::values::pages_of;
use crate::hash::KeyHash;
use crate::limits::VALUE_PAGE;

#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Which of all that ever began.
    pub(super) number: u64,
    pub(super) len: u32,
    /// Bytes of its pages that it was lent.
    pub(super) lent: u64,
    /// Pages behind those that cost memory already: the first, and how many.
    pub(super) warm: Vec<(u32, u32)>,
    /// Times that it is being sent.
    pub(super) pins: u32,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Its writer fills it.
    Uploading,
    /// The item of this key leads to it.
    Linked(KeyHash),
    /// No item does, but readers may still look.
    Retired,
    /// Nobody looks but who pinned it.
    Pinned,
}

pub(super) fn bytes_of(extents: &[(u32, u32)]) -> u64 {
    extents.iter().map(|(_, pages)| u64::from(*pages)).sum::<u64>() * VALUE_PAGE.0
}

impl Value {
    /// Pages that it has addresses for.
    pub(super) fn pages(&self) -> u32 {
        pages_of(self.len).max(1)
    }

    /// Bytes of its pages that cost memory.
    pub(super) fn bytes(&self) -> u64 {
        self.lent + bytes_of(&self.warm)
    }

    /// Of pages before this one, bytes of those that cost memory before it was lent them.
    pub(super) fn warm_before(&self, end: u32) -> u64 {
        let before =
            |(first, pages): &(u32, u32)| u64::from((*first + *pages).min(end).saturating_sub(*first));
        self.warm.iter().map(before).sum::<u64>() * VALUE_PAGE.0
    }

    /// It is lent all up to this page.
    pub(super) fn lend(&mut self, end: u32, more: u64) {
        self.lent += more;
        let rest =
            |(first, pages): (u32, u32)| (first.max(end), (first + pages).saturating_sub(first.max(end)));
        self.warm =
            std::mem::take(&mut self.warm).into_iter().map(rest).filter(|(_, pages)| 0 < *pages).collect();
    }
}
