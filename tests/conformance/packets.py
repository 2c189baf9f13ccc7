"""The binary protocol's packets: made, read and told apart."""

import collections
import struct

from conformance.wire import Wire

#: Every opcode by memcached's name for it; the quiet form of a name ends in q.
OPCODES = {
    "get": 0x00, "set": 0x01, "add": 0x02, "replace": 0x03, "delete": 0x04, "increment": 0x05, "decrement": 0x06,
    "quit": 0x07, "flush": 0x08, "getq": 0x09, "noop": 0x0A, "version": 0x0B, "getk": 0x0C, "getkq": 0x0D,
    "append": 0x0E, "prepend": 0x0F, "stat": 0x10, "setq": 0x11, "addq": 0x12, "replaceq": 0x13, "deleteq": 0x14,
    "incrementq": 0x15, "decrementq": 0x16, "quitq": 0x17, "flushq": 0x18, "appendq": 0x19, "prependq": 0x1A,
    "verbosity": 0x1B, "touch": 0x1C, "gat": 0x1D, "gatq": 0x1E, "sasl_list": 0x20, "sasl_auth": 0x21,
    "sasl_step": 0x22, "gatk": 0x23, "gatkq": 0x24,
}

OK, NOT_FOUND, EXISTS, TOO_LARGE, INVALID, NOT_STORED, NOT_NUMBER = range(7)
AUTH, CONTINUE, UNKNOWN, NO_MEMORY = 0x20, 0x21, 0x81, 0x82

TEXTS = {
    NOT_FOUND: b"Not found", EXISTS: b"Data exists for key.", TOO_LARGE: b"Too large.", INVALID: b"Invalid arguments",
    NOT_STORED: b"Not stored.", NOT_NUMBER: b"Non-numeric server-side value for incr or decr",
    AUTH: b"Auth failure.", UNKNOWN: b"Unknown command",
}

#: What came back: its header's fields, then the body cut into its parts.
Answer = collections.namedtuple("Answer", "opcode status opaque cas extras key value")


def packet(name, key=b"", value=b"", extras=b"", cas=0, opaque=0, noise=b"\0\0\0", body=None):
    """A request. `noise` are the three bytes that nobody looks at; `body` another length than the true one."""
    opcode = OPCODES.get(name, name)
    length = len(extras) + len(key) + len(value) if body is None else body
    head = struct.pack(">BBHB3sIIQ", 0x80, opcode, len(key), len(extras), noise, length, opaque, cas)
    return head + extras + key + value


def store(name, key, value, flags=0, exptime=0, **more):
    return packet(name, key, value, struct.pack(">II", flags, exptime), **more)


def count(name, key, delta, initial=0, exptime=0xFFFFFFFF, **more):
    return packet(name, key, extras=struct.pack(">QQI", delta, initial, exptime), **more)


def touch(name, key, exptime, **more):
    return packet(name, key, extras=struct.pack(">I", exptime), **more)


def failure(name, status, opaque=0):
    """What an error looks like."""
    return Answer(OPCODES.get(name, name), status, opaque, 0, b"", b"", TEXTS[status])


def read(wire):
    """The next answer of a connection."""
    head = wire.read_exact(24)
    magic, opcode, key_len, extras_len, datatype, status, length, opaque, cas = struct.unpack(">BBHBBHIIQ", head)
    assert (magic, datatype) == (0x81, 0), head
    body = wire.read_exact(length)
    return Answer(
        opcode, status, opaque, cas, body[:extras_len], body[extras_len : extras_len + key_len],
        body[extras_len + key_len :],
    )


def read_all(data):
    """Every answer in a string of whole answers."""
    answers = []
    while data:
        length = struct.unpack(">I", data[8:12])[0]
        half = _Bytes(data[: 24 + length])
        answers.append(read(half))
        data = data[24 + length :]
    return answers


class _Bytes:
    def __init__(self, data):
        self.data = data

    def read_exact(self, length):
        assert length <= len(self.data), f"half an answer: {self.data!r}"
        taken, self.data = self.data[:length], self.data[length:]
        return taken


class BinaryWire(Wire):
    """A connection on which packets are spoken."""

    #: The opaque of the `noop` that shows where answers end.
    END = 0xFFFFFFFF

    def ask(self, request):
        """Every answer to `request`."""
        self.send(request + packet("noop", opaque=self.END))
        return self.until_end()

    def until_end(self):
        """Every answer up to that of the `noop` that `ask` sends behind a request."""
        answers = []
        while (answer := read(self)).opaque != self.END:
            answers.append(answer)
        assert (answer.opcode, answer.status) == (OPCODES["noop"], OK), answer
        return answers

    def one(self, request):
        """The only answer to `request`."""
        (answer,) = self.ask(request)
        return answer

    def last_words(self, request):
        """Every answer up to the end of the connection."""
        self.send(request)
        return read_all(self.read_to_close())
