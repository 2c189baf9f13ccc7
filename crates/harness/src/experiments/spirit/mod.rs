//! Spirit's policies live: a server of this process with DRAM above an emulated tier, clients over loopback.

mod changes;
mod mix;
mod mix_dev;

use lab::experiment;
use lab::experiment::Experiment;

/// What is shown of Spirit live.
pub(super) const SPIRIT: &[Experiment] = &[
    experiment!("spirit/live_mix", mix::mix),
    experiment!("spirit/live_mix_dev", mix_dev::mix_dev),
    experiment!("spirit/live_changes", changes::changes),
];
