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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ssd::{Application, Noise};

    /// What forms give in balance is frozen. Its constants were chosen before any policy ran; this listing of what follows
    /// from them is later than the first runs. Conversions between forms, on which no number here rests, were changed once
    /// between the two. Operations per second of all write cache, all memory and all compressed.
    #[test]
    fn what_forms_give_in_balance_is_frozen() {
        for (letter, frozen) in [
            ('A', [5359.0, 1998.0, 8551.0]),
            ('B', [4291.0, 5348.0, 10238.0]),
            ('C', [3964.0, 6570.0, 10301.0]),
            ('D', [1933.0, 1403.0, 2600.0]),
            ('F', [3350.0, 1747.0, 6151.0]),
            ('L', [200.0, 128.0, 198.0]),
        ] {
            let (machine, id) = FormMachine::server(Application::ycsb(letter), Noise::NONE, 1);
            let all = every_split(&machine, id, 1);
            let at = |memory, compressed| {
                let split = all.iter().find(|s| (s.memory, s.compressed) == (memory, compressed));
                split.map_or(0.0, |s| s.truth.operations_per_sec)
            };
            for (ours, frozen) in [at(0, 0), at(1, 0), at(0, 1)].into_iter().zip(frozen) {
                assert!((ours - frozen).abs() <= 0.5 + 1e-3 * frozen, "{letter}: {ours} {frozen}");
            }
        }
    }
}
