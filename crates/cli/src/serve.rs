//! `serve`: the server.

use crate::activation::Activation;
use crate::clock::SystemClock;
use crate::daemon::{self, Manners, PidFile};
use crate::failure::{Code, Failure, complain, say};
use crate::layers::InForce;
use crate::log_line::write_field;
use crate::patience::Patience;
use crate::reload::{Read, Reload};
use crate::system;
use media::TierMedium;
use server::{Address, Config, Headway, Running, Sockets, StartError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::debug_fn;

/// What `serve` is told.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    /// The checked configuration.
    pub(crate) config: Config,
    /// The settings that it was made of.
    pub(crate) in_force: InForce,
    /// What the log should say about the settings, one line each.
    pub(crate) notes: Vec<String>,
    /// How much the log says: 0 to 3.
    pub(crate) verbosity: u8,
    /// Nobody has said where to listen.
    pub(crate) listens_by_default: bool,
    /// How it runs.
    pub(crate) manners: Manners,
    /// What the service manager wants.
    pub(crate) activation: Activation,
    /// It is the process in the background.
    pub(crate) is_child: bool,
}

/// Runs the server until it is told to stop.
pub(crate) fn run(mut options: ServeOptions, read: &Read<'_>) -> Result<Code, Failure> {
    if options.manners.background && !options.is_child {
        return daemon::start_in_background(0 < options.verbosity, &options.activation);
    }
    start_log(options.verbosity);
    for note in &options.notes {
        tracing::warn!("{note}");
    }
    let folder = std::env::current_dir().unwrap_or_default();
    let is_child = options.is_child;
    let read = || {
        let mut again = read()?;
        // Its paths are those of the folder that the server was started in.
        if is_child {
            make_absolute(&mut again, &folder);
        }
        Ok(again)
    };
    if is_child {
        make_absolute(&mut options, &folder);
    }
    // With the paths that the next reading has.
    let mut reload = Reload::new(options.in_force.clone(), options.config.clone());
    if is_child {
        daemon::take_name();
        daemon::leave_session()
            .map_err(|e| Failure::failed(format!("cannot leave the session: {e}"), "leave out -d"))?;
    }
    let ServeOptions { mut config, manners, activation, .. } = options;
    let user = manners.user_to_become()?;
    manners.raise_limits();
    manners.check_large_pages();
    system::raise_files(&config);
    system::check_memory(&config);

    let inherited = activation.sockets(is_child);
    let inherited = inherited.map_err(|e| {
        Failure::failed(
            format!("cannot take the sockets of LISTEN_FDS over: {e}"),
            "hand over as many listening sockets as it says, 64 at most, from descriptor 3 on, or leave LISTEN_FDS away",
        )
    })?;
    if !inherited.is_empty() && options.listens_by_default {
        config.listen.clear();
    }
    let sockets = Sockets::open(&config, inherited).map_err(start_failure)?;
    activation.write_ports(sockets.addresses())?;
    let pid_file = manners.pid_file.as_deref().map(PidFile::write).transpose()?;
    if let Some(user) = &user {
        user.own(&sockets, pid_file.as_ref());
        daemon::become_user(user)?;
    }
    manners.lock_memory();
    // From here on a signal is an instruction; before it ends a server that has not begun.
    let signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP]);
    let signals = signals.map_err(no_signals)?;
    let headway = begin_headway()?;
    let Some(running) = start(config, sockets, &activation, &headway)? else {
        return Ok(break_off(signals, &activation));
    };
    if is_child {
        std::env::set_current_dir("/").unwrap_or_else(|e| tracing::warn!("cannot leave the folder: {e}"));
        say(running.ready_line());
    }
    complain(running.ready_line());
    manners.warn_of_root();
    activation.notify("READY=1\nSTATUS=serving");
    let ending = signals.handle();
    running.when_broken(move || ending.close());
    obey(signals, &running, &activation, || reload.settings(&read, &running));
    let ended = end(running, &activation, &headway);
    drop(pid_file);
    ended
}

/// A start that signals to end break off.
fn begin_headway() -> Result<Arc<Headway>, Failure> {
    let broken_off = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGUSR1] {
        signal_hook::flag::register(signal, Arc::clone(&broken_off)).map_err(no_signals)?;
    }
    Ok(Arc::new(Headway::until(broken_off)))
}

/// Starts the server; none if it was told to end before it served.
fn start(
    config: Config,
    sockets: Sockets,
    activation: &Activation,
    headway: &Arc<Headway>,
) -> Result<Option<Running>, Failure> {
    let _patience = Patience::ask(activation, "starting", headway);
    match server::start_on(config, sockets, Arc::new(SystemClock::new()), Arc::clone(headway)) {
        Err(StartError::BrokenOff) => Ok(None),
        started => started.map(Some).map_err(start_failure),
    }
}

/// Says why there is no server; what there was to bring back is there still.
fn break_off(mut signals: Signals, activation: &Activation) -> Code {
    activation.notify("STOPPING=1");
    let signal = signals.pending().find(|signal| *signal != SIGHUP).unwrap_or(SIGTERM);
    tracing::info!(
        "signal {signal}: the start is broken off; what was to come back is there for the next one"
    );
    Code::Done
}

/// Why nobody could end the server in order.
pub(crate) fn no_signals(error: io::Error) -> Failure {
    let cure = "raise the limit of open files where it is started: ulimit -n";
    Failure::failed(format!("cannot listen for signals: {error}"), cure)
}

/// Shuts the server down; says what was not as it should be.
fn end(running: Running, activation: &Activation, headway: &Arc<Headway>) -> Result<Code, Failure> {
    activation.notify("STOPPING=1");
    headway.begin();
    let _patience = Patience::ask(activation, "draining and saving", headway);
    let broken = running.broken();
    if broken.is_some() {
        // A thread may hold what others wait for: the next signal ends it all.
        let at_once = Arc::new(AtomicBool::new(true));
        for signal in [SIGTERM, SIGINT] {
            let status = Code::Failed as i32;
            if let Err(e) =
                signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&at_once))
            {
                tracing::warn!("signal {signal} will not end this sooner: {e}");
            }
        }
    }
    running.shut_down().map_err(|error| {
        let what = format!("{:#}", anyhow::Error::from(error));
        Failure::failed(
            what,
            "make room where -e says; what tiers keep by themselves is there at the next start",
        )
    })?;
    match broken {
        Some(thread) => Err(Failure::failed(format!("the thread {thread} had ended"), "its log says why")),
        None => Ok(Code::Done),
    }
}

/// Does what signals say until one says to stop, or the server is broken.
fn obey(mut signals: Signals, running: &Running, activation: &Activation, mut reload_settings: impl FnMut()) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            tracing::info!("signal {signal}: draining");
            return;
        }
        activation.notify("RELOADING=1");
        tracing::info!("signal {SIGHUP}: reading settings, users and certificates again");
        reload_settings();
        reload_files(running);
        activation.notify("READY=1");
    }
}

/// Reads users and certificates again; what is wrong leaves what is in force.
fn reload_files(running: &Running) {
    match running.reload_users() {
        Ok(None) => {}
        Ok(Some(count)) => tracing::info!("signal {SIGHUP}: {count} users are known"),
        Err(error) => {
            tracing::error!("signal {SIGHUP}: users stay as they were: {:#}", anyhow::Error::from(error));
        }
    }
    if let Err(error) = running.reload_keys() {
        tracing::error!("signal {SIGHUP}: certificates stay as they were: {:#}", anyhow::Error::from(error));
    }
}

/// Paths that are read or removed later do not depend on the folder, which a daemon leaves.
fn make_absolute(options: &mut ServeOptions, folder: &Path) {
    let settle = |path: &mut PathBuf| *path = folder.join(&path);
    if let Some(tls) = &mut options.config.tls {
        [&mut tls.chain, &mut tls.key].into_iter().chain(&mut tls.ca).for_each(settle);
    }
    options.config.auth.iter_mut().for_each(|auth| settle(&mut auth.file));
    options.config.memory_file.iter_mut().for_each(settle);
    options.config.bandwidth_speeds.iter_mut().for_each(settle);
    for tier in &mut options.config.tiers {
        if let TierMedium::File(path) | TierMedium::Synced(path) | TierMedium::Dax(path) =
            &mut tier.spec.medium
        {
            settle(path);
        }
    }
    options.manners.pid_file.iter_mut().for_each(settle);
    let tenants = options.config.tenants.iter_mut().filter_map(|tenant| tenant.listen.as_mut());
    for listener in options.config.listen.iter_mut().chain(tenants) {
        if let Address::Unix(path, _) = &mut listener.address {
            settle(path);
        }
    }
}

/// A server that does not start, with what would help.
pub(crate) fn start_failure(error: StartError) -> Failure {
    let cure = match &error {
        StartError::Listen { .. } => "choose another address with -l, -p, -s or --admin",
        StartError::Tls(_) => "name PEM files that go together: -o ssl_chain_cert=FILE,ssl_key=FILE",
        StartError::Auth(_) => "write user:password in each line of the file that -Y names",
        StartError::Tier(tier) => tier.cure().unwrap_or("cotenant doctor shows what this machine offers"),
        StartError::Unmeasured(unmeasured) => unmeasured.command(),
        StartError::Speeds(speeds) => speeds.cure(),
        StartError::Saved { cause, .. } => cause.cure(),
        StartError::Store(_) => "lower the memory (-m)",
        StartError::Thread(_) | StartError::Tenants => "lower the threads (-t) or the tenants",
        StartError::BrokenOff => "start it again",
    };
    let cure = cure.to_owned();
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
        .fmt_fields(debug_fn(write_field))
        .init();
}
