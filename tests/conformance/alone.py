"""A network in which nobody else is, for programs that speak to fixed addresses only: the server under test has them there.

Shape:   run() -> unshare -> this file as a program: servers at the addresses, then the program, then their end
Failure: where no such network can be had, `lacks()` says why
"""

import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time

#: Longest wait for a server to take connections.
START_S = 30.0
#: Longest wait for a server to end after SIGTERM.
STOP_S = 10.0
#: linux/sockios.h and linux/if.h: set an interface's flags; it is up.
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
#: Root of its own user namespace may make networks, too.
UNSHARE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def lacks():
    """Why there is no network of its own, or None."""
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, timeout=START_S, check=False)
    except FileNotFoundError:
        return "unshare is not installed (util-linux)"
    return None if done.returncode == 0 else f"no network of its own: {done.stderr.strip()}"


def at(address, *arguments, threads=2):
    """A server at `address`, (host, port) or a path, with `arguments`."""
    where = ["-s", address] if isinstance(address, str) else ["-l", address[0], "-p", str(address[1])]
    return {"address": address, "arguments": ["-m", "64", "-t", str(threads), *where, *arguments]}


def run(command, listeners, program, environment=None, leaves=(), timeout_s=100):
    """Runs `command` beside servers at `listeners`, which are of `program`; the command finds it on its path.

    `leaves` are files that the command leaves, {pid} being its process; they are removed.
    """
    asked = {
        "program": str(program), "listeners": listeners, "command": [str(part) for part in command], "leaves": list(leaves),
    }
    path = f"{program.parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [*UNSHARE, sys.executable, pathlib.Path(__file__), json.dumps(asked)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        cwd=program.parent, env={**os.environ, **(environment or {}), "PATH": path},
    )
    try:
        said, _ = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return subprocess.CompletedProcess(command, process.returncode, said)


def bring_up(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", interface, IFF_UP))


def is_served(address):
    """Whether somebody takes connections there."""
    if isinstance(address, str):
        family = socket.AF_UNIX
    else:
        address = tuple(address)
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(address) == 0


def wait_for(server, address):
    until = time.monotonic() + START_S
    while not is_served(address):
        if server.poll() is not None or until < time.monotonic():
            sys.exit(f"no server at {address}")
        time.sleep(0.01)


def main():
    asked = json.loads(sys.argv[1])
    bring_up(b"lo")
    servers = []
    try:
        for listener in asked["listeners"]:
            servers.append(subprocess.Popen([asked["program"], *listener["arguments"]]))
        for server, listener in zip(servers, asked["listeners"]):
            wait_for(server, listener["address"])
        command = subprocess.Popen(asked["command"])
        status = command.wait()
        for path in asked["leaves"]:
            pathlib.Path(path.format(pid=command.pid)).unlink(missing_ok=True)
        if dead := [server.args for server in servers if server.poll() is not None]:
            sys.exit(f"ended before their time: {dead}")
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(timeout=STOP_S)
    sys.exit(status)


if __name__ == "__main__":
    main()
