//! How the policies about memory and bandwidth together are set up.

use super::auction::Bundle;
use crate::estimate::access_histogram::Method;
use crate::estimate::slowdown::RAMP_START;
use control::joint::Table;
use units::{Duration, TenantId};

/// How the policies of this family are set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time between decisions (Spirit §6.2: 30 s is best).
    pub epoch: Duration,
    /// How many steps of its own range a tenant may move per epoch; none for any number (Spirit §4.1: 5).
    pub window: Option<usize>,
    /// Epochs at the static share, at first and for whoever comes (released code: 3).
    pub static_epochs: u32,
    /// A curve is taken over every so many epochs (Spirit §4: 5).
    pub refit_every: u32,
    /// Part of its static share below which nobody is taken, for programs crash (released configuration of six tenants:
    /// 768 of 1,706 MB and 1,056 of 1,280 Mbps).
    pub floor_part: Bundle,
    /// Part of its bandwidth that an unsaturated tenant plans to use at most. By default the start of the ramp of
    /// saturation: a bid that planned for more would be saturated in the next epoch.
    pub headroom: f64,
    /// Whether unspent credits are remembered: who left some is served first from what others leave (Spirit §7).
    pub stateful: bool,
    /// How curves are fitted to samples.
    pub method: Method,
    /// Profiles known beforehand (`ideal`), by tenant.
    pub profiles: Vec<(TenantId, Table)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            epoch: Duration::from_secs(30),
            window: Some(5),
            static_epochs: 3,
            refit_every: 5,
            floor_part: Bundle { memory: 0.45, bandwidth: 0.825 },
            headroom: RAMP_START,
            stateful: false,
            method: Method::default(),
            profiles: Vec::new(),
        }
    }
}
