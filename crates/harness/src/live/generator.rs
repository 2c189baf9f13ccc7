//! Runs a load: sends what is due, reads what is there, waits for whichever comes first.
//!
//! Shape:      plan -> a thread per part of the connections -> what they heard, together
//! Cost:       one call of `poll`, `read` and `write` each per batch; no allocation per request
//! Failure:    a wrong answer or a lost server ends the load; so does a server that is silent for `SILENCE`
//! Source:     Schroeder et al., Open versus closed: a cautionary tale, NSDI 2006; Tene on coordinated omission
//! Non-goals:  more connections in one thread than `poll` can look at without cost, some hundred

use super::clock::{nanos, thread_cpu};
use super::items::Items;
use super::keys;
use super::line::Line;
use super::plan::{Address, Heard, Pace, Plan, Popularity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use units::{Rng, mix64};

/// A server that says nothing for so long is given up.
const SILENCE: u64 = 10_000_000_000;
/// What is due within this time is waited for without sleeping: waking up takes about as long here.
const SPIN: u64 = 40_000;
/// Requests without an answer at which an open load gives up: the server does not keep up at all.
const BACKLOG_MAX: usize = 4_000_000;

/// Runs `plan` against a server. `items` knows what was stored there so far.
///
/// # Errors
/// If a value is not what was stored last, an answer is none, or the server is lost or silent.
pub fn run(plan: &Plan, address: Address, items: &Arc<Items>) -> io::Result<Heard> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let parts = (0..threads).map(|part| {
        let (plan, items) = (plan.clone(), Arc::clone(items));
        thread::spawn(move || Part::new(&plan, address, &items, part, threads)?.run())
    });
    let parts: Vec<_> = parts.collect();
    let mut heard = Heard::default();
    for part in parts {
        let one = part.join().map_err(|_| io::Error::other("a thread of the load has panicked"))??;
        heard.merge(&one);
    }
    Ok(heard)
}

/// One thread of a load.
struct Part<'a> {
    plan: &'a Plan,
    items: &'a Items,
    lines: Vec<Owned>,
    rng: Rng,
    /// Requests to be sent.
    left: u64,
    /// When the next batch of an open load is due.
    next: u64,
    /// Mean time between batches of this thread, if open.
    gap: f64,
    heard: Heard,
}

/// A connection and the numbers that are its own: `place` + n × connections.
struct Owned {
    line: Line,
    place: u32,
    count: u32,
    /// The next one, if each is asked for once.
    next: u32,
}

impl<'a> Part<'a> {
    fn new(plan: &'a Plan, address: Address, items: &'a Items, part: u32, threads: u32) -> io::Result<Self> {
        let connections = plan.connections.max(1);
        let mut lines = Vec::new();
        for place in (part..connections).step_by(threads as usize) {
            let count = items.count().saturating_sub(place).div_ceil(connections);
            lines.push(Owned { line: Line::connect(address)?, place, count, next: 0 });
        }
        let share =
            |all: u64| all / u64::from(threads) + u64::from(u64::from(part) < all % u64::from(threads));
        let gap = match plan.pace {
            Pace::Closed => 0.0,
            Pace::Open(per_sec) => 1e9 * f64::from(threads) / per_sec.max(f64::MIN_POSITIVE),
        };
        // Numbers belong to connections: a thread may have fewer than its part of the requests.
        let own: u64 = lines.iter().map(|owned| u64::from(owned.count)).sum();
        let left = match plan.popularity {
            Popularity::Once if u64::from(items.count()) <= plan.requests => own,
            Popularity::Once => own.min(share(plan.requests)),
            Popularity::Zipf(_) => share(plan.requests),
        };
        let rng = Rng::new(mix64(plan.seed) ^ u64::from(part));
        Ok(Self { plan, items, lines, rng, left, next: 0, gap, heard: Heard::default() })
    }

    fn run(mut self) -> io::Result<Heard> {
        // Sleeps end when they should; a refusal costs precision only, which `lag` shows.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (started, cpu) = (nanos(), thread_cpu());
        self.next = started + self.draw_gap();
        let mut heard_last = started;
        loop {
            self.ask()?;
            if self.left == 0 && self.lines.iter().all(|owned| owned.line.waiting() == 0) {
                break;
            }
            if self.wait()? {
                heard_last = nanos();
            } else if SILENCE < nanos() - heard_last && self.is_waiting() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.heard.secs = (nanos() - started) as f64 / 1e9;
        self.heard.client_cpu_secs = (thread_cpu() - cpu) as f64 / 1e9;
        Ok(self.heard)
    }

    fn is_waiting(&self) -> bool {
        self.lines.iter().any(|owned| 0 < owned.line.waiting())
    }

    /// An exponential gap, at least a nanosecond.
    fn draw_gap(&mut self) -> u64 {
        let gap = -self.gap * (1.0 - self.rng.unit()).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; saturates"
        )]
        let gap = gap as u64;
        gap.max(1)
    }

    /// Sends what is due.
    fn ask(&mut self) -> io::Result<()> {
        if self.plan.pace == Pace::Closed {
            let now = nanos();
            for place in 0..self.lines.len() {
                if self.lines[place].line.waiting() == 0 {
                    self.batch(place, now)?;
                }
            }
            return Ok(());
        }
        while 0 < self.left && self.next <= nanos() {
            let place = self.rng.index(self.lines.len());
            let due = self.next;
            self.batch(place, due)?;
            self.heard.lag.record(nanos().saturating_sub(due));
            self.next += self.draw_gap();
            if BACKLOG_MAX < self.lines[place].line.waiting() {
                return Err(io::Error::other("it does not keep up with the load"));
            }
        }
        Ok(())
    }

    /// Sends one batch on a connection.
    fn batch(&mut self, place: usize, due: u64) -> io::Result<()> {
        for _ in 0..self.plan.depth {
            if self.left == 0 {
                break;
            }
            let Some(number) = self.draw(place) else { break };
            self.left -= 1;
            let line = &mut self.lines[place].line;
            if self.rng.below(100) < self.plan.gets_percent {
                line.get(self.items, number, due);
            } else {
                line.set(self.items, number, due);
            }
        }
        self.lines[place].line.send()
    }

    /// A number of this connection; none when each was asked for once.
    fn draw(&mut self, place: usize) -> Option<u32> {
        let connections = self.plan.connections.max(1);
        let owned = &mut self.lines[place];
        let index = match &self.plan.popularity {
            Popularity::Once => {
                let index = owned.next;
                owned.next += 1;
                (index < owned.count).then_some(index)?
            }
            // The law may have been made for a few numbers more or less than there are.
            Popularity::Zipf(zipf) => {
                keys::spread(zipf.draw(&mut self.rng) % owned.count.max(1), owned.count)
            }
        };
        Some(owned.place + index * connections)
    }

    /// Waits until something is due or there, and reads; whether anything was heard.
    fn wait(&mut self) -> io::Result<bool> {
        let timeout = match self.plan.pace {
            Pace::Open(_) if 0 < self.left => self.next.saturating_sub(nanos()).saturating_sub(SPIN),
            _ => SILENCE,
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout / 1_000_000_000).unwrap_or(1),
            tv_nsec: i64::try_from(timeout % 1_000_000_000).unwrap_or(0),
        };
        let interest =
            |line: &Line| if line.is_sending() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled: Vec<PollFd<'_>> =
            self.lines.iter().map(|owned| PollFd::new(owned.line.stream(), interest(&owned.line))).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (owned, ready) in self.lines.iter_mut().zip(ready) {
            if ready.is_empty() {
                continue;
            }
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                owned.line.receive(self.items, self.plan.look_aside, nanos, &mut self.heard)?;
            }
            // Also what misses have brought.
            owned.line.send()?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::super::items::Sizes;
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn nobody_is_asked_for_more_numbers_than_are_its_own() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address { socket: server.local_addr().unwrap(), dialect: Dialect::Memcached };
        let items = Items::new(100, Sizes::Fixed(1));
        for (connections, requests, expected) in
            [(3, 90, [45, 33]), (3, 100, [67, 33]), (4, 90, [45, 45]), (1, 90, [45, 0]), (4, 200, [50, 50])]
        {
            let plan = Plan { connections, threads: 2, requests, ..Plan::fill(100) };
            let left = [0, 1].map(|part| Part::new(&plan, address, &items, part, 2).unwrap().left);
            assert_eq!(left, expected, "{connections} connections, {requests} requests");
        }
    }
}
