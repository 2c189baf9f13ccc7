"""Clients that err, attack or idle: the protocol's error or a clean close, bounded memory, no harm to others."""

import random
import socket
import time

import pytest

from conformance import servers
from conformance.wire import (
    BAD_CHUNK,
    DEADLINE_S,
    END,
    TOO_LARGE,
    TOO_MANY,
    Closed,
    Late,
    open_descriptors,
    resident_bytes,
    rested_bytes,
    set_request,
    short,
)

MIB = 1 << 20
MEMORY = 64 * MIB
#: What a process may hold beside `-m`: 16 MiB by the accounting rule, 8 MiB for program text and allocator slack.
BESIDE = 24 * MIB
#: What a test may add to the resident memory of a server that keeps nothing of it: pages that were not touched before.
TOUCHED = 4 * MIB


#: What is collected of a line at most, of one that asks for keys and of another: `GET_LINE_MAX` and `RECEIVE_BUFFER` in
#: `server/src/limits.rs`; twice the first, since buffers double.
GET_LINE_MOST, LINE_MOST = 2 * MIB, MIB // 16


def buffer_bytes(wire):
    """What connections' buffers take, and those of the engine, which is the same always; nothing is told of memcached's."""
    return 0 if servers.PEER_ONLY else int(wire.stats(b"controller")["buffer_bytes"])


class Bystander:
    """Another client of the same server, which must notice nothing."""

    def __init__(self, server):
        self.wire = server.wire()
        self.turn = 0
        assert self.wire.ask(set_request(b"bystander", b"here")) == b"STORED\r\n"

    def check(self):
        self.turn += 1
        value = b"turn %d" % self.turn
        assert self.wire.ask(set_request(b"turn", value)) == b"STORED\r\n"
        assert self.wire.value(b"turn") == value
        assert self.wire.value(b"bystander") == b"here"


@pytest.fixture
def bystander(server):
    one = Bystander(server)
    yield one
    one.check()
    one.wire.close()
    server.check_alive()


#: What no client of the text protocol sends. The first byte 0x80 would select the binary protocol.
GARBAGE = [random.Random(seed).randbytes(length) for seed, length in enumerate([1, 7, 64, 1000, 2047, 5000, 100_000])]
GARBAGE = [bytes([data[0] & 0x7F]) + data[1:] for data in GARBAGE] + [
    b"\x00" * 100 + b"\r\n",
    b"\xff" * 100 + b"\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x17" * 500 + b"\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\r\n" * 1000,
    b"\n" * 1000,
    b" " * 1000 + b"\r\n",
    b"get " + b"\x00" * 300 + b"\r\n",
    b"set a 0 0 " + b"9" * 300 + b"\r\n",
    b"set " + b"\xff" * 251 + b" 0 0 1\r\nx\r\n",
    b"incr " * 300 + b"\r\n",
    b"mg\r\nms\r\nma\r\nmd\r\nme\r\n",
]


@pytest.mark.parametrize("data", GARBAGE, ids=[f"{i}: {data[:12]!r} {len(data)} bytes" for i, data in enumerate(GARBAGE)])
def test_garbage(server, bystander, data):
    """Errors, or a close; never silence that holds the connection's resources, never a crash."""
    with server.wire() as wire:
        try:
            wire.send(data)
            wire.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed on us while we were sending
        got = wire.read_to_close()
    for line in got.split(b"\r\n")[:-1]:
        assert line.split(b" ")[0] in (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"END", b"EN", b"SERVER_ERROR:"), short(got)


def test_binary_header_without_a_body(server, bystander):
    """A binary request that never ends, then gone."""
    with server.wire() as wire:
        wire.send(b"\x80\x00\x00\xff" + b"\x00" * 4 + b"\x7f\xff\xff\xff" + b"\x00" * 12)


HALVES = [
    b"g",
    b"get a",
    b"get a\r",
    b"set a 0 0",
    b"set a 0 0 10\r",
    b"set a 0 0 10\r\n",
    b"set a 0 0 10\r\nhalf",
    b"set a 0 0 10\r\nwithoutend",
    b"set a 0 0 10\r\nwithoutend\r",
    b"set a 0 0 100000\r\n" + b"x" * 50_000,
    b"append a 0 0 1000000\r\n" + b"x" * 500_000,
    b"gets " + b"k " * 5000,
]


@pytest.mark.parametrize("goodbye", ["close", "reset", "half-close"])
@pytest.mark.parametrize("data", HALVES, ids=[f"{data[:24]!r} {len(data)}" for data in HALVES])
def test_half_a_request_then_gone(server, bystander, data, goodbye):
    assert bystander.wire.ask(set_request(b"a", b"whole")) == b"STORED\r\n"
    wire = server.wire()
    wire.send(data)
    if goodbye == "half-close":
        wire.sock.shutdown(socket.SHUT_WR)
        assert wire.read_to_close() == b""
    if goodbye == "reset":
        wire.reset()
    else:
        wire.close()
    assert bystander.wire.value(b"a") == b"whole", "half a request must change nothing"


def test_descriptors_come_back(server, bystander):
    """Connections that vanish in mid-request are not kept."""
    before = open_descriptors(server.pid)
    for _ in range(100):
        wire = server.wire()
        wire.send(b"set a 0 0 10\r\nhalf")
        wire.reset()
    until = time.monotonic() + DEADLINE_S
    while before < open_descriptors(server.pid):
        bystander.check()
        assert time.monotonic() < until, "descriptors of closed connections stay open"


@pytest.mark.parametrize("head", [b"", b"set ", b"get ", b"gets ", b"delete "], ids=["nothing", "set", "get", "gets", "delete"])
def test_ten_megabytes_without_a_newline(fresh, head):
    """Closed, or refused with an error and closed; memory stays. (memcached collects a `get` line without end.)"""
    server = fresh()
    bystander = Bystander(server)
    bystander.check()
    before, at_rest = rested_bytes(server.pid, "VmHWM"), buffer_bytes(bystander.wire)
    with server.wire() as wire:
        try:
            wire.send(head)
            for _ in range(160):
                wire.send(b"a" * 65536)
            wire.send(b"\r\n")
            wire.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed on us, as it should
        got = wire.read_to_close()
        assert got == b"" or got.split()[0] in (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"), short(got)
        bystander.check()
        held = buffer_bytes(bystander.wire) - at_rest
    extra = resident_bytes(server.pid, "VmHWM") - before
    if not servers.PEER_ONLY:
        assert extra < TOUCHED, f"{extra} bytes more at the peak"
        assert held <= (GET_LINE_MOST if head.startswith(b"get") else LINE_MOST)
    server.check_alive()


def test_two_gigabytes_declared(fresh):
    """The declaration costs nothing: no reply before the block has come, no memory for it, no harm."""
    server = fresh()
    bystander = Bystander(server)
    before = resident_bytes(server.pid)
    wires = [server.wire() for _ in range(20)]
    for wire in wires:
        wire.send(b"set big 0 0 2147483645\r\n")
        wire.send(b"x" * (4 * MIB))
    bystander.check()
    assert resident_bytes(server.pid) < before + BESIDE
    for wire in wires:
        wire.reset()
    bystander.check()
    assert bystander.wire.value(b"big") is None
    server.check_alive()


def test_oversize_block_is_consumed_before_the_error(server, bystander):
    with server.wire() as wire:
        wire.send(b"set big 0 0 %d\r\n" % (8 * MIB))
        for _ in range(128):
            wire.send(b"x" * 65536)
        wire.send(b"\r\n")
        assert wire.read_line() == TOO_LARGE
        assert wire.ask(b"get big\r\n") == END


def test_oversize_block_without_its_end(server, bystander):
    """Two bytes behind the block are swallowed, whatever they are."""
    with server.wire() as wire:
        wire.send(set_request(b"big", b"x" * (2 * MIB))[:-2] + b"??")
        assert wire.read_line() in (TOO_LARGE, BAD_CHUNK)
        assert wire.ask(b"get big\r\n") == END


def test_slow_reader(fresh, note):
    """500 values of 1 MB asked for at once by a client that does not read."""
    server = fresh()
    bystander = Bystander(server)
    value = random.Random(1).randbytes(1_000_000)
    assert bystander.wire.ask(set_request(b"big", value)) == b"STORED\r\n"
    count = 500
    reply = b"VALUE big 0 1000000\r\n" + value + b"\r\n" + END
    with server.wire(receive_buffer=4096) as wire:
        wire.send(b"get big\r\n" * count)
        for _ in range(200):
            bystander.check()
        peak = resident_bytes(server.pid, "VmHWM")
        note(f"slow reader: peak resident {peak / MIB:.1f} MiB with -m 64")
        assert peak < MEMORY + BESIDE
        assert bystander.wire.ask(set_request(b"big", b"small")) == b"STORED\r\n"
        bystander.check()
        # Replies come whole and in order. One after the overwrite shows the new value.
        old, at_new = 0, b"VALUE big 0 5\r\nsmall\r\n" + END
        while old < count:
            head = wire.read_line()
            if head == b"VALUE big 0 5\r\n":
                wire.read_exact(len(at_new) - len(head))
                break
            assert head == b"VALUE big 0 1000000\r\n", head
            assert wire.read_exact(len(reply) - len(head)) == reply[len(head) :]
            old += 1
        for _ in range(count - old - 1):
            assert wire.read_exact(len(at_new)) == at_new
        assert resident_bytes(server.pid, "VmHWM") < MEMORY + BESIDE
    server.check_alive()


def test_slow_reader_that_leaves(fresh):
    server = fresh()
    bystander = Bystander(server)
    assert bystander.wire.ask(set_request(b"big", b"x" * 1_000_000)) == b"STORED\r\n"
    for goodbye in ("close", "reset"):
        wires = [server.wire(receive_buffer=4096) for _ in range(10)]
        for wire in wires:
            wire.send(b"get big\r\n" * 100)
        bystander.check()
        for wire in wires:
            getattr(wire, goodbye)()
        bystander.check()
    assert resident_bytes(server.pid, "VmHWM") < MEMORY + BESIDE
    server.check_alive()


def test_connection_flood(fresh, note):
    """More connections than `-c`: refused, or left waiting; the old ones work, and new ones do afterwards."""
    server = fresh("-c", "50")
    old = [server.wire() for _ in range(10)]
    for wire in old:
        assert wire.ask(b"get a\r\n") == END
    flood, refused, served = [], 0, 0
    for _ in range(150):
        try:
            flood.append(server.wire(deadline_s=DEADLINE_S))
        except OSError:
            refused += 1
    for wire in flood:
        try:
            wire.send(b"version\r\n")
        except OSError:
            refused += 1
    # The old ones first: they must work while the flood stands.
    for wire in old:
        assert wire.ask(set_request(b"a", b"x") + b"get a\r\n") == b"STORED\r\nVALUE a 0 1\r\nx\r\n" + END
    waiting = 0
    for wire in flood:
        wire.deadline_s = 0.05  # bounds the look at a connection that is left waiting; nothing is judged by it
        try:
            line = wire.read_line()
        except Closed:
            refused += 1
            continue
        except Late:
            waiting += 1
            continue
        if line == TOO_MANY:
            refused += 1
        else:
            assert line.startswith(b"VERSION "), line
            served += 1
    note(f"connection flood at -c 50: {served} served, {refused} refused, {waiting} left waiting")
    assert served + len(old) <= 50
    assert 0 < refused + waiting
    for wire in flood:
        wire.close()
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            with server.wire() as wire:
                wire.send(b"version\r\n")
                if wire.read_line().startswith(b"VERSION "):
                    break
        except (OSError, Closed):
            pass
        assert old[0].ask(b"get nope\r\n") == END
        assert time.monotonic() < until, "nobody gets in after the flood"
    server.check_alive()


def test_flood_of_short_connections(server, bystander):
    for _ in range(300):
        with server.wire() as wire:
            wire.send(b"get a\r\n")
    bystander.check()


def test_a_thousand_idle_connections(fresh):
    """Idle connections hold no buffers."""
    server = fresh()
    wires = [server.wire() for _ in range(900)]
    bystander = Bystander(server)
    bystander.check()
    before, at_rest = resident_bytes(server.pid), buffer_bytes(bystander.wire)
    line = b"get " + b"absent " * 1000 + b"bystander\r\n"
    for wire in wires:
        # In two parts: what came first must be kept.
        assert wire.version_line.startswith(b"VERSION ")
        wire.send(line[:1500])
        assert wire.ask(line[1500:]) == b"VALUE bystander 0 4\r\nhere\r\n" + END
    bystander.check()
    extra = resident_bytes(server.pid) - before
    if not servers.PEER_ONLY:
        assert extra < TOUCHED, f"{extra} bytes more"
        assert buffer_bytes(bystander.wire) == at_rest
    for wire in wires:
        wire.close()
    server.check_alive()


def test_memory_full(fresh, note):
    """Four times the memory in values of many sizes: the newest is there, and the process stays within `-m`."""
    server = fresh()
    rng = random.Random(7)
    total, key = 0, b""
    with server.wire() as wire:
        while total < 4 * MEMORY:
            batch = []
            for _ in range(200):
                key = b"key:%d" % rng.getrandbits(60)
                value = b"%b" % key * rng.choice([1, 3, 10, 100, 1000])
                batch.append(set_request(key, value, noreply=True))
                total += len(value)
            assert wire.ask(b"".join(batch)) == b""
        assert wire.value(key) == value
        stats = wire.stats()
        assert 0 < int(stats["evictions"])
        assert int(stats["bytes"]) <= int(stats["limit_maxbytes"])
    peak = resident_bytes(server.pid, "VmHWM")
    note(f"memory full: peak resident {peak / MIB:.1f} MiB with -m 64, {int(stats['evictions'])} evictions")
    assert peak < MEMORY + BESIDE
    server.check_alive()
