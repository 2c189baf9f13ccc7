//! While tenants and groups change places they count twice, or nowhere: nobody decides by that.
//!
//! Invariants: a decision is made before it begins or after it has ended, never beside it; it ends with its guard, also where what is
//!             done under that panics; who asks for a decision meanwhile is heard behind it

use crate::operator::Operator;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Nobody decides as long as it lives.
pub(super) struct Regrouping<'o>(&'o Operator);

impl Operator {
    /// Lets nobody decide about memory or bandwidth; who does so now ends first.
    pub(super) fn begin_regrouping(&self) -> Regrouping<'_> {
        // Both loops look for it under their locks: who has one of them after this has seen it.
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.is_regrouping.store(true, Ordering::Release);
        drop(memory);
        self.shared.sharing.let_step_end();
        Regrouping(self)
    }
}

impl Drop for Regrouping<'_> {
    fn drop(&mut self) {
        let Self(operator) = self;
        operator.shared.is_regrouping.store(false, Ordering::Release);
        // Who asked for a decision meanwhile is heard now.
        operator.helpers.wake_control();
    }
}
