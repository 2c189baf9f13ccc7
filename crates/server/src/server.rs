//! The long-running process: binds, starts the threads, says where it listens, drains.

use crate::admin;
use crate::auth::{Auth, AuthError};
use crate::config::{Admin, Config};
use crate::limits::HANDOVER_QUEUE;
use crate::listener::{Acceptor, Desk, Entrance, Terms, bind};
use crate::loops::{self, Helpers};
use crate::operator::{InCharge, Operator};
use crate::reactor::{Epoll, Reactor as _};
use crate::shared::{Clock, Shared};
use crate::tenants::{Binding, Bound, Router};
use crate::worker::{Surroundings, Worker};
use mio::Waker;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use store::{Options, Store, StoreError};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// The store cannot be made.
    #[error("cannot make the store")]
    Store(#[from] StoreError),
    /// A thread or a poll cannot be made.
    #[error("cannot start a thread")]
    Thread(#[from] io::Error),
    /// The users cannot be read.
    #[error("cannot tell who may come in")]
    Auth(#[from] AuthError),
    /// More tenants are configured than fit.
    #[error("too many tenants are configured")]
    Tenants,
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    ready: String,
    address: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    wakers: Vec<Arc<Waker>>,
    acceptor_waker: Waker,
    helpers: Arc<Helpers>,
    admin_stop: Option<tokio::sync::oneshot::Sender<()>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    view: crate::View,
    operator: Arc<Operator>,
    shared: Arc<Shared>,
    router: Arc<Router>,
}

/// Starts a server.
///
/// # Errors
/// If an address is taken, or the memory or a thread is refused.
pub fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Running, StartError> {
    let policy = loops::memory_policy(&config, config.policy);
    start_with(config, policy, clock)
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
    let store = Store::new(Options {
        memory: config.memory,
        item_max: config.item_max,
        threads: config.threads,
        tenants_max: config.max_tenants.max(1),
        no_evict: config.no_evict,
        seed: config.seed,
    })?;
    let (router, bound) = Router::new(Arc::clone(&store), &config).ok_or(StartError::Tenants)?;
    let router = Arc::new(router);
    let auth = Auth::load(&config, &router)?;
    let memory = loops::memory_loop(policy);
    let shared = Arc::new(Shared::new(config, auth, store, clock));
    shared.tick();
    watch_evictions(&shared);
    let (entrances, addresses) = open_entrances(&shared.config, &bound)?;
    shared.set_port(addresses.main.first().map_or(0, SocketAddr::port));
    let in_charge = Arc::new(InCharge::new(shared.config.policy));
    let view = crate::View::new(
        Arc::clone(&shared),
        Arc::clone(&router),
        Arc::clone(&memory),
        Arc::clone(&in_charge),
    );
    let admin = open_admin(shared.config.admin)?;
    let stop = Arc::new(AtomicBool::new(false));
    let helpers = Arc::new(Helpers::default());
    let operator = Arc::new(Operator::new(&shared, &router, &memory, &helpers, in_charge));
    let mut threads = Vec::new();

    let cleaner = shared.store.worker()?;
    {
        let (shared, helpers, stop) = (Arc::clone(&shared), Arc::clone(&helpers), Arc::clone(&stop));
        threads.push(spawn("cleaner", move || loops::clean(cleaner, &shared, &helpers, &stop))?);
    }
    {
        let (shared, router, helpers) = (Arc::clone(&shared), Arc::clone(&router), Arc::clone(&helpers));
        let stop = Arc::clone(&stop);
        threads.push(spawn("control", move || loops::control(&shared, &router, &helpers, &memory, &stop))?);
    }
    let Crew { desks, wakers } = start_workers(&shared, &router, &helpers, &stop, &mut threads)?;
    let (acceptor, acceptor_waker) = Acceptor::new(Arc::clone(&shared), entrances, desks, Arc::clone(&stop))?;
    threads.push(spawn("acceptor", move || acceptor.accept())?);
    let admin_address = admin.as_ref().and_then(|l| l.local_addr().ok());
    let admin_stop = match admin {
        None => None,
        Some(listener) => {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let (view, operator) = (view.clone(), Arc::clone(&operator));
            threads.push(spawn("admin", move || admin::serve(listener, view, operator, receiver))?);
            Some(sender)
        }
    };
    let ready = ready_line(&shared.config, &addresses, &bound, admin_address);
    Ok(Running {
        ready,
        address: addresses.main.first().copied(),
        admin: admin_address,
        wakers,
        acceptor_waker,
        helpers,
        admin_stop,
        stop,
        threads,
        view,
        operator,
        shared,
        router,
    })
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

/// The workers as the acceptor and the shutdown see them.
struct Crew {
    desks: Vec<Desk>,
    wakers: Vec<Arc<Waker>>,
}

fn start_workers(
    shared: &Arc<Shared>,
    router: &Arc<Router>,
    helpers: &Arc<Helpers>,
    stop: &Arc<AtomicBool>,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Crew, StartError> {
    let mut crew = Crew { desks: Vec::new(), wakers: Vec::new() };
    for i in 0..shared.config.threads {
        let (sender, inbox) = crossbeam_channel::bounded(HANDOVER_QUEUE);
        let reactor = Epoll::new()?;
        let load = Arc::new(AtomicUsize::new(0));
        crew.wakers.push(reactor.waker());
        crew.desks.push(Desk { inbox: sender, waker: reactor.waker(), load: Arc::clone(&load) });
        let around = Surroundings {
            shared: Arc::clone(shared),
            router: Arc::clone(router),
            helpers: Arc::clone(helpers),
            inbox,
            load,
            stop: Arc::clone(stop),
        };
        let store = shared.store.worker()?;
        threads.push(spawn(&format!("worker-{i}"), move || Worker::new(around, reactor, store).work())?);
    }
    Ok(crew)
}

fn spawn(name: &str, act: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(act)
}

/// Where it listens.
struct Addresses {
    main: Vec<SocketAddr>,
    tenants: Vec<SocketAddr>,
}

fn open_entrances(config: &Config, bound: &[Bound]) -> Result<(Vec<Entrance>, Addresses), StartError> {
    let mut entrances = Vec::new();
    let mut open = |address: SocketAddr, tenant| {
        let listen = |cause| StartError::Listen { address, cause };
        let listener = bind(address, config.backlog).map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        let terms = Terms { protocol: config.protocol, auth: config.auth.is_some(), tenant };
        entrances.push(Entrance { listener, terms });
        Ok::<_, StartError>(local)
    };
    let main = config.listen.iter().map(|a| open(*a, Binding::Unbound)).collect::<Result<_, _>>()?;
    let tenants = bound.iter().map(|b| open(b.listen, Binding::To(b.id))).collect::<Result<_, _>>()?;
    Ok((entrances, Addresses { main, tenants }))
}

/// A default address that is taken is a warning: two servers per host work.
fn open_admin(admin: Admin) -> Result<Option<std::net::TcpListener>, StartError> {
    let open = |address| {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    match admin {
        Admin::Off => Ok(None),
        Admin::Explicit(address) => {
            open(address).map(Some).map_err(|cause| StartError::Listen { address, cause })
        }
        Admin::Default(address) => Ok(open(address)
            .inspect_err(|e| tracing::warn!("no administration: {address} cannot be listened on: {e}"))
            .ok()),
    }
}

/// One line that names every address in use.
fn ready_line(config: &Config, addresses: &Addresses, bound: &[Bound], admin: Option<SocketAddr>) -> String {
    use std::fmt::Write as _;
    let mut line = "cotenant ready: ".to_owned();
    for (i, address) in addresses.main.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = write!(line, "{comma}memcached {address}");
    }
    for (tenant, address) in bound.iter().zip(&addresses.tenants) {
        let _ = write!(line, ", tenant {} {address}", tenant.name);
    }
    match admin {
        Some(address) => drop(write!(line, ", admin http://{address}")),
        None => line.push_str(", admin off"),
    }
    let policy = config.policy.name();
    let _ = write!(line, ", memory {}, policy {policy}, {} threads", config.memory, config.threads);
    line
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

    /// Stops accepting, answers what has arrived, sends what is owed, ends every thread.
    pub fn shut_down(self) {
        self.stop.store(true, Ordering::Release);
        // A thread that cannot be woken wakes by itself.
        let _woken = self.acceptor_waker.wake();
        for waker in &self.wakers {
            let _woken = waker.wake();
        }
        self.helpers.wake_cleaner();
        self.helpers.wake_control();
        if let Some(stop) = self.admin_stop {
            let _gone = stop.send(());
        }
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread had panicked");
            }
        }
    }
}
