//! The auction with every tenant's speed known beforehand: what `symbiosis` could reach without errors of its estimates.
//!
//! Source: Spirit §6 (Ideal). The profile comes with the options; a tenant without one bids by its signals.

use super::options::Options;
use super::spirit::Symbiosis;

/// The policy `ideal`: `symbiosis` fed from profiles, without a window and without first epochs at the static share.
#[must_use]
pub fn ideal(mut options: Options) -> Symbiosis {
    options.window = None;
    options.static_epochs = 0;
    Symbiosis::named("ideal", options)
}
