//! `demo`: the server under a built-in load of several tenants.
//!
//! Shape: start a server on loopback, drive it, show hit ratios every second, then compare sharing with a static partition

use crate::clock::SystemClock;
use crate::failure::{Code, Failure, complain, say};
use crate::serve::{no_signals, start_failure, start_log};
use harness::demo;
use server::{Admin, Clock, Config, Listener, Running, TenantView};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;
use store::Totals;
use units::{Bytes, Duration, Instant};

/// What `demo` is told.
#[derive(Debug)]
pub(crate) struct DemoOptions {
    /// When it ends by itself; none means at Ctrl-C.
    pub(crate) seconds: Option<u64>,
    /// The server's memory.
    pub(crate) memory: Bytes,
    /// The server's port, 0 is any free one.
    pub(crate) port: u16,
}

/// Runs the demo until it is told to stop or its time is up.
pub(crate) fn run(options: DemoOptions) -> Result<Code, Failure> {
    start_log(0);
    let clock = Arc::new(SystemClock::new());
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let config = Config {
        memory: options.memory,
        threads: 1,
        listen: vec![Listener::plain(loopback(options.port))],
        admin: Admin::Default(loopback(11280)),
        prefix_delimiter: Some(b':'),
        ..Config::default()
    };
    let clock_of_server: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let running = server::start(config.checked()?, clock_of_server).map_err(start_failure)?;
    complain(running.ready_line());
    if let Some(admin) = running.admin_address() {
        say(format!("metrics at http://{admin}/metrics, decisions at http://{admin}/journal"));
    }
    say(format!(
        "load: {} tenants at {} requests/s, about three times the memory; hit ratio per second and tenant",
        demo::tenant_names(options.memory).len(),
        demo::REQUESTS_PER_SEC
    ));
    let report = drive(&options, &running, &clock)?;
    let journal = running.view().replay_journal();
    let ended = running.shut_down().map_err(anyhow::Error::from);
    ended.map_err(|e| Failure::from(e).or_try("its log above may say why"))?;
    say(format!("\nserved {} requests over TCP, hit ratio {:.4}", report.requests, report.hit_ratio()));
    match journal {
        Ok(Some(count)) => say(format!("{count} decisions in the journal, replayed to the same shares")),
        Ok(None) => say("the journal no longer reaches back to the first decision"),
        Err(e) => return Err(Failure::failed(format!("the journal does not replay: {e}"), "report this")),
    }
    compare(&options, report.requests)?;
    Ok(Code::Done)
}

/// Drives the server and prints a line every second.
fn drive(options: &DemoOptions, running: &Running, clock: &SystemClock) -> Result<harness::Report, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Once the load has ended a signal ends it all: the comparison that follows takes a while.
        let code = Code::Failed as i32;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .map_err(no_signals)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(no_signals)?;
    }
    let address = running.address().map(|a| a.to_string()).unwrap_or_default();
    let started = clock.now();
    let end = options.seconds.map(Duration::from_secs);
    let mut screen = Screen { next: started, before: HashMap::new(), lines: 0 };
    let mut is_over = |at: Instant| {
        loop {
            let spent = clock.now().since(started);
            screen.show(running, started + spent, spent);
            let over = stop.load(Ordering::Relaxed) || end.is_some_and(|end| end <= spent);
            // The load keeps its pace: what is early waits, what is late goes at once.
            let early = at.since(Instant(spent.0));
            if over || early < Duration::from_millis(1) {
                return over;
            }
            std::thread::sleep(early.to_std().min(StdDuration::from_millis(50)));
        }
    };
    let report = demo::drive(options.memory, &address, &mut is_over).map_err(|e| {
        let what = format!("the load ended: {:#}", anyhow::Error::from(e));
        Failure::failed(what, "its log above may say why; leave more memory and time to the machine")
    });
    stop.store(true, Ordering::Relaxed);
    report
}

/// What is shown while the load runs.
struct Screen {
    next: Instant,
    /// What was known of each tenant, by its name: ids come again.
    before: HashMap<String, Totals>,
    lines: u64,
}

impl Screen {
    /// A line per second; the tenants' names come again every 20 lines.
    fn show(&mut self, running: &Running, now: Instant, spent: Duration) {
        if now < self.next {
            return;
        }
        self.next = now + Duration::from_secs(1);
        let tenants = running.view().snapshot().tenants;
        // The default tenant has no load.
        let shown: Vec<&TenantView> = tenants.iter().skip(1).collect();
        if shown.is_empty() {
            return;
        }
        if self.lines.is_multiple_of(20) {
            let names: String =
                shown.iter().map(|t| format!(" {:>COLUMN$}", heading(&t.state.name))).collect();
            say(format!("{:>5}{names}{:>8}", "s", "all"));
        }
        self.lines += 1;
        let mut line = format!("{:>5}", spent.as_millis() / 1000);
        let mut all = Totals::default();
        for tenant in shown {
            let before = self.before.insert(tenant.state.name.clone(), tenant.totals).unwrap_or_default();
            // One that was removed and made again begins again.
            let is_new =
                tenant.totals.get_hits < before.get_hits || tenant.totals.get_misses < before.get_misses;
            let window = if is_new { tenant.totals } else { tenant.totals.since(&before) };
            all.add(&window);
            let held = tenant.state.held.0 >> 20;
            line.push_str(&format!("{:>7}{held:>4}M", ratio(&window)));
        }
        say(format!("{line}{:>8}", ratio(&all)));
    }
}

/// What a column can have of a tenant's name: all of it, or its end, for names that begin alike.
fn heading(name: &str) -> String {
    match name.chars().count().checked_sub(COLUMN) {
        None | Some(0) => name.to_owned(),
        Some(beyond) => format!("…{}", name.chars().skip(beyond + 1).collect::<String>()),
    }
}

/// Characters of a column.
const COLUMN: usize = 11;

/// A hit ratio in per cent, or a dash without look-ups.
fn ratio(window: &Totals) -> String {
    let gets = window.get_hits + window.get_misses;
    if gets == 0 { "-".to_owned() } else { format!("{:.1}", window.get_hits as f64 * 100.0 / gets as f64) }
}

/// The same load through the store twice: what sharing gains.
fn compare(options: &DemoOptions, requests: u64) -> Result<(), Failure> {
    let sharing = harness::replay::ReplayOptions::default().policy;
    say(format!(
        "\nthe same {requests} requests through the store, shared by `{sharing}` against a static partition of {}:",
        options.memory
    ));
    let run = |policy: &str| {
        demo::compare(options.memory, policy, requests)
            .map_err(|e| Failure::failed(format!("{:#}", anyhow::Error::from(e)), "lower the memory: -m"))
    };
    let (shared, partitioned) = (run(&sharing)?, run("partitioned")?);
    say(demo::comparison_table(&shared, &partitioned));
    let misses = |r: &harness::Report| (r.gets - r.hits).max(1);
    let fewer = 100.0 - misses(&shared) as f64 * 100.0 / misses(&partitioned) as f64;
    say(format!(
        "hit ratio {:.4} shared, {:.4} partitioned: {fewer:.1} % fewer misses by sharing",
        shared.hit_ratio(),
        partitioned.hit_ratio()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_columns_have_one_heading() {
        assert_eq!(
            (heading("twitter14"), heading("meta-kvcache")),
            ("twitter14".into(), "…ta-kvcache".into())
        );
        let names = demo::tenant_names(Bytes::mib(64));
        let headings: BTreeSet<String> = names.iter().map(|name| heading(name)).collect();
        assert_eq!(headings.len(), names.len());
        assert!(headings.iter().all(|heading| heading.chars().count() <= COLUMN), "{headings:?}");
    }
}
