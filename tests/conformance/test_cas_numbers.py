"""CAS numbers by the classic text commands: who may write with one, and what changes it."""

import pytest

from conformance.test_classic_text import EXISTS, NOT_FOUND, STORED, hit
from conformance.wire import END


def test_cas_number_lets_one_writer_through(wire):
    wire.ask(b"set a 0 0 1\r\nx\r\n")
    number = wire.cas_of(b"a")
    assert wire.ask(b"cas a 9 0 1 %d\r\ny\r\n" % number) == STORED
    assert wire.ask(b"cas a 0 0 1 %d\r\nz\r\n" % number) == EXISTS
    assert wire.ask(b"get a\r\n") == hit(b"a", b"y", 9)


def test_cas_noreply_stores(wire):
    wire.ask(b"set a 0 0 1\r\nx\r\n")
    assert wire.ask(b"cas a 0 0 1 %d noreply\r\ny\r\n" % wire.cas_of(b"a")) == b""
    assert wire.ask(b"get a\r\n") == hit(b"a", b"y")


def test_cas_after_delete_is_not_found(wire):
    wire.ask(b"set a 0 0 1\r\nx\r\n")
    number = wire.cas_of(b"a")
    wire.ask(b"delete a\r\n")
    assert wire.ask(b"cas a 0 0 1 %d\r\ny\r\n" % number) == NOT_FOUND
    wire.ask(b"set a 0 0 1\r\nx\r\n")
    assert wire.ask(b"cas a 0 0 1 %d\r\ny\r\n" % number) == EXISTS, "numbers are not used twice"


#: What a command does to the CAS number of `a`, whose value is 1.
CAS_EFFECT = [
    (b"set a 0 0 1\r\n1\r\n", True),
    (b"set a 0 0 1\r\n2\r\n", True),
    (b"replace a 0 0 1\r\n2\r\n", True),
    (b"append a 0 0 1\r\n2\r\n", True),
    (b"prepend a 0 0 1\r\n2\r\n", True),
    (b"incr a 1\r\n", True),
    (b"decr a 1\r\n", True),
    (b"touch a 100\r\n", False),
    (b"gat 100 a\r\n", False),
    (b"gats 100 a\r\n", False),
    (b"get a\r\n", False),
    (b"add a 0 0 1\r\n2\r\n", False),
    (b"cas a 0 0 1 18446744073709551615\r\n2\r\n", False),
    (b"incr a x\r\n", False),
    (b"set b 0 0 1\r\n1\r\n", False),
]


@pytest.mark.parametrize("command, changes", CAS_EFFECT, ids=[row[0].split(b"\r")[0].decode() for row in CAS_EFFECT])
def test_cas_number_grows_with_each_change(wire, command, changes):
    wire.ask(b"set a 0 0 1\r\n1\r\n")
    before = wire.cas_of(b"a")
    wire.ask(command)
    after = wire.cas_of(b"a")
    assert before < after if changes else before == after


def test_gats_tells_the_number_of_gets(wire):
    wire.ask(b"set a 3 0 1\r\nx\r\n")
    number = wire.cas_of(b"a")
    assert wire.ask(b"gats 100 a\r\n") == b"VALUE a 3 1 %d\r\nx\r\n" % number + END
