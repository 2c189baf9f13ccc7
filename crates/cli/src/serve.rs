//! `serve`: the server.

use crate::clock::SystemClock;
use crate::failure::{Code, Failure, complain};
use server::{Config, Running, StartError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal as _;
use std::sync::Arc;
use tracing_subscriber::filter::LevelFilter;

/// What `serve` is told.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// The checked configuration.
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
    let running = server::start(options.config, Arc::new(SystemClock::new())).map_err(start_failure)?;
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|e| Failure::failed(format!("cannot listen for signals: {e}"), ""))?;
    complain(running.ready_line());
    for signal in signals.forever() {
        if signal != SIGHUP {
            tracing::info!("signal {signal}: draining");
            break;
        }
        reload(&running);
    }
    running.shut_down();
    Ok(Code::Done)
}

/// Reads again what can be read again; what is wrong leaves what is in force.
fn reload(running: &Running) {
    match running.reload_users() {
        Ok(None) => {}
        Ok(Some(count)) => tracing::info!("signal {SIGHUP}: {count} users are known"),
        Err(error) => {
            tracing::error!("signal {SIGHUP}: users stay as they were: {:#}", anyhow::Error::from(error));
        }
    }
}

/// A server that does not start, with what would help.
pub(crate) fn start_failure(error: StartError) -> Failure {
    let cure = match &error {
        StartError::Listen { .. } => "choose another address with -l, -p or --admin",
        StartError::Auth(_) => "write user:password in each line of the file that -Y names",
        StartError::Store(_) => "lower the memory (-m)",
        StartError::Thread(_) | StartError::Tenants => "lower the threads (-t) or the tenants",
    };
    Failure::failed(format!("{:#}", anyhow::Error::from(error)), cure)
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
