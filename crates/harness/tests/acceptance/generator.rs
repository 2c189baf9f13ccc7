//! The load generator believes no server: right answers are counted, wrong ones end the load.

use crate::live::{config, serve};
use harness::live::{Address, Dialect, Heard, Items, Pace, Plan, Popularity, Sizes, run};
use lab::workload::Zipf;
use server::MemoryPolicy;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use units::Bytes;

const ITEMS: u32 = 5_003;

fn plan(pace: Pace, look_aside: bool) -> Plan {
    Plan {
        connections: 6,
        threads: 2,
        depth: 7,
        pace,
        gets_percent: 60,
        look_aside,
        popularity: Popularity::Zipf(Arc::new(Zipf::new(ITEMS / 6, 0.99))),
        requests: 20_011,
        seed: 42,
    }
}

/// Everything is answered, verified and timed, whatever the pace.
fn check(memory: Bytes, sizes: Sizes, plan: &Plan) -> Heard {
    let (server, address) = serve(config(memory, MemoryPolicy::Shared));
    let address = Address { socket: address.parse().unwrap(), dialect: Dialect::Memcached };
    let items = Arc::new(Items::new(ITEMS, sizes));
    let filled = run(&Plan::fill(ITEMS), address, &items).unwrap();
    assert_eq!((filled.requests, filled.gets), (u64::from(ITEMS), 0));
    let heard = run(plan, address, &items).unwrap();
    server.shut_down().unwrap();
    assert_eq!(heard.requests, plan.requests);
    assert_eq!(heard.latency.count(), plan.requests);
    let part = heard.gets as f64 / heard.requests as f64;
    assert!((0.57..0.63).contains(&part), "{part}");
    heard
}

#[test]
fn a_closed_load_is_verified() {
    let heard = check(Bytes::mib(16), Sizes::LogNormal(200, 1.0, 4_000), &plan(Pace::Closed, false));
    assert_eq!((heard.hits, heard.fills), (heard.gets, 0));
}

#[test]
fn an_open_load_sends_as_many_batches_as_are_due() {
    let heard = check(Bytes::mib(16), Sizes::Fixed(25), &plan(Pace::Open(50_000.0), false));
    // Each thread's last batch may be smaller.
    assert!((2_858..=2_862).contains(&heard.lag.count()), "{}", heard.lag.count());
    assert_eq!(heard.hits, heard.gets);
}

#[test]
fn what_misses_is_stored() {
    // 5,003 items of 6 KB do not fit.
    let heard = check(Bytes::mib(16), Sizes::Between(4_000, 8_000), &plan(Pace::Closed, true));
    assert!(0 < heard.hits && heard.hits < heard.gets);
    assert_eq!(heard.hits + heard.fills, heard.gets);
}

/// A server that answers every line with `answer`, for one connection.
fn lie(answer: Vec<u8>) -> Address {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let socket = listener.local_addr().unwrap();
    std::thread::spawn(move || -> io::Result<()> {
        let (stream, _) = listener.accept()?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        while let Some(Ok(_)) = lines.next() {
            (&stream).write_all(&answer)?;
        }
        Ok(())
    });
    Address { socket, dialect: Dialect::Memcached }
}

/// One item of 12 B was stored twice; what a look-up says of `answer`.
#[track_caller]
fn check_caught(answer: Vec<u8>, what: &str) {
    let plan = Plan { connections: 1, threads: 1, gets_percent: 100, ..plan(Pace::Closed, false) };
    let items = Arc::new(Items::new(1, Sizes::Fixed(12)));
    items.advance(0);
    items.advance(0);
    let error = run(&plan, lie(answer), &items).unwrap_err().to_string();
    assert!(error.contains(what), "{error}");
}

fn value_line(number: u32, value: &[u8]) -> Vec<u8> {
    [format!("VALUE t0:{number:020} 0 12\r\n").as_bytes(), value, b"\r\nEND\r\n"].concat()
}

#[test]
fn a_wrong_answer_ends_the_load() {
    check_caught(value_line(0, b"abcdefghijkl"), "never stored");
    check_caught(value_line(1, b"abcdefghijkl"), "another key");
    check_caught(b"STORED\r\n".to_vec(), "answered with");
    check_caught(b"ERROR\r\n".to_vec(), "'ERROR'");
}

#[test]
fn a_stale_value_ends_the_load() {
    let mut value = Vec::new();
    Items::new(1, Sizes::Fixed(12)).write_value(0, 1, &mut value);
    check_caught(value_line(0, &value), "version 1 instead of 2");
}
