"""SIGTERM under pipelined load: whole replies, then a clean close, exit status 0 in time."""

import fcntl
import signal
import struct
import subprocess
import termios
import threading

import pytest

from conformance.servers import STOP_S
from conformance.test_admin import ask, wait_until
from conformance.wire import END, set_request, short

COUNT = 400


def one_reply(value):
    return b"STORED\r\nVALUE k 0 %d\r\n%b\r\nEND\r\n" % (len(value), value)


@pytest.mark.parametrize("size", [10, 2000, 100_000], ids=["small", "medium", "large"])
def test_sigterm_under_load(fresh, size):
    server = fresh()
    value = b"v" * size
    # Every client has a key space of its own by overwriting the same bytes: any interleaving gives this reply.
    request = b"set k 0 0 %d\r\n%b\r\nget k\r\n" % (size, value)
    clients, started = [server.wire() for _ in range(4)], threading.Barrier(5)
    sent = [0] * len(clients)

    def load(index):
        wire = clients[index]
        started.wait()
        try:
            for _ in range(COUNT):
                wire.send(request)
                sent[index] += 1
        except OSError:
            pass  # the server has gone, as it was told to

    received = [b""] * len(clients)

    def collect(index):
        received[index] = clients[index].read_to_close()

    threads = [threading.Thread(target=work, args=(i,)) for work in (load, collect) for i in range(len(clients))]
    for thread in threads:
        thread.start()
    started.wait()
    with server.wire() as wire:
        wire.ask(b"get k\r\n")
    server.process.send_signal(signal.SIGTERM)
    try:
        status = server.process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        raise AssertionError(f"still running {STOP_S} s after SIGTERM") from None
    for thread in threads:
        thread.join()
    assert status == 0, server.said()
    reply = one_reply(value)
    stored = b"STORED\r\n"
    for got in received:
        whole = len(got) // len(reply)
        rest = got[whole * len(reply) :]
        assert got[: whole * len(reply)] == reply * whole, short(got)
        if not server.is_debian:  # which ends where it stands
            assert rest in (b"", stored), f"half a reply: {short(rest)}"


def test_sigterm_when_idle(fresh):
    """Idle connections are closed at once; they do not hold the server."""
    server = fresh()
    idle = [server.wire() for _ in range(20)]
    for wire in idle:
        wire.ask(b"get a\r\n")
    half = server.wire()
    half.send(b"set a 0 0 10\r\nhalf")
    assert server.stop() == 0
    for wire in [*idle, half]:
        assert wire.read_to_close() == b""


def unsent(sock):
    """Bytes that the other side's socket has not taken yet."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


#: More than many turns answer, and as much as a socket takes that nobody has read from yet.
PIPELINE = 8_000


def test_a_pipeline_that_has_arrived_is_answered_whole(fresh):
    """Also what no turn has come to when the signal comes: the replies are more than sockets take."""
    server = fresh()
    value = b"v" * 2_000
    with server.wire(receive_buffer=65_536) as wire:
        wire.ask(set_request(b"k", value))
        wire.send(b"get k\r\n" * PIPELINE)
        wait_until(lambda: unsent(wire.sock) == 0)
        reply = b"VALUE k 0 %d\r\n%b\r\nEND\r\n" % (len(value), value)
        assert wire.read_exact(len(reply)) == reply
        server.process.send_signal(signal.SIGTERM)
        got = wire.read_to_close()
    assert server.process.wait(timeout=STOP_S) == 0
    if not server.is_debian:  # which ends where it stands
        assert got == reply * (PIPELINE - 1), f"{len(got) / len(reply)} replies: {short(got)}"


#: A value that no pair of sockets takes whole: who reads it slowly holds the end of the server open.
OWED = b"owed" * (3 << 20)


@pytest.mark.cotenant
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_nobody_new_gets_in_while_a_reply_is_owed(fresh, name):
    """The server still sends what it owes to one client; it hears nobody who comes then."""
    server = fresh("-I", "16m")
    idle, slow = server.wire(), server.wire(receive_buffer=4096)
    assert idle.ask(set_request(b"big", OWED)) == b"STORED\r\n"
    slow.send(b"get big\r\n")
    assert slow.read_line() == b"VALUE big 0 %d\r\n" % len(OWED)
    server.process.send_signal(getattr(signal, name))
    assert idle.read_to_close() == b"", "who is owed nothing hears of the end at once"
    for _ in range(10):
        try:
            with server.wire() as late:
                late.send(b"version\r\n")
                assert late.read_to_close() == b"", "somebody new is answered"
        except OSError:
            pass  # refused, or reset
    assert server.is_alive(), "it has ended before it sent what it owes"
    assert slow.read_to_close() == OWED + b"\r\n" + END
    assert server.process.wait(timeout=STOP_S) == 0, server.said()


@pytest.mark.cotenant
def test_a_list_that_was_begun_is_sent_whole(fresh):
    """Many keys to list, and a reader who has not begun: the list does not fit the sockets, and its end comes all the same."""
    server = fresh("-m", "256")
    count = 60_000
    with server.wire() as wire:
        for first in range(0, count, 1000):
            wire.send(b"".join(b"set key-%06d 0 0 1 noreply\r\nv\r\n" % n for n in range(first, first + 1000)))
        assert wire.ask(b"mn\r\n") == b"MN\r\n"
    lister = server.wire(receive_buffer=4096)
    lister.send(b"lru_crawler metadump all\r\n")
    first = lister.read_line()
    server.process.send_signal(signal.SIGTERM)
    rest = lister.read_to_close()
    assert server.process.wait(timeout=STOP_S) == 0, server.said()
    lines = (first + rest).replace(b"\r", b"").split(b"\n")
    assert lines[-2:] == [b"END", b""], short(rest[-200:])
    assert sum(line.startswith(b"key=key-") for line in lines) == count


@pytest.mark.cotenant
def test_who_waits_for_tokens_is_answered(fresh):
    """A request that has come and waits its turn of the tenant's rate is answered before the end."""
    server = fresh("--tenant", "name=slow,prefix=slow:,requests_per_second=2,burst=1")
    with server.wire() as wire:
        wire.send(b"get slow:a\r\n" * 4)
        assert wire.read_line() == END
        server.process.send_signal(signal.SIGTERM)
        assert wire.read_to_close() == END * 3
    assert server.process.wait(timeout=STOP_S) == 0, server.said()


@pytest.mark.cotenant
def test_who_is_held_back_at_a_tier_is_answered_before_the_end(fresh):
    """Its limit would hold it for a minute."""
    server = fresh(
        *("--tier", "pm=emulated:2dimm:64MiB", "--placement", "pm", "--bandwidth-policy", "limit"),
        *("--tenant", "name=slow,prefix=slow:"),
    )
    value = b"v" * 1000
    reply = b"VALUE slow:k 0 1000\r\n" + value + b"\r\n" + END
    with server.wire() as wire:
        wire.ask(set_request(b"slow:k", value))
        claim = {"bandwidth": "limit 1 reads of 1KB per second"}
        assert ask(server, "PUT", "/tenants/slow", claim)[0] == 200
        wire.send(b"get slow:k\r\n" * 60)
        assert wire.read_exact(len(reply)) == reply
        server.process.send_signal(signal.SIGTERM)
        got = wire.read_to_close()
    assert server.process.wait(timeout=STOP_S) == 0
    assert got == reply * 59, short(got)
