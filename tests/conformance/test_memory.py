"""One cap for the whole process: `-m`, whatever the number of tenants, the sizes and the times to live."""

import json
import os
import random
import re

import pytest

from conformance import servers
from conformance.test_admin import wait_until
from conformance.wire import Wire, resident_bytes

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
