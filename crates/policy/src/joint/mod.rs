//! Who gets how much memory and how much bandwidth, both together.

mod auction;
mod bidder;
mod book;
mod desk;
mod harvest;
mod ideal;
mod options;
mod spirit;
mod static_share;
mod trade;
mod trades;

pub use auction::{Auction, Bidder, Bundle, Closing, Outcome, Prices, Terms};
pub use bidder::{Bid, Range, STEPS, Stance, Use, Value};
pub use harvest::Harvest;
pub use ideal::ideal;
pub use options::Options;
pub use spirit::Symbiosis;
pub use static_share::Static;
pub use trade::Trade;

use control::Policy;
use control::joint::{Joint, JointSignal};

/// A policy of this family.
pub type JointPolicy = Box<dyn Policy<Signal = JointSignal, Share = Joint>>;

/// Every name that [`by_name`] knows.
pub const NAMES: [&str; 5] = ["symbiosis", "static", "harvest", "trade", "ideal"];

/// The policy called `name` (`symbiosis`, `static`, `harvest`, `trade`, `ideal`), or none.
#[must_use]
pub fn by_name(name: &str, options: Options) -> Option<JointPolicy> {
    match name {
        "symbiosis" => Some(Box::new(Symbiosis::new(options))),
        "static" => Some(Box::new(Static::new(&options))),
        "harvest" => Some(Box::new(Harvest::new(options))),
        "trade" => Some(Box::new(Trade::new(options))),
        "ideal" => Some(Box::new(ideal(options))),
        _ => None,
    }
}
