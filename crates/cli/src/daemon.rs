//! A daemon's manners: in the background, under another user, with a file that holds its number.
//!
//! Shape:      `-d`: the command starts itself again in a session of its own and ends when that is ready or has failed
//! Invariants: privileges are dropped before any thread but the first exists, for they are a thread's on Linux
//! Source:     memcached's -d, -P, -u, -r, -k and -L

use crate::activation::write_whole;
use crate::failure::{Code, Failure, complain};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid, getrlimit, setrlimit, setsid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
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
pub(crate) fn start_in_background(is_verbose: bool) -> Result<Code, Failure> {
    let fail = |e: io::Error| Failure::failed(format!("cannot start in the background: {e}"), "leave out -d");
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("cotenant"));
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).arg(CHILD).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
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

/// A user of this host, and its groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
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

/// Gives a file to the user.
pub(crate) fn give(path: &Path, user: &User) {
    if let Err(e) = std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)) {
        tracing::warn!("{} cannot be given to user '{}': {e}", path.display(), user.name);
    }
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

/// A file with the process's number, as long as this lives.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it. One of a process that is gone is replaced; one of this program that runs is not, nor what holds no number.
    pub(crate) fn write(path: &Path) -> Result<Self, Failure> {
        let own = std::process::id();
        // What cannot be read is not there, or cannot be written either.
        let there = std::fs::read(path).unwrap_or_default();
        let there = String::from_utf8_lossy(&there);
        let text = there.trim();
        let other = text.parse::<u32>().ok().filter(|pid| *pid != own);
        if !text.is_empty() && text.parse::<u32>().is_err() {
            let what = format!("-P: {} is there and holds no process number", path.display());
            return Err(Failure::failed(what, "name another file, which the server may write and remove"));
        }
        if let Some(pid) = other.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            if program(pid).is_some_and(|other| Some(other) == program(own)) && was_given(pid, path) {
                let what =
                    format!("-P: {} is that of the server with number {pid}, which runs", path.display());
                return Err(Failure::failed(what, "name another file, or stop that server first"));
            }
            tracing::warn!("{} has the number of a process that runs: {pid}", path.display());
        }
        write_whole(path, &format!("{own}\n")).map_err(|e| {
            Failure::failed(
                format!("cannot write the process number to {}: {e}", path.display()),
                "name a file that can be written: -P FILE",
            )
        })?;
        Ok(Self(path.to_owned()))
    }
}

/// Whether a process was started with a path among its words: a number that another server has by chance is none of its.
fn was_given(pid: u32, path: &Path) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    path.file_name().is_some_and(|name| {
        let name = std::os::unix::ffi::OsStrExt::as_bytes(name);
        words.split(|b| *b == 0).any(|word| word.ends_with(name))
    })
}

/// The name of the file that a process runs, if it may be known; an update may have replaced the file meanwhile.
fn program(pid: u32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let there = std::fs::read_to_string(&self.0).unwrap_or_default();
        if there.trim().parse() != Ok(std::process::id()) {
            tracing::warn!("{} is no longer this process's, and stays", self.0.display());
            return;
        }
        if let Err(e) = std::fs::remove_file(&self.0) {
            tracing::warn!("{} cannot be removed: {e}", self.0.display());
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
