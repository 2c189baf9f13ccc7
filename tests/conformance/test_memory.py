"""One cap for the whole process: `-m`, whatever the number of tenants, the sizes and the times to live."""

import json
import os
import random
import re
import signal
import time

import pytest

from conformance import servers
from conformance.test_admin import wait_until
from conformance.test_pressure import together
from conformance.wire import DEADLINE_S, Wire, resident_bytes, set_request

pytestmark = pytest.mark.cotenant

MIB = 1 << 20
SEED = int(os.environ.get("COTENANT_TEST_SEED", "20261120"))
MEMORY = 64 * MIB
#: What the process may take beside `-m`: the program, stacks, and what does not grow with what it holds.
BESIDE = 16 * MIB
#: Connections that write at the same time.
CONNECTIONS = 100
#: What is written, in parts of the memory: it fills, and is turned over.
TURNOVERS = 5
#: Lengths of values: most are small, a few are not.
LENGTHS = [1, 1, 10, 10, 25, 60, 100, 100, 300, 500, 1000, 3000, 10_000, 40_000]
LARGE = 1_000_000
#: Every length of time has tables of its own.
TTLS = [0, 0, 0, 10, 100, 1_000, 10_000, 100_000]
FILLER = b"x" * LARGE


def batch(rng, tenants, size, lengths):
    """Writes and look-ups of about `size` bytes, with an answer at the end of them."""
    parts, total = [], 0
    while total < size:
        key = b"t%d:%d" % (rng.randrange(tenants), rng.getrandbits(30))
        length = rng.choice(lengths)
        parts.append(b"get %b\r\nset %b 0 %d %d noreply\r\n" % (key, key, rng.choice(TTLS), length))
        parts.append(FILLER[:length] + b"\r\n")
        total += len(parts[-2]) + len(parts[-1])
    return b"".join(parts) + b"version\r\n"


def turn_over(server, tenants, rng, size=TURNOVERS * MEMORY):
    """Writes several times the memory over many connections, all of them at once."""
    wires = [Wire(server.address) for _ in range(CONNECTIONS)]
    written, sent = 0, 0
    while written < size:
        batches = [batch(rng, tenants, 1 << 16, LENGTHS) for _ in range(8)]
        batches.append(batch(rng, tenants, LARGE, [*LENGTHS, LARGE]))
        for i, wire in enumerate(wires):
            # One connection alone has large values on their way: the buffers of connections have a bound of their own.
            requests = batches[-1] if i == 0 else rng.choice(batches[:-1])
            # The same batch is sent with other keys.
            sent += 1
            wire.send(requests.replace(b":", b":%d." % sent))
            written += len(requests)
        for wire in wires:
            while not wire.read_line().startswith(b"VERSION"):
                pass
    for wire in wires:
        wire.close()


def gauge(metrics, name):
    """The value of a metric without labels."""
    return float(re.search(rf"^{name}(?:{{}})? (\S+)", metrics, re.MULTILINE).group(1))


@pytest.mark.parametrize("ways", ["the file", "cache_memlimit"])
def test_memory_grows_and_shrinks_while_it_runs(tmp_path, ways, note):
    """Items and resident memory follow the bound both ways; what fits both bounds is not lost when it is raised."""
    path = tmp_path / "cotenant.toml"
    said = 'memory_max = "128MiB"\nrank = "lru"\nmemory = "%dMiB"\n'
    path.write_text(said % 32, encoding="ascii")
    server = servers.start_cotenant(["--config", str(path)], memory=None)

    def bound(mebibytes):
        if ways == "the file":
            path.write_text(said % mebibytes, encoding="ascii")
            os.kill(server.process.pid, signal.SIGHUP)
        else:
            assert wire.ask(b"cache_memlimit %d\r\n" % mebibytes) == b"OK\r\n"
        wait_until(lambda: wire.stats()["limit_maxbytes"] == str(mebibytes * MIB))

    def filled(name):
        """Stores three times the largest memory; how many items are there then."""
        for n in range(3 * 128):
            wire.ask(b"".join(b"set %b:%d:%d 0 0 1000 noreply\r\n%b\r\n" % (name, n, i, FILLER[:1000]) for i in range(1024)) + b"version\r\n")
        return settled()[0]

    def settled():
        """Items and evictions, once cleaning is done."""
        looks, until = [seen()], time.monotonic() + DEADLINE_S
        while len(looks) < 6 or looks[-6:] != looks[-1:] * 6:
            assert time.monotonic() < until, looks
            time.sleep(0.1)
            looks.append(seen())
        return looks[-1]

    def seen():
        stats = wire.stats()
        return int(stats["curr_items"]), int(stats["evictions"])

    def is_within(mebibytes):
        return resident_bytes(server.process.pid) <= mebibytes * MIB + BESIDE

    try:
        assert "memory 32MiB of at most 128MiB" in server.ready_line
        with server.wire() as wire:
            small = filled(b"a")
            assert is_within(32) and 20_000 < small
            before = settled()
            bound(128)
            assert settled() == before
            large = filled(b"b")
            note(f"items of 1,000 B: {small} in 32 MiB, {large} in 128 MiB ({ways})")
            # What is held back for writers and cleaners is the same in both.
            assert 4 * small < large < 5 * small and is_within(128)
            bound(32)
            wait_until(lambda: seen()[0] < 1.1 * small and is_within(32))
            again = filled(b"c")
            assert 0.9 * small < again < 1.1 * small and is_within(32)
    finally:
        assert server.stop() == 0


def test_what_is_saved_comes_back_as_far_as_fits_the_memory_in_force(tmp_path):
    """128 MiB of items come back to a server that may grow to that and has 32 MiB."""
    kept = ["-e", str(tmp_path / "items")]
    server = servers.start_cotenant(kept, memory="128")
    try:
        with server.wire() as wire:
            for n in range(128):
                wire.ask(b"".join(b"set %d:%d 0 0 1000 noreply\r\n%b\r\n" % (n, i, FILLER[:1000]) for i in range(1024)) + b"version\r\n")
            assert 100_000 < int(wire.stats()["curr_items"])
    finally:
        assert server.stop() == 0
    server = servers.start_cotenant([*kept, "--memory-max", "128MiB"], memory="32")
    try:
        with server.wire() as wire:
            assert 20_000 < int(wire.stats()["curr_items"]) < 33_000
        peak = resident_bytes(server.process.pid, "VmHWM")
        assert peak <= 32 * MIB + BESIDE, peak
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("tenants", [1, 100, 1_000])
def test_peak_resident_memory_is_bounded(tenants, note):
    server = servers.start_cotenant(["-D", ":"], memory=str(MEMORY // MIB))
    try:
        turn_over(server, tenants, random.Random(SEED))
        with server.wire() as wire:
            stats = wire.stats()
        assert 0 < int(stats["evictions"])
        status, metrics = server.http("/metrics")
        assert status == 200
        watching = sum(gauge(metrics, name) for name in ("cotenant_shadow_bytes", "cotenant_curves_bytes"))
        assert 0 < watching <= MEMORY / 100, f"shadow queues and curves take {watching} bytes"
        peak = resident_bytes(server.pid, "VmHWM")
        beside = (peak - MEMORY) / MIB
        note(f"{tenants} tenants: peak resident {beside:+.1f} MiB beside -m {MEMORY // MIB}")
        assert peak <= MEMORY + BESIDE, f"{beside:+.1f} MiB"
        server.check_alive()
    finally:
        server.stop()


#: What the notes of that tier take, with rows for all tenants.
NOTES = 2 * MIB


@pytest.mark.parametrize("medium", ["file", "dram"])
@pytest.mark.parametrize("placement", ["auto", "slow"])
def test_peak_resident_memory_with_a_tier_is_bounded(medium, placement, tmp_path, note):
    """`-m` bounds DRAM whatever is below it; a tier's notes come on top, and the bytes of one that is memory."""
    size = 4 * MEMORY
    place = f"file:{tmp_path}/tier" if medium == "file" else "dram"
    arguments = ["-D", ":", "--tier", f"slow={place}:{size // MIB}MiB"]
    server = servers.start_cotenant([*arguments, "--placement", placement], memory=str(MEMORY // MIB))
    try:
        turn_over(server, 1, random.Random(SEED), TURNOVERS * (MEMORY + size))
        with server.wire() as wire:
            tiers = wire.stats(b"tiers")
        assert 0 < int(tiers["slow:evictions"]), tiers
        assert size // 2 < int(tiers["slow:used_bytes"]) <= size, tiers
        # The most that is read of a file at once, and the index that is moved while the log gives way to it.
        moving = MEMORY // 16
        bound = MEMORY + BESIDE + moving + NOTES + (size if medium == "dram" else 0)
        peak = resident_bytes(server.pid, "VmHWM")
        note(f"{medium}, {placement}: peak resident {(peak - bound + BESIDE + moving + NOTES) / MIB:+.1f} MiB beside -m {MEMORY // MIB}")
        assert peak <= bound
        server.check_alive()
    finally:
        server.stop()


#: What `/journal` may add to the peak of a thousand tenants: one line (some 700 KiB), twice, and what waits to be sent.
JOURNAL_EXTRA = 4 * MIB


def test_a_journal_of_a_thousand_tenants_is_made_while_it_is_sent(note):
    server = servers.start_cotenant(["-D", ":"], memory=str(MEMORY // MIB))
    try:
        with server.wire() as wire:
            for n in range(1_000):
                wire.send(b"set t%d:a 0 0 1 noreply\r\nx\r\n" % n)
            wire.send(b"version\r\n")
            assert wire.read_line().startswith(b"VERSION")

            def decisions():
                return int(wire.stats(b"controller")["decisions"])

            # The next may have begun before the last of them came.
            first = decisions()
            wait_until(lambda: first + 2 <= decisions())
        server.http("/metrics")
        before = resident_bytes(server.pid, "VmHWM")
        status, body = server.http("/journal")
        extra = resident_bytes(server.pid, "VmHWM") - before
        assert status == 200
        lines = [json.loads(line) for line in body.splitlines()]
        most = max(len(line["tenants"]) for line in lines)
        note(f"/journal of {len(lines)} decisions about up to {most} tenants, {len(body)} B: +{extra / MIB:.1f} MiB")
        assert 1_000 <= most
        assert extra <= JOURNAL_EXTRA
    finally:
        server.stop()


def test_in_the_lowest_memory_nothing_is_refused(fresh, note):
    """Segments are as large as the memory of the start asks for; with fewer than threads need writes would be refused."""
    server = fresh("-t", "4", memory="256")
    with server.wire() as wire:
        answers = ((lowest, wire.ask(b"cache_memlimit %d\r\n" % lowest)) for lowest in range(8, 257))
        lowest = next(lowest for lowest, answer in answers if answer == b"OK\r\n")

    def store(seed):
        rng = random.Random(SEED + seed)
        with server.wire() as wire:
            for _ in range(300):
                sets = [set_request(b"k%d" % rng.randrange(10**6), FILLER[: rng.choice((50, 1000, 300_000))]) for _ in range(20)]
                wire.send(b"".join(sets))
                answers = [wire.read_line() for _ in sets]
                assert answers == [b"STORED\r\n"] * len(sets)

    together(4, store)
    with server.wire() as wire:
        stats = wire.stats()
    note(f"{lowest} MiB of 256: {stats['curr_items']} items, {stats['bytes']} bytes")
    assert 20 < lowest < 30 and 0 < int(stats["evictions"])
