"""The binary protocol: recorded answers and cuts. Random packets are in `test_binary_differential`."""

import struct

import pytest

from conformance import servers
from conformance.packets import (
    EXISTS, INVALID, NOT_FOUND, NOT_NUMBER, NOT_STORED, OK, OPCODES, TOO_LARGE, UNKNOWN, Answer, BinaryWire, count,
    failure, packet, store, touch,
)
from conformance.wire import END

K250, K251 = b"k" * 250, b"k" * 251
MAKE = 0


@pytest.fixture
def binary(server):
    with BinaryWire(server.address) as wire:
        assert wire.one(packet("flush")).status == OK
        yield wire


def answer(name, status=OK, extras=b"", key=b"", value=b""):
    return Answer(OPCODES.get(name, name), status, 0, 0, extras, key, value)


def plain(answers):
    return [one._replace(cas=0) for one in answers]


def flags(number):
    return struct.pack(">I", number)


def number(n):
    return struct.pack(">Q", n)


SET_A = store("set", b"a", b"value", flags=7)

#: name: what is sent, what comes back but for CAS numbers.
GOLDENS = {
    "get": (SET_A + packet("get", b"a"), [answer("set"), answer("get", extras=flags(7), value=b"value")]),
    "getk": (SET_A + packet("getk", b"a"), [answer("set"), answer("getk", OK, flags(7), b"a", b"value")]),
    "misses": (
        packet("get", b"a") + packet("getk", b"a") + packet("getq", b"a") + packet("getkq", b"a"),
        [failure("get", NOT_FOUND), answer("getk", NOT_FOUND, key=b"a")],
    ),
    "quiet hits": (
        store("setq", b"a", b"v") + packet("getq", b"a") + packet("getkq", b"a"),
        [answer("getq", extras=flags(0), value=b"v"), answer("getkq", OK, flags(0), b"a", b"v")],
    ),
    "add": (store("add", b"a", b"v") + store("add", b"a", b"v"), [answer("add"), failure("add", EXISTS)]),
    "replace": (
        store("replace", b"a", b"v") + SET_A + store("replace", b"a", b"v"),
        [failure("replace", NOT_FOUND), answer("set"), answer("replace")],
    ),
    "append and prepend": (
        packet("append", b"a", b"x") + SET_A + packet("append", b"a", b">") + packet("prepend", b"a", b"<")
        + packet("get", b"a"),
        [failure("append", NOT_STORED), answer("set"), answer("append"), answer("prepend"),
         answer("get", extras=flags(7), value=b"<value>")],
    ),
    "quiet failures are told": (
        store("replaceq", b"a", b"v") + packet("appendq", b"a", b"v") + packet("prependq", b"a", b"v")
        + packet("deleteq", b"a") + count("incrementq", b"a", 1) + SET_A + store("addq", b"a", b"v")
        + count("decrementq", b"a", 1),
        [failure("replaceq", NOT_FOUND), failure("appendq", NOT_STORED), failure("prependq", NOT_STORED),
         failure("deleteq", NOT_FOUND), failure("incrementq", NOT_FOUND), answer("set"), failure("addq", EXISTS),
         failure("decrementq", NOT_NUMBER)],
    ),
    "delete": (SET_A + packet("delete", b"a") + packet("delete", b"a"),
               [answer("set"), answer("delete"), failure("delete", NOT_FOUND)]),
    "cas that differs": (
        SET_A + b"".join(store(name, b"a", b"v", cas=1 << 62) for name in ("set", "add", "replace"))
        + packet("append", b"a", b"v", cas=1 << 62) + packet("delete", b"a", cas=1 << 62),
        [answer("set")] + [failure(name, EXISTS) for name in ("set", "add", "replace", "append", "delete")],
    ),
    "cas of nothing": (
        b"".join(store(name, b"a", b"v", cas=5) for name in ("set", "add", "replace")) + packet("append", b"a", b"v", cas=5)
        + packet("delete", b"a", cas=5),
        [failure("set", NOT_FOUND), failure("add", NOT_FOUND), failure("replace", NOT_FOUND),
         failure("append", NOT_STORED), failure("delete", NOT_FOUND)],
    ),
    "counters": (
        count("increment", b"n", 5) + count("increment", b"n", 5, 10, MAKE) + count("increment", b"n", 5, 10, MAKE)
        + count("decrement", b"n", 20) + packet("get", b"n") + count("decrement", b"m", 1, 1 << 63, MAKE)
        + count("incrementq", b"m", 1) + packet("get", b"m"),
        [failure("increment", NOT_FOUND), answer("increment", value=number(10)), answer("increment", value=number(15)),
         answer("decrement", value=number(0)), answer("get", extras=flags(0), value=b"0 "),
         answer("decrement", value=number(1 << 63)), answer("get", extras=flags(0), value=b"9223372036854775809")],
    ),
    "a counter wraps": (
        store("set", b"n", b"18446744073709551615") + count("increment", b"n", 1),
        [answer("set"), answer("increment", value=number(0))],
    ),
    "touch": (
        SET_A + touch("touch", b"a", 100) + touch("gat", b"a", 100) + touch("gatk", b"a", 100) + touch("gatq", b"a", 100)
        + touch("gatkq", b"a", 100) + touch("gat", b"a", 1000000000) + packet("get", b"a"),
        [answer("set"), answer("touch", extras=flags(7)), answer("gat", extras=flags(7), value=b"value"),
         answer("gatk", OK, flags(7), b"a", b"value"), answer("gatq", extras=flags(7), value=b"value"),
         answer("gatkq", OK, flags(7), b"a", b"value"), answer("gat", extras=flags(7), value=b"value"),
         failure("get", NOT_FOUND)],
    ),
    "touch of nothing": (
        touch("touch", b"a", 0) + touch("gat", b"a", 0) + touch("gatk", b"a", 0) + touch("gatq", b"a", 0)
        + touch("gatkq", b"a", 0),
        [failure("touch", NOT_FOUND), failure("gat", NOT_FOUND), answer("gatk", NOT_FOUND, key=b"a")],
    ),
    "flush": (
        SET_A + packet("flushq", extras=b"\0\0\0\0") + packet("flush") + packet("get", b"a"),
        [answer("set"), answer("flush"), failure("get", NOT_FOUND)],
    ),
    "unknown opcodes": (
        packet(0x1B) + packet(0x1F, value=b"xyz") + packet(0x25) + packet(0xFF) + packet("sasl_list")
        + packet("sasl_auth", b"PLAIN", b"\0a\0b") + packet("sasl_step", b"PLAIN", b""),
        [failure(code, UNKNOWN) for code in (0x1B, 0x1F, 0x25, 0xFF, 0x20, 0x21, 0x22)],
    ),
    "unknown statistics": (packet("stat", b"bogus"), [failure("stat", NOT_FOUND)]),
    "statistics set back": (packet("stat", b"reset"), [answer("stat")]),
    "too large": (
        SET_A + store("set", b"a", b"x" * (2 << 20)) + packet("get", b"a") + SET_A
        + store("add", b"a", b"x" * (2 << 20)) + packet("append", b"a", b"x" * (2 << 20)) + packet("get", b"a"),
        [answer("set"), failure("set", TOO_LARGE), failure("get", NOT_FOUND), answer("set"), failure("add", TOO_LARGE),
         failure("append", TOO_LARGE), answer("get", extras=flags(7), value=b"value")],
    ),
    "empty values and long keys": (
        store("set", K250, b"") + packet("getk", K250), [answer("set"), answer("getk", OK, flags(0), K250, b"")],
    ),
}

#: name: what is sent; after the answer the connection ends.
FATAL = {
    "no key": (packet("get"), failure("get", INVALID)),
    "long key": (packet("get", K251), failure("get", INVALID)),
    "value behind a get": (packet("get", b"a", b"x"), failure("get", INVALID)),
    "extras of a get": (packet("get", b"a", extras=b"abcd"), failure("get", INVALID)),
    "no extras of a set": (packet("set", b"a", b"x"), failure("set", INVALID)),
    "no key of a set": (packet("set", b"", b"x", b"\0" * 8), failure("set", INVALID)),
    "short extras of a count": (packet("increment", b"a", extras=b"\0" * 19), failure("increment", INVALID)),
    "body of a noop": (packet("noop", value=b"x"), failure("noop", INVALID)),
    "key of a version": (packet("version", b"x"), failure("version", INVALID)),
    "key of a quit": (packet("quit", b"x"), failure("quit", INVALID)),
    "short extras of a flush": (packet("flush", extras=b"\0\0"), failure("flush", INVALID)),
    "extras of a stat": (packet("stat", extras=b"\0"), failure("stat", INVALID)),
    "no extras of a touch": (packet("touch", b"a"), failure("touch", INVALID)),
    "key beyond the body": (packet("get", b"abc", body=2), failure("get", UNKNOWN)),
    "another magic": (b"\x81" + packet("noop")[1:], None),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_recorded_answer(binary, name):
    request, wanted = GOLDENS[name]
    assert plain(binary.ask(request)) == wanted


@pytest.mark.parametrize("name", FATAL)
def test_wrong_packet_ends_the_connection(server, name):
    request, wanted = FATAL[name]
    with BinaryWire(server.address) as wire:
        answers = wire.last_words(packet("noop", opaque=3) + request + packet("noop", opaque=4))
    assert answers == [answer("noop")._replace(opaque=3)] + ([wanted] if wanted else [])
    server.check_alive()


def test_quit(server):
    with BinaryWire(server.address) as wire:
        assert wire.last_words(packet("quit", opaque=9) + packet("noop")) == [answer("quit")._replace(opaque=9)]
    with BinaryWire(server.address) as wire:
        assert wire.last_words(packet("quitq") + packet("noop")) == []


def test_version_and_statistics(binary, server):
    assert binary.one(packet("version")).value.decode() == server.version
    *rows, end = binary.ask(packet("stat"))
    assert end == answer("stat")
    stats = {row.key.decode(): row.value.decode() for row in rows}
    assert int(stats["pid"]) == server.pid
    assert {"cmd_get", "auth_cmds", "auth_errors", "curr_items"} <= stats.keys()
    settings = {row.key: row.value for row in binary.ask(packet("stat", b"settings"))}
    assert settings[b"binding_protocol"] == b"auto-negotiate"


@pytest.mark.parametrize("start", [servers.start_cotenant, servers.start_memcached])
def test_dump_of_prefixes(start):
    """One value, as text."""
    if start is servers.start_memcached and servers.find_memcached() is None:
        pytest.skip("memcached is not installed")
    server = start(["-D", ":"])
    try:
        with BinaryWire(server.address) as wire:
            wire.one(store("set", b"p:a", b"v"))
            wire.one(packet("get", b"p:a"))
            row, end = wire.ask(packet("stat", b"detail dump"))
        assert (row.key, row.value, end) == (b"detailed", b"PREFIX p get 1 hit 1 set 1 del 0\r\n" + END, answer("stat"))
    finally:
        server.stop()


def test_cas_of_answers(binary):
    stored = binary.one(SET_A).cas
    assert stored > 0
    assert binary.one(packet("get", b"a")).cas == stored
    assert binary.one(touch("touch", b"a", 100)).cas == stored
    assert binary.one(store("set", b"a", b"v", cas=stored)).cas > stored
    made = binary.one(count("increment", b"n", 1, 5, MAKE)).cas
    assert made > 0
    counted = binary.one(count("increment", b"n", 1, cas=made)).cas
    assert counted > made
    assert binary.one(count("increment", b"n", 1, cas=made)).status == EXISTS
    assert binary.one(packet("append", b"n", b"0", cas=counted)).status == OK
    assert binary.one(packet("delete", b"n", cas=binary.one(packet("get", b"n")).cas)).status == OK


def test_a_delete_whose_cas_differs_is_no_miss(server):
    with server.wire() as text, BinaryWire(server.address) as wire:
        assert wire.one(SET_A).status == OK
        before = text.stats()
        assert wire.one(packet("delete", b"a", cas=1 << 62)).status == EXISTS
        after = text.stats()
    assert {after[name] == before[name] for name in ("delete_misses", "delete_hits", "cas_badval")} == {True}


def test_one_listener_speaks_both(server):
    with server.wire() as text, BinaryWire(server.address) as wire:
        assert text.ask(b"set both 5 0 4\r\ntext\r\n") == b"STORED\r\n"
        assert plain(wire.ask(packet("get", b"both"))) == [answer("get", extras=flags(5), value=b"text")]
        assert wire.one(store("set", b"both", b"binary")).status == OK
        assert text.value(b"both") == b"binary"


def test_fixed_to_text(fresh):
    running = fresh("-B", "ascii")
    with running.wire() as wire:
        # A line as any other: its first byte means nothing.
        assert wire.ask(packet("get", b"a") + b"\r\n") == b"ERROR\r\n"


def test_fixed_to_binary(fresh):
    running = fresh("-B", "binary")
    with BinaryWire(running.address) as wire:
        assert wire.one(packet("version")).value.decode() == running.version
    with BinaryWire(running.address) as wire:
        assert wire.last_words(b"version\r\n" * 4) == []


@pytest.mark.parametrize("piece", [1, 2, 5, 23, 25])
def test_in_pieces(server, piece):
    request = b"".join(sent for name, (sent, _) in GOLDENS.items() if name not in ("too large", "statistics set back"))
    with BinaryWire(server.address) as wire:
        wire.one(packet("flush"))
        whole = plain(wire.ask(request))
        wire.one(packet("flush"))
        for at in range(0, len(request), piece):
            wire.send(request[at : at + piece])
        assert plain(wire.ask(b"")) == whole


def test_split_at_every_byte(server):
    request = b"".join(GOLDENS[name][0] for name in ("get", "misses", "quiet hits", "counters", "touch", "delete"))
    with BinaryWire(server.address) as wire:
        wire.one(packet("flush"))
        whole = plain(wire.ask(request))
        for cut in range(len(request)):
            wire.one(packet("flush"))
            wire.send(request[:cut])
            assert plain(wire.ask(request[cut:])) == whole, f"cut at {cut}"


def test_difference_skipping_an_unknown_opcode(server, peer):
    """memcached skips the key and the extras of a packet that it does not know a second time, and is out of step.
    Here what follows is a request."""
    sent = packet(0x1B, extras=b"\0\0\0\1") + packet("noop", opaque=1) * 2
    with BinaryWire(peer.address) as wire:
        assert wire.last_words(sent) == []
    with BinaryWire(server.address) as wire:
        if server.is_debian:
            assert wire.last_words(sent) == []
        else:
            assert wire.ask(sent) == [failure(0x1B, UNKNOWN)] + [answer("noop")._replace(opaque=1)] * 2
