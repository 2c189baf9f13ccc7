"""Clients in other languages than Python's and C's: the conformance programs of tests/clients, each a client's whole interface.

A client that is not there is skipped by name; `test_enough_clients` counts those that passed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conformance.test_clients import empty, guarded  # noqa: F401  (fixtures)

CLIENTS = pathlib.Path(__file__).parents[1] / "clients"
ENVIRONMENT = pathlib.Path(sys.prefix)
SPYMEMCACHED = pathlib.Path("/usr/share/java/spymemcached.jar")
NODE_MODULES = ENVIRONMENT / "node" / "node_modules"

#: name -> (command, what must exist, the Debian packages or the file that brings it)
PROGRAMS = {
    "gomemcache": ([ENVIRONMENT / "bin" / "gomemcache"], [ENVIRONMENT / "bin" / "gomemcache"], "tests/clients/go/go.mod"),
    "spymemcached": (
        ["java", "-cp", f"{SPYMEMCACHED}:{ENVIRONMENT / 'java'}", "Conformance"],
        ["java", SPYMEMCACHED, ENVIRONMENT / "java" / "Conformance.class"], "default-jdk-headless libspymemcached-java",
    ),
    "memjs": (
        ["node", CLIENTS / "node" / "conformance.js"], ["node", NODE_MODULES / "memjs"], "tests/clients/node/package.json",
    ),
    "php-memcached": (
        ["php", CLIENTS / "php" / "conformance.php"], ["php"], "php-cli php-memcached",
    ),
    "dalli": (["ruby", CLIENTS / "ruby" / "conformance.rb"], ["ruby"], "ruby ruby-dalli"),
}
#: Who has only the library missing, in a language that is there.
PROBES = {"php-memcached": ["php", "-r", "exit(class_exists('Memcached') ? 0 : 1);"], "dalli": ["ruby", "-rdalli", "-e", ""]}
#: gomemcache knows no passwords.
WITH_PASSWORDS = [name for name in PROGRAMS if name != "gomemcache"]
#: The shortest program makes this many checks; one that makes fewer left before its end.
CHECKS_MIN = 25
DEADLINE_S = 100


def is_there(thing):
    return thing.exists() if isinstance(thing, pathlib.Path) else shutil.which(thing) is not None


def lacks(name):
    """Why a client cannot run, or None."""
    _, needs, source = PROGRAMS[name]
    there = all(is_there(thing) for thing in needs)
    if there and name in PROBES:
        there = subprocess.run(PROBES[name], capture_output=True, timeout=DEADLINE_S, check=False).returncode == 0
    return None if there else f"{name} is not installed ({source})"


def run(name, address, *credentials):
    """How many checks the client's program says have passed."""
    if reason := lacks(name):
        pytest.skip(reason)
    host, port = address
    command = [str(part) for part in [*PROGRAMS[name][0], host, port, *credentials]]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    count = int(re.search(r"^(\d+) checks passed$", done.stdout, re.MULTILINE)[1])
    assert CHECKS_MIN <= count, said
    return count


@pytest.mark.parametrize("name", PROGRAMS)
def test_client(empty, passed, name):  # noqa: F811
    passed(name, f"{run(name, empty.address)} checks passed")


@pytest.mark.cotenant
@pytest.mark.parametrize("name", WITH_PASSWORDS)
def test_client_with_password(guarded, passed, name):  # noqa: F811
    running, user, password = guarded
    passed(name, f"SASL: {run(name, running.address, user, password)} checks passed")


TOOL = pathlib.Path("/usr/share/memcached/scripts/memcached-tool")


def test_memcached_tool(empty, note):  # noqa: F811
    """The Perl script that Debian's memcached brings: lists of sizes, statistics, settings, keys and a dump."""
    if not TOOL.exists() or not shutil.which("perl"):
        pytest.skip("memcached-tool is not installed (memcached perl)")
    with empty.wire() as wire:
        assert wire.ask(b"set tool 5 0 3\r\nabc\r\nset other 0 1000 2\r\nhi\r\n") == b"STORED\r\nSTORED\r\n"

    def says(mode):
        done = subprocess.run(
            ["perl", TOOL, "%s:%d" % empty.address, mode],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    rows = [line.split() for line in says("display").splitlines()]
    assert rows[0][0] == "#" and 2 <= sum(int(row[4]) for row in rows[1:]), rows
    assert re.search(r"^\s*curr_items\s+2$", says("stats"), re.MULTILINE)
    assert re.search(r"^\s*cas_enabled\s+yes$", says("settings"), re.MULTILINE)
    assert "add tool 5 0 3\nabc\n" in says("dump").replace("\r", "")
    note("memcached-tool: display stats settings dump passed")
