//! Policies made of policies: two that hold at once, groups with a policy inside, one resource above another.

mod ceilings;
mod drf;
mod groups;
mod paced;
mod share_out;
mod tighter;

pub use drf::{Demand, Drf, DrfError, dominant_shares};
pub use groups::{Group, Grouped};
pub use share_out::ShareOut;
pub use tighter::Tighter;
