//! Who a connection may speak for: users, their passwords, and what they are allowed.
//!
//! Shape:      file of users and settings -> `Auth` -> `attempt(user, password)`, and `verify` where that is dear -> `Grant`
//!             -> a connection's `Identity`
//! Invariants: one table serves every protocol; it is replaced whole or not at all; no password is kept as it was
//!             written, none is logged; an answer takes as long for an unknown user as for a known one, but for one
//!             whose password is a hash that nobody has shown the right password of yet
//! Failure:    a file that cannot be used leaves the table that is in force; a user whose tenant the configuration has and the server
//!             has not, because it was refused, stays whose it was, and is unknown if it was nobody's

mod file;
mod identity;
mod secret;
mod throttle;
mod verifier;

pub(crate) use file::fuzzed;
pub(crate) use identity::{Denied, Grant, Identity, Need, Rights};

use crate::config::{AuthConfig, Config, KnownBy, TenantConfig, check_tenant};
use crate::limits::LOGIN_RETRY_MS;
use crate::tenants::{AddError, Binding, Origin, Router};
use secret::Secret;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use throttle::{Throttle, Whom};
use units::{Duration, Instant, TenantId};
use verifier::{Attempt, Verifier};

/// Why a file of users cannot be used. No variant holds any part of a password.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// It cannot be read.
    #[error("cannot read the users of {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// A line is wrong.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It names nobody.
    #[error("{} names no user", .0.display())]
    Empty(PathBuf),
    /// A user cannot have a tenant.
    #[error("user '{user}' cannot be bound to a tenant: {what}")]
    Tenant {
        /// The user.
        user: String,
        /// Why not.
        what: String,
    },
    /// Nobody can verify passwords.
    #[error("cannot start the thread that verifies passwords")]
    Thread(#[source] io::Error),
}

/// Everybody who may come in.
#[derive(Debug)]
pub(crate) struct Auth {
    /// What the next reading of the users goes by.
    config: Mutex<(AuthConfig, Vec<TenantConfig>)>,
    table: RwLock<Arc<Table>>,
    throttle: Arc<Throttle>,
    verifier: Verifier,
    waits: AtomicU64,
}

/// What can be said of a password at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// What it gives.
    Grant(Option<Grant>),
    /// To look at it is dear: it is to be verified elsewhere.
    Dear,
    /// Too many were wrong: it is to be shown again then.
    NotBefore(Instant),
}

#[derive(Debug)]
pub(crate) struct Table {
    users: HashMap<Vec<u8>, User>,
    /// Compared where the user is unknown.
    nobody: Secret,
}

#[derive(Debug)]
struct User {
    secret: Secret,
    grant: Grant,
}

/// Whose connections a user's are.
enum Whose<'c> {
    /// Nobody's own: the key decides.
    Default,
    /// A tenant's, which is there or is made.
    Tenant(&'c str),
}

impl Auth {
    /// Reads the users of a configuration, if it has any, and makes the tenants that only they reach.
    pub(crate) fn load(config: &Config, router: &Router) -> Result<Option<Self>, AuthError> {
        let Some(auth) = config.auth.clone() else { return Ok(None) };
        let tenants = config.tenants.clone();
        let table = RwLock::new(Arc::new(table(&auth, &tenants, router, None)?));
        Ok(Some(Self {
            config: Mutex::new((auth, tenants)),
            table,
            throttle: Arc::default(),
            verifier: Verifier::start().map_err(AuthError::Thread)?,
            waits: AtomicU64::new(0),
        }))
    }

    /// Goes by these settings when it reads the users again; the file stays the one of the start.
    pub(crate) fn adopt(&self, config: AuthConfig, tenants: Vec<TenantConfig>) {
        let mut before = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let file = std::mem::take(&mut before.0.file);
        *before = (AuthConfig { file, ..config }, tenants);
    }

    /// Reads the users again; returns how many there are. Connections that are open keep what they were granted.
    pub(crate) fn reload(&self, router: &Router) -> Result<usize, AuthError> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let table = table(&config.0, &config.1, router, Some(&self.table()))?;
        let count = table.users.len();
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        Ok(count)
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What can be said at once of a password that somebody at `address` shows.
    pub(crate) fn attempt(
        &self,
        user: &[u8],
        password: &[u8],
        address: Option<IpAddr>,
        now: Instant,
    ) -> Said {
        let table = self.table();
        let known = table.users.get(user);
        if known.is_some_and(|known| known.secret.is_dear(password)) {
            return Said::Dear;
        }
        let taken = match self.throttle.take(address.map(Whom::from), None, now) {
            Ok(taken) => taken,
            Err(at) => return Said::NotBefore(soon(at, now)),
        };
        // Who is unknown is wrong, after as long.
        let is_right = known.map_or(&table.nobody, |known| &known.secret).matches(user, password);
        let grant = known.filter(|_| is_right).map(|known| known.grant);
        if grant.is_none() {
            taken.spend();
        }
        Said::Grant(grant)
    }

    /// Has a dear password verified that somebody at `address` shows; `tell` is told what it gives. When it is to be shown
    /// again, if too many were wrong or too many wait for that.
    pub(crate) fn verify(
        &self,
        (user, password): (&[u8], &[u8]),
        address: Option<IpAddr>,
        now: Instant,
        tell: Box<dyn FnOnce(Option<Grant>) + Send>,
    ) -> Result<(), Instant> {
        let address = address.map(Whom::from);
        let taken = self.throttle.take(address, Some(Whom::User(user.into())), now);
        let taken = taken.map_err(|at| soon(at, now))?;
        let is_queued = self.verifier.take(Attempt {
            table: self.table(),
            user: user.into(),
            password: password.into(),
            tell: Box::new(move |grant: Option<Grant>| {
                if grant.is_none() {
                    taken.spend();
                }
                tell(grant);
            }),
        });
        if is_queued { Ok(()) } else { Err(now + Duration::from_millis(LOGIN_RETRY_MS)) }
    }

    /// Counts an attempt that has to wait, once however often it is made again.
    pub(crate) fn note_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Attempts that had to wait because too many passwords were wrong, or too many were being verified.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

/// When to ask for a token again that comes then at the latest: those of attempts that are being looked at may come back any
/// moment, and whoever waits may leave.
fn soon(at: Instant, now: Instant) -> Instant {
    at.min(now + Duration::from_millis(LOGIN_RETRY_MS))
}

/// The table of the file as it is now, after the one that is in force.
fn table(
    config: &AuthConfig,
    tenants: &[TenantConfig],
    router: &Router,
    before: Option<&Table>,
) -> Result<Table, AuthError> {
    let file = &config.file;
    let text = std::fs::read(file).map_err(|cause| AuthError::Read { file: file.clone(), cause })?;
    let lines = file::parse(&text).map_err(|wrong| AuthError::Line {
        file: file.clone(),
        line: wrong.line,
        what: wrong.what,
    })?;
    if lines.is_empty() {
        return Err(AuthError::Empty(file.clone()));
    }
    let secret = |line: &file::Line<'_>| {
        let wrong = |what| AuthError::Line { file: file.clone(), line: line.number, what };
        Secret::new(line.user, line.password).map_err(wrong)
    };
    let secrets: Vec<_> = lines.iter().map(secret).collect::<Result<_, _>>()?;
    let names: Vec<_> = lines.iter().map(|line| line.user).collect();
    let owners = Owners::new(config, tenants);
    let bindings = bindings(&owners, router, &names)?;
    let is_named: HashSet<_> = names.iter().copied().collect();
    let (read_only, no_flush) = (set_of(&config.read_only_users), set_of(&config.no_flush_users));
    let mut users = HashMap::new();
    for ((user, secret), binding) in names.into_iter().zip(secrets).zip(bindings) {
        let Some(binding) = binding.or_else(|| as_before(&owners, user, before)) else { continue };
        let rights = Rights { read_only: read_only.contains(user), no_flush: no_flush.contains(user) };
        users.insert(user.as_bytes().to_vec(), User { secret, grant: Grant { binding, rights } });
    }
    for name in config.read_only_users.iter().chain(&config.no_flush_users) {
        if !is_named.contains(name.as_str()) {
            tracing::warn!("the settings name a user '{name}', whom {} does not know", file.display());
        }
    }
    Ok(Table { users, nobody: Secret::of_nobody() })
}

/// Whose the connections of a user stay whose tenant is not there; none, and so nobody comes in as that user, of one who was not known.
fn as_before(owners: &Owners<'_>, user: &str, before: Option<&Table>) -> Option<Binding> {
    let known = before.and_then(|table| table.users.get(user.as_bytes()));
    let Whose::Tenant(tenant) = owners.of(user) else { return None };
    let what = if known.is_some() { "belongs to whom it did before" } else { "is not let in" };
    tracing::warn!("user '{user}' {what}: the settings give it to tenant '{tenant}', which is not there");
    known.map(|known| known.grant.binding)
}

fn set_of(users: &[String]) -> HashSet<&str> {
    users.iter().map(String::as_str).collect()
}

/// Whom users belong to, by the configuration.
struct Owners<'c> {
    tenants: HashMap<&'c str, &'c str>,
    /// Every tenant that is configured: one that is not there was refused, and is none for the asking.
    configured: HashSet<&'c str>,
    shared: HashSet<&'c str>,
}

impl<'c> Owners<'c> {
    fn new(config: &'c AuthConfig, tenants: &'c [TenantConfig]) -> Self {
        let named = tenants.iter().flat_map(|tenant| tenant.users.iter().map(|user| (user, &tenant.name)));
        Self {
            tenants: named.map(|(user, name)| (user.as_str(), name.as_str())).collect(),
            configured: tenants.iter().map(|tenant| tenant.name.as_str()).collect(),
            shared: set_of(&config.shared_users),
        }
    }

    fn of<'u>(&self, user: &'u str) -> Whose<'u>
    where
        'c: 'u,
    {
        let is_shared = || self.shared.contains(user) || self.shared.contains("*");
        match self.tenants.get(user) {
            Some(name) => Whose::Tenant(name),
            None if user == "default" || is_shared() => Whose::Default,
            None => Whose::Tenant(user),
        }
    }
}

/// The bindings of users' connections, in their order, none of those whose tenant is configured and not there; makes the others'
/// tenants that are not there: all, or none.
fn bindings(owners: &Owners<'_>, router: &Router, users: &[&str]) -> Result<Vec<Option<Binding>>, AuthError> {
    let refused = |user: &str, what| AuthError::Tenant { user: user.to_owned(), what };
    let is_missing = |name: &str| owners.configured.contains(name) && router.find(name).is_none();
    for user in users {
        if let Whose::Tenant(name) = owners.of(user) {
            find(router, name).map_err(|what| refused(user, what))?;
        }
    }
    let mut made = Vec::new();
    let bind = |user: &&str| match owners.of(user) {
        Whose::Default => Ok(Some(Binding::Unbound)),
        Whose::Tenant(name) if is_missing(name) => Ok(None),
        Whose::Tenant(name) => {
            let found = find_or_make(router, name, &mut made);
            found.map(|id| Some(Binding::To(id))).map_err(|what| refused(user, what))
        }
    };
    let bindings: Result<_, _> = users.iter().map(bind).collect();
    if bindings.is_err() {
        // Nobody has connections of theirs yet.
        made.into_iter().for_each(|id| router.remove(id));
    }
    bindings
}

/// The tenant of a name, if there is one. Why its connections cannot be a user's, or it cannot be made.
fn find(router: &Router, name: &str) -> Result<Option<TenantId>, String> {
    match router.find(name) {
        Some(id) if router.isolates(id) => Ok(Some(id)),
        Some(_) => Err(format!("tenant '{name}' is known by a prefix, and prefixes do not isolate")),
        None => check_tenant(&unclaiming(name), KnownBy { users: true, listener: false })
            .map(|()| None)
            .map_err(|e| format!("{}; {}", e.what, e.cure)),
    }
}

/// The tenant of a name; makes it, and notes that, if there is none.
fn find_or_make(router: &Router, name: &str, made: &mut Vec<TenantId>) -> Result<TenantId, String> {
    if let Some(id) = find(router, name)? {
        return Ok(id);
    }
    let id = router.add(&unclaiming(name), None, None, Origin::Credentials).map_err(|e| match e {
        AddError::Full => "there are as many tenants as can be, raise max_tenants".to_owned(),
        AddError::NameTaken | AddError::PrefixTaken(_) | AddError::IdentityTaken(_) => {
            format!("'{name}' was just taken")
        }
    })?;
    made.push(id);
    Ok(id)
}

/// A tenant that claims nothing.
fn unclaiming(name: &str) -> TenantConfig {
    TenantConfig { name: name.to_owned(), ..TenantConfig::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LOGIN_FAILURES_BURST;
    use std::sync::mpsc::channel;

    /// `password` with 256 KiB and two passes, of Argon2's own test vectors.
    const HASH: &[u8] =
        b"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    const NOW: Instant = Instant(1_000_000_000_000);

    fn auth_of_ann() -> Auth {
        let grant = Grant { binding: Binding::Unbound, rights: Rights::default() };
        let user = User { secret: Secret::new("ann", HASH).unwrap(), grant };
        let users = HashMap::from([(b"ann".to_vec(), user)]);
        let (file, nobody) = (PathBuf::new(), Vec::new);
        let config =
            AuthConfig { file, shared_users: nobody(), read_only_users: nobody(), no_flush_users: nobody() };
        Auth {
            config: Mutex::new((config, Vec::new())),
            table: RwLock::new(Arc::new(Table { users, nobody: Secret::of_nobody() })),
            throttle: Arc::default(),
            verifier: Verifier::start().unwrap(),
            waits: AtomicU64::new(0),
        }
    }

    fn host(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn a_flood_of_guesses_is_charged_as_they_come_and_keeps_the_user_out_of_nothing() {
        let auth = auth_of_ann();
        let (told, verdicts) = channel();
        let show = |password: &[u8], address| {
            let told = told.clone();
            let tell = Box::new(move |grant: Option<Grant>| told.send(grant.is_some()).unwrap());
            auth.verify((b"ann".as_slice(), password), address, NOW, tell)
        };
        let passed: usize = std::thread::scope(|scope| {
            let guess = |last| (0..100).filter(|_| show(b"guess", host(last)).is_ok()).count();
            let guessers: Vec<_> = (1..=8).map(|last| scope.spawn(move || guess(last))).collect();
            guessers.into_iter().map(|guesser| guesser.join().unwrap()).sum()
        });
        // Who comes first from an address that was not wrong needs no token of the user.
        let least = usize::try_from(LOGIN_FAILURES_BURST).unwrap();
        assert!((least..=least + 8).contains(&passed), "{passed}");
        assert!(verdicts.iter().take(passed).all(|is_right| !is_right));
        assert_eq!(show(b"password", host(1)), Err(Instant(NOW.0 + 1)), "no debt is left");
        assert_eq!(auth.attempt(b"ann", b"password", host(9), NOW), Said::Dear);
        assert_eq!(show(b"password", host(9)), Ok(()));
        assert!(verdicts.recv().unwrap());
        assert!(matches!(auth.attempt(b"ann", b"password", host(10), NOW), Said::Grant(Some(_))));
        assert!(matches!(auth.attempt(b"ann", b"guess", host(10), NOW), Said::Grant(None)));
    }
}
