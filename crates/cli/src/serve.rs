//! `serve`: the server.

use crate::failure::{Code, Failure};
use server::Config;
use std::io::IsTerminal as _;
use tracing_subscriber::filter::LevelFilter;

/// What `serve` is told.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// The checked configuration.
    #[cfg_attr(not(test), expect(dead_code, reason = "the server does not take it yet"))]
    pub(crate) config: Config,
    /// What the log should say about the settings, one line each.
    pub(crate) notes: Vec<String>,
    /// How much the log says: 0 to 3.
    pub(crate) verbosity: u8,
}

/// Runs the server until it is told to stop.
pub(crate) fn run(options: ServeOptions) -> Result<Code, Failure> {
    start_log(options.verbosity);
    for note in &options.notes {
        tracing::warn!("{note}");
    }
    Err(Failure::failed("serve is not part of this build: the server is missing", "cotenant config check"))
}

/// Sends the log to standard error, so much of it as `-v` asks for.
pub(crate) fn start_log(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(level)
        .with_target(false)
        .init();
}
