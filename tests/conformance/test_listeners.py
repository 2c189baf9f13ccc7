"""Where a server listens and who starts it: UNIX sockets, inherited sockets, port files, daemons, users, signals."""

import os
import pathlib
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import threading

import pytest

from conformance import servers
from conformance.wire import DEADLINE_S

pytestmark = pytest.mark.cotenant

IS_ROOT = os.geteuid() == 0


def ask(address, data=b"version\r\n", family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect(address)
        sock.sendall(data)
        got = b""
        while not got.endswith(b"\r\n"):
            more = sock.recv(4096)
            assert more, f"closed after {got!r}"
            got += more
        return got


def stats(address, what, family=socket.AF_INET):
    """`stats WHAT` as names and values."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect(address)
        sock.sendall(b"stats " + what + b"\r\n")
        got = b""
        while not got.endswith(b"END\r\n"):
            got += sock.recv(65536)
    return dict(line.split(" ", 2)[1:] for line in got.decode().split("\r\n") if line.startswith("STAT "))


class Process:
    """A server started by hand, whose standard error is read until it is ready."""

    def __init__(self, *arguments, command=None, **options):
        self.command = command or [servers.BINARY, "serve", "-m", "16", "-t", "1", "--admin", "off", *arguments]
        self.process = subprocess.Popen(
            [str(word) for word in self.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.log = []
        self.ready = ""
        for line in self.process.stderr:
            self.log.append(line)
            if servers.READY.search(line):
                self.ready = line
                break
        # What comes later must not fill the pipe.
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def __enter__(self):
        assert self.ready, "".join(self.log)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=servers.STOP_S)
        self.reader.join()

    def failed(self):
        assert not self.ready
        self.reader.join()
        return self.process.wait(timeout=servers.STOP_S), "".join(self.log)


def listening(pid):
    """Addresses, in the system's digits, on which a process listens."""
    links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    sockets = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}
    rows = []
    for family in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{family}", encoding="ascii") as table:
            rows += [line.split() for line in table][1:]
    # State 0A is LISTEN.
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets]


def test_without_configuration_every_listener_is_on_loopback():
    # Only the port is said, for the usual one may be taken; where the administration's is, there is none.
    with Process(command=[servers.BINARY, "serve", "-p", "0"]) as server:
        doors = 1 if "admin off" in server.ready else 2
        assert listening(server.process.pid) == ["0100007F"] * doors, server.ready


def test_a_unix_socket_has_its_mode_and_goes_with_the_server(tmp_path):
    path = tmp_path / "socket"
    with Process("-s", path, "-a", "660") as server:
        assert ask(str(path), family=socket.AF_UNIX) == b"VERSION 1.6.45\r\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert "127.0.0.1" not in server.ready
        # Somebody listens: a second server keeps its hands off.
        code, said = Process("-s", path).failed()
        assert code == 3 and "somebody listens" in said
        assert ask(str(path), family=socket.AF_UNIX) == b"VERSION 1.6.45\r\n"
    assert not path.exists()


def test_stats_say_where_it_listens_as_it_was_given(tmp_path):
    path = tmp_path / "s"
    with Process("-l", f"127.0.0.1:0,unix:{path}"):
        told = stats(str(path), b"conns", socket.AF_UNIX)
        assert [value for name, value in told.items() if name.endswith(":listen_addr")] == [f"unix:{path}"]
        assert stats(str(path), b"settings", socket.AF_UNIX)["inter"] == f"127.0.0.1:0,unix:{path}"
    with Process("-s", str(path)):
        assert stats(str(path), b"settings", socket.AF_UNIX)["inter"] == "NULL"


@pytest.mark.parametrize("given", ["*:0", "*"])
def test_a_star_is_every_address_of_both_kinds(given):
    with Process("-l", given, "-p", "0") as running:
        ports = set(re.findall(r"(?:0\.0\.0\.0|\[::\]):(\d+)", running.ready))
        assert len(ports) == 1, running.ready
        port = int(ports.pop())
        assert ask(("127.0.0.1", port)).startswith(b"VERSION ")
        if has_ipv6():
            assert ask(("::1", port), family=socket.AF_INET6).startswith(b"VERSION ")


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


def test_a_stale_socket_is_replaced_and_a_file_is_not(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(path))
    with Process("-s", path):
        assert ask(str(path), family=socket.AF_UNIX) == b"VERSION 1.6.45\r\n"
    path.write_text("mine")
    code, said = Process("-s", path).failed()
    assert code == 3 and "is no socket" in said
    assert path.read_text() == "mine"


def test_large_values_go_through_a_unix_socket(tmp_path):
    path, value = tmp_path / "socket", bytes(range(256)) * 3_000
    with Process("-s", path, "-m", "64"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect(str(path))
        sock.sendall(b"set k 0 0 %d\r\n%s\r\nget k\r\n" % (len(value), value))
        wanted = b"STORED\r\nVALUE k 0 %d\r\n%s\r\nEND\r\n" % (len(value), value)
        got = b""
        while len(got) < len(wanted):
            more = sock.recv(1 << 16)
            assert more
            got += more
        assert got == wanted


def test_several_listeners_and_the_port_file(tmp_path):
    file = tmp_path / "ports"
    environment = {**os.environ, "MEMCACHED_PORT_FILENAME": str(file)}
    listeners = ["-l", "notls:127.0.0.1:0", "-l", "proto[ascii]:tag[a]:[::1]:0", "-l", "localhost:0"]
    with Process(*listeners, env=environment):
        lines = file.read_text().splitlines()
        kinds = [line.rsplit(" ", 1)[0] for line in lines]
        assert kinds == ["TCP INET:", "TCP INET6:", "TCP INET:"]
        first, second, third = (int(line.rsplit(" ", 1)[1]) for line in lines)
        assert ask(("127.0.0.1", first)) == ask(("127.0.0.1", third)) == b"VERSION 1.6.45\r\n"
        assert ask(("::1", second), family=socket.AF_INET6) == b"VERSION 1.6.45\r\n"


def test_a_listener_leads_to_its_tenant():
    arguments = ["-l", "127.0.0.1:0", "-l", "tenant[feeds]:127.0.0.1:0", "--tenant", "name=feeds"]
    with Process(*arguments) as server:
        default, _, tenants = servers.parse_ready(server.ready)
        assert ask(tenants["feeds"], b"set k 0 0 1\r\n1\r\n") == b"STORED\r\n"
        assert ask(default, b"get k\r\n") == b"END\r\n"


def test_sockets_are_inherited(tmp_path):
    path = tmp_path / "notify"
    with (
        socket.socket() as inherited,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
    ):
        inherited.bind(("127.0.0.1", 0))
        inherited.listen(8)
        told.bind(str(path))
        told.settimeout(DEADLINE_S)
        address = inherited.getsockname()
        # A connection that came before the server waits for it.
        with socket.create_connection(address, timeout=DEADLINE_S) as early:
            early.sendall(b"version\r\n")
            # What a service manager does: descriptor 3, and whose it is.
            script = (
                f"import os; os.dup2({inherited.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
                f"os.execv('{servers.BINARY}', 'cotenant serve -m 16 -t 1 --admin off'.split())"
            )
            environment = {**os.environ, "NOTIFY_SOCKET": str(path), "LISTEN_FDS": "1"}
            with Process(command=[sys.executable, "-c", script], pass_fds=[inherited.fileno()], env=environment) as server:
                assert servers.parse_ready(server.ready)[0] == address
                is_asked_to_wait(told.recv(100), b"starting")
                assert told.recv(100) == b"READY=1\nSTATUS=serving"
                assert early.recv(100) == b"VERSION 1.6.45\r\n"
                server.process.send_signal(signal.SIGHUP)
                assert [told.recv(100), told.recv(100)] == [b"RELOADING=1", b"READY=1"]
                server.process.terminate()
                assert told.recv(100) == b"STOPPING=1"
                is_asked_to_wait(told.recv(100), b"draining and saving")
        # The socket outlives the server.
        socket.create_connection(address, timeout=DEADLINE_S).close()


def is_asked_to_wait(said, doing):
    assert re.fullmatch(rb"EXTEND_TIMEOUT_USEC=[1-9]\d{6,}\nSTATUS=" + doing + rb": \d+ items so far", said), said


def wait_gone(pid):
    """Waits until a process that is not our child has ended."""
    with open(os.pidfd_open(pid), "rb") as handle:
        assert select.select([handle], [], [], servers.STOP_S)[0], f"{pid} still runs"


def test_a_daemon_leaves_and_has_a_pid_file(tmp_path):
    pid_file, path = tmp_path / "pid", tmp_path / "socket"
    command = [servers.BINARY, "serve", "-m", "16", "-t", "1", "--admin", "off", "-d", "-P", "pid", "-s", "socket"]
    started = subprocess.run(
        [str(word) for word in command],
        cwd=tmp_path,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=servers.START_S,
    )
    assert started.returncode == 0 and "cotenant ready: memcached unix:" in started.stderr, started.stderr
    pid = int(pid_file.read_text())
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert ask(str(path), family=socket.AF_UNIX) == b"VERSION 1.6.45\r\n"
    os.kill(pid, signal.SIGTERM)
    wait_gone(pid)
    assert not pid_file.exists() and not path.exists()


def test_the_pid_file_of_a_server_that_runs_stays(tmp_path):
    pid_file = tmp_path / "pid"
    arguments = ["-P", pid_file, "-l", "127.0.0.1:0"]
    with Process(*arguments) as server:
        code, said = Process(*arguments).failed()
        assert code == 3 and f"the server with number {server.process.pid}, which runs" in said, said
        assert int(pid_file.read_text()) == server.process.pid
    assert not pid_file.exists()
    pid_file.write_text('memory = "64MiB"\n')
    code, said = Process(*arguments).failed()
    assert code == 3 and "holds no process number" in said, said
    assert pid_file.read_text() == 'memory = "64MiB"\n'


def test_the_pid_file_of_a_server_that_runs_stays_however_it_was_named(tmp_path):
    pid_file, config = tmp_path / "pid", tmp_path / "cotenant.toml"
    config.write_text(f'pidfile = "{pid_file}"\nlisten = ["127.0.0.1:0"]\n')
    by_file, by_flag = ["--config", config], ["-P", pid_file, "-l", "127.0.0.1:0"]
    by_variable = {"env": {**os.environ, "COTENANT_PIDFILE": str(pid_file)}}
    for first, first_options in ((by_file, {}), (by_flag[2:], by_variable)):
        with Process(*first, **first_options) as server:
            for other, options in ((by_file, {}), (by_flag, {}), (by_flag[2:], by_variable)):
                code, said = Process(*other, **options).failed()
                assert code == 3 and f"the server with number {server.process.pid}, which runs" in said, said
                assert int(pid_file.read_text()) == server.process.pid
        assert not pid_file.exists()
    with Process(*by_file) as server:
        server.process.kill()
    assert int(pid_file.read_text()) == server.process.pid, "it had no time to remove it"
    with Process(*by_file) as server:
        assert int(pid_file.read_text()) == server.process.pid
    assert [path.name for path in tmp_path.iterdir()] == ["cotenant.toml"]


def test_a_daemon_that_does_not_start_says_why():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [str(servers.BINARY), "serve", "-d", "-p", str(port), "--admin", "off"]
        started = subprocess.run(command, capture_output=True, text=True, timeout=servers.START_S)
    assert started.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}" in started.stderr


def let_others_reach(place):
    """Whoever a server becomes has to get to what is in a test's folder."""
    for folder in place.parents:
        if folder.stat().st_uid == os.geteuid() and folder != pathlib.Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_root_becomes_the_user(tmp_path):
    tmp_path.chmod(0o777)
    let_others_reach(tmp_path)
    pid_file, path = tmp_path / "pid", tmp_path / "socket"
    arguments = ["-u", "nobody", "-k", "-r", "-P", pid_file, "-s", path, "-l", "127.0.0.1:0"]
    with Process(*arguments) as server:
        status = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
        for task in status:
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            assert set(fields["Uid"].split()) == {"65534"}, fields
            assert set(fields["Gid"].split()) == {"65534"}, fields
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                assert int(fields[kind], 16) == 0, (kind, fields)
        assert path.stat().st_uid == 65534
        assert ask(str(path), family=socket.AF_UNIX) == b"VERSION 1.6.45\r\n"
    assert not path.exists()
    code, said = Process("-u", "nobody-of-this-name", "-l", "127.0.0.1:0").failed()
    assert code == 2 and "there is no user" in said


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_root_gives_no_file_of_its_own_away(tmp_path):
    tmp_path.chmod(0o711)
    let_others_reach(tmp_path)
    own = tmp_path / "own"
    own.write_text("root's\n")
    own.chmod(0o600)
    # The folder is the user's, who knows the names of what the server will make there.
    folder = tmp_path / "run"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    pid_file, ports, path = folder / "pid", folder / "ports", folder / "socket"
    for name in ("pid.new", "ports.new", "ports"):
        (folder / name).symlink_to(own)
    arguments = ["-u", "nobody", "-P", pid_file, "-s", path, "-a", "0666", "-l", "127.0.0.1:0"]
    with Process(*arguments, env={**os.environ, "MEMCACHED_PORT_FILENAME": str(ports)}) as server:
        assert (own.read_text(), own.stat().st_uid, own.stat().st_mode & 0o777) == ("root's\n", 0, 0o600)
        assert int(pid_file.read_text()) == server.process.pid
        assert pid_file.lstat().st_uid == path.lstat().st_uid == 65534
        assert path.lstat().st_mode & 0o777 == 0o666
        assert ports.read_text().startswith("TCP INET: ") and not ports.is_symlink()
    assert not pid_file.exists() and not path.exists()
    assert sorted(file.name for file in folder.iterdir()) == ["pid.new", "ports", "ports.new"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_drain(how):
    with Process("-l", "127.0.0.1:0") as server:
        address = servers.parse_ready(server.ready)[0]
        server.process.send_signal(signal.SIGHUP)
        assert ask(address) == b"VERSION 1.6.45\r\n"
        server.process.send_signal(how)
        assert server.process.wait(timeout=servers.STOP_S) == 0


def test_without_descriptors_the_next_is_told():
    # Root would raise the limit again.
    as_other = "setpriv --reuid=65534 --clear-groups " if IS_ROOT else ""
    limited = ["sh", "-c", f"ulimit -n 40; exec {as_other}{servers.BINARY} serve -m 16 -t 1 -p 0 --admin off -l 127.0.0.1"]
    with Process(command=limited) as server:
        address = servers.parse_ready(server.ready)[0]
        assert any("1024 connections need" in line for line in server.log), server.log
        many = []
        said = b""
        for _ in range(60):
            sock = socket.create_connection(address, timeout=DEADLINE_S)
            many.append(sock)
            sock.sendall(b"version\r\n")
            try:
                said = sock.recv(100)
            except ConnectionError:
                said = b""
            if not said.startswith(b"VERSION"):
                break
        # Whoever writes before it is refused may see a reset in the reason's place.
        assert said in (b"ERROR Too many open connections\r\n", b""), said
        assert 10 < len(many) < 60
        for sock in many:
            sock.close()
        assert ask(address) == b"VERSION 1.6.45\r\n"
