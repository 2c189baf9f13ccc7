"""Clients that people run, unmodified: libmemcached's tools and conformance program, pymemcache, python-memcached,
pylibmc, python-binary-memcached.

Clients that are missing are skipped and counted in the report; those that run report how much they ran.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conformance import servers

#: Sub-tests of `memcapable` that need commands not yet there. Each is a promise to be kept.
CAPABLE_EXPECTED_TO_FAIL = set()
CAPABLE_COUNT = 27

#: pymemcache 4.0.0: 100 pass, 3 are skipped by their authors (its issue 39).
PYMEMCACHE_COUNT = 100


@pytest.fixture
def empty(server):
    """The shared server, empty before and after."""
    with server.wire() as wire:
        wire.ask(b"flush_all\r\n")
        yield server
        wire.ask(b"flush_all\r\n")


def tool(*names):
    """The first of `names` that is installed."""
    for name in names:
        if found := shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/local/bin"):
            return found
    pytest.skip(f"{names[0]} is not installed (apt-get install libmemcached-tools)")


def run(command, **options):
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False, **options
    )


@pytest.mark.parametrize("protocol", ["-a", "-b"])
def test_memcapable(empty, note, clients_passed, protocol):
    """Debian calls the program memccapable."""
    host, port = empty.address
    done = run([tool("memccapable", "memcapable"), "-h", host, "-p", str(port), protocol, "-t", "20"])
    results = dict(re.findall(r"^(.*?)\s*\[(pass|FAIL|fail|skip)\]", done.stdout + done.stderr, re.MULTILINE))
    assert results, f"no results\n{done.stdout}\n{done.stderr}"
    failed = {name for name, result in results.items() if result != "pass"}
    note(f"memcapable {protocol}: {len(results) - len(failed)} of {len(results)} passed; expected to fail: "
         f"{sorted(CAPABLE_EXPECTED_TO_FAIL) or 'none'}")
    assert len(results) == CAPABLE_COUNT
    assert failed == CAPABLE_EXPECTED_TO_FAIL, done.stdout
    clients_passed.add("libmemcached")


def test_pymemcache(empty, passed, tmp_path):
    """The integration tests that pymemcache ships inside its package."""
    pymemcache = pytest.importorskip("pymemcache", reason="pymemcache is not installed (tests/requirements.txt)")
    tests = pathlib.Path(pymemcache.__file__).parent / "test"
    host, port = empty.address
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:timeout", "-W", "ignore",
        "--rootdir", str(tests), str(tests), "-m", "integration", "--server", host, "--port", str(port), "--size", "1024",
    ]
    # Its times to live are one second on a clock of whole seconds, in any memcached: one that ends at once may fail once.
    for _ in range(2):
        done = run(command, cwd=tmp_path, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""})
        if done.returncode == 0:
            break
    last = (done.stdout.strip().splitlines() or [""])[-1]
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    assert PYMEMCACHE_COUNT <= counts["passed"], last
    passed("pymemcache", f"{pymemcache.__version__} integration tests of its own: {last}")


def test_python_memcached(empty, passed):
    memcache = pytest.importorskip("memcache", reason="python-memcached is not installed (tests/requirements.txt)")
    client = memcache.Client(["%s:%d" % empty.address], debug=0, cache_cas=True)
    checks = 0

    def check(got, wanted):
        nonlocal checks
        checks += 1
        assert got == wanted

    check(bool(client.set("text", "käse")), True)
    check(client.get("text"), "käse")
    check(bool(client.set("number", 42)), True)
    check(client.get("number"), 42)
    check(client.incr("number", 8), 50)
    check(client.decr("number", 100), 0)
    check(bool(client.set("object", {"a": [1, 2, (3, None)]})), True)
    check(client.get("object"), {"a": [1, 2, (3, None)]})
    check(bool(client.set("bytes", b"\r\nEND\r\n\0")), True)
    check(client.get("bytes"), b"\r\nEND\r\n\0")
    check(bool(client.add("text", "no")), False)
    check(bool(client.replace("nope", "no")), False)
    check(bool(client.set("log", "b")), True)
    check(bool(client.append("log", "c")), True)
    check(bool(client.prepend("log", "a")), True)
    check(client.get("log"), "abc")
    check(client.set_multi({"m%d" % i: i for i in range(100)}), [])
    check(client.get_multi(["m%d" % i for i in range(0, 200, 2)]), {"m%d" % i: i for i in range(0, 100, 2)})
    check(client.delete_multi(["m%d" % i for i in range(100)]), 1)
    check(client.get_multi(["m%d" % i for i in range(100)]), {})
    check(client.get("nope"), None)
    check(bool(client.touch("text", 100)), True)
    check(client.gets("text"), "käse")
    check(bool(client.cas("text", "two")), True)
    check(bool(client.set("text", "three")), True)
    check(bool(client.cas("text", "four")), False)
    check(client.get("text"), "three")
    check(bool(client.set("large", "x" * 500_000)), True)
    check(client.get("large"), "x" * 500_000)
    check(bool(client.delete("text")), True)
    check(client.get("text"), None)
    (_name, stats), = client.get_stats()
    check(int(stats.get("pid", stats.get(b"pid"))), empty.pid)
    (_name, slabs), = client.get_slab_stats()
    check(len(slabs) >= 1, True)
    client.flush_all()
    check(client.get("log"), None)
    client.disconnect_all()
    passed("python-memcached", f"{checks} checks passed")


def test_libmemcached_tools(empty, passed, tmp_path):
    """ping, copy in, list what exists, print, touch, remove, stats, flush: through libmemcached's C client."""
    at = "--servers=%s:%d" % empty.address
    assert run([tool("memcping"), at]).returncode == 0
    content = "line one\nline two\n" * 500
    path = tmp_path / "file.txt"
    path.write_text(content, encoding="ascii")
    assert run([tool("memccp"), at, str(path)]).returncode == 0
    assert run([tool("memcexist"), at, "file.txt"]).returncode == 0
    assert run([tool("memcexist"), at, "nope"]).returncode != 0
    done = run([tool("memccat"), at, "file.txt"])
    assert done.returncode == 0, done.stderr
    assert content in done.stdout
    assert run([tool("memctouch"), at, "--expire=100", "file.txt"]).returncode == 0
    done = run([tool("memcstat"), at])
    assert done.returncode == 0, done.stderr
    assert f"pid: {empty.pid}" in done.stdout
    assert run([tool("memcrm"), at, "file.txt"]).returncode == 0
    assert run([tool("memcexist"), at, "file.txt"]).returncode != 0
    assert run([tool("memccp"), at, str(path)]).returncode == 0
    assert run([tool("memcflush"), at]).returncode == 0
    assert run([tool("memcexist"), at, "file.txt"]).returncode != 0
    passed("libmemcached", "tools: ping cp exist cat touch stat rm flush passed")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks for passwords: user, password."""
    users = tmp_path_factory.mktemp("users") / "users"
    users.write_text("user:secret\n", encoding="ascii")
    running = servers.start_cotenant(["-S", "-Y", str(users)])
    yield running, "user", "secret"
    running.stop()


class Checks:
    """Counts what holds."""

    def __init__(self):
        self.count = 0

    def __call__(self, got, wanted):
        self.count += 1
        assert got == wanted


def answer_or_miss(act, *arguments):
    """pylibmc raises where the binary protocol says that there is none."""
    import pylibmc

    try:
        return bool(act(*arguments))
    except pylibmc.NotFound:
        return False


def pylibmc_checks(client, check):
    check(bool(client.set("text", "käse")), True)
    check(client.get("text"), "käse")
    check(bool(client.set("number", 42)), True)
    check(client.incr("number", 8), 50)
    check(client.decr("number", 100), 0)
    check(bool(client.add("text", "no")), False)
    check(answer_or_miss(client.replace, "nope", "no"), False)
    check(bool(client.set("log", b"b")), True)
    check(bool(client.append("log", b"c")), True)
    check(bool(client.prepend("log", b"a")), True)
    check(client.get("log"), b"abc")
    check(client.set_multi({"m%d" % i: i for i in range(100)}), [])
    check(client.get_multi(["m%d" % i for i in range(0, 200, 2)]), {"m%d" % i: i for i in range(0, 100, 2)})
    check(bool(client.delete_multi(["m%d" % i for i in range(100)])), True)
    check(client.get_multi(["m%d" % i for i in range(100)]), {})
    check(bool(client.touch("text", 100)), True)
    _value, number = client.gets("text")
    check(bool(client.cas("text", "two", number)), True)
    check(bool(client.cas("text", "three", number)), False)
    check(client.get("text"), "two")
    check(bool(client.set("large", "x" * 500_000)), True)
    check(client.get("large"), "x" * 500_000)
    check(bool(client.delete("text")), True)
    check(client.get("text"), None)
    (_name, stats), = client.get_stats()
    check("curr_items" in stats or b"curr_items" in stats, True)
    check(bool(client.flush_all()), True)
    check(client.get("log"), None)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_pylibmc(empty, passed, binary):
    pylibmc = pytest.importorskip("pylibmc", reason="pylibmc is not installed (tests/requirements.txt)")
    client = pylibmc.Client(["%s:%d" % empty.address], binary=binary, behaviors={"cas": True})
    check = Checks()
    pylibmc_checks(client, check)
    client.disconnect_all()
    passed("pylibmc", f"{pylibmc.__version__} {'binary' if binary else 'text'}: {check.count} checks passed")


#: Run as a program of its own: the library within pylibmc's wheel looks for SASL's mechanisms where another
#: distribution has them, and reads SASL_PATH when it is loaded.
PYLIBMC_SASL = """
import pylibmc, sys
from conformance.test_clients import Checks, pylibmc_checks
address, user, password = sys.argv[1:]
check = Checks()
pylibmc_checks(pylibmc.Client([address], binary=True, username=user, password=password, behaviors={"cas": True}), check)
try:
    pylibmc.Client([address], binary=True, username=user, password="wrong").set("text", "x")
except pylibmc.Error:
    print(check.count + 1)
"""


@pytest.mark.cotenant
def test_pylibmc_sasl(guarded, passed):
    pylibmc = pytest.importorskip("pylibmc", reason="pylibmc is not installed (tests/requirements.txt)")
    if not pylibmc.support_sasl:
        pytest.skip("pylibmc was built without SASL")
    plugins = [path.parent for path in pathlib.Path("/usr/lib").glob("*/sasl2/libplain.so")]
    if not plugins:
        pytest.skip("SASL's mechanism PLAIN is not installed (apt-get install libsasl2-modules)")
    running, user, password = guarded
    done = run(
        [sys.executable, "-c", PYLIBMC_SASL, "%s:%d" % running.address, user, password],
        cwd=pathlib.Path(__file__).parents[1], env={**os.environ, "SASL_PATH": str(plugins[0])},
    )
    assert done.returncode == 0 and done.stdout, done.stdout + done.stderr
    passed("pylibmc", f"{pylibmc.__version__} SASL: {done.stdout.strip()} checks passed")


def bmemcached_checks(client, check):
    check(client.set("text", "käse"), True)
    check(client.get("text"), "käse")
    check(client.set("number", 42), True)
    check(client.get("number"), 42)
    check(client.set("counter", "10"), True)
    check(client.incr("counter", 5), 15)
    check(client.decr("counter", 100), 0)
    check(client.incr("made", 5, default=7), 7)
    check(client.add("text", "no"), False)
    check(client.replace("nope", "no"), False)
    check(client.set_multi({"m%d" % i: "v%d" % i for i in range(100)}), [])
    check(client.get_multi(["m%d" % i for i in range(0, 200, 2)]), {"m%d" % i: "v%d" % i for i in range(0, 100, 2)})
    value, number = client.gets("text")
    check(value, "käse")
    check(client.cas("text", "two", number), True)
    check(client.cas("text", "three", number), False)
    check(client.set("large", "x" * 500_000), True)
    check(client.get("large"), "x" * 500_000)
    check(client.delete("text"), True)
    check(client.get("text"), None)
    (stats,) = client.stats().values()
    check("curr_items" in stats or b"curr_items" in stats, True)
    check(client.flush_all(), True)
    check(client.get("number"), None)


def test_python_binary_memcached(empty, passed):
    bmemcached = pytest.importorskip("bmemcached", reason="python-binary-memcached is not installed")
    check = Checks()
    client = bmemcached.Client(["%s:%d" % empty.address])
    bmemcached_checks(client, check)
    client.disconnect_all()
    passed("python-binary-memcached", f"{check.count} checks passed")


@pytest.mark.cotenant
def test_python_binary_memcached_sasl(guarded, passed):
    bmemcached = pytest.importorskip("bmemcached", reason="python-binary-memcached is not installed")
    running, user, password = guarded
    check = Checks()
    client = bmemcached.Client(["%s:%d" % running.address], user, password)
    bmemcached_checks(client, check)
    client.disconnect_all()
    stranger = bmemcached.Client(["%s:%d" % running.address], user, "wrong")
    with pytest.raises(bmemcached.exceptions.MemcachedException, match="Auth failure"):
        stranger.get("text")
    passed("python-binary-memcached", f"SASL: {check.count + 1} checks passed")
