"""`cotenant replay`: its report, the same trace over TCP, against Debian's memcached, and its memory."""

import json
import os
import pathlib
import random
import subprocess
import threading

import pytest

from conformance import servers

SEED = int(os.environ.get("COTENANT_TEST_SEED", "20261120"))
TRACES = pathlib.Path(os.environ.get("COTENANT_TRACES", servers.ROOT.parent / "shared" / "traces"))

pytestmark = pytest.mark.skipif(servers.PEER_ONLY, reason="memcached has no replay")


def replay(*arguments):
    done = subprocess.run(
        [str(servers.BINARY), "replay", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """60,000 requests of three tenants, about 30 MB of items: more than the 8 MiB that they are given."""
    rng = random.Random(SEED)
    path = tmp_path_factory.mktemp("replay") / "trace.csv"
    with path.open("w") as out:
        out.write("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n")
        for i in range(60_000):
            tenant, keys, size = rng.choice([("feeds", 4_000, 400), ("users", 20_000, 900), ("blobs", 1_000, 9_000)])
            key = int(keys * rng.random() ** 3)
            op = rng.choices(["get", "set", "delete"], [90, 9, 1])[0]
            out.write(f"{i},{tenant},{key},20,{size + key % 50},{op},0\n")
    return path


def test_report_has_the_documented_fields(trace):
    report = replay(trace, "--memory", "8MiB")
    assert report.keys() >= {
        "policy", "memory_bytes", "requests", "gets", "hits", "hit_ratio", "seconds", "cleaner_moved_bytes", "tenants"
    }
    assert report["requests"] == 60_000 and report["memory_bytes"] == 8 << 20 and report["policy"] == "pooled"
    assert report["gets"] == sum(t["gets"] for t in report["tenants"]) and 0 < report["hits"] < report["gets"]
    assert report["hit_ratio"] == pytest.approx(report["hits"] / report["gets"])
    assert report["evictions"] > 0 and report["cleaner_moved_bytes"] > 0
    for tenant in report["tenants"]:
        assert tenant.keys() >= {"name", "gets", "hits", "hit_ratio", "target_bytes", "held_bytes"}
    assert {t["name"] for t in report["tenants"]} == {"feeds", "users", "blobs"}


def test_traces_come_out_of_pipes_too(trace, tmp_path):
    """Plain and compressed, from standard input and from a named pipe, also to `plan`; what is wrong there is said."""
    data = trace.read_bytes()
    packed = subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def ended(given, *arguments):
        if str(fifo) not in arguments:
            return subprocess.run([str(servers.BINARY), *arguments], input=given, capture_output=True, timeout=60)
        feeding = threading.Thread(target=lambda: fifo.write_bytes(given))
        feeding.start()
        done = subprocess.run([str(servers.BINARY), *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        feeding.join()
        return done

    wanted = replay(trace, "--memory", "8MiB")
    plans = ended(b"", "plan", "--trace", str(trace), "--json").stdout
    for given in (data, packed):
        for path in ("/dev/stdin", str(fifo)):
            done = ended(given, "replay", path, "--memory", "8MiB", "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["tenants"] == wanted["tenants"]
            done = ended(given, "plan", "--trace", path, "--json")
            assert (done.returncode, done.stdout) == (0, plans) and plans, done.stderr
    (tmp_path / "trace.csv.zst").write_bytes(packed)
    assert replay(tmp_path / "trace.csv.zst", "--memory", "8MiB")["tenants"] == wanted["tenants"], "as out of a file"
    with (tmp_path / "trace.csv.zst").open("rb") as file:
        command = [str(servers.BINARY), "plan", "--trace", "/dev/stdin", "--json"]
        assert subprocess.run(command, stdin=file, capture_output=True, timeout=60).stdout == plans, "a file in a pipe's place"
    table = ended(data[:50_000].rpartition(b"\n")[0], "replay", "/dev/stdin")
    assert table.returncode == 0 and b"hit ratio" in table.stdout, table.stderr
    for given in (b"", data[:3], packed[:4], packed[:8], packed[: len(packed) // 2]):
        done = ended(given, "replay", "/dev/stdin")
        lines = done.stderr.decode().splitlines()
        assert (done.returncode, len(lines)) == (2, 2), (given[:8], lines)
        assert lines[0].startswith("error: /dev/stdin") and lines[1].startswith("  try: "), lines


def test_archives_of_pzstd_are_read(trace, tmp_path):
    """They begin with a frame that is skipped, which tells how long the next is."""
    packed = subprocess.run(["zstd", "-q", "-c", str(trace)], capture_output=True, check=True).stdout
    archive = tmp_path / "trace.zst"
    archive.write_bytes(bytes([0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0]) + len(packed).to_bytes(4, "little") + packed)
    report = replay(archive, "--memory", "8MiB", "--seed", "1")
    plain = replay(trace, "--memory", "8MiB", "--seed", "1")
    assert (report["gets"], report["hits"]) == (plain["gets"], plain["hits"])
    command = [str(servers.BINARY), "replay", "--json", "--memory", "8MiB", "--seed", "1", "/dev/stdin"]
    done = subprocess.run(command, input=archive.read_bytes(), capture_output=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["hits"] == plain["hits"], done.stderr


def test_same_seed_same_report(trace):
    first, again = replay(trace, "--memory", "8MiB"), replay(trace, "--memory", "8MiB")
    for report in (first, again):
        del report["seconds"], report["peak_resident_bytes"]
    assert first == again


@pytest.mark.parametrize("policy", ["shared", "idle-tax"])
def test_traces_follow_each_other_in_time(trace, policy):
    """Decisions go on in the second, though its times begin at 0 again; who comes there has a share."""
    other = trace.with_name("other.csv")
    lines = trace.read_text().splitlines(keepends=True)
    other.write_text("".join(lines[:30_000]).replace("feeds", "news"))
    report = replay(trace, other, "--memory", "16MiB", "--policy", policy)
    assert report["requests"] == 89_999
    targets = {tenant["name"]: tenant["target_bytes"] for tenant in report["tenants"]}
    assert targets["news"] > 1 << 20 and sum(targets.values()) <= 16 << 20, targets


def test_reservations_are_those_that_a_server_takes(trace):
    def ended(*arguments):
        command = [str(servers.BINARY), "replay", "--limit", "1000", *map(str, arguments), str(trace)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    for arguments in (["--reserved", "feeds=100MiB"], ["--reserved", "30MiB"], ["--group", "name=g,reserved=100MiB"]):
        done = ended("--memory", "64MiB", *arguments)
        assert done.returncode == 2 and "the reservations are" in done.stderr, (arguments, done.stderr)
    for arguments, word in (
        (["--reserved", "feds=6MiB"], "--reserved: no request was of a tenant 'feds'"),
        (["--group", "name=g", "--member", "nobody=g"], "--member: no request was of a tenant 'nobody'"),
    ):
        done = ended("--memory", "64MiB", *arguments)
        assert done.returncode == 1 and word in done.stderr and "hit ratio" in done.stdout, (arguments, done.stderr)
    assert ended("--reserved", "feeds=6MiB").returncode == 0


def test_a_trace_of_too_many_tenants_is_wrong_use(tmp_path):
    path = tmp_path / "many.csv"
    rows = (f"{n},t{n},k,10,100,get,0" for n in range(4097))
    path.write_text("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n" + "\n".join(rows) + "\n")
    for arguments in (["replay", str(path)], ["plan", "--trace", str(path)]):
        done = subprocess.run([str(servers.BINARY), *arguments], capture_output=True, text=True, timeout=60)
        what, cure = done.stderr.splitlines()
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "more than 4096 tenants" in what and cure == "  try: divide the trace by its tenants", done.stderr


def test_over_tcp_a_pace_is_kept(tmp_path):
    """What is asked again after its time to live is not there any more."""
    path = tmp_path / "slow.csv"
    path.write_text("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n0,,a,10,100,get,1\n2500,,a,10,100,get,1\n2501,,b,10,100,get,1\n")
    server = servers.start_cotenant(["-t", "1"], memory="8")
    try:
        report = replay(path, "--server", "%s:%d" % server.address, "--realtime", "--ttl")
        assert (report["gets"], report["hits"]) == (3, 0)
    finally:
        server.stop()


def test_over_tcp_times_begin_with_the_trace_and_values_have_their_sizes(tmp_path):
    """A trace that was cut out of another one waits for nothing; a time to live of months is none that has passed."""
    path = tmp_path / "cut.csv"
    rows = ("0,,a,10,3000000,get,31536000", "10,,b,10,9000000,get,5184000", "500,,a,10,3000000,get,1", "501,,b,10,9000000,get,1")
    rows = [f"{int(row.split(',')[0]) + 10_800_000},{row.split(',', 1)[1]}" for row in rows]
    path.write_text("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n" + "\n".join(rows) + "\n")
    server = servers.start_cotenant(["-t", "1", "-I", "8m"], memory="64")
    try:
        report = replay(path, "--server", "%s:%d" % server.address, "--realtime", "--ttl")
        assert (report["gets"], report["hits"]) == (4, 1), "9 MB do not fit"
        with server.wire() as wire:
            assert 3_000_000 < int(wire.stats()["bytes"]) < 3_010_000, "in whole pages"
    finally:
        server.stop()


def test_over_tcp_the_same_requests_are_asked(trace):
    """How near the hit ratios are is the Rust acceptance tests' matter, at sizes where it says something."""
    within = replay(trace, "--memory", "8MiB")
    server = servers.start_cotenant(["-D", ":", "-t", "1"], memory="8")
    try:
        over = replay(trace, "--server", "%s:%d" % server.address)
        server.check_alive()
    finally:
        server.stop()
    assert [(t["name"], t["gets"]) for t in over["tenants"]] == [(t["name"], t["gets"]) for t in within["tenants"]]
    assert over["policy"] == "of cotenant, which tells clients 1.6.45", "its own version is another"
    assert over["requests"] == within["requests"] and 0 < over["hits"] < over["gets"] and over["evictions"] > 0


def test_against_memcached(trace, peer):
    report = replay(trace, "--server", "%s:%d" % peer.address)
    assert report["requests"] == 60_000 and 0 < report["hits"] < report["gets"]
    assert report["policy"].endswith(peer.version)


def test_resident_memory_is_bounded():
    mixed = TRACES / "mix-dev.csv.zst"
    if not mixed.exists():
        pytest.skip("the mixed trace is absent")
    report = replay(mixed, "--memory", "128MiB", "--limit", 1_500_000)
    assert report["evictions"] > 0, "the memory was full"
    assert report["peak_resident_bytes"] <= (128 + 16) << 20
