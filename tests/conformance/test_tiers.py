"""Values below DRAM: every command on them, what a restart brings back, tiers that cannot be had, what is seen of them."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import pytest

from conformance import packets, servers
from conformance.wire import DEADLINE_S, END, parse_value_line, set_request

pytestmark = pytest.mark.cotenant

MIB = 1 << 20
COUNT = 6000


def value(key, version=0):
    """What a key holds: it tells the key and the version, and is too long to stay in DRAM."""
    draw = random.Random(f"{key} {version}")
    return b"%s %d|" % (key, version) + bytes([97 + draw.randrange(26)]) * draw.randrange(200, 6000)


def keys(count=COUNT):
    return [b"key:%d" % n for n in range(count)]


def store_all(wire, requests):
    for start in range(0, len(requests), 200):
        part = requests[start : start + 200]
        wire.send(b"".join(part))
        for _ in part:
            assert wire.read_line() == b"STORED\r\n"


def fill(wire, some, version=0, exptime=0):
    store_all(wire, [set_request(key, value(key, version), exptime=exptime) for key in some])


def fill_below(wire, values):
    """Stores values and sees to it that they are in the tier: what the disk does not take in time stays in DRAM until it is set again."""
    for _ in range(20):
        store_all(wire, [set_request(key, text) for key, text in values.items()])
        if int(tiers_of(wire)["below:items"]) == len(values):
            return
        time.sleep(0.1)
    raise AssertionError(f"{tiers_of(wire)['below:items']} of {len(values)} are in the tier")


def read_values(wire):
    """What comes up to END: key -> value."""
    found = {}
    while (line := wire.read_line()) != END:
        key, _, length, *_ = parse_value_line(line)
        found[key] = wire.read_exact(int(length) + 2)[:-2]
    return found


def get_all(wire, some, at_once=50):
    """Gets keys one by one, many on their way at once: key -> value."""
    found = {}
    for start in range(0, len(some), at_once):
        part = some[start : start + at_once]
        wire.send(b"".join(b"get %s\r\n" % key for key in part))
        for key in part:
            answer = read_values(wire)
            assert set(answer) <= {key}, "answers come in the order of the requests"
            found.update(answer)
    return found


def tier(folder, size="128MiB", medium="file"):
    return f"ssd={medium}:{folder}/tier:{size}"


def tiers_of(wire):
    return wire.stats(b"tiers")


def end_clean(server, sign=signal.SIGTERM):
    server.process.send_signal(sign)
    assert server.process.wait(timeout=servers.STOP_S) == 0


@pytest.fixture(params=["epoll", "io_uring"])
def engine(request):
    return "--io-engine", request.param


@pytest.fixture
def far(fresh, tmp_path, engine):
    """A server whose default tenant's values are in a file: more of them than its DRAM holds."""
    server = fresh("--tier", tier(tmp_path), "--placement", "ssd", *engine, memory="8")
    with server.wire() as wire:
        fill_below(wire, {key: value(key) for key in keys()})
    return server


def test_values_come_from_the_tier(far):
    with far.wire() as wire:
        found = get_all(wire, random.Random(1).sample(keys(), COUNT))
        assert len(found) == COUNT, "the tier holds all of them"
        assert all(found[key] == value(key) for key in keys())
        seen = tiers_of(wire)
        assert int(seen["below:items"]) == COUNT and int(seen["below:lost"]) == 0
        assert 0.9 * COUNT < int(seen["below:hits"]) <= COUNT
        assert int(seen["ssd:capacity_bytes"]) == 128 * MIB


def test_a_get_of_many_keys(far):
    some = random.Random(2).sample(keys(), 300)
    with far.wire() as wire:
        wire.send(b"get %s absent\r\n" % b" ".join(some))
        found = read_values(wire)
        assert list(found) == some, "in the order of the keys"
        assert all(found[key] == value(key) for key in some)
        before = int(wire.stats()["get_hits"])
        wire.send(b"get %s\r\n" % b" ".join(some))
        read_values(wire)
        after = int(wire.stats()["get_hits"])
        assert after - before == len(some), "each key counts once"


@pytest.mark.parametrize("memory", ["16", "64"])
def test_a_get_of_more_than_is_fetched_at_once(fresh, tmp_path, engine, memory):
    """24 MiB of values by one request: a worker fetches a 64th of the memory at once, or one value that is larger."""
    server = fresh("--tier", tier(tmp_path), "--placement", "ssd", *engine, memory=memory)
    large = {b"large:%d" % n: b"%d|" % n + bytes([97 + n % 26]) * (96 << 10) for n in range(256)}
    asked = b" ".join(large)
    with server.wire() as wire:
        fill_below(wire, large)
        before = wire.stats()
        for request in b"get %s", b"gat 1000 %s":
            wire.send(request % asked + b"\r\nget absent\r\n")
            found = read_values(wire)
            assert list(found) == list(large), "all of them, in the order of the keys"
            assert found == large
            assert read_values(wire) == {}, "the next request's answer"
        after = wire.stats()
        for name in "get_hits", "touch_hits":
            assert int(after[name]) - int(before[name]) == len(large), "each key is counted once"
        seen = tiers_of(wire)
        assert (int(seen["below:items"]), int(seen["below:lost"])) == (len(large), 0)


def test_every_command_on_a_value_that_is_away(far):
    k = keys()
    with far.wire() as wire:
        assert wire.ask(b"append key:10 0 0 3\r\nend\r\n") == b"STORED\r\n"
        assert wire.value(b"key:10") == value(k[10]) + b"end"
        assert wire.ask(b"prepend key:11 0 0 2\r\n>>\r\n") == b"STORED\r\n"
        assert wire.value(b"key:11") == b">>" + value(k[11])
        assert wire.ask(b"incr key:12 1\r\n").startswith(b"CLIENT_ERROR cannot increment")
        assert wire.ask(b"touch key:13 100\r\n") == b"TOUCHED\r\n"
        assert wire.value(b"key:13") == value(k[13])
        wire.send(b"gat 90 key:14 key:15\r\n")
        assert read_values(wire) == {k[14]: value(k[14]), k[15]: value(k[15])}
        assert wire.ask(b"add key:16 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
        cas = wire.cas_of(b"key:17")
        assert wire.ask(b"cas key:17 0 0 1 %d\r\nx\r\n" % (cas + 1)) == b"EXISTS\r\n"
        assert wire.ask(b"cas key:17 0 0 1 %d\r\nx\r\n" % cas) == b"STORED\r\n"
        assert wire.ask(b"delete key:18\r\n") == b"DELETED\r\n"
        assert wire.ask(b"get key:18\r\n") == END
        assert wire.ask(b"mg key:19 s\r\n") == b"HD s%d\r\n" % len(value(k[19]))
        wire.send(b"mg key:19 v k\r\n")
        assert wire.read_line() == b"VA %d kkey:19\r\n" % len(value(k[19]))
        assert wire.read_exact(len(value(k[19])) + 2) == value(k[19]) + b"\r\n"
        assert wire.ask(b"md key:20 I T30\r\n") == b"HD\r\n"
        wire.send(b"mg key:20 v\r\n")
        assert wire.read_line() == b"VA %d X W\r\n" % len(value(k[20]))
        assert wire.read_exact(len(value(k[20])) + 2) == value(k[20]) + b"\r\n"
        assert wire.ask(b"ms key:21 2 MA\r\n!!\r\n") == b"HD\r\n"
        assert wire.value(b"key:21") == value(k[21]) + b"!!"


def test_the_binary_protocol(far):
    k = keys()
    with packets.BinaryWire(far.address) as wire:
        assert wire.one(packets.packet("get", k[30])).value == value(k[30])
        assert wire.one(packets.touch("gat", k[31], 100)).value == value(k[31])
        assert wire.one(packets.packet("append", k[32], b"!")).status == 0
        assert wire.one(packets.packet("get", k[32])).value == value(k[32]) + b"!"


def test_a_slow_value_delays_nobody_else(fresh, tmp_path, engine):
    """One worker finds two requests at once. Who came second, and asks for what is in DRAM, need not wait for the first."""
    arguments = ("--tier", tier(tmp_path), "--placement", "ssd", "--tenant", "name=near,prefix=near:,placement=dram")
    server = fresh("-t", "1", *arguments, *engine, memory="16")
    some, kept, turns, at_once = keys(400), value(b"near:key"), 10, 20
    overtaken = 0
    with server.wire() as far, server.wire() as near:
        for key in some:
            far.send(set_request(key, b"x" * (96 << 10)))
            assert far.read_line() == b"STORED\r\n"
        fill(near, [b"near:key"])
        for turn in range(turns):
            reads = int(tiers_of(near)["below:reads"])
            # Stopped, the server sees neither before both are there. The answers to the first are short: if they come
            # before the second's, they are all there with it.
            os.kill(server.pid, signal.SIGSTOP)
            far.send(b"".join(b"append %s 0 0 1\r\n!\r\n" % key for key in some[turn * at_once :][:at_once]))
            near.send(b"get near:key\r\n")
            os.kill(server.pid, signal.SIGCONT)
            assert read_values(near) == {b"near:key": kept}
            overtaken += far.has_come() < at_once * len(b"STORED\r\n")
            assert far.read_exact(at_once * len(b"STORED\r\n")) == b"STORED\r\n" * at_once
            assert reads + at_once <= int(tiers_of(near)["below:reads"]), "the values were in the file"
    assert 0 < overtaken, "whoever shares a worker with it waits for the tier"


def test_who_works_at_once_sees_what_was_written_last(far):
    """Readers and writers of four connections; the tier and the memory hold everything, so that nothing is missed."""
    failures = []

    def work(number):
        draw = random.Random(number)
        mine = keys()[number::4]
        versions = dict.fromkeys(mine, 0)
        try:
            with far.wire() as wire:
                for turn in range(1, 120):
                    part = draw.sample(mine, 20)
                    for key in part[:8]:
                        versions[key] = turn
                    wire.send(b"".join(set_request(key, value(key, turn)) for key in part[:8]))
                    wire.send(b"".join(b"get %s\r\n" % key for key in part))
                    for _ in part[:8]:
                        assert wire.read_line() == b"STORED\r\n"
                    for key in part:
                        assert read_values(wire) == {key: value(key, versions[key])}
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    far.check_alive()


@pytest.mark.parametrize(
    ("medium", "sign"),
    [("file", signal.SIGTERM), ("file", signal.SIGUSR1), ("file", signal.SIGINT), ("synced", signal.SIGTERM)],
)
def test_a_clean_end_keeps_everything(fresh, tmp_path, medium, sign):
    arguments = ("--tier", tier(tmp_path, medium=medium), "--placement", "ssd")
    server = fresh(*arguments, memory="16")
    with server.wire() as wire:
        fill(wire, keys())
        wire.ask(b"set small 7 0 5\r\nhello\r\n")
        wire.ask(b"delete key:5\r\n")
    end_clean(server, sign)
    again = fresh(*arguments, memory="16")
    with again.wire() as wire:
        assert wire.ask(b"get small\r\n") == b"VALUE small 7 5\r\nhello\r\nEND\r\n", "DRAM comes back, too"
        found = get_all(wire, keys())
        assert b"key:5" not in found and len(found) == COUNT - 1
        assert all(found[key] == value(key) for key in found)
        assert int(tiers_of(wire)["ssd:dropped"]) == 0


@pytest.mark.parametrize("medium", ["file", "synced"])
def test_a_crash_loses_no_more_than_what_was_gathered(fresh, tmp_path, medium):
    arguments = ("--tier", tier(tmp_path, medium=medium), "--placement", "ssd")
    server = fresh(*arguments, memory="16")
    with server.wire() as wire:
        fill(wire, keys())
        fill(wire, keys()[:500], version=1)
        for n in range(500, 700):
            assert wire.ask(b"delete key:%d\r\n" % n) == b"DELETED\r\n"
        fill(wire, keys()[700:710], exptime=1)
    server.process.kill()
    server.process.wait()
    again = fresh(*arguments, memory="16")
    with again.wire() as wire:
        found = get_all(wire, keys())
        assert not any(b"key:%d" % n in found for n in range(500, 700)), "what was deleted stays deleted"
        for n, key in enumerate(keys()):
            assert key not in found or found[key] == value(key, 1 if n < 500 else 0), "nothing stale"
        assert 0.8 * COUNT < len(found)
        assert int(tiers_of(wire)["ssd:restored"]) == int(tiers_of(wire)["below:items"])


@pytest.mark.parametrize("medium", ["file", "synced"])
def test_a_flush_outlives_a_crash(fresh, tmp_path, medium):
    arguments = ("--tier", tier(tmp_path, medium=medium), "--placement", "ssd")
    server = fresh(*arguments, memory="16")
    with server.wire() as wire:
        fill(wire, keys(2000))
        assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
        fill(wire, keys(100), version=1)
    end_clean(server)
    server = fresh(*arguments, memory="16")
    with server.wire() as wire:
        assert get_all(wire, keys(2000)) == {key: value(key, 1) for key in keys(100)}
        assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
    server.process.kill()
    server.process.wait()
    with fresh(*arguments, memory="16").wire() as wire:
        assert get_all(wire, keys(2000)) == {}


def test_values_go_down_and_come_back(fresh, tmp_path):
    server = fresh("--tier", tier(tmp_path, "64MiB"), memory="8")
    with server.wire() as wire:
        fill(wire, keys())
        some = keys()[:200]
        for _ in range(4):
            get_all(wire, some)
        seen = tiers_of(wire)
        for what in "hits", "promotions", "demotions", "evictions", "reads", "read_bytes", "writes", "write_bytes":
            assert seen[f"ssd:{what}"] == seen[f"below:{what}"], "it is the only tier"
            assert int(wire.stats(b"tenants")[f"default:ssd:{what}"]) >= int(seen[f"below:{what}"])
        assert 0 < int(seen["below:demotions"]) and 0 < int(seen["below:promotions"]), "auto, with a tier"
        found = get_all(wire, keys())
        assert all(found[key] == value(key) for key in found)
        assert 16 * MIB < sum(map(len, found.values())), "more than DRAM holds"
        plain = wire.stats()
        assert int(plain["extstore_limit_maxbytes"]) == 64 * MIB
        assert 0 < int(plain["extstore_objects_used"]) == int(tiers_of(wire)["below:items"])
        assert int(plain["get_extstore"]) == int(tiers_of(wire)["below:hits"])
        wire.send(b"stats\r\n")
        assert len(wire.read_until_suffix(END)) < 4096
    status, text = server.http("/metrics")
    assert status == 200
    assert 'cotenant_tier_size_bytes{tier="ssd"} 67108864' in text
    assert 'cotenant_tenant_demotions_total{tenant="default"}' in text
    assert 'cotenant_tier_demotions_total{tier="ssd",tenant="default"}' in text
    until = time.monotonic() + DEADLINE_S
    while not any(0 < held for held in held_below(server)):
        assert time.monotonic() < until, "a decision is made every second"
        time.sleep(0.1)


def test_every_metric_stands_in_the_documents_and_no_other(fresh):
    server = fresh(
        "--tier", "dram:8MiB", "--group", "name=g", "--tenant", "name=a,prefix=a:,group=g,max_connections=5,requests_per_second=1000", memory="16"
    )
    with server.wire() as wire:
        assert wire.ask(set_request(b"a:1", b"x")) == b"STORED\r\n"
    status, text = server.http("/metrics")
    assert status == 200
    families = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    exported = {name + "_total" * (kind == "counter") for name, kind in families}
    assert 90 < len(exported) and all(f"# HELP {name} " in text for name, _ in families)
    documents = [pathlib.Path(__file__).parents[2] / "docs" / name for name in ("operations.md", "tiers.md")]
    told = set(re.findall(r"`((?:cotenant|memcached)_[a-z0-9_]*[a-z0-9])(?:\{[^`]*)?`", "".join(page.read_text() for page in documents)))
    assert exported - told == set(), "exported, and in no document"
    assert {name for name in told if name.startswith("cotenant_")} - exported == set(), "documented, and not exported"


def held_below(server):
    """Bytes of each tenant in tiers, as every decision in the journal saw them."""
    _, journal = server.http("/journal")
    rows = [row for line in journal.splitlines() if line for row in json.loads(line)["tenants"]]
    return [row["signal"]["below"]["held_bytes"] for row in rows]


def cotenant(*arguments):
    return subprocess.run([str(servers.BINARY), *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_each_tenant_has_its_own_placement(fresh, tmp_path):
    server = fresh(
        "--tier", "pm=emulated:6dimm:32MiB", "--tier", tier(tmp_path),
        "--tenant", "name=near,prefix=near:,placement=dram",
        "--tenant", "name=pm,prefix=pm:,placement=pm",
        "--tenant", "name=far,prefix=far:,placement=ssd",
    )  # fmt: skip
    names = ["near", "pm", "far"]
    mine = {name: [b"%s:%d" % (name.encode(), n) for n in range(500)] for name in names}
    with server.wire() as wire:
        for name in names:
            fill(wire, mine[name])
        seen = wire.stats(b"tenants")
        assert [int(seen[f"{name}:tier_items"]) for name in names] == [0, 500, 500]
        assert [seen[f"{name}:placement"] for name in names] == ["dram", "pm", "ssd"]
        for name in names:
            assert get_all(wire, mine[name]) == {key: value(key) for key in mine[name]}
        admin = server.admin.removeprefix("http://")
        assert cotenant("tenant", "set", "near", "--placement", "pm", "--admin", admin).returncode == 0
        fill(wire, mine["near"], version=1)
        assert int(wire.stats(b"tenants")["near:tier_items"]) == 500, "what is stored from then on"
        wrong = cotenant("tenant", "set", "near", "--placement", "tape", "--admin", admin)
        assert wrong.returncode != 0 and "there is no tier 'tape'" in wrong.stderr
        assert "dram, auto, pm, ssd" in wrong.stderr
        assert wire.stats(b"tenants")["near:placement"] == "pm"


def refused(*arguments):
    """What a server says that does not start."""
    done = cotenant("serve", "-p", "0", "--admin", "off", "-t", "1", *arguments)
    assert done.returncode in (2, 3), done.stderr
    assert "panicked" not in done.stderr
    return done.stderr


def test_tiers_that_cannot_be_had(fresh, tmp_path):
    place = tmp_path / "tier"
    assert "too small" in refused("--tier", f"file:{place}:4KiB")
    for medium in "dram", "emulated:6dimm", "numa:0":
        said = refused("--tier", f"a={medium}:1KiB")
        assert "a tier of 1KiB is too small: 1MiB at least" in said and "ask for 1MiB or more" in said
    assert "cannot be called 'below'" in refused("--tier", "below=dram:64MiB")
    assert "mkdir -p" in refused("--tier", f"file:{tmp_path}/no/tier:64MiB")
    assert "names no tier" in refused("--tier", "tape:64MiB")
    assert "two tiers are called 'file'" in refused("--tier", f"file:{place}:64MiB", "--tier", f"file:{place}2:64MiB")
    assert "there is no tier 'ssd'" in refused("--placement", "ssd")
    assert "there is no tier 'ssd'" in refused("--tenant", "name=a,prefix=a:,placement=ssd")
    assert "has no memory here" in refused("--tier", "numa:63:64MiB")
    if os.path.isdir("/dev/shm"):
        assert "without direct I/O" in refused("--tier", f"file:/dev/shm/cotenant-test-{os.getpid()}:64MiB")
        assert "not on a DAX file system" in refused("--tier", f"dax:/dev/shm/cotenant-test-{os.getpid()}:64MiB")
    assert "not on a DAX file system" in refused("--tier", f"dax:{place}:64MiB")
    assert "no DAX device" in refused("--tier", "dax:/dev/null:64MiB")
    assert "mkdir -p" in refused("--tier", f"dax:{tmp_path}/no/tier:64MiB")
    assert not place.exists(), "what cannot be made leaves nothing behind"
    fresh("--tier", f"file:{place}:64MiB")
    assert "in use by another server" in refused("--tier", f"file:{place}:64MiB")


def test_a_probe_of_a_new_file_measures_blocks_that_were_written(tmp_path):
    """The file system reads blocks that were never written without the disk."""
    path = tmp_path / "tier"
    listing = ["filefrag", "-v", str(path)]
    probe = [str(servers.BINARY), "probe", f"file:{path}:32MiB", "--time", "1s"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    try:
        extents = subprocess.run(listing, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"extents of a file cannot be listed: {error}")
    ends = [int(line.split(":")[1].split("..")[1]) for line in extents.splitlines() if ".." in line]
    written = [line for line in extents.splitlines() if ".." in line and "unwritten" not in line]
    blocks = sum(int(line.split(":")[3]) for line in written)
    assert max(ends) * 4096 >= 31 << 20
    assert blocks * 4096 >= 32 << 20, extents


def test_a_probe_that_could_keep_nothing_measures_nothing(tmp_path):
    (tmp_path / "file").write_text("mine")
    for arguments in (["--profile", "no/such/folder"], ["--profile", str(tmp_path)], ["--out", "file"], ["--out", "file/out"]):
        command = [str(servers.BINARY), "probe", "dram:8MiB", "--time", "50s", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False, cwd=tmp_path)
        lines = done.stderr.splitlines()
        assert (done.returncode, done.stdout, len(lines)) == (3, "", 2) and "  try: --" in lines[1], done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "mine"


def test_a_probe_that_has_measured_nothing_leaves_the_profile_that_is_there(tmp_path):
    command = [str(servers.BINARY), "probe", "dram:8MiB", "--profile", "profile.json", "--time"]
    done = subprocess.run([*command, "2s"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = (tmp_path / "profile.json").read_text()
    done = subprocess.run([*command, "1ns"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "") and "stays as it was" in done.stderr, done.stderr
    assert "  try: give it longer" in done.stderr
    assert (tmp_path / "profile.json").read_text() == kept
    assert [entry.name for entry in tmp_path.iterdir()] == ["profile.json"]


def test_a_large_value_is_appended_to_one_that_is_away(fresh, tmp_path):
    spec = f"ssd=file:{tmp_path / 'tier'}:64MiB"
    server = fresh("-m", "64", "-I", "8m", "-t", "1", "--tier", spec, "--placement", "ssd")
    some = keys()
    with server.wire() as wire:
        fill(wire, some)
        more = b"x" * 3_000_000
        # What was stored first has been written out long since: it has to be fetched for a request whose own value has come.
        wire.send(b"append %s 0 0 %d\r\n%s\r\n" % (some[0], len(more), more))
        assert wire.read_line() == b"STORED\r\n"
        wire.send(b"get %s\r\n" % some[0])
        assert read_values(wire) == {some[0]: value(some[0]) + more}
