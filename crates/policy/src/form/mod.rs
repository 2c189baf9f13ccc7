//! What the bytes of a tier are used as: write cache, memory, compressed.

mod amount;
mod baselines;
mod estimate;
mod polyemt;
mod search;
mod sweep;

pub use baselines::{Fixed, Parts};
pub use polyemt::{Morph, Options, Steps, Watch};

use control::Policy;
use control::form::{FormSignal, Forms};

/// A policy about forms.
pub type FormPolicy = Box<dyn Policy<Signal = FormSignal, Share = Forms>>;

/// Every name that [`by_name`] knows.
pub const NAMES: [&str; 6] =
    ["morph", "morph-functional", "write-cache", "dram-extension", "compressed", "fixed"];

/// The policy called `name`, or none: `morph`, `morph-functional` (its first step only), `write-cache`,
/// `dram-extension`, `compressed`, `fixed` (the split `parts`).
#[must_use]
pub fn by_name(name: &str, options: Options, parts: Parts) -> Option<FormPolicy> {
    Some(match name {
        "morph" => Box::new(Morph::new(options)),
        "morph-functional" => Box::new(Morph::new(Options { representation: false, ..options })),
        "write-cache" => Box::new(Fixed::new("write-cache", Parts::WRITE_CACHE)),
        "dram-extension" => Box::new(Fixed::new("dram-extension", Parts::MEMORY)),
        "compressed" => Box::new(Fixed::new("compressed", Parts::COMPRESSED)),
        "fixed" => Box::new(Fixed::new("fixed", parts)),
        _ => return None,
    })
}
