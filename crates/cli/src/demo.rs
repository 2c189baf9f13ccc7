//! `demo`: the server under a built-in load of several tenants.

use crate::failure::{Code, Failure};
use units::Bytes;

/// What `demo` is told.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "the demo's load does not exist yet"))]
pub(crate) struct DemoOptions {
    /// When it ends by itself; none means at Ctrl-C.
    pub(crate) seconds: Option<u64>,
    /// The server's memory.
    pub(crate) memory: Bytes,
    /// The server's port, 0 is any free one.
    pub(crate) port: u16,
}

/// Runs the demo until it is told to stop or its time is up.
pub(crate) fn run(_options: DemoOptions) -> Result<Code, Failure> {
    Err(Failure::failed("demo is not part of this build: its load is missing", "cotenant --help"))
}
