//! Servers in processes of their own, measured from outside: ours and others, and loads that verify every answer.
//!
//! Shape:     a program -> `Peer`, or a configuration -> `Here`, a server in this process; a `Plan` and `Items` -> `run` -> what was heard; `Load`, a script of requests in lock step
//! Non-goals: judging what is measured

mod awake;
mod client;
mod clock;
mod cores;
mod dialect;
#[cfg(test)]
pub(crate) mod fake;
mod generator;
mod here;
mod items;
mod latency;
mod line;
mod load;
mod peer;
mod plan;
mod seen;
mod stream;

pub mod keys;

pub use awake::Awake;
pub(crate) use client::is_stored;
pub use client::{Order, Times, Work, Working};
pub use clock::{Real, nanos};
pub use cores::Cores;
pub use dialect::{Answer, Dialect};
pub use generator::run;
pub use here::{Here, Tenant};
pub use items::{Items, Sizes};
pub use latency::Latency;
pub use load::{Asked, Load, Outcome};
pub use peer::{Cleaning, Figures, Kind, Peer, Setup};
pub use plan::{Address, Heard, Pace, Plan, Popularity, few_refused};
pub use seen::{Medium, Used};
pub use stream::Stream;
