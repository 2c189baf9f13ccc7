//! A daemon's manners: in the background, under another user, with a file that holds its number.
//!
//! Shape:      `-d`: the command starts itself again in a session of its own and ends when that is ready or has failed
//! Invariants: privileges are dropped before any thread but the first exists, for they are a thread's on Linux
//! Source:     memcached's -d, -P, -u, -r, -k and -L

use crate::activation::Activation;
use crate::failure::{Code, Failure, complain};
use media::NewFile;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, getrlimit, setrlimit, setsid};
use rustix::thread::{set_name, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use server::Sockets;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `serve` is asked about its manners.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one per switch of the command line")]
pub(crate) struct Manners {
    /// Run in the background (`-d`).
    pub(crate) background: bool,
    /// File for the process's number (`-P`).
    pub(crate) pid_file: Option<PathBuf>,
    /// The user to run as (`-u`).
    pub(crate) user: Option<String>,
    /// Raise the limit of core files (`-r`).
    pub(crate) core_dumps: bool,
    /// Lock memory (`-k`).
    pub(crate) lock_memory: bool,
    /// Say where huge pages are not to be had (`-L`).
    pub(crate) large_pages: bool,
}

/// The first argument of the process in the background.
pub(crate) const CHILD: &str = "in-background";
/// How the line begins that says that a server is ready.
const READY: &str = "cotenant ready:";

/// Starts the program again, in the background, and waits until it is ready or has ended.
pub(crate) fn start_in_background(is_verbose: bool, activation: &Activation) -> Result<Code, Failure> {
    let fail = |e: io::Error| Failure::failed(format!("cannot start in the background: {e}"), "leave out -d");
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("cotenant"));
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).arg(CHILD).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    activation.hand_on(&mut command);
    // As with memcached, somebody who wants to read goes on reading.
    command.stderr(if is_verbose { Stdio::inherit() } else { Stdio::null() });
    let mut child = command.spawn().map_err(fail)?;
    // What the child says of its start comes on its standard output.
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(fail)?;
        complain(&line);
        if line.starts_with(READY) {
            return Ok(Code::Done);
        }
    }
    let status = child.wait().map_err(fail)?;
    Ok(match status.code() {
        Some(2) => Code::WrongUse,
        Some(1) => Code::No,
        _ => Code::Failed,
    })
}

/// Leaves the session of whoever started the program.
pub(crate) fn leave_session() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Calls the process as the program was called: it was started by a link of the kernel, whose name it has otherwise.
///
/// Threads that are given no name of their own have this one, as where the program starts without `-d`.
pub(crate) fn take_name() {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or(OsStr::new("cotenant"));
    // What comes of the arguments holds no zero, and the kernel cuts what is too long.
    if let Err(e) = CString::new(name.as_bytes()).map_err(io::Error::from).and_then(|n| Ok(set_name(&n)?)) {
        tracing::debug!("the process cannot be called {}: {e}", name.display());
    }
}

/// A user of this host, and its groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl User {
    /// Makes the files that the server has made the user's.
    pub(crate) fn own(&self, sockets: &Sockets, pid_file: Option<&PidFile>) {
        let (uid, gid) = (self.uid, self.gid);
        let given = |file: &PidFile| std::os::unix::fs::fchown(&file.locked, Some(uid), Some(gid)).err();
        let not_given = pid_file.and_then(|file| Some((file.path.as_path(), given(file)?)));
        for (path, e) in sockets.give(uid, gid).chain(not_given) {
            tracing::warn!("{} cannot be given to user '{}': {e}", path.display(), self.name);
        }
    }
}

impl Manners {
    /// The user to become: none if that is the one there is.
    pub(crate) fn user_to_become(&self) -> Result<Option<User>, Failure> {
        let Some(name) = self.user.as_deref() else { return Ok(None) };
        if !geteuid().is_root() {
            tracing::warn!("-u {name} changes nothing: only root can become another user");
            return Ok(None);
        }
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let user = find_user(name, &read("/etc/passwd"), &read("/etc/group"));
        let user = user.ok_or_else(|| {
            Failure::wrong_use(
                format!("-u: there is no user '{name}' in /etc/passwd"),
                "name a user of this host",
            )
        })?;
        Ok((user.uid != 0).then_some(user))
    }

    /// Says so where the server runs as root without having been asked to.
    pub(crate) fn warn_of_root(&self) {
        if self.user.is_none() && geteuid().is_root() {
            tracing::warn!("the server runs as root; -u USER lets it run as another user");
        }
    }

    /// Sets the limits of the process that are asked for; they outlast a change of user.
    pub(crate) fn raise_limits(&self) {
        if self.core_dumps {
            raise("core files", Resource::Core, u64::MAX);
        }
        if self.lock_memory {
            raise("locked memory", Resource::Memlock, u64::MAX);
        }
    }

    /// Locks memory, as pages are touched.
    pub(crate) fn lock_memory(&self) {
        if !self.lock_memory {
            return;
        }
        let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        if let Err(e) = mlockall(flags) {
            tracing::warn!(
                "-k: memory is not locked: {e}; raise the limit where the server is started: ulimit -l"
            );
        }
    }

    /// Says where huge pages are asked for and not to be had.
    pub(crate) fn check_large_pages(&self) {
        let path = "/sys/kernel/mm/transparent_hugepage/enabled";
        let state = std::fs::read_to_string(path).unwrap_or_default();
        if self.large_pages && !["[always]", "[madvise]"].iter().any(|word| state.contains(word)) {
            tracing::warn!("-L: huge pages are off: echo madvise > {path}");
        }
    }
}

/// Raises a limit as far as it goes, to `wanted` if it can; says how far that was.
pub(crate) fn raise(what: &str, resource: Resource, wanted: u64) -> u64 {
    let there = getrlimit(resource);
    let (current, maximum) = (there.current.unwrap_or(u64::MAX), there.maximum.unwrap_or(u64::MAX));
    if wanted <= current {
        return current;
    }
    let limit = |n: u64| (n != u64::MAX).then_some(n);
    let all = Rlimit { current: limit(wanted), maximum: limit(wanted.max(maximum)) };
    if setrlimit(resource, all).is_ok() {
        return wanted;
    }
    let reachable = wanted.min(maximum);
    let some = Rlimit { current: limit(reachable), maximum: limit(maximum) };
    match setrlimit(resource, some) {
        Ok(()) => reachable,
        Err(e) => {
            tracing::warn!("the limit of {what} cannot be raised: {e}");
            current
        }
    }
}

/// Becomes the user, for good.
pub(crate) fn become_user(user: &User) -> Result<(), Failure> {
    let fail = |e: rustix::io::Errno| {
        Failure::failed(format!("cannot become user '{}': {e}", user.name), "start it as that user")
    };
    let groups: Vec<_> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&groups).map_err(fail)?;
    set_thread_res_gid(gid, gid, gid).map_err(fail)?;
    set_thread_res_uid(uid, uid, uid).map_err(fail)
}

/// The user of that name, with the groups it is in.
fn find_user(name: &str, passwd: &str, group: &str) -> Option<User> {
    let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let user = passwd.lines().map(fields).find(|f| f.first().is_some_and(|n| n == name))?;
    let (uid, gid) = (user.get(2)?.parse().ok()?, user.get(3)?.parse().ok()?);
    let mut groups = vec![gid];
    for group in group.lines().map(fields) {
        let is_in = group.get(3).is_some_and(|members| members.split(',').any(|m| m == name));
        if is_in && let Some(Ok(other)) = group.get(2).map(|gid| gid.parse()) {
            groups.push(other);
        }
    }
    groups.dedup();
    Some(User { name: name.to_owned(), uid, gid, groups })
}

/// A file with the process's number, locked as long as this lives.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    /// Holds the lock: whoever finds it knows that the number is that of a server that runs, wherever that has the path from.
    locked: File,
}

/// How often a place is looked at that others take at the same time (guess: one of them is served each time).
const PID_FILE_TRIES: u32 = 16;

impl PidFile {
    /// Writes it. One of a process that is gone is replaced; one of a server that runs is not, nor what holds no number.
    pub(crate) fn write(path: &Path) -> Result<Self, Failure> {
        let cannot = |e: io::Error| {
            Failure::failed(
                format!("cannot write the process number to {}: {e}", path.display()),
                "name a file that can be written: -P FILE",
            )
        };
        for _ in 0..PID_FILE_TRIES {
            match Self::take(path, &may_replace(path)?) {
                Ok(locked) => return Ok(Self { path: path.to_owned(), locked }),
                // Another that starts has just taken the place.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(cannot(e)),
            }
        }
        Err(runs(path, "another server, which starts"))
    }

    /// The file, written and locked, in the place of what is there.
    fn take(path: &Path, there: &There) -> io::Result<File> {
        let new = NewFile::create(path)?;
        // It is nobody else's yet.
        let _nobody = is_locked(new.file());
        writeln!(new.file(), "{}", std::process::id())?;
        match there {
            There::Nothing => new.take_place_of(None),
            There::Gone(file) => new.take_place_of(Some(file)),
            There::Unreadable => new.replace(),
        }
    }
}

/// What is where the process's number is to be.
enum There {
    Nothing,
    /// The file of a process that is gone, locked, so that of two that start one replaces it.
    Gone(File),
    /// What cannot be opened holds no lock that could be seen.
    Unreadable,
}

/// Whether somebody else has locked a file; else this one has it from now on. Where files cannot be locked nobody has.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// What the file of a process's number may replace.
fn may_replace(path: &Path) -> Result<There, Failure> {
    let Ok(mut file) = File::open(path) else {
        let is_there = path.symlink_metadata().is_ok();
        return Ok(if is_there { There::Unreadable } else { There::Nothing });
    };
    // What cannot be read cannot be replaced either: a folder.
    let mut there = Vec::new();
    let _read = file.read_to_end(&mut there);
    let there = String::from_utf8_lossy(&there);
    let text = there.trim();
    let number = text.parse::<u32>();
    if !text.is_empty() && number.is_err() {
        let what = format!("-P: {} is there and holds no process number", path.display());
        return Err(Failure::failed(what, "name another file, which the server may write and remove"));
    }
    if is_locked(&file) {
        return Err(runs(path, &format!("the server with number {text}, which runs")));
    }
    let other = number.ok().filter(|pid| *pid != std::process::id());
    if let Some(pid) = other.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        tracing::warn!("{} has the number of a process that runs: {pid}", path.display());
    }
    Ok(There::Gone(file))
}

fn runs(path: &Path, whose: &str) -> Failure {
    let what = format!("-P: {} is that of {whose}", path.display());
    Failure::failed(what, "name another file, or stop that server first")
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let there = std::fs::read_to_string(&self.path).unwrap_or_default();
        if there.trim().parse() != Ok(std::process::id()) {
            tracing::warn!("{} is no longer this process's, and stays", self.path.display());
            return;
        }
        if let Err(e) = std::fs::remove_file(&self.path) {
            tracing::warn!("{} cannot be removed: {e}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ncache:x:11:12::/:/bin/false\nbad:x:y:z\n";
        let group = "root:x:0:\ncache:x:12:\nssl:x:30:cache,web\nweb:x:31:web\n";
        let user = find_user("cache", passwd, group);
        assert_eq!(user, Some(User { name: "cache".to_owned(), uid: 11, gid: 12, groups: vec![12, 30] }));
        assert_eq!(find_user("bad", passwd, group), None);
        assert_eq!(find_user("cach", passwd, group), None);
    }

    #[test]
    fn a_pid_file_goes_with_its_process() {
        let path = std::env::temp_dir().join(format!("cotenant-pid-{}", std::process::id()));
        let file = PidFile::write(&path).expect("a temporary file");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert!(PidFile::write(Path::new("/nowhere/pid")).is_err());
    }

    #[test]
    fn the_pid_file_of_a_server_that_runs_is_known_by_its_lock() {
        let path = std::env::temp_dir().join(format!("cotenant-held-pid-{}", std::process::id()));
        let file = PidFile::write(&path).expect("a temporary file");
        let refused = PidFile::write(&path).expect_err("its server runs");
        let whose = format!("that of the server with number {}, which runs", std::process::id());
        assert!(refused.what.ends_with(&whose), "{}", refused.what);
        assert!(path.exists());
        drop(file);
        // It may have been killed: the number stays, the lock does not.
        std::fs::write(&path, format!("{}\n", std::process::id())).expect("a temporary file");
        drop(PidFile::write(&path).expect("nobody holds it"));
        assert!(!path.exists());
    }

    #[test]
    fn a_pid_file_is_written_over_no_other() {
        let folder = std::env::temp_dir().join(format!("cotenant-pids-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let (path, other) = (folder.join("pid"), folder.join("other"));
        std::fs::write(&other, "another's").expect("a file");
        std::os::unix::fs::symlink(&other, folder.join("pid.new")).expect("a link");
        drop(PidFile::write(&path).expect("nothing is there"));
        std::fs::remove_file(folder.join("pid.new")).expect("the link");
        std::fs::write(folder.join("pid.new"), "mine").expect("a file");
        let file = PidFile::write(&path).expect("nothing is there");
        for (name, text) in [("other", "another's"), ("pid.new", "mine")] {
            assert_eq!(std::fs::read_to_string(folder.join(name)).expect("a file"), text);
        }
        assert_eq!(folder.read_dir().expect("the folder").count(), 3);
        drop(file);
        std::fs::remove_dir_all(folder).expect("the folder");
    }

    #[test]
    fn of_many_that_start_at_once_one_has_the_pid_file() {
        let path = std::env::temp_dir().join(format!("cotenant-raced-pid-{}", std::process::id()));
        for before in [None, Some("4194305\n")] {
            before.iter().for_each(|text| std::fs::write(&path, text).expect("a temporary file"));
            let started: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| PidFile::write(&path))).collect();
                starts.into_iter().map(|start| start.join().expect("it does not panic")).collect()
            });
            assert_eq!(started.iter().filter(|file| file.is_ok()).count(), 1, "{before:?}: {started:?}");
            drop(started);
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_is_no_pid_file_of_a_process_that_is_gone_is_not_replaced() {
        let path = std::env::temp_dir().join(format!("cotenant-no-pid-{}", std::process::id()));
        for (text, is_taken) in [("", true), ("4194305\n", true), ("memory = \"64MiB\"\n", false)] {
            std::fs::write(&path, text).expect("a temporary file");
            assert_eq!(PidFile::write(&path).is_ok(), is_taken, "{text}");
            assert_eq!(path.exists(), !is_taken, "{text}");
        }
        std::fs::write(&path, "").expect("a temporary file");
        let file = PidFile::write(&path).expect("it is empty");
        std::fs::write(&path, "5\n").expect("it is there");
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).expect("it is another's"), "5\n");
        std::fs::remove_file(&path).expect("it is there");
    }
}
