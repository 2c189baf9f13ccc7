//! Every way to split a tenant's bytes among the forms, with what each really gives: the judge of a search.
//!
//! Shape: machine, tenant, steps -> (forms, truth) for all (steps + 1)(steps + 2) / 2 splits -> the best by an objective
//! Cost:  one settled machine per split, about 1 ms

use super::{FormMachine, Truth};
use control::form::Forms;
use units::{Bytes, TenantId};

/// A split and what it gives in the long run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scored {
    /// Steps of memory.
    pub memory: u64,
    /// Steps of the compressed store; the rest is write cache.
    pub compressed: u64,
    /// The forms.
    pub forms: Forms,
    /// What they give.
    pub truth: Truth,
}

/// All splits of the whole pool for tenant `id` in `steps` steps.
#[must_use]
pub fn every_split(machine: &FormMachine, id: TenantId, steps: u64) -> Vec<Scored> {
    let pool = machine.pool();
    let mut all = Vec::new();
    for compressed in 0..=steps {
        for memory in 0..=steps - compressed {
            let forms = split(pool, memory, compressed, steps);
            all.push(Scored { memory, compressed, forms, truth: machine.settled(id, forms) });
        }
    }
    all
}

/// The split of which `score` is highest.
///
/// # Panics
/// If `all` is empty.
pub fn best_by(all: impl IntoIterator<Item = Scored>, score: impl Fn(&Scored) -> f64) -> Scored {
    all.into_iter().max_by(|a, b| score(a).total_cmp(&score(b))).expect("there is at least one split")
}

fn split(pool: Bytes, memory: u64, compressed: u64, steps: u64) -> Forms {
    let (memory, compressed) = (pool.scale(memory, steps), pool.scale(compressed, steps));
    Forms { write_cache: pool.saturating_sub(memory + compressed), memory, compressed }
}
