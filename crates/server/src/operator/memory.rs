//! Who divides the memory, and what it is told: another policy, or other numbers, from the next decision on.
//!
//! Invariants: another policy begins with the shares in force; one that is told something else goes on with what it has learnt; items
//!             stay where they are; a replay of the journal finds who decided when, told what

use super::{Operator, Refusal, RefusalKind};
use crate::config::MemoryPolicy;
use crate::groups::Division;
use crate::sharing::GroupClaims;
use crate::terms::Terms;
use std::sync::PoisonError;
use units::{Bytes, Duration};

/// What can be changed of who divides the memory; none leaves it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MemorySettings {
    /// The policy.
    pub policy: Option<MemoryPolicy>,
    /// Bytes that a shadow hit moves.
    pub credit: Option<Bytes>,
    /// The part of idle memory that is taken, 0 to 1.
    pub tax: Option<f64>,
    /// What was not touched for so long is idle.
    pub idle_time: Option<Duration>,
    /// How long `auto` learns.
    pub learning: Option<Duration>,
    /// The part of its first share that a tenant without a reservation has for itself, 0 to 1.
    pub private: Option<f64>,
}

impl Operator {
    /// The policy in charge.
    #[must_use]
    pub fn policy(&self) -> MemoryPolicy {
        self.shared.in_charge.now().kind
    }

    /// What it is told.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.shared.in_charge.now().terms
    }

    /// Lets another policy divide the memory from the next decision on. Returns whether that is a change.
    pub fn set_policy(&self, kind: MemoryPolicy) -> bool {
        let settings = MemorySettings { policy: Some(kind), ..MemorySettings::default() };
        self.divide(&settings).is_ok_and(|changed| changed)
    }

    /// Lets another policy divide the memory, or tells it something else. Returns whether that is a change.
    ///
    /// # Errors
    /// If a number makes no sense.
    pub fn divide(&self, settings: &MemorySettings) -> Result<bool, Refusal> {
        let _one_at_a_time = self.change();
        let before = self.shared.in_charge.now();
        let told = before.terms;
        let terms = Terms {
            credit: settings.credit.unwrap_or(told.credit),
            tax: settings.tax.unwrap_or(told.tax),
            idle_time: settings.idle_time.unwrap_or(told.idle_time),
            learning: settings.learning.unwrap_or(told.learning),
            private: settings.private.unwrap_or(told.private),
        };
        terms.check().map_err(|e| Refusal::new(RefusalKind::Malformed, e.what, e.cure))?;
        let after = before.under(settings.policy.unwrap_or(before.kind), terms);
        if after == *before {
            return Ok(false);
        }
        if after.is_but_told_otherwise(&before) {
            self.retell(after);
        } else {
            tracing::info!("the memory is divided by {} from now on", after.kind.name());
            self.switch(after);
        }
        Ok(true)
    }

    /// Lets another division decide from the next decision on.
    pub(super) fn switch(&self, division: Division) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.switch(division.configured(&self.shared.config));
        let claims = GroupClaims::of(&division, &self.shared.store);
        self.shared.in_charge.switch(memory.journal().recorded_total(), division, true);
        drop(memory);
        self.shared.sharing.set_groups(claims);
        self.decide_soon();
    }

    /// Tells the policies that decide something else.
    fn retell(&self, division: Division) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let options = division.options(&self.shared.config);
        memory.retell(|policy| policy.retell(options));
        self.shared.in_charge.switch(memory.journal().recorded_total(), division, false);
        drop(memory);
        self.decide_soon();
    }
}
