//! Memshare's tables and figures through the real store in this process, in the time of a trace, or beside memcached.
//!
//! Shape:    sweep -> plants -> replays under policies, and exact caches for what others would do -> numbers and curves
//! Failure:  without the shared trace its items are not applicable, and say where it was looked for

mod apps;
mod baseline;
mod burst;
mod figures;
mod live;
mod plant;
mod rivals;
mod sharing;
mod source;
mod top;

use lab::experiment;
use lab::experiment::Experiment;

/// Every table and figure of Memshare that can be shown, and what this project promises beyond them.
pub(super) const MEMSHARE: &[Experiment] = &[
    experiment!("memshare/table_1", sharing::table_1),
    experiment!("memshare/fig_1", figures::fig_1),
    experiment!("memshare/table_2", sharing::table_2),
    experiment!("memshare/fig_4", figures::fig_4),
    experiment!("memshare/table_3", sharing::table_3),
    experiment!("memshare/table_4", sharing::table_4),
    experiment!("memshare/table_5", sharing::table_5),
    experiment!("memshare/table_6", top::table_6),
    experiment!("memshare/fig_5", top::fig_5),
    experiment!("memshare/table_7", top::table_7),
    experiment!("memshare/table_8", top::table_8),
    experiment!("memshare/table_9", live::table_9),
    experiment!("memshare/table_10", live::table_10),
    experiment!("memshare/burst", burst::burst),
];
