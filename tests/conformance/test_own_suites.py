"""Clients' own test suites, unmodified, as their packages bring them; pymemcache's is in `test_clients`.

What a suite says of memcached 1.6.18 it has to say of the server under test. A test that memcached fails, too, or that asks
no server anything, is left out by name, with the reason. A suite that is not there is skipped by name.

spymemcached, php-memcached and Dalli have suites, but no package that brings them; memjs's asks no server.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import xml.etree.ElementTree

import pytest

from conformance import alone, servers

ENVIRONMENT = pathlib.Path(sys.prefix)
#: Source packages, unpacked, and what their suites import.
SUITES = ENVIRONMENT / "suites"
LIBRARIES = SUITES / "lib"
NODE_MODULES = ENVIRONMENT / "node" / "node_modules"
GO_SUITE = ENVIRONMENT / "bin" / "gomemcache.test"
#: What python-binary-memcached's suite takes from a file that its package does not bring.
BMEMCACHED_CONFTEST = pathlib.Path(__file__).parents[1] / "clients" / "bmemcached"
DEADLINE_S = 55

LOCAL = "127.0.0.1"
PORT = 11211
USUAL = [alone.at((LOCAL, PORT))]

#: How many tests pass, at least.
GOMEMCACHE_COUNT = 4
GOMEMCACHE_TLS_COUNT = 1
PYLIBMC_COUNT = 41
BMEMCACHED_COUNT = 252
BMEMCACHED_SASL_COUNT = 3
BMEMCACHED_TLS_COUNT = 44
MEMCACHE_COUNT = 48
NODE_MEMCACHED_COUNT = 43

#: No server is asked, and memcached fails all but the first, too.
NODE_MEMCACHED_LEFT_OUT = [
    # Tries again for 13 seconds where nobody is.
    "should call the callback only once if theres an error",
    # Need the program `ping`.
    "should properly schedule server reconnection attempts",
    "should reset failures after reconnecting to failed server",
    # Need an address to which packets get lost.
    "should return error on connection timeout",
    "should reset failures if all failures do not occur within failuresTimeout ms",
]

def need(*things):
    """Skips unless the files are there."""
    for thing in things:
        if not thing.exists():
            pytest.skip(f"{thing.name} of {thing.parent.name} is not installed (tests/setup.sh)")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The server under test by memcached's name: suites start servers of their own by it."""
    path = tmp_path_factory.mktemp("program") / "memcached"
    if servers.PEER_ONLY:
        # Nobody but root needs the flag, and nobody else minds it.
        path.write_text(f'#!/bin/sh\nexec {servers.find_memcached()} -u root "$@"\n', encoding="ascii")
        path.chmod(0o755)
    else:
        assert servers.BINARY.exists(), f"{servers.BINARY} does not exist: cargo build --release, or name another in $COTENANT"
        path.symlink_to(servers.BINARY)
    return path


@pytest.fixture
def alone_with(program):
    """Runs a command beside servers at fixed addresses."""
    if reason := alone.lacks():
        pytest.skip(reason)

    def run(command, listeners, **options):
        return alone.run(command, listeners, program, timeout_s=DEADLINE_S, **options)

    return run


def twice(attempt):
    """What `attempt` says of each test, and all that it says; once more where something failed.

    Times to live of one second on a clock of whole seconds end early by chance, in any memcached.
    """
    results, said = attempt()
    return (results, said) if all_passed(results) else attempt()


def all_passed(results):
    return set(results.values()) == {"passed"}


def judge(results, said, at_least):
    """How many passed: all, none was skipped, and none got lost."""
    assert all_passed(results), said
    assert at_least <= len(results), said
    return len(results)


@pytest.fixture
def pytest_suite(alone_with, tmp_path):
    """What pytest says of the suite in a folder."""
    report = tmp_path / "report.xml"

    def run(folder, listeners, *arguments, libraries=(), leaves=(), **environment):
        need(folder, *libraries)
        command = [
            sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "-p", "no:timeout",
            "--rootdir", folder, f"--junitxml={report}", *arguments, folder,
        ]
        environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, libraries)), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "",
        }

        def attempt():
            report.unlink(missing_ok=True)
            said = alone_with(command, listeners, environment=environment, leaves=leaves).stdout
            assert report.exists(), said
            return pytest_results(report), said

        return twice(attempt)

    return run


def pytest_results(report):
    """Name -> what became of it, of each test in pytest's report."""
    results = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        became = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        results[f"{case.get('classname')}::{case.get('name')}"] = became[0] if became else "passed"
    return results


def test_pylibmc(pytest_suite, passed):
    pylibmc = pytest.importorskip("pylibmc", reason="pylibmc is not installed (tests/requirements.txt)")
    results, said = pytest_suite(SUITES / f"pylibmc-{pylibmc.__version__}" / "tests", USUAL)
    passed("pylibmc", f"{judge(results, said, PYLIBMC_COUNT)} tests of its own passed")


#: Where python-binary-memcached's suite looks for servers, the last and SASL's as our part of it says.
BMEMCACHED_AT = [alone.at(address) for address in [(LOCAL, PORT), (LOCAL, 5000), "/tmp/memcached.sock", ("::1", 11311)]]
BMEMCACHED_SASL_AT = (LOCAL, 11312)


@pytest.fixture
def bmemcached_suite(pytest_suite):
    """What pytest says of those of python-binary-memcached's tests that are called so."""
    bmemcached = pytest.importorskip("bmemcached", reason="python-binary-memcached is not installed")
    folder = SUITES / f"python_binary_memcached-{bmemcached.__version__}" / "test"

    def run(listeners, called):
        return pytest_suite(
            folder, listeners, "-p", "conftest", "-p", "no:asyncio", "-p", "no:trio", "-k", called,
            libraries=[LIBRARIES, BMEMCACHED_CONFTEST], leaves=["/tmp/memcached.sock"], MEMCACHED_HOST="localhost",
        )

    return run


def test_python_binary_memcached(bmemcached_suite, passed):
    results, said = bmemcached_suite(BMEMCACHED_AT, "not TLSMemcachedTests and not sasl_integration")
    count = judge(results, said, BMEMCACHED_COUNT)
    passed("python-binary-memcached", f"{count} tests of its own passed")


@pytest.mark.cotenant
def test_python_binary_memcached_sasl(bmemcached_suite, passed, tmp_path):
    users = tmp_path / "users"
    users.write_text("user:password\n", encoding="ascii")
    results, said = bmemcached_suite([alone.at(BMEMCACHED_SASL_AT, "-S", "-Y", str(users))], "sasl_integration")
    count = judge(results, said, BMEMCACHED_SASL_COUNT)
    passed("python-binary-memcached", f"SASL: {count} tests of its own passed")


def test_python_binary_memcached_tls(bmemcached_suite, passed):
    """It starts a server of its own."""
    results, said = bmemcached_suite(BMEMCACHED_AT, "TLSMemcachedTests")
    count = judge(results, said, BMEMCACHED_TLS_COUNT)
    passed("python-binary-memcached", f"TLS: {count} tests of its own passed")


def test_memcache(pytest_suite, passed):
    """A client in Python of the meta commands alone."""
    results, said = pytest_suite(SUITES / "memcache-0.14.0" / "tests", USUAL, libraries=[LIBRARIES])
    passed("memcache", f"(meta commands): {judge(results, said, MEMCACHE_COUNT)} tests of its own passed")


def go_suite(alone_with, *arguments):
    """What gomemcache's suite says. Part of it speaks to servers that it starts itself, at sockets that it leaves.

    It flushes by a connection that it closes unanswered, and stores by another: of two threads the second may be first.
    """
    need(GO_SUITE)
    done = alone_with(
        [GO_SUITE, "-test.v", "-test.parallel=4", *arguments], [alone.at((LOCAL, PORT), threads=1)], leaves=["/tmp/test-gomemcache-{pid}.sock"],
    )
    said = re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", done.stdout, re.MULTILINE)
    return {name: "passed" if result == "PASS" else result for result, name in said}, done.stdout


def test_gomemcache(alone_with, passed):
    results, said = go_suite(alone_with, "-test.run=^Test([^T]|T[^L])")
    passed("gomemcache", f"{judge(results, said, GOMEMCACHE_COUNT)} tests of its own passed")


def test_gomemcache_tls(alone_with, passed):
    results, said = go_suite(alone_with, "-test.run=^TestTLS$")
    passed("gomemcache", f"TLS: {judge(results, said, GOMEMCACHE_TLS_COUNT)} test of its own passed")


def test_node_memcached(alone_with, passed, tmp_path):
    """The client `memcached` of Node, which speaks text, to one server and to three."""
    mocha = NODE_MODULES / "mocha" / "bin" / "mocha.js"
    suite = NODE_MODULES / "memcached" / "test"
    if not shutil.which("node"):
        pytest.skip("node is not installed (nodejs)")
    need(mocha, suite)
    report = tmp_path / "report.json"
    command = [
        "node", mocha, "--no-config", "--exit", "--reporter", "json", "--reporter-option", f"output={report}",
        "--require", NODE_MODULES / "should", "--invert", "--grep", "|".join(map(re.escape, NODE_MEMCACHED_LEFT_OUT)),
        suite / "*.test.js",
    ]
    listeners = [alone.at((LOCAL, port)) for port in (PORT, PORT + 1, PORT + 2)]
    environment = {"MEMCACHED__HOST": LOCAL}

    def attempt():
        report.unlink(missing_ok=True)
        said = alone_with(command, listeners, environment=environment).stdout
        assert report.exists(), said
        tests = json.loads(report.read_text(encoding="utf-8"))["tests"]
        # Two of them have the same name.
        return {(i, test["fullTitle"]): "failure" if test["err"] else "passed" for i, test in enumerate(tests)}, said

    results, said = twice(attempt)
    passed("node memcached", f"{judge(results, said, NODE_MEMCACHED_COUNT)} tests of its own passed")
