//! How a service manager starts the program: sockets that it hands over, and what it is told.
//!
//! Shape:  variables of the environment -> sockets that listen; readiness -> one datagram, one file
//! Source: systemd's sd_listen_fds(3) and sd_notify(3); memcached's MEMCACHED_PORT_FILENAME

use crate::daemon::CHILD;
use crate::failure::Failure;
use media::NewFile;
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use server::Address;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the environment says about the start.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Activation {
    /// Sockets that were handed over, and to whom.
    sockets: Option<(usize, To)>,
    /// Where to say that the server is ready.
    notify: Option<String>,
    /// Where to write the ports that were taken.
    port_file: Option<PathBuf>,
}

/// To whom sockets were handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum To {
    /// To the process of this number.
    Process(u32),
    /// To the process in the background, by the one that started it: its number was not known yet.
    Background,
}

/// The variable that says to whom.
const LISTEN_PID: &str = "LISTEN_PID";
/// The first descriptor that is handed over.
const FIRST_FD: i32 = 3;
/// Sockets that are taken over at most.
const SOCKETS_MAX: usize = 64;

impl Activation {
    /// What the variables say.
    pub(crate) fn from(environment: &[(String, String)]) -> Self {
        let get = |name: &str| environment.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        let count = get("LISTEN_FDS").and_then(|text| text.parse().ok());
        let to = get(LISTEN_PID).and_then(|text| match text.as_str() {
            CHILD => Some(To::Background),
            number => number.parse().ok().map(To::Process),
        });
        Self {
            sockets: count.zip(to).filter(|(count, _)| 0 < *count),
            notify: get("NOTIFY_SOCKET").filter(|path| !path.is_empty()),
            port_file: get("MEMCACHED_PORT_FILENAME").filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }

    /// Hands on to the process in the background what was handed over to this one: it inherits the descriptors.
    pub(crate) fn hand_on(&self, command: &mut Command) {
        if matches!(self.sockets, Some((_, To::Process(pid))) if pid == std::process::id()) {
            command.env(LISTEN_PID, CHILD);
        }
    }

    /// The sockets that were handed over to this process, which is that in the background or not.
    pub(crate) fn sockets(&self, is_child: bool) -> io::Result<Vec<OwnedFd>> {
        let Some((count, to)) = self.sockets else { return Ok(Vec::new()) };
        let is_ours = match to {
            To::Process(pid) => pid == std::process::id(),
            To::Background => is_child,
        };
        if !is_ours {
            return Ok(Vec::new());
        }
        if SOCKETS_MAX < count {
            return Err(io::Error::other(format!("LISTEN_FDS: {count} sockets are more than {SOCKETS_MAX}")));
        }
        // A descriptor that this process did not open itself is taken as one of another process would be.
        let own = pidfd_open(getpid(), PidfdFlags::empty())?;
        let take = |fd| pidfd_getfd(&own, fd, PidfdGetfdFlags::empty()).map_err(io::Error::from);
        (FIRST_FD..).take(count).map(take).collect()
    }

    /// Whether there is a service manager that wants to be told.
    pub(crate) fn has_manager(&self) -> bool {
        self.notify.is_some()
    }

    /// Tells the service manager, if there is one.
    pub(crate) fn notify(&self, state: &str) {
        let Some(path) = &self.notify else { return };
        let told = || -> io::Result<()> {
            let address = match path.strip_prefix('@') {
                Some(name) => UnixAddr::from_abstract_name(name)?,
                None => UnixAddr::from_pathname(path)?,
            };
            UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
        };
        if let Err(e) = told() {
            tracing::warn!("the service manager cannot be told '{state}': {e}");
        }
    }

    /// Writes the ports that were taken, in memcached's form, if that is asked for.
    pub(crate) fn write_ports<'a>(
        &self,
        addresses: impl Iterator<Item = &'a Address>,
    ) -> Result<(), Failure> {
        let Some(path) = &self.port_file else { return Ok(()) };
        let lines: String = addresses.filter_map(port_line).collect();
        write_whole(path, &lines).map_err(|e| {
            Failure::failed(
                format!("cannot write the ports to {}: {e}", path.display()),
                "name a file that can be written, or none: MEMCACHED_PORT_FILENAME=FILE",
            )
        })
    }
}

fn port_line(address: &Address) -> Option<String> {
    match address {
        Address::Ip(SocketAddr::V4(ip)) => Some(format!("TCP INET: {}\n", ip.port())),
        Address::Ip(SocketAddr::V6(ip)) => Some(format!("TCP INET6: {}\n", ip.port())),
        _ => None,
    }
}

/// Writes a file such that nobody sees a part of it.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let new = NewFile::create(path)?;
    new.file().write_all(text.as_bytes())?;
    new.replace().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Activation {
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Activation::from(&pairs)
    }

    #[test]
    fn sockets_for_another_process_stay_there() {
        assert_eq!(of(&[("LISTEN_FDS", "1")]).sockets, None);
        assert_eq!(of(&[("LISTEN_FDS", "0"), ("LISTEN_PID", "1")]).sockets, None);
        let others = of(&[("LISTEN_FDS", "2"), ("LISTEN_PID", "1")]);
        assert_eq!(others.sockets, Some((2, To::Process(1))));
        assert!(others.sockets(true).expect("nothing is taken").is_empty());
        let own = std::process::id().to_string();
        let many = of(&[("LISTEN_FDS", "65"), ("LISTEN_PID", &own)]);
        assert!(many.sockets(false).is_err());
    }

    #[test]
    fn sockets_are_handed_on_by_whose_they_are_and_to_the_background_only() {
        let own = std::process::id().to_string();
        for (pid, handed) in [(own.as_str(), true), ("1", false)] {
            let mut command = Command::new("true");
            of(&[("LISTEN_FDS", "65"), ("LISTEN_PID", pid)]).hand_on(&mut command);
            let said = command.get_envs().any(|(name, to)| name == LISTEN_PID && to == Some(CHILD.as_ref()));
            assert_eq!(said, handed, "{pid}");
        }
        let on = of(&[("LISTEN_FDS", "65"), ("LISTEN_PID", CHILD)]);
        assert!(on.sockets(true).is_err(), "they are too many, and its own");
        assert!(on.sockets(false).expect("nothing is taken").is_empty());
    }

    #[test]
    fn ports_have_memcacheds_form() {
        let ip = |text: &str| Address::Ip(text.parse().expect("an address"));
        assert_eq!(port_line(&ip("127.0.0.1:5")).as_deref(), Some("TCP INET: 5\n"));
        assert_eq!(port_line(&ip("[::1]:6")).as_deref(), Some("TCP INET6: 6\n"));
        assert_eq!(port_line(&Address::Unix("/s".into(), 0o700)), None);
    }

    #[test]
    fn the_file_of_ports_is_written_over_no_other() {
        let folder = std::env::temp_dir().join(format!("cotenant-ports-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let (path, other) = (folder.join("ports"), folder.join("other"));
        std::fs::write(&other, "another's").expect("a file");
        for name in ["ports", "ports.new"] {
            std::os::unix::fs::symlink(&other, folder.join(name)).expect("a link");
        }
        write_whole(&path, "TCP INET: 5\n").expect("a temporary folder");
        assert_eq!(std::fs::read_to_string(&other).expect("the file"), "another's");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "TCP INET: 5\n");
        assert!(!path.is_symlink());
        std::fs::remove_dir_all(folder).expect("the folder");
    }
}
