//! memcached's protocol: from bytes to requests, from results to bytes.

pub mod client;
mod parse;
mod reply;
mod text;

pub(crate) use parse::Bounds;
pub(crate) use reply::{Replies, text as reply_text};
pub(crate) use text::{Session, Turn, expires_at, run};
