"""Starts the servers under test on ephemeral loopback ports and stops them.

`Server` hides which of the two it is: `cotenant serve`, or Debian's memcached (the peer of the differential
tests, and the stand-in when COTENANT_TEST_PEER_ONLY=1).
"""

import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from conformance import packets
from conformance.wire import Wire

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
BINARY = pathlib.Path(os.environ.get("COTENANT", TARGET / "release" / "cotenant"))
if not BINARY.is_absolute():
    BINARY = ROOT / BINARY
PEER_ONLY = os.environ.get("COTENANT_TEST_PEER_ONLY") == "1"

#: Longest wait for a server to be ready.
START_S = 30.0
#: Longest wait for a server to end after SIGTERM.
STOP_S = 10.0


def find_memcached():
    """Debian's memcached, or None."""
    return shutil.which("memcached") or shutil.which("memcached", path="/usr/bin:/usr/local/bin")


class Server:
    """A running server."""

    def __init__(self, process, address, admin=None, tenants=None, ready_line="", log=None, speaks_binary=False):
        self.process = process
        #: (host, port) of the memcached listener.
        self.address = address
        #: Base URL of the admin listener, or None.
        self.admin = admin
        #: name -> (host, port) of tenants with listeners of their own.
        self.tenants = tenants or {}
        self.ready_line = ready_line
        self.log = log if log is not None else []
        if speaks_binary:
            with packets.BinaryWire(self.address) as wire:
                self.version = wire.one(packets.packet("version")).value.decode()
        else:
            with self.wire() as wire:
                self.version = wire.version_line.split()[1].decode()

    @property
    def pid(self):
        return self.process.pid

    @property
    def is_debian(self):
        """Whether this is memcached 1.6.18, whose texts differ from 1.6.45's."""
        return self.version == "1.6.18"

    def wire(self, **options):
        return Wire(self.address, **options)

    def tenant_wire(self, name):
        return Wire(self.tenants[name])

    def http(self, path):
        """(status, body) of a GET on the admin listener."""
        try:
            with urllib.request.urlopen(self.admin + path, timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_alive(self):
        return self.process.poll() is None

    def said(self):
        """What the server wrote to stderr, for failure messages."""
        return "\n".join(self.log[-20:])

    def check_alive(self):
        """The server runs and answers `stats`: the end of every hostile test."""
        assert self.is_alive(), f"server ended with {self.process.returncode}\n{self.said()}"
        with self.wire() as wire:
            assert int(wire.stats()["pid"]) == self.pid

    def stop(self):
        """SIGTERM, then the exit status."""
        if self.is_alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running {STOP_S} s after SIGTERM\n{self.said()}") from None


def _drain(stream, lines, arrived):
    for line in stream:
        line = line.rstrip("\n")
        lines.append(line)
        arrived.put(line)
    arrived.put(None)


READY = re.compile(r"cotenant ready: (.*)")
ADDRESS = r"(\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]):(\d+)"


def parse_ready(line):
    """(memcached address, admin URL or None, tenants' addresses) of the start-up line."""
    said = READY.search(line).group(1)
    host, port = re.search(rf"(?:^|, )memcached {ADDRESS}", said).groups()
    admin = re.search(rf"(?:^|, )admin (http://{ADDRESS})", said)
    tenants = {
        name: (tenant_host, int(tenant_port))
        for name, tenant_host, tenant_port in re.findall(rf"(?:^|, )tenant (\S+) {ADDRESS}", said)
    }
    return (host, int(port)), admin.group(1) if admin else None, tenants


def is_binary(arguments):
    """Whether nothing but the binary protocol is spoken."""
    return ("-B", "binary") in zip(arguments, arguments[1:])


def start_cotenant(arguments=(), memory="64"):
    """`cotenant serve` with the tests' usual flags and `arguments`."""
    command = [str(BINARY), "serve", "-p", "0", "--admin", "127.0.0.1:0", "-t", "2"]
    if memory is not None:
        command += ["-m", memory]
    command += list(arguments)
    assert BINARY.exists(), f"{BINARY} does not exist: cargo build --release, or name another in $COTENANT"
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines, arrived = [], queue.Queue()
    threading.Thread(target=_drain, args=(process.stderr, lines, arrived), daemon=True).start()
    until = time.monotonic() + START_S
    while True:
        try:
            line = arrived.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            process.kill()
            process.wait()
            raise AssertionError(f"no start-up line from {command}\n" + "\n".join(lines)) from None
        if line is None:
            status = process.wait()
            raise AssertionError(f"{command} ended with {status}\n" + "\n".join(lines))
        if READY.search(line):
            address, admin, tenants = parse_ready(line)
            return Server(process, address, admin, tenants, line, lines, is_binary(arguments))


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_memcached(arguments=(), memory="64"):
    """Debian's memcached. It cannot tell which port it chose, so we choose; who loses the race tries again."""
    for _ in range(5):
        port = _free_port()
        command = [find_memcached(), "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", memory, "-t", "2"]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        command += list(arguments)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                return Server(process, ("127.0.0.1", port), speaks_binary=is_binary(arguments))
            except ConnectionRefusedError:
                pass
            try:
                # Paces the next attempt, and notices at once when the process gave up.
                process.wait(timeout=0.01)
                break
            except subprocess.TimeoutExpired:
                continue
        process.kill()
        process.wait()
    raise AssertionError("memcached does not start")


def start(arguments=(), memory="64"):
    """The server under test."""
    return start_memcached(arguments, memory) if PEER_ONLY else start_cotenant(arguments, memory)
