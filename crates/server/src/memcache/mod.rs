//! memcached's protocol: from bytes to requests, from results to bytes.

mod batch;
mod binary;
pub mod client;
mod exptime;
pub(crate) mod fuzzed;
mod log_in;
mod meta;
mod numbers;
mod operate;
mod parse;
mod reply;
mod said;
mod session;
mod text;
mod tokens;
mod turn;

pub(crate) use binary::REQUEST_MAGIC as BINARY_MAGIC;
pub(crate) use exptime::{expires_at, is_date};
pub(crate) use meta::encode_into as encode_base64;
pub(crate) use operate::Asked;
pub(crate) use parse::Bounds;
pub(crate) use reply::{Replies, text as reply_text};
pub(crate) use said::command_in;
pub(crate) use session::Session;
pub(crate) use turn::{Announced, Block, Turn, WaitsFor, run};
