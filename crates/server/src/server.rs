//! The long-running process: binds, starts the threads, says where it listens, drains.

mod contents;
mod crew;
mod gate;
mod sockets;

pub use sockets::Sockets;

use crate::acceptor::{Acceptor, Desk};
use crate::admin::Administration;
use crate::admission::Allowance;
use crate::auth::{Auth, AuthError};
use crate::config::Config;
use crate::groups::Division;
use crate::listener::{Address, SocketFile};
use crate::loops::{self, Helpers};
use crate::operator::Operator;
use crate::reactor::{self, Epoll, Reactor, Ring, Uring};
use crate::saved::{NotSaved, SavedError, SavedFile};
use crate::shared::{Clock, Shared};
use crate::sharing::{GroupClaims, Known, Speeds, SpeedsError, Unmeasured};
use crate::tenants::Router;
use crate::tiers::TierUnavailable;
use crate::tls::TlsError;
use crate::vigil::Vigil;
use crate::worker::{Surroundings, Worker};
use contents::{open_store, recover};
use crew::Crew;
use mio::Waker;
use sockets::{Prepared, entrances, ready_line};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use store::{Headway, StoreError};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// TLS cannot be spoken.
    #[error("cannot speak TLS")]
    Tls(#[from] TlsError),
    /// The store cannot be made.
    #[error("cannot make the store")]
    Store(#[from] StoreError),
    /// A thread or a poll cannot be made.
    #[error("cannot start a thread")]
    Thread(#[from] io::Error),
    /// A tier cannot be had.
    #[error(transparent)]
    Tier(#[from] TierUnavailable),
    /// A policy about bandwidth needs to know more of its tier.
    #[error(transparent)]
    Unmeasured(#[from] Unmeasured),
    /// A policy needs tenants' speeds, and they cannot be had.
    #[error(transparent)]
    Speeds(#[from] SpeedsError),
    /// What a clean end is to save cannot be.
    #[error("cannot keep the items over a restart in {}", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: SavedError,
    },
    /// The users cannot be read.
    #[error("cannot tell who may come in")]
    Auth(#[from] AuthError),
    /// More tenants are configured than fit.
    #[error("too many tenants are configured")]
    Tenants,
    /// It was told to end before it served anybody: the next start finds what this one did.
    #[error("the start was broken off")]
    BrokenOff,
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    ready: String,
    address: Option<SocketAddr>,
    /// Files of UNIX sockets, which go with the server.
    _files: Vec<SocketFile>,
    admin: Option<SocketAddr>,
    acceptor_waker: Waker,
    helpers: Arc<Helpers>,
    admin_stop: Option<tokio::sync::oneshot::Sender<()>>,
    vigil: Arc<Vigil>,
    threads: Vec<JoinHandle<()>>,
    view: crate::View,
    operator: Arc<Operator>,
    shared: Arc<Shared>,
    router: Arc<Router>,
    /// Where the end saves the items.
    saved: Option<SavedFile>,
    headway: Arc<Headway>,
}

/// Starts a server.
///
/// # Errors
/// If an address is taken, or the memory or a thread is refused.
pub fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Running, StartError> {
    let sockets = Sockets::open(&config, Vec::new())?;
    start_on(config, sockets, clock, Arc::default())
}

/// Starts a server on sockets that listen already. `headway` tells how far it is with what is kept over a restart, at the end,
/// too, and may break the start off.
///
/// # Errors
/// If the memory or a thread is refused, or it is broken off.
pub fn start_on(
    config: Config,
    sockets: Sockets,
    clock: Arc<dyn Clock>,
    headway: Arc<Headway>,
) -> Result<Running, StartError> {
    let policy = Division::of(&config).configured(&config);
    run(config, sockets, policy, clock, headway)
}

/// Starts a server whose memory `policy` divides, whatever it has decided elsewhere before: on a model, or in another
/// server.
///
/// # Errors
/// If an address is taken, or the memory or a thread is refused.
pub fn start_with(
    config: Config,
    policy: policy::memory::MemoryPolicy,
    clock: Arc<dyn Clock>,
) -> Result<Running, StartError> {
    let sockets = Sockets::open(&config, Vec::new())?;
    run(config, sockets, policy, clock, Arc::default())
}

fn run(
    config: Config,
    mut sockets: Sockets,
    policy: policy::memory::MemoryPolicy,
    clock: Arc<dyn Clock>,
    headway: Arc<Headway>,
) -> Result<Running, StartError> {
    let admin = sockets.admin.take().map(Administration::open).transpose()?;
    let (store, model, saved) = open_store(&config, &clock)?;
    let router = Arc::new(Router::new(Arc::clone(&store), &config).ok_or(StartError::Tenants)?);
    let auth = Auth::load(&config, &router)?;
    let contents = recover(&store, &router, saved.as_ref(), &headway)?;
    let is_there = |name: &str| router.find(name).is_some();
    let speeds_file = config.bandwidth_speeds.clone();
    let speeds = Speeds::of_policy(config.bandwidth_policy, speeds_file.as_deref(), is_there)?;
    let groups = GroupClaims::of(&Division::of(&config), &store);
    let known = Known { model, speeds, speeds_file, groups };
    let memory = loops::memory_loop(policy);
    let Sockets { mut main, keys, .. } = sockets;
    let (engine, rings) = reactor::choose(config.io_engine, config.threads);
    let shared = Arc::new(Shared::new(config, auth, store, clock, keys, engine, known)?);
    admit_configured(&shared, &router);
    shared.tick();
    watch_evictions(&shared);
    let files = main.iter_mut().filter_map(|prepared| prepared.opened.made.take()).collect();
    let address = tell_addresses(&shared, &main);
    let admin_address = admin.as_ref().and_then(Administration::address);
    let ready = ready_line(&shared.config, &main, admin_address);
    let entrances = entrances(main, &shared, &router)?;
    let view = crate::View::new(Arc::clone(&shared), Arc::clone(&router), Arc::clone(&memory));
    let vigil = Arc::new(Vigil::default());
    let stop = Arc::clone(vigil.stop());
    let helpers = Arc::new(Helpers::default());
    let operator = Arc::new(Operator::new(&shared, &router, &memory, &helpers));
    let mut crew = Crew::new(&vigil, &helpers);

    start_cleaners((&shared, &helpers, &vigil), &mut crew)?;
    {
        let (shared, router, helpers) = (Arc::clone(&shared), Arc::clone(&router), Arc::clone(&helpers));
        let stop = Arc::clone(&stop);
        crew.threads.push(
            vigil.spawn("control", move || loops::control(&shared, &router, &helpers, &memory, &stop))?,
        );
    }
    if shared.store.divided_tier().is_some() {
        // What tenants claim holds from the first request on.
        shared.sharing.step(&shared);
        let (shared, helpers, stop) = (Arc::clone(&shared), Arc::clone(&helpers), Arc::clone(&stop));
        crew.threads.push(spawn("bandwidth", move || loops::bandwidth(&shared, &helpers, &stop))?);
    }
    let desks = start_workers((&shared, &router, &helpers, &vigil), rings, &mut crew)?;
    helpers.know_workers(crew.wakers.clone());
    let (acceptor, acceptor_waker) = Acceptor::new(Arc::clone(&shared), entrances, desks, stop)?;
    let pass = crew.pass();
    crew.threads.push(vigil.spawn("acceptor", move || pass.wait(|| acceptor.accept()))?);
    if headway.is_broken_off() {
        return Err(StartError::BrokenOff);
    }
    // Whatever could fail has not: from here on clients are served.
    let used = contents.take()?;
    crew.open_gate();
    let admin_stop = admin.map(|admin| admin.begin(view.clone(), Arc::clone(&operator), &mut crew.threads));
    drop(used);
    Ok(Running {
        ready,
        address,
        _files: files,
        admin: admin_address,
        acceptor_waker,
        helpers,
        admin_stop,
        vigil,
        threads: crew.all_are_there(),
        view,
        operator,
        shared,
        router,
        saved,
        headway,
    })
}

/// Lets clients be told where the server listens for requests of every tenant; where they come in first.
fn tell_addresses(shared: &Shared, main: &[Prepared]) -> Option<SocketAddr> {
    let of_all = main.iter().filter(|prepared| prepared.tenant.is_none());
    let addresses = of_all.map(|prepared| &prepared.opened.address);
    shared.clients.listen(addresses.clone().cloned(), shared.clock.now());
    let first = addresses.into_iter().find_map(|address| match address {
        Address::Ip(address) => Some(*address),
        _ => None,
    });
    shared.set_port(first.map_or(0, |address| address.port()));
    first
}

/// Tells who is allowed what, and claims what of a tier's bandwidth, by the configuration.
fn admit_configured(shared: &Shared, router: &Router) {
    for tenant in &shared.config.tenants {
        let Some(id) = router.find(&tenant.name) else { continue };
        if tenant.allowance != Allowance::default() {
            shared.admission.allow(id, tenant.allowance);
        }
        shared.sharing.set_claim(id, &tenant.bandwidth);
    }
}

/// Starts the cleaners: they wait, for as long as tiers take nothing they would evict what goes there.
fn start_cleaners(
    (shared, helpers, vigil): (&Arc<Shared>, &Arc<Helpers>, &Arc<Vigil>),
    crew: &mut Crew,
) -> Result<(), StartError> {
    shared.store.set_cleaners(shared.config.cleaners);
    for number in 0..shared.config.cleaners {
        let cleaner = shared.store.worker()?;
        let (shared, helpers, stop) = (Arc::clone(shared), Arc::clone(helpers), Arc::clone(vigil.stop()));
        let pass = crew.pass();
        let clean = move || pass.wait(|| loops::clean(cleaner, number, &shared, &helpers, &stop));
        crew.threads.push(vigil.spawn("cleaner", clean)?);
    }
    Ok(())
}

/// Lets those who watch see evictions.
fn watch_evictions(shared: &Arc<Shared>) {
    let watching = Arc::downgrade(shared);
    shared.store.witness_evictions(move |item| {
        if let Some(shared) = watching.upgrade() {
            crate::watch::evicted(&shared.watch, &shared.store, &*shared.clock, item);
        }
    });
}

/// Starts the workers; those that get a ring serve on it.
fn start_workers(
    (shared, router, helpers, vigil): (&Arc<Shared>, &Arc<Router>, &Arc<Helpers>, &Arc<Vigil>),
    rings: Vec<Ring>,
    crew: &mut Crew,
) -> Result<Vec<Desk>, StartError> {
    let mut desks = Vec::new();
    let mut rings = rings.into_iter();
    for i in 0..shared.config.threads {
        let (sender, inbox) = crossbeam_channel::unbounded();
        let load = Arc::new(AtomicUsize::new(0));
        let around = Surroundings {
            shared: Arc::clone(shared),
            router: Arc::clone(router),
            helpers: Arc::clone(helpers),
            inbox,
            load: Arc::clone(&load),
            stop: Arc::clone(vigil.stop()),
            number: i,
        };
        let name = format!("worker-{i}");
        let (waker, thread) = match rings.next() {
            Some(ring) => start_worker(&name, around, Uring::new(ring, Arc::clone(shared))?, vigil)?,
            None => start_worker(&name, around, Epoll::new()?, vigil)?,
        };
        crew.threads.push(thread);
        crew.wakers.push(Arc::clone(&waker));
        desks.push(Desk { inbox: sender, waker, load });
    }
    Ok(desks)
}

type Started = (Arc<reactor::Waker>, JoinHandle<()>);

fn start_worker<R>(
    name: &str,
    around: Surroundings,
    reactor: R,
    vigil: &Arc<Vigil>,
) -> Result<Started, StartError>
where
    R: Reactor + Send + 'static,
{
    let waker = reactor.waker();
    let store = around.shared.store.worker()?;
    Ok((waker, vigil.spawn(name, move || Worker::new(around, reactor, store).work())?))
}

/// Starts a thread that the server can do without: the loop about bandwidth goes on after a step that failed, and without it the last
/// steady shares hold; requests are answered without an administration.
fn spawn(name: &str, act: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(act)
}

impl Running {
    /// One line that names every address in use.
    #[must_use]
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// The first memcached address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The admin address.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// What can be seen of it from inside the process.
    #[must_use]
    pub fn view(&self) -> &crate::View {
        &self.view
    }

    /// What an operator can do with it from inside the process.
    #[must_use]
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Reads the file of users again; returns how many there are, none if nobody is asked for a password.
    ///
    /// # Errors
    /// If the file cannot be used; what was in force stays.
    pub fn reload_users(&self) -> Result<Option<usize>, AuthError> {
        self.shared.auth.as_ref().map(|auth| auth.reload(&self.router)).transpose()
    }

    /// Reads the keys of TLS again; connections made from now on have them. False if there are none.
    ///
    /// # Errors
    /// If they cannot be used; then the old ones stay in force.
    pub fn reload_keys(&self) -> Result<bool, TlsError> {
        self.shared.reload_keys()
    }

    /// Calls `tell` once a thread of the server has ended by itself, at once if one has: nothing works as it should from then on,
    /// and it is to be shut down.
    pub fn when_broken(&self, tell: impl Fn() + Send + 'static) {
        self.vigil.when_ended(Box::new(tell));
    }

    /// The thread that has ended by itself, if one has.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.vigil.ended()
    }

    /// Stops accepting, answers what has arrived, sends what is owed, ends every thread, saves the items.
    ///
    /// # Errors
    /// If there is a file to save them in, and they could not be.
    pub fn shut_down(self) -> Result<(), NotSaved> {
        self.vigil.stop().store(true, Ordering::Release);
        // A thread that cannot be woken wakes by itself.
        let _woken = self.acceptor_waker.wake();
        self.helpers.wake_all();
        if let Some(stop) = self.admin_stop {
            let _gone = stop.send(());
        }
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread had panicked");
            }
        }
        self.saved.as_ref().map_or(Ok(()), |saved| saved.save(&self.shared.store, &self.headway))
    }
}
