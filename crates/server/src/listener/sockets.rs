//! Sockets that listen: opened at an address, or inherited.
//!
//! Invariants: mode and owner are those of the socket's file that was made, whatever somebody puts at its path
//! Failure:    an address that cannot be listened on names itself; of a UNIX socket's path only a socket that nobody
//!             listens on is removed

use super::{Address, EVERY, UNIX_MODE};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chownat, fchmod, fstat, openat};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Ports that are tried where any will do that is free for IPv4 and IPv6 (guess: hardly ever is the first taken).
const FREE_PORT_TRIES: u32 = 16;

/// A socket that listens, before anybody has decided whose connections it takes.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) socket: Socket,
    /// With the port that was taken.
    pub(crate) address: Address,
    /// The file of its UNIX socket, if this process has made it.
    pub(crate) made: Option<SocketFile>,
}

/// The file of a UNIX socket that this process has made, and that goes with it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and number there: whoever has taken the path since has a file of its own.
    made: Option<(u64, u64)>,
}

impl SocketFile {
    /// The file that was just made.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), made: number_of(path) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file to a user.
    pub(crate) fn give(&self, uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        Ok(chownat(self.held()?, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
    }

    /// Lets the file have just this mode. What it was made with has no more than that, and lacks what the process's mask takes.
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let file = self.held()?;
        if fstat(&file)?.st_mode & 0o777 == mode & 0o777 {
            return Ok(());
        }
        // The kernel knows it by what is held, not by its path.
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        std::fs::set_permissions(held, std::fs::Permissions::from_mode(mode))
    }

    /// The file itself: the socket that was made, and no link or file that has its path since.
    fn held(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, &self.path, flags, Mode::empty())?;
        let there = fstat(&file)?;
        let is_socket = FileType::from_raw_mode(there.st_mode) == FileType::Socket;
        if !is_socket || self.made != Some((there.st_dev, there.st_ino)) {
            return Err(io::Error::other("something else has taken its path"));
        }
        Ok(file)
    }
}

fn number_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.made.is_some() && number_of(&self.path) == self.made {
            // Somebody else may have taken it away.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens an address; an inherited socket that listens there already is taken instead.
pub(crate) fn open(address: &Address, backlog: u32, inherited: &mut Vec<OwnedFd>) -> io::Result<Vec<Opened>> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    let addresses = match address {
        Address::Unix(path, mode) => {
            if let Some(opened) = take_inherited(address, inherited)? {
                return Ok(vec![opened]);
            }
            remove_stale(path)?;
            let socket = bind_unix(path, *mode)?;
            let made = SocketFile::at(path);
            // Nobody can connect before it listens, and by then it has its mode.
            made.set_mode(*mode)?;
            socket.listen(backlog)?;
            let address = address.clone();
            return Ok(vec![Opened { socket, address, made: Some(made) }]);
        }
        Address::Ip(address) => vec![*address],
        Address::Name(host, port) if host == EVERY => return open_every(*port, backlog, inherited),
        Address::Name(host, port) => (host.as_str(), *port).to_socket_addrs()?.collect(),
    };
    addresses.into_iter().map(|address| open_ip(address, backlog, inherited)).collect()
}

fn open_ip(address: SocketAddr, backlog: i32, inherited: &mut Vec<OwnedFd>) -> io::Result<Opened> {
    if let Some(taken) = take_inherited(&Address::Ip(address), inherited)? {
        return Ok(taken);
    }
    let socket = bind(address)?;
    socket.listen(backlog)?;
    let local = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Opened { socket, address: Address::Ip(local), made: None })
}

/// Opens every address of the machine, of IPv6 where there is that, at one port for both.
fn open_every(port: u16, backlog: i32, inherited: &mut Vec<OwnedFd>) -> io::Result<Vec<Opened>> {
    let mut tries = if port == 0 { FREE_PORT_TRIES } else { 1 };
    loop {
        let four = open_ip((Ipv4Addr::UNSPECIFIED, port).into(), backlog, inherited)?;
        let port = match &four.address {
            Address::Ip(address) => address.port(),
            Address::Name(..) | Address::Unix(..) => port,
        };
        tries -= 1;
        match open_ip((Ipv6Addr::UNSPECIFIED, port).into(), backlog, inherited) {
            Ok(six) => return Ok(vec![four, six]),
            Err(e) if is_without_ipv6(&e) => return Ok(vec![four]),
            // A free port of IPv4 was none of IPv6.
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && 0 < tries => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether an error means that the machine has no IPv6.
pub(crate) fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    errno == Some(rustix::io::Errno::AFNOSUPPORT) || error.kind() == io::ErrorKind::AddrNotAvailable
}

/// The inherited sockets that no configured address has taken.
pub(crate) fn open_rest(inherited: &mut Vec<OwnedFd>) -> io::Result<Vec<Opened>> {
    let adopt = |fd| {
        let socket = adopt(fd)?;
        let address = local(&socket)?;
        Ok(Opened { socket, address, made: None })
    };
    inherited.drain(..).map(adopt).collect()
}

fn take_inherited(address: &Address, inherited: &mut Vec<OwnedFd>) -> io::Result<Option<Opened>> {
    for at in 0..inherited.len() {
        let socket = adopt(inherited[at].try_clone()?)?;
        let here = local(&socket)?;
        let is_it = match (&here, address) {
            (Address::Unix(path, _), Address::Unix(wanted, _)) => path == wanted,
            (here, wanted) => here == wanted,
        };
        if is_it {
            inherited.remove(at);
            return Ok(Some(Opened { socket, address: here, made: None }));
        }
    }
    Ok(None)
}

/// An inherited descriptor as a socket that listens.
fn adopt(fd: OwnedFd) -> io::Result<Socket> {
    let socket = Socket::from(fd);
    if !socket.is_listener()? || socket.r#type()? != Type::STREAM {
        let what = "an inherited descriptor is no stream socket that listens";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn local(socket: &Socket) -> io::Result<Address> {
    let address = socket.local_addr()?;
    if let Some(ip) = address.as_socket() {
        return Ok(Address::Ip(ip));
    }
    Ok(Address::Unix(address.as_pathname().unwrap_or_else(|| Path::new("?")).to_owned(), UNIX_MODE))
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // The file is made with the mode that the socket has before (unix(7)), less what the process's mask takes.
    fchmod(socket.as_fd(), Mode::from_raw_mode(mode))?;
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// Removes a socket that nobody listens on. Anything else at the path stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    let there = match std::fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is no socket"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        // Somebody listens, or may: the socket is not ours to remove.
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens on the socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_is_removed() {
        let folder = std::env::temp_dir().join(format!("cotenant-listener-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join("s");
        let address = Address::Unix(path.clone(), 0o600);
        let first = open(&address, 8, &mut Vec::new()).expect("the path is free");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = open(&address, 8, &mut Vec::new()).expect_err("somebody listens");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists(), "its file goes with a socket");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("the path is free"));
        assert!(path.exists());
        let again = open(&address, 8, &mut Vec::new()).expect("a stale socket is removed");
        drop(again);
        std::fs::write(&path, "mine").expect("a file");
        let refused = open(&address, 8, &mut Vec::new()).expect_err("a file stays");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).expect("the file"), b"mine");
        std::fs::remove_dir_all(&folder).expect("the folder");
    }

    #[test]
    fn mode_and_owner_are_those_of_the_socket_that_was_made() {
        let folder = std::env::temp_dir().join(format!("cotenant-modes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("s"), folder.join("other"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // More than the mask of the process allows is had, too.
        for wanted in [0o600, 0o777] {
            let opened = open(&Address::Unix(path.clone(), wanted), 8, &mut Vec::new()).unwrap();
            assert_eq!(mode(&path), wanted);
            drop(opened);
        }
        std::fs::write(&other, "another's").unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).unwrap();
        let socket = bind_unix(&path, 0o600).unwrap();
        let file = SocketFile::at(&path);
        let me = std::fs::metadata(&other).unwrap();
        file.give(me.uid(), me.gid()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(file.set_mode(0o777).is_err() && file.give(me.uid(), me.gid()).is_err());
        assert_eq!(mode(&other), 0o600);
        drop((socket, file));
        assert!(path.is_symlink(), "it is another's");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_address_is_of_both_kinds_at_one_port() {
        let every = Address::Name(EVERY.to_owned(), 0);
        let opened = open(&every, 8, &mut Vec::new()).expect("some port is free");
        let at = |opened: &Opened| match &opened.address {
            Address::Ip(address) => (address.is_ipv6(), address.port()),
            other => panic!("{other}"),
        };
        let at: Vec<_> = opened.iter().map(at).collect();
        let has_ipv6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        assert_eq!(at[0], (false, at[0].1));
        assert_eq!(at.get(1), has_ipv6.then_some(&(true, at[0].1)));
        // The same port again is in use.
        let again = Address::Name(EVERY.to_owned(), at[0].1);
        assert_eq!(
            open(&again, 8, &mut Vec::new()).map_err(|e| e.kind()).err(),
            Some(io::ErrorKind::AddrInUse)
        );
    }

    #[test]
    fn an_inherited_socket_is_taken_by_its_address() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = socket.local_addr().expect("an address");
        let mut inherited = vec![OwnedFd::from(socket)];
        let opened = open(&Address::Ip(address), 8, &mut inherited).expect("the socket is there");
        assert_eq!((opened[0].address.clone(), inherited.len()), (Address::Ip(address), 0));
        let file = std::fs::File::open("/dev/null").expect("the null device");
        assert!(open_rest(&mut vec![OwnedFd::from(file)]).is_err());
    }

    #[test]
    fn a_path_that_another_has_taken_since_is_left_to_it() {
        let path = std::env::temp_dir().join(format!("cotenant-socket-{}", std::process::id()));
        let _stale = std::fs::remove_file(&path);
        let first = bind_unix(&path, UNIX_MODE).unwrap();
        let file = SocketFile::at(&path);
        std::fs::remove_file(&path).unwrap();
        let _second = bind_unix(&path, UNIX_MODE).unwrap();
        drop((first, file));
        assert!(path.exists());
        drop(SocketFile::at(&path));
        assert!(!path.exists());
    }
}
