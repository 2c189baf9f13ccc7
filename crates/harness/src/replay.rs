//! Replays a trace through the store in this process, as fast as it goes.
//!
//! Shape:      trace -> look-aside client -> store; the control loop decides per so many shadow hits or per second of
//!             the trace's time, whichever comes first
//! Invariants: the same trace, options and seed give the same report, but for the seconds

mod options;

use crate::names::{name_of, whose};
use crate::report::{Report, TenantReport, TierReport};
pub use control::Weight;
use control::{Amount, Claim, Loop};
use lab::{Op, Request, TraceError, TraceReader};
use media::{Device, Plain, TierMedium, TierSpec};
pub use options::ReplayOptions;
pub use policy::memory::Tax;
use policy::memory::{Credit, MemoryOptions, MemoryPolicy};
use server::{ConfigError, Division, check_notes};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use store::{
    CLOCK_START, Fields, Key, MemoryControl, Mode, Options, Refused, Space, Store, StoreError, TenantSpec,
    Totals, Worker,
};
use units::{Bytes, Duration, Instant, TenantId};

/// Why a replay ended.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such policy.
    #[error("'{name}' is no memory policy ({})", MemoryPolicy::NAMES.join(", "))]
    Policy {
        /// What was asked for.
        name: String,
    },
    /// Groups that do not go together with their members, or reservations with the memory.
    #[error(transparent)]
    Claims(#[from] ConfigError),
    /// The trace has too many tenants.
    #[error("the trace has more than {TENANTS_MAX} tenants")]
    Tenants,
    /// The policy was given what no decision can be made from.
    #[error("no decision can be made: {0}")]
    Decision(#[from] control::SeenError),
    /// The server does not answer as it should.
    #[error("the server at {server}: {what}")]
    Server {
        /// Its address.
        server: String,
        /// What went wrong.
        what: String,
    },
}

/// Tenants of one trace at most.
pub(crate) const TENANTS_MAX: usize = 4096;
/// A decision is due after so many shadow hits.
pub const SHADOW_HITS_PER_DECISION: u64 = 64;
/// A decision is due after so much of the trace's time.
const DECISION_PERIOD: Duration = Duration::from_secs(1);
/// Decisions kept in memory.
const JOURNAL_LIMIT: usize = 16;
/// Requests between looks at the clock of decisions.
const BATCH: u64 = 16;
/// Requests between two signs of progress.
const PROGRESS: u64 = 1 << 16;
const _: () = assert!(PROGRESS.is_multiple_of(BATCH), "progress is looked at after a batch");

/// A replay in progress.
struct Replayer {
    division: Division,
    options: ReplayOptions,
    store: Arc<Store>,
    worker: Worker,
    ids: HashMap<Vec<u8>, TenantId>,
    /// Who has a part of the memory for itself, or will.
    promised: BTreeSet<String>,
    control: MemoryControl,
    pacer: Loop<MemoryPolicy>,
    filler: Vec<u8>,
    decided: Instant,
    undecided_tenant: bool,
}

/// Replays `traces`, one after another; calls `progress` with the number of requests now and then.
///
/// # Errors
/// If the trace cannot be read or the options fit no store.
pub fn in_process(
    options: ReplayOptions,
    traces: &mut [&mut dyn TraceReader],
    progress: &mut dyn FnMut(u64),
) -> Result<Report, ReplayError> {
    let after = &mut |_: &mut Replayer, requests: u64, _| {
        if requests.is_multiple_of(PROGRESS) {
            progress(requests);
        }
    };
    let report = replay(options, traces, after)?;
    progress(report.requests);
    Ok(report)
}

/// Replays `traces` as [`in_process`] does; every `every` of the trace's time `look` sees what was found since the start.
///
/// # Errors
/// If the trace cannot be read or the options fit no store.
pub fn in_process_watched(
    options: ReplayOptions,
    traces: &mut [&mut dyn TraceReader],
    every: Duration,
    look: &mut dyn FnMut(Instant, &Report),
) -> Result<Report, ReplayError> {
    let mut next = Instant::ZERO + every;
    let after = &mut |replayer: &mut Replayer, requests: u64, at: Instant| {
        if next <= at {
            look(at, &replayer.report(requests));
            while next <= at {
                next += every.max(Duration::from_millis(1));
            }
        }
    };
    replay(options, traces, after)
}

/// What is told of a replay after each batch: itself, the requests so far, the time of the last.
type After<'a> = &'a mut dyn FnMut(&mut Replayer, u64, Instant);

fn replay(
    options: ReplayOptions,
    traces: &mut [&mut dyn TraceReader],
    after: After<'_>,
) -> Result<Report, ReplayError> {
    let mut replayer = Replayer::new(options)?;
    let limit = replayer.options.limit.unwrap_or(u64::MAX);
    let (mut requests, mut times) = (0, Times::default());
    for trace in traces {
        times.begin_trace();
        while requests < limit
            && let Some(request) = trace.next()?
        {
            let request = times.in_turn(request);
            replayer.run(&request)?;
            requests += 1;
            if requests.is_multiple_of(BATCH) {
                replayer.between(request.at)?;
                after(&mut replayer, requests, request.at);
            }
        }
    }
    Ok(replayer.report(requests))
}

/// The time of several traces since the first request, one after the other: one that goes on where the one before it has ended
/// does, any other begins then, and none goes back.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// By how much the times of this trace are later than it says; none before its first request.
    later: Option<Duration>,
    last: Instant,
    /// When the first request of all was: a trace that was cut out of another does not begin at 0.
    began: Option<Instant>,
}

impl Times {
    /// Another trace begins.
    pub(crate) fn begin_trace(&mut self) {
        self.later = None;
    }

    /// A request of the trace, in the time of all.
    pub(crate) fn in_turn<'a>(&mut self, request: Request<'a>) -> Request<'a> {
        let began = *self.began.get_or_insert(request.at);
        let later = *self.later.get_or_insert(self.last.since(request.at));
        self.last = self.last.max(request.at + later);
        Request { at: Instant::ZERO + self.last.since(began), ..request }
    }
}

impl Replayer {
    fn new(options: ReplayOptions) -> Result<Self, ReplayError> {
        let settings = MemoryOptions {
            credit: Credit::fitting(options.credit, options.memory + options.tier),
            tax: options.tax,
            learning: options.learning,
            seed: options.seed,
        };
        let kind = server::MemoryPolicy::ALL.into_iter().find(|kind| kind.name() == options.policy);
        let kind = kind.ok_or_else(|| ReplayError::Policy { name: options.policy.clone() })?;
        options.check_groups()?;
        let division = Division::new(kind, &options.groups);
        let policy = division.policy(settings);
        let modelled = TierSpec { medium: TierMedium::Dram, size: options.tier };
        check_notes(options.memory, Some(&modelled).filter(|tier| tier.size != Bytes::ZERO).into_iter())?;
        let devices = match options.tier {
            Bytes::ZERO => Vec::new(),
            size => vec![Arc::new(Plain::new(size).map_err(StoreError::from)?) as Arc<dyn Device>],
        };
        let settings = Options {
            memory: options.memory,
            item_max: options.item_max,
            threads: 1,
            tenants_max: TENANTS_MAX,
            no_evict: false,
            seed: options.seed,
        };
        let store = Store::with_tiers(settings, &devices, 0)?;
        let promised = options.named();
        options.check_reserved(&division, &promised, store.geometry().divisible)?;
        store.set_promotion(options.promotion);
        if let Some(kind) = options.pass_kind {
            store.set_pass_kind(kind);
        }
        let filler = vec![b'x'; store.geometry().item_max.as_usize()];
        let worker = store.worker()?;
        let mut replayer = Self {
            control: if policy.wants_idle() {
                MemoryControl::with_idle(Arc::clone(&store), options.idle_time)
            } else {
                MemoryControl::new(Arc::clone(&store))
            },
            pacer: Loop::new(policy, JOURNAL_LIMIT),
            division,
            ids: HashMap::new(),
            promised,
            filler,
            worker,
            store,
            options,
            decided: Instant::ZERO,
            undecided_tenant: false,
        };
        replayer.control.set_groups(&replayer.division.reserve_and_weigh());
        for name in replayer.options.tenants.clone() {
            replayer.tenant(name.as_bytes())?;
        }
        replayer.decide(Instant::ZERO)?;
        Ok(replayer)
    }

    fn tenant(&mut self, name: &[u8]) -> Result<TenantId, ReplayError> {
        let name = whose(name);
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        let text = name_of(name);
        let floor = self.options.floor_of(&text);
        if floor != Bytes::ZERO && self.promised.insert(text.clone()) {
            self.options.check_reserved(&self.division, &self.promised, self.store.geometry().divisible)?;
        }
        let credit = self.options.credits.iter().find(|(of, _)| *of == text).map(|(_, credit)| *credit);
        let weight = self.options.weights.iter().find(|(of, _)| *of == text).map(|(_, weight)| *weight);
        let claim = Claim {
            weight: weight.unwrap_or_default(),
            floor: Amount::memory(floor),
            credit,
            group: self.options.group_of(&text, &self.division),
            ..Claim::default()
        };
        let spec = TenantSpec { name: text, own_space: false, claim, rank: self.options.rank.clone() };
        let id = self.store.add_tenant(spec).ok_or(ReplayError::Tenants)?;
        // Without a tier there is one placement only.
        self.store.set_placement(id, self.options.placement);
        self.ids.insert(name.to_vec(), id);
        self.undecided_tenant = true;
        Ok(id)
    }

    fn run(&mut self, request: &Request<'_>) -> Result<(), ReplayError> {
        let tenant = self.tenant(request.tenant)?;
        if self.options.ttl {
            let secs = u32::try_from(request.at.whole_secs()).unwrap_or(u32::MAX - CLOCK_START);
            self.store.set_now(CLOCK_START + secs);
        }
        let ttl = if self.options.ttl { request.ttl_secs } else { 0 };
        let expires_at = if ttl == 0 { 0 } else { self.store.now_secs().saturating_add(ttl) };
        let value_len = (request.value_bytes as usize).min(self.filler.len());
        let write =
            Write { tenant, key: request.key, fields: Fields { client_flags: 0, expires_at }, value_len };
        match request.op {
            Op::Get | Op::Gets => {
                let key = self.worker.key(Space::Shared, request.key);
                let hit = key.is_some_and(|key| self.worker.get(tenant, &key).is_some());
                if !hit {
                    self.set(&write, Mode::Set);
                }
            }
            // A CAS follows a look-up that gave the value; without one in the trace it stores.
            Op::Set | Op::Cas => self.set(&write, Mode::Set),
            Op::Add => self.set(&write, Mode::Add),
            Op::Replace => self.set(&write, Mode::Replace),
            Op::Append => self.set(&write, Mode::Append),
            Op::Prepend => self.set(&write, Mode::Prepend),
            Op::Delete => {
                if let Some(key) = self.worker.key(Space::Shared, request.key) {
                    self.worker.delete(tenant, &key);
                }
            }
            Op::Incr | Op::Decr => self.count(&write, request.op == Op::Incr),
        }
        self.worker.quiesce();
        Ok(())
    }

    fn set(&mut self, write: &Write<'_>, mode: Mode) {
        let filler = std::mem::take(&mut self.filler);
        self.retry(write, |worker, key| {
            worker.set(write.tenant, key, mode, write.fields, &filler[..write.value_len]).map(drop)
        });
        self.filler = filler;
    }

    fn count(&mut self, write: &Write<'_>, up: bool) {
        self.retry(write, |worker, key| worker.count_by(write.tenant, key, 1, up).map(drop));
    }

    /// Runs a write, making room as often as it needs. What the store refuses for good is not stored, as on a server.
    fn retry(&mut self, write: &Write<'_>, act: impl Fn(&Worker, &Key<'_>) -> Result<(), Refused>) {
        let Some(key) = self.worker.key(Space::Shared, write.key) else { return };
        while act(&self.worker, &key) == Err(Refused::NoRoom) {
            if self.worker.make_room().is_err() {
                return;
            }
        }
    }

    /// What happens between requests: decisions that are due, ceilings that were passed.
    fn between(&mut self, at: Instant) -> Result<(), ReplayError> {
        self.control.look(at);
        let due = SHADOW_HITS_PER_DECISION <= self.store.pending_shadow_hits()
            || DECISION_PERIOD <= at.since(self.decided)
            || self.undecided_tenant;
        if due {
            self.decide(at)?;
        }
        if self.store.wants_cleaning() {
            self.worker.maintain();
        }
        Ok(())
    }

    fn decide(&mut self, at: Instant) -> Result<(), ReplayError> {
        self.pacer.step(at, &mut self.control);
        self.decided = at;
        self.undecided_tenant = false;
        self.pacer.refused().map_or(Ok(()), |error| Err(error.into()))
    }

    /// What was found so far; nothing of the store is referred to meanwhile.
    fn report(&mut self, requests: u64) -> Report {
        self.worker.quiesce();
        let mut all = Totals::default();
        let mut tenants: Vec<TenantReport> = Vec::new();
        for id in self.ids.values() {
            let Some(state) = self.store.tenant_state(*id) else { continue };
            let totals = self.store.totals(*id);
            all.add(&totals);
            tenants.push(TenantReport {
                name: state.name,
                gets: totals.get_hits + totals.get_misses,
                hits: totals.get_hits,
                target: Some(state.share.target),
                held: Some(state.held),
                evictions: Some(totals.evictions),
                shadow_hits: Some(totals.shadow_hits),
            });
        }
        tenants.sort_by(|a, b| a.name.cmp(&b.name));
        Report {
            policy: self.options.policy.clone(),
            memory: self.options.memory,
            requests,
            gets: all.get_hits + all.get_misses,
            hits: all.get_hits,
            seconds: 0.0,
            cleaner_moved_bytes: Some(all.moved_bytes),
            evictions: Some(all.evictions),
            tier: (self.options.tier != Bytes::ZERO).then(|| TierReport {
                size: self.options.tier,
                live: self.store.tier_use().iter().map(|tier| tier.live).sum(),
                hits: all.tier_hits,
                promotions: all.promotions,
                demotions: all.demotions,
                evictions: all.tier_evictions,
                read: Bytes(all.slow_read.bytes),
                written: Bytes(all.slow_write.bytes),
            }),
            peak_resident: None,
            tenants,
        }
    }
}

/// What a write needs besides its mode.
struct Write<'a> {
    tenant: TenantId,
    key: &'a [u8],
    fields: Fields,
    value_len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::GroupConfig;

    #[test]
    fn a_tier_whose_notes_take_too_much_is_refused() {
        let of =
            |tier| Replayer::new(ReplayOptions { tier, memory: Bytes::mib(64), ..ReplayOptions::default() });
        assert!(matches!(of(Bytes::mib(16 << 10)), Err(ReplayError::Claims(_))));
        assert!(of(Bytes::mib(512)).is_ok());
    }

    #[test]
    fn reservations_fit_the_memory_as_on_a_server() {
        let trace = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n0,a,k,20,61,get,0\n1,b,k,20,61,get,0\n2,,k,20,61,get,0\n";
        let team = |mib| GroupConfig {
            name: "team".to_owned(),
            reserved: Bytes::mib(mib),
            weight: 1.0,
            policy: None,
            bandwidth: server::TierClaim::default(),
        };
        let of = |name: &str, mib| (Some(name.to_owned()), Bytes::mib(mib));
        for (reserved, groups, fits) in [
            (vec![], vec![team(100)], false),
            (vec![], vec![team(40)], true),
            (vec![of("a", 100)], vec![], false),
            (vec![of("nobody", 40), of("a", 30)], vec![], false),
            (vec![(None, Bytes::mib(25))], vec![], false),
            (vec![(None, Bytes::mib(15))], vec![], true),
            (vec![of("default", 30), of("a", 15)], vec![], true),
            (vec![of("a", 30), of("b", 15)], vec![team(45)], true),
        ] {
            let is_team = !reserved.is_empty() && !groups.is_empty();
            let members = ["a", "b"].into_iter().filter(|_| is_team);
            let members = members.map(|name| (name.to_owned(), "team".to_owned())).collect();
            let options =
                ReplayOptions { reserved: reserved.clone(), groups, members, ..ReplayOptions::default() };
            let text = Box::new(std::io::Cursor::new(trace));
            let mut reader = lab::open_reader(text, "t", None).unwrap();
            let ended = in_process(options, &mut [&mut *reader], &mut |_| {});
            match ended {
                Ok(_) => assert!(fits, "{reserved:?}"),
                Err(e) => assert!(!fits && matches!(e, ReplayError::Claims(_)), "{reserved:?}: {e}"),
            }
        }
    }

    #[test]
    fn a_tenant_is_one_however_it_is_told_and_no_two_are_one() {
        let mut text = b"t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n".to_vec();
        for tenant in [b"".as_slice(), b"default", b"\xff", b"\xfe"] {
            text.extend([b"0,", tenant, b",k,20,61,get,0\n"].concat());
        }
        let mut reader = lab::open_reader(Box::new(std::io::Cursor::new(text)), "t", None).unwrap();
        // What one of them reserves nobody else has: twice as much would not fit.
        let reserved = vec![(Some("default".to_owned()), Bytes::mib(40))];
        let options = ReplayOptions { reserved, ..ReplayOptions::default() };
        let report = in_process(options, &mut [&mut *reader], &mut |_| {}).unwrap();
        let rows: Vec<_> = report.tenants.iter().map(|t| (t.name.as_str(), t.gets)).collect();
        assert_eq!(rows, [(r"\xfe", 1), (r"\xff", 1), ("default", 2)]);
    }

    #[test]
    fn a_trace_goes_on_where_the_one_before_has_ended_or_as_it_says() {
        let mut times = Times::default();
        let mut of = |is_first: bool, at: u64| {
            if is_first {
                times.begin_trace();
            }
            let (op, at) = (Op::Get, Instant::ZERO + Duration::from_secs(at));
            let request = Request { at, tenant: b"", key: b"k", value_bytes: 1, op, ttl_secs: 0 };
            times.in_turn(request).at.whole_secs()
        };
        let asked =
            [(true, 100), (false, 160), (true, 0), (false, 30), (true, 300), (false, 299), (true, 250)];
        let given: Vec<_> = asked.into_iter().map(|(is_first, at)| of(is_first, at)).collect();
        assert_eq!(given, [0, 60, 60, 90, 200, 200, 200]);
    }
}
