"""The last replies of a connection, where the other side's socket has room for a part of them only: they go all the same."""

import contextlib
import fcntl
import signal
import ssl
import struct
import termios
import time

import pytest

from conformance.servers import STOP_S
from conformance.test_tls import Told, authority, context, options, ports
from conformance.wire import set_request

__all__ = ["authority"]

pytestmark = pytest.mark.cotenant

VALUE = b"v" * 1980
REPLY = b"VALUE v 0 %d\r\n%b\r\nEND\r\n" % (len(VALUE), VALUE)
#: Bytes by which replies are fewer than sockets take.
SHORT = range(-2_000, 16_000, 1_500)
#: Or are more.
OVER = range(-4_000, 20_000, 2_000)
#: What is asked for last: no more than waits for the next send.
LAST = 7
RECEIVE_BUFFER = 4096


def arrived(sock):
    """Bytes that a socket has and nobody has read yet."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]


def queued(sock):
    """Bytes that the server's socket at the other end of `sock` has not got rid of."""
    here, there = ("%04X" % name[1] for name in (sock.getsockname(), sock.getpeername()))
    with open("/proc/net/tcp") as table:
        rows = [row.split() for row in list(table)[1:]]
    return next(int(row[4][:8], 16) for row in rows if row[1].endswith(":" + there) and row[2].endswith(":" + here))


def taken(sock):
    """Bytes that both sockets hold, once that changes no more."""
    before = -1
    while before != (now := queued(sock) + arrived(sock)):
        before = now
        time.sleep(0.05)
    return now


def test_replies_to_what_comes_behind_sigterm_go_whole(fresh):
    """A request that comes while the server drains, with room for a part of its reply; the client is slow then."""

    def filled(replies):
        server = fresh()
        wire = server.wire(receive_buffer=RECEIVE_BUFFER)
        wire.ask(set_request(b"v", VALUE))
        wire.send(b"get v\r\n" * replies)
        return server, wire, taken(wire.sock)

    server, _, room = filled(3_000)
    assert room < 3_000 * len(REPLY), "more than sockets take"
    server.stop()
    heard = 0
    for short in SHORT:
        replies = (room - short) // len(REPLY)
        server, wire, _ = filled(replies)
        told = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.002)
        wire.send(b"get v\r\n" * LAST)
        is_late = 0.1 < time.monotonic() - told
        time.sleep(0.4)
        got = wire.read_to_close()
        assert server.process.wait(timeout=STOP_S) == 0
        if is_late:
            continue  # to a socket that is closed
        # Not heard, or answered whole.
        assert len(got) in (replies * len(REPLY), (replies + LAST) * len(REPLY)), f"{len(got) / len(REPLY)} of {replies} and {LAST}"
        heard += replies * len(REPLY) < len(got)
    assert 0 < heard, "the signal came before all that was asked behind it"


def ask_and_leave(port, made, replies):
    """Asks over TLS, says goodbye, and reads when sockets take no more; the bytes of replies, and what sockets took."""
    with Told(port, made) as client:
        client.shake_hands()
        client.tls.write(b"get v\r\n" * replies)
        client.say_goodbye()
        client.send()
        room = taken(client.sock)
        got = bytearray()
        # The end, with a goodbye or without.
        with contextlib.suppress(ssl.SSLZeroReturnError, AssertionError):
            while more := client.until_done(lambda: client.tls.read(1 << 20)):
                got += more
    return bytes(got), room


def test_replies_before_the_goodbye_of_tls_go_whole(fresh, authority):
    """The client has said that it sends no more, and reads later; of the last turn's replies the socket takes a part."""
    server = fresh(*options(authority, *authority.issue("server")), "-l", "notls:127.0.0.1:0,127.0.0.1:0", "-R", "64")
    port, made = ports(server, "TLS")[0], context(authority)
    with server.wire() as wire:
        wire.ask(set_request(b"v", VALUE))
        _, room = ask_and_leave(port, made, 3_000)
        replies = room // len(REPLY) // 64 * 64 + LAST
        for over in OVER:
            # TLS adds three two-thousandths.
            value = b"v" * (int((room + over) / 1.0015 / replies) - len(REPLY) + len(VALUE))
            wire.ask(set_request(b"v", value))
            reply = REPLY.replace(b"1980", b"%d" % len(value)).replace(VALUE, value)
            got, _ = ask_and_leave(port, made, replies)
            assert got == reply * replies, f"{len(got) / len(reply)} of {replies}, {over} over {room}"
