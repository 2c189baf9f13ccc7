//! Records that a start lets go of before it serves: their bits in the notes stay until then, so that whoever starts again finds
//! them as they were.
//!
//! Shape:      let go before the tier has begun -> a place that counts as not live -> the bit is cleared when it begins
//! Cost:       some 16 B for each as long as the start takes; the item that led there is not in DRAM

use super::Tier;
use crate::sync::{Mutex, lock};
use std::collections::HashSet;

/// Places of such records.
#[derive(Debug, Default)]
pub(super) struct GivenUp(Mutex<HashSet<u64>>);

impl Tier {
    /// Notes that no item leads to a record any more; from when the tier has begun on, so that it survives.
    pub(super) fn give_up(&self, at: u64) {
        if self.is_begun() {
            self.notes.clear_live(at);
        } else if self.notes.is_live(at) {
            lock(&self.given_up.0).insert(at);
        }
    }

    /// Whether a record is live for a start.
    pub(super) fn has_kept(&self, at: u64) -> bool {
        self.notes.is_live(at) && !lock(&self.given_up.0).contains(&at)
    }

    /// Records that are live for a start.
    pub(super) fn count_kept(&self) -> u64 {
        self.notes.count_live() - lock(&self.given_up.0).len() as u64
    }

    /// Notes all of it, at the end of the start.
    pub(super) fn settle_given_up(&self) {
        let places = std::mem::take(&mut *lock(&self.given_up.0));
        places.into_iter().for_each(|at| self.notes.clear_live(at));
    }
}
