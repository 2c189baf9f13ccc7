//! How long a thread waits for others before it does without what they would bring.
//!
//! Invariants: no wait lasts for ever, though no other thread ever comes to a quiescent point; what passes between two waits does not
//!             count, and after one that was in vain there is no other
//! Units:      turns, each of which lets others run: a microsecond for the first where nobody else wants the core, a tenth of a millisecond for
//!             those that sleep, milliseconds on a busy machine; hence also seconds of the store's clock

use crate::store::Store;
use crate::sync::pause;

/// Turns that a thread waits: half a second (guess; a turn of an event loop is less).
const TURNS_MAX: u32 = if cfg!(shuttle) { 50 } else { 5_000 };
/// Seconds that begin while it waits.
const SECONDS_MAX: u32 = 2;

/// What is left of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    turn: u32,
    /// When it ends at the latest, once a wait has begun.
    until_secs: Option<u32>,
    is_over: bool,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { turn: 0, until_secs: None, is_over: false }
    }

    /// Another wait begins, with the turns that are left, unless one was in vain.
    pub(crate) fn begin(&mut self) {
        self.until_secs = None;
    }

    /// Whether it is at its end.
    pub(crate) fn is_over(&mut self, store: &Store) -> bool {
        let is_late = |until: u32| until <= store.now_secs();
        self.is_over |= TURNS_MAX < self.turn || self.until_secs.is_some_and(is_late);
        self.is_over
    }

    /// Lets others run.
    pub(crate) fn wait(&mut self, store: &Store) {
        self.until_secs.get_or_insert_with(|| store.now_secs().saturating_add(SECONDS_MAX));
        pause(&mut self.turn);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Options;
    use units::Bytes;

    #[test]
    fn it_ends_by_turns_or_by_time() {
        let options = Options {
            memory: Bytes::mib(8),
            item_max: Bytes::mib(1),
            threads: 1,
            tenants_max: 4,
            no_evict: false,
            seed: 1,
        };
        let store = Store::new(options).unwrap();
        let mut by_time = Patience::new();
        store.set_now(store.now_secs() + 10);
        by_time.wait(&store);
        assert!(!by_time.is_over(&store));
        store.set_now(store.now_secs() + 1);
        assert!(!by_time.is_over(&store), "a second may have been about to begin");
        store.set_now(store.now_secs() + 1);
        let mut before = by_time;
        assert!(by_time.is_over(&store), "after one turn");
        by_time.begin();
        assert!(by_time.is_over(&store), "no other wait");
        before.begin();
        assert!(!before.is_over(&store), "what passed behind a wait that was not in vain does not count");
        let mut by_turns = Patience { turn: TURNS_MAX, ..Patience::new() };
        assert!(!by_turns.is_over(&store));
        assert!(Patience { turn: TURNS_MAX + 1, ..by_turns }.is_over(&store));
    }
}
