"""Clients that people run, unmodified: libmemcached's tools and conformance program, pymemcache, python-memcached.

Clients that are missing are skipped and counted in the report; those that run report how much they ran.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

#: Sub-tests of `memcapable -a` that need commands not yet there. Each is a promise to be kept.
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


def test_memcapable_ascii(empty, note):
    """Debian calls the program memccapable."""
    host, port = empty.address
    done = run([tool("memccapable", "memcapable"), "-h", host, "-p", str(port), "-a", "-t", "20"])
    results = dict(re.findall(r"^(.*?)\s*\[(pass|FAIL|fail|skip)\]", done.stdout + done.stderr, re.MULTILINE))
    assert results, f"no results\n{done.stdout}\n{done.stderr}"
    failed = {name for name, result in results.items() if result != "pass"}
    note(f"memcapable -a: {len(results) - len(failed)} of {len(results)} passed; expected to fail: "
         f"{sorted(CAPABLE_EXPECTED_TO_FAIL) or 'none'}")
    assert len(results) == CAPABLE_COUNT
    assert failed == CAPABLE_EXPECTED_TO_FAIL, done.stdout


def test_pymemcache(empty, note, tmp_path):
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
    note(f"pymemcache {pymemcache.__version__} integration tests: {last}")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    assert PYMEMCACHE_COUNT <= counts["passed"], last


def test_python_memcached(empty, note):
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
    note(f"python-memcached: {checks} checks passed")


def test_libmemcached_tools(empty, note, tmp_path):
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
    note("libmemcached tools: ping cp exist cat touch stat rm flush passed")
