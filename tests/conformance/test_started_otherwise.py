"""What the page of differences says of listeners, flags and passwords, and no other file shows."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from conformance import servers
from conformance.packets import AUTH, NO_MEMORY, BinaryWire, failure, packet, read
from conformance.test_admin import wait_until
from conformance.test_auth import BAD_TOKEN, FAILURE, wire_auth
from conformance.test_listeners import IS_ROOT, Process, ask, listening, wait_gone
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant

VERSION = b"VERSION 1.6.45\r\n"


def test_a_unix_socket_and_an_address(tmp_path):
    path = tmp_path / "socket"
    with Process("-s", path, "-l", "127.0.0.1:0") as server:
        assert ask(str(path), family=socket.AF_UNIX) == VERSION
        assert ask(servers.parse_ready(server.ready)[0]) == VERSION


def test_the_administration_may_be_off():
    with Process("-l", "127.0.0.1:0") as server:
        assert "admin off" in server.ready and len(listening(server.process.pid)) == 1
    with Process("--admin", "127.0.0.1:0", "-l", "127.0.0.1:0") as server:
        assert "admin http://127.0.0.1:" in server.ready and len(listening(server.process.pid)) == 2


def test_ports_are_any_free_one_or_none(tmp_path):
    with Process("-p", "0") as server:
        assert ask(servers.parse_ready(server.ready)[0]) == VERSION
    with Process("-p", "-1", "-s", tmp_path / "socket") as server:
        assert listening(server.process.pid) == []


@pytest.mark.skipif(not IS_ROOT, reason="only root is warned")
def test_root_is_warned():
    with Process("-l", "127.0.0.1:0") as server:
        wait_until(lambda: any("runs as root" in line for line in server.log))


def privileged_port():
    for port in range(1023, 1, -1):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError("no port below 1024 is free")


@pytest.mark.skipif(not IS_ROOT, reason="only root may listen there and become another user")
def test_privileges_are_dropped_after_binding():
    port = privileged_port()
    with Process("-u", "nobody", "-l", f"127.0.0.1:{port}") as server:
        assert ask(("127.0.0.1", port)) == VERSION
        assert "\nUid:\t65534\t" in pathlib.Path(f"/proc/{server.process.pid}/status").read_text()


def test_a_daemon_takes_the_sockets_over_that_were_handed_to_who_started_it(tmp_path):
    pid_file = tmp_path / "pid"
    with socket.socket() as inherited:
        inherited.bind(("127.0.0.1", 0))
        inherited.listen(8)
        # What a service manager does: descriptor 3, and whose it is.
        script = (
            f"import os; os.dup2({inherited.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
            f"os.execv('{servers.BINARY}', 'cotenant serve -m 16 -t 1 --admin off -d -P {pid_file}'.split())"
        )
        started = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "LISTEN_FDS": "1"},
            pass_fds=[inherited.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=servers.START_S,
        )
        assert started.returncode == 0, started.stderr
        pid = int(pid_file.read_text())
        try:
            assert servers.parse_ready(started.stderr)[0] == inherited.getsockname()
            assert ask(inherited.getsockname()) == VERSION
            assert len(listening(pid)) == 1, "and nothing else"
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_gone(pid)


def names(pid):
    """What a process is called, and all its threads."""
    path = pathlib.Path(f"/proc/{pid}")
    return (path / "comm").read_text(), sorted(thread.read_text() for thread in path.glob("task/*/comm"))


def test_a_daemon_is_called_as_the_program_is(tmp_path):
    pid_file, link = tmp_path / "pid", tmp_path / "memcached"
    link.symlink_to(servers.BINARY)
    flags = ["-p", "0", "-m", "16", "-t", "1", "--admin", "off"]
    for called in (str(servers.BINARY), str(link)):
        command = [called, "serve"] if called == str(servers.BINARY) else [called]
        started = subprocess.run([*command, *flags, "-d", "-P", str(pid_file)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=servers.START_S)
        assert started.returncode == 0, started.stderr
        pid = int(pid_file.read_text())
        try:
            with Process(command=[*command, *flags]) as other:
                # A thread takes its name when it begins to run.
                wait_until(lambda pid=pid, other=other: names(pid) == names(other.process.pid))
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_gone(pid)


def test_what_keeps_a_start_from_its_surroundings_is_told_with_a_cure(tmp_path):
    nowhere = tmp_path / "nowhere" / "ports"
    for environment, word in (({"MEMCACHED_PORT_FILENAME": str(nowhere)}, str(nowhere)), ({"LISTEN_FDS": "65"}, "LISTEN_FDS")):
        script = (
            "import os; os.environ['LISTEN_PID'] = str(os.getpid()); "
            f"os.execv('{servers.BINARY}', 'cotenant serve -p 0 -m 16 -t 1 --admin off'.split())"
        )
        code, _, errors = said("-c", script, program=sys.executable, **environment)
        what, cure = errors.splitlines()
        assert code == 3 and what.startswith("error: ") and word in what and cure.startswith("  try: "), errors


def said(*arguments, program=servers.BINARY, **environment):
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=servers.START_S, env={**os.environ, **environment}
    )
    return done.returncode, done.stdout, done.stderr


def test_what_is_refused_at_the_start(tmp_path):
    for flags in (["-U", "11211"], ["-o", "proxy_config=routes.lua"], ["-l", "proto[proxy]:127.0.0.1:0"], ["-S"], ["-m", "64", "-I", "33m"]):
        code, out, errors = said("serve", *flags)
        assert code == 2 and not out and errors.count("\n") == 2, (flags, errors)


def test_under_memcacheds_name(tmp_path):
    link = tmp_path / "memcached"
    link.symlink_to(servers.BINARY)
    for flag in ("-V", "-h"):
        code, out, _ = said(flag, program=link)
        assert code == 0 and out.startswith("memcached 1.6.45\n"), out
    with Process(command=[link, "-p", "0", "-m", "16", "-t", "1", "--admin", "off"]) as server:
        assert ask(servers.parse_ready(server.ready)[0]) == VERSION


def test_every_setting_has_a_key_and_a_variable():
    code, out, _ = said("config", "reference")
    sections = out.split("\n## ")[1:]
    assert code == 0 and 50 < len(sections)
    with_variable = {section.split("\n")[0] for section in sections if "variable: `COTENANT_" in section}
    assert {"memory", "max_item_size", "threads", "listen", "rank"} <= with_variable


def test_notes_on_what_has_no_meaning():
    flags = ["-f", "1.5", "-n", "64", "-N", "2", "-C", "-o", "ssl_keyformat=1,ssl_wbuf_size=32,modern,tail_repair_time=5"]
    with Process("-l", "127.0.0.1:0", *flags) as server:
        for told in ("-f", "-n", "-N", "-C", "-o ssl_keyformat", "-o ssl_wbuf_size", "-o modern", "-o tail_repair_time"):
            wait_until(lambda told=told: told in "".join(server.log))


def test_large_pages_are_missed_where_they_are_off():
    setting = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    are_off = not setting.exists() or "[never]" in setting.read_text()
    for flags in ([], ["-L"]):
        with Process("-l", "127.0.0.1:0", *flags) as server:
            assert ask(servers.parse_ready(server.ready)[0]) == VERSION
            server.process.terminate()
            server.process.wait(timeout=servers.STOP_S)
            server.reader.join()
            assert any("huge pages are off" in line for line in server.log) == (are_off and flags == ["-L"]), server.log


USERS = "".join(f"user{i}:word{i}\n" for i in range(20))


@pytest.fixture
def many(tmp_path):
    """A server with twenty users."""
    path = tmp_path / "users"
    path.write_text(USERS, encoding="ascii")
    running = servers.start_cotenant(["-Y", str(path)])
    yield running
    running.stop()


def test_more_than_eight_users_in_both_protocols(many):
    for i in range(20):
        name, word = b"user%d" % i, b"word%d" % i
        with many.wire() as text, BinaryWire(many.address) as binary:
            assert text.ask(set_request(b"auth", name + b" " + word) + set_request(b"k", name)) == b"STORED\r\n" * 2
            assert wire_auth(binary, name, word).value == b"Authenticated"
            assert binary.one(packet("get", b"k")).value == name


def test_a_user_twice_is_an_error(tmp_path):
    path = tmp_path / "users"
    path.write_text("ann:one\nbob:two\nann:three\n", encoding="ascii")
    code, errors = Process("-l", "127.0.0.1:0", "-Y", path).failed()
    assert code in (2, 3) and "ann" in errors and "three" not in errors, errors


def test_another_file_of_passwords_is_not_read(tmp_path):
    other, mine = tmp_path / "other", tmp_path / "users"
    other.write_text("eve:evil\n", encoding="ascii")
    mine.write_text("ann:one\n", encoding="ascii")
    environment = {**os.environ, "MEMCACHED_SASL_PWDB": str(other)}
    with Process("-l", "127.0.0.1:0", "-Y", mine, env=environment) as server:
        address = servers.parse_ready(server.ready)[0]
        assert ask(address, set_request(b"auth", b"eve evil")) == b"CLIENT_ERROR authentication failure\r\n"
        assert ask(address, set_request(b"auth", b"ann one")) == b"STORED\r\n"
    code, _, errors = said("serve", "-S", MEMCACHED_SASL_PWDB=str(other))
    assert code == 2 and "-Y" in errors


def test_a_message_of_a_password_has_its_length(many):
    longest = b"user1 " + b"w" * 1018
    with many.wire() as wire:
        assert wire.ask(set_request(b"auth", longest)) == FAILURE
        assert wire.ask(set_request(b"auth", longest + b"w")) == BAD_TOKEN
    for length, status in ((1024, AUTH), (1025, NO_MEMORY)):
        with BinaryWire(many.address) as wire:
            wire.send(packet("sasl_auth", b"PLAIN", b"\0user1\0".ljust(length, b"w")))
            assert read(wire).status == status, length


def test_listing_mechanisms_takes_nothing_back(many):
    with BinaryWire(many.address) as wire:
        assert wire_auth(wire, b"user1", b"word1").value == b"Authenticated"
        assert wire.one(packet("sasl_list")).value == b"PLAIN"
        assert wire.ask(packet("get", b"a")) != [failure("get", AUTH)]
