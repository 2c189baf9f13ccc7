//! What becomes of requests whose values there is no memory to read into.

use super::*;
use crate::config::{Config, Protocol};
use crate::listener::{Address, Door, Terms};
use crate::loops::Helpers;
use crate::reactor::Epoll;
use crate::tenants::{Binding, Router};
use crate::testing::{Set, shared};
use crate::worker::{NewConnection, Surroundings};
use crossbeam_channel::{Sender, unbounded};
use media::FileTier;
use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use store::{Options, Placement, Space};
use units::Duration;

thread_local! {
    /// There is no memory for buffers of this thread.
    pub(super) static ARE_REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// A worker above a tier in a file, run by its test.
struct Rig {
    folder: PathBuf,
    worker: Worker<Epoll>,
    come: Sender<NewConnection>,
}

/// The other end of a connection, and what was read there.
struct Peer(Socket, Vec<u8>);

impl Drop for Rig {
    fn drop(&mut self) {
        ARE_REFUSED.set(false);
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// Rounds until something must have happened.
const ROUNDS: usize = 5_000;

impl Rig {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("cotenant-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let tier = Arc::new(FileTier::open(&folder.join("tier"), Bytes::mib(64)).unwrap());
        // One of so many fetches one value at a time.
        let config = Config { memory: Bytes::mib(16), threads: 64, ..Config::default() };
        let options = Options {
            memory: config.memory,
            item_max: config.item_max,
            threads: 1,
            tenants_max: 2,
            no_evict: false,
            seed: 1,
        };
        let store = Store::with_tiers(options, &[tier], 0).unwrap();
        let router = Arc::new(Router::new(Arc::clone(&store), &config).unwrap());
        assert!(store.set_placement(router.default_tenant(), Placement::Tier(0)));
        let mut thread = store.worker().unwrap();
        thread.restore(None, &mut |_, _| None);
        let (come, inbox) = unbounded();
        let around = Surroundings {
            shared: Arc::new(shared(config, None, store, Arc::new(Set::default()))),
            router,
            helpers: Arc::new(Helpers::default()),
            inbox,
            load: Arc::new(AtomicUsize::new(0)),
            stop: Arc::new(AtomicBool::new(false)),
            number: 0,
        };
        let worker = Worker::new(around, Epoll::new().unwrap(), thread);
        Self { folder, worker, come }
    }

    fn connect(&mut self) -> Peer {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let terms = Terms { protocol: Protocol::Text, auth: false, tenant: Binding::Unbound };
        let door = Arc::new(Door { terms, tls: None, proxy: false, address: Address::Unix("".into(), 0) });
        self.come.send(NewConnection { stream: ours, peer: None, door }).unwrap();
        self.round();
        Peer(theirs, Vec::new())
    }

    fn round(&mut self) {
        self.worker.round(Some(Duration::from_millis(5))).unwrap();
    }

    /// Sends all of it, and reads until the answers end so.
    fn ask(&mut self, peer: &mut Peer, mut requests: &[u8], end: &str) -> String {
        for _ in 0..ROUNDS {
            if let Ok(sent) = peer.0.write(requests) {
                requests = &requests[sent..];
            }
            self.round();
            if requests.is_empty() && peer.reads().ends_with(end) {
                return std::mem::take(&mut peer.1).into_iter().map(char::from).collect();
            }
        }
        panic!("no '{end}' has come: {:?}", peer.reads());
    }

    /// Stores numbers that are worth a place in the file, and so much behind them that they are there.
    fn store(&mut self, peer: &mut Peer, keys: &[String], len: usize) {
        let set = |key: &str, value: &str| format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        let all: String = keys.iter().map(|key| set(key, &format!("{:<len$}", 5))).collect();
        self.ask(peer, (all + "mn\r\n").as_bytes(), "MN\r\n");
        for number in 0..2_000 {
            if keys.iter().all(|key| self.is_away(key)) {
                return;
            }
            let filler = set(&format!("filler-{number}"), &"x".repeat(4_000));
            self.ask(peer, filler.as_bytes(), "STORED\r\n");
        }
        panic!("not all of them have gone to the file");
    }

    fn is_away(&self, key: &str) -> bool {
        let key = self.worker.store.key(Space::Shared, key.as_bytes()).unwrap();
        self.worker.store.fetch_plan(&key).is_some()
    }

    fn rounds_until(&mut self, mut is_so: impl FnMut(&Self) -> bool) {
        for _ in 0..ROUNDS {
            if is_so(self) {
                return;
            }
            self.round();
        }
        panic!("it never came");
    }

    /// Somebody else has all the buffers that may be.
    fn occupy(&mut self, key: &str) -> FetchPlan {
        let bytes = self.worker.fetch_bytes();
        let (id, number) = (StreamId(usize::MAX), usize::MAX);
        self.worker.fetching.jobs.insert(u64::MAX, Job { id, number, awaited: 1, bytes, come: Vec::new() });
        self.worker.account_fetches(bytes);
        let key = self.worker.store.key(Space::Shared, key.as_bytes()).unwrap();
        self.worker.store.fetch_plan(&key).unwrap()
    }

    /// That has ended, and there is no memory for buffers any more.
    fn give_way(&mut self, plan: FetchPlan) {
        ARE_REFUSED.set(true);
        self.worker.fetching.note_done((u64::MAX, plan, Come::NoBuffer));
    }

    /// All of these ask for so much that no two fetch at once, and wait for somebody else.
    fn store_and_occupy(&mut self, peers: &mut [Peer]) -> FetchPlan {
        self.store(&mut peers[0], &keys("n", 1), 30_000);
        let plan = self.occupy("n-0");
        for peer in peers.iter_mut() {
            peer.0.write_all(b"get n-0\r\n").unwrap();
        }
        self.rounds_until(|rig| rig.worker.fetching.waiting.len() == peers.len());
        let bytes = |(_, _, plans): &(_, _, Vec<FetchPlan>)| plans.iter().map(|plan| plan.len).sum::<usize>();
        let each: Vec<usize> = self.worker.fetching.waiting.iter().map(bytes).collect();
        assert!(each.iter().all(|bytes| self.worker.fetch_bytes() < 2 * bytes), "{each:?}");
        plan
    }

    /// Nobody fetches, or waits to.
    fn is_quiet(&self) -> bool {
        let fetching = &self.worker.fetching;
        let is_fetching = self.worker.connections.iter().flatten().any(|c| c.is_fetching);
        fetching.bytes == 0 && fetching.waiting.is_empty() && fetching.jobs.is_empty() && !is_fetching
    }
}

impl Peer {
    fn reads(&mut self) -> String {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(len @ 1..) = self.0.read(&mut buffer) {
            self.1.extend_from_slice(&buffer[..len]);
        }
        String::from_utf8_lossy(&self.1).into_owned()
    }
}

fn keys(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}-{number}")).collect()
}

#[test]
fn all_workers_together_fetch_a_part_of_the_memory() {
    for (mebibytes, workers) in [(8, 4), (64, 4), (64, 1), (1024, 4), (1024, 16)] {
        let memory = Bytes::mib(mebibytes);
        let together = workers * bytes_at_once(memory, workers);
        assert!(together as u64 <= memory.0 / FETCH_PART, "{together} B of {memory}");
        assert!(memory.0 / FETCH_PART - (together as u64) < workers as u64, "{together} B of {memory}");
    }
    assert_eq!(bytes_at_once(Bytes::mib(1 << 20), 4), FETCH_BYTES_MAX);
    assert_eq!(bytes_at_once(Bytes::mib(64), 0), 4 << 20);
}

#[test]
fn a_request_whose_value_cannot_be_had_is_answered() {
    const NONE: &str = "SERVER_ERROR out of memory";
    let mut rig = Rig::new("answered");
    let mut peer = rig.connect();
    rig.store(&mut peer, &keys("n", 1), 2_000);
    let cases = [
        ("get n-0", "END"),
        ("get n-0 n-0", "END"),
        ("gat 0 n-0", "END"),
        ("mg n-0 v", "EN"),
        ("mg n-0 v T60", "EN"),
        ("mg n-0 v N60", "EN"),
        ("incr n-0 1", NONE),
        ("append n-0 0 0 1\r\n1", NONE),
        ("prepend n-0 0 0 1\r\n1", NONE),
        ("touch n-0 60", NONE),
        ("ms n-0 1 MA\r\n1", "SERVER_ERROR out of memory"),
        ("ms n-0 1 MP\r\n1", "SERVER_ERROR out of memory"),
        ("ma n-0 N60", "SERVER_ERROR Out of memory allocating new item"),
    ];
    for (request, answer) in cases {
        for again in ["", "get gone\r\n", "incr gone 1\r\n"] {
            assert!(rig.is_away("n-0"), "{request}");
            ARE_REFUSED.set(true);
            let asked = format!("{request}\r\n{again}{request}\r\nmn\r\n");
            let answered = rig.ask(&mut peer, asked.as_bytes(), "MN\r\n");
            let times = answered.lines().filter(|line| line.starts_with(answer)).count();
            let others = usize::from("END".starts_with(answer) && again.starts_with("get"));
            assert_eq!(times, 2 + others, "{request}: {answered}");
            assert!(rig.is_quiet() && rig.worker.store.take_wanted().is_none(), "{request}");
            ARE_REFUSED.set(false);
        }
    }
    assert_eq!(rig.ask(&mut peer, b"incr n-0 1\r\n", "\r\n"), "6\r\n", "it was there all the time");
}

#[test]
fn who_is_behind_one_that_got_no_value_waits_for_theirs() {
    let mut rig = Rig::new("behind-one");
    let mut peer = rig.connect();
    rig.store(&mut peer, &keys("n", 2), 2_000);
    // The first is answered once it has waited as often as anybody does; the second has not waited yet.
    ARE_REFUSED.set(true);
    let id = StreamId(0);
    peer.0.write_all(b"incr n-0 1\r\nincr n-1 1\r\n").unwrap();
    let connection = rig.worker.connections[id.0].as_mut().unwrap();
    connection.fetches_made = FETCHES_MAX;
    ARE_REFUSED.set(false);
    let answered = rig.ask(&mut peer, b"", "6\r\n");
    assert!(answered.starts_with("SERVER_ERROR out of memory"), "{answered}");
}

#[test]
fn who_waits_for_the_buffers_of_others_is_heard_though_they_get_none() {
    for client_leaves in [false, true] {
        let mut rig = Rig::new("heard");
        let mut peers: Vec<Peer> = (0..2).map(|_| rig.connect()).collect();
        let plan = rig.store_and_occupy(&mut peers);
        if client_leaves {
            // It was not read from, and nobody knew.
            rig.worker.close(StreamId(0));
            peers.remove(0);
        }
        rig.give_way(plan);
        for peer in &mut peers {
            rig.ask(peer, b"", "END\r\n");
        }
        assert!(rig.is_quiet());
    }
}

#[test]
fn many_who_get_no_buffer_take_their_turns_one_after_the_other() {
    let many = || {
        let mut rig = Rig::new("many");
        let mut peers: Vec<Peer> = (0..150).map(|_| rig.connect()).collect();
        let plan = rig.store_and_occupy(&mut peers);
        rig.give_way(plan);
        for peer in &mut peers {
            rig.ask(peer, b"", "END\r\n");
        }
        assert!(rig.is_quiet());
    };
    // A turn of one within that of another, and so on, would need more.
    std::thread::Builder::new().stack_size(512 << 10).spawn(many).unwrap().join().unwrap();
}

#[test]
fn what_follows_a_large_value_is_answered_behind_it() {
    let mut rig = Rig::new("follows");
    let mut peer = rig.connect();
    rig.store(&mut peer, &keys("n", 1), 2_000);
    let len = rig.worker.bounds.upload_from + 1;
    assert!(len + 2_000 < rig.worker.bounds.body_max);
    let value = "x".repeat(len);
    let requests = format!("append n-0 0 0 {len}\r\n{value}\r\nget gone\r\nmn\r\n");
    let plan = rig.occupy("n-0");
    let mut left = requests.as_bytes();
    rig.rounds_until(|rig| {
        if let Ok(sent) = peer.0.write(left) {
            left = &left[sent..];
        }
        let waits = rig.worker.connections[0].as_ref().unwrap();
        left.is_empty() && waits.awaits_another() && waits.input.ends_with(b"mn\r\n")
    });
    rig.give_way(plan);
    let refused = rig.ask(&mut peer, b"", "MN\r\n");
    assert_eq!(refused, "SERVER_ERROR out of memory storing object\r\nEND\r\nMN\r\n");
    ARE_REFUSED.set(false);
    let appended = rig.ask(&mut peer, requests.as_bytes(), "MN\r\n");
    assert_eq!(appended, "STORED\r\nEND\r\nMN\r\n");
}
