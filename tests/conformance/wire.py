"""A raw memcached connection whose every wait has a deadline, and the little parsing that tests need.

Tests speak bytes through `Wire`; no client library stands between the table and the server.
"""

import os
import re
import socket
import time

#: Longest wait for bytes that must come. Generous: it bounds a hang, it judges no speed.
DEADLINE_S = 20.0
#: How often what is awaited is asked for, and for how long a memory that rests stays as it is.
POLL_S, REST_S = 0.01, 0.3

END = b"END\r\n"
ERROR = b"ERROR\r\n"
BAD_FORMAT = b"CLIENT_ERROR bad command line format\r\n"
BAD_CHUNK = b"CLIENT_ERROR bad data chunk\r\n"
BAD_DELTA = b"CLIENT_ERROR invalid numeric delta argument\r\n"
BAD_EXPTIME = b"CLIENT_ERROR invalid exptime argument\r\n"
NON_NUMERIC = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
TOO_LARGE = b"SERVER_ERROR object too large for cache\r\n"
TOO_MANY = b"ERROR Too many open connections\r\n"


class Closed(Exception):
    """The peer closed the connection before what was awaited came."""


class Late(AssertionError):
    """What was awaited did not come before the deadline."""


def short(data, most=400):
    """`data` for a failure message: its beginning and its end."""
    if len(data) <= most:
        return repr(bytes(data))
    half = most // 2
    return f"{bytes(data[:half])!r} … {len(data)} bytes … {bytes(data[-half:])!r}"


class Wire:
    """One connection."""

    def __init__(self, address, receive_buffer=None, deadline_s=DEADLINE_S):
        self.deadline_s = deadline_s
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(deadline_s)
        try:
            self.sock.connect(address)
        except OSError:
            self.sock.close()
            raise
        self.buffer = bytearray()
        self._version = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes with a reset instead of a farewell."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data):
        self.sock.settimeout(self.deadline_s)
        self.sock.sendall(data)

    def _more(self, until):
        left = until - time.monotonic()
        if left <= 0:
            raise Late(f"deadline passed; so far: {short(self.buffer)}")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 20)
        except TimeoutError:
            raise Late(f"deadline passed; so far: {short(self.buffer)}") from None
        except ConnectionError as error:
            raise Closed(f"{error}; so far: {short(self.buffer)}") from None
        if not data:
            raise Closed(f"end of stream; so far: {short(self.buffer)}")
        self.buffer += data

    def _take(self, length):
        taken = bytes(self.buffer[:length])
        del self.buffer[:length]
        return taken

    def read_exact(self, length):
        until = time.monotonic() + self.deadline_s
        while len(self.buffer) < length:
            self._more(until)
        return self._take(length)

    def read_line(self):
        until = time.monotonic() + self.deadline_s
        while (at := self.buffer.find(b"\n")) < 0:
            self._more(until)
        return self._take(at + 1)

    def read_to_close(self):
        """Everything up to the end of the stream (or a reset)."""
        until = time.monotonic() + self.deadline_s
        try:
            while True:
                self._more(until)
        except Closed:
            return self._take(len(self.buffer))

    def read_until_suffix(self, suffix):
        """Everything up to and including `suffix`, which must be the last thing in the buffer."""
        until = time.monotonic() + self.deadline_s
        while not self.buffer.endswith(suffix):
            self._more(until)
        return self._take(len(self.buffer))

    def read_until(self, mark):
        """Everything up to and including the first `mark`."""
        until = time.monotonic() + self.deadline_s
        while (at := self.buffer.find(mark)) < 0:
            self._more(until)
        return self._take(at + len(mark))

    def ask_until(self, request, mark, answer):
        """All that the server answers to `request`, shown by the answer to `mark` behind it, another than `version`."""
        self.send(request + mark)
        return self.read_until(answer)[: -len(answer)]

    def has_come(self):
        """Bytes that have come by now and were not read; they stay."""
        try:
            return len(self.buffer) + len(self.sock.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return len(self.buffer)

    def skim(self, length):
        """Reads `length` bytes and forgets them; cheap for gigabytes. The last 64 bytes come back."""
        tail = b""
        while length > 0:
            if not self.buffer:
                self._more(time.monotonic() + self.deadline_s)
            piece = self._take(min(length, len(self.buffer)))
            tail = (tail + piece)[-64:]
            length -= len(piece)
        return tail

    @property
    def version_line(self):
        """What this server answers to `version`; asked once, then the sentinel of `ask`."""
        if self._version is None:
            self.send(b"version\r\n")
            self._version = self.read_line()
            assert self._version.startswith(b"VERSION "), self._version
        return self._version

    def ask(self, request):
        """All that the server answers to `request`. A `version` behind it shows where the answer ends,
        and that the connection is still in step."""
        sentinel = self.version_line
        self.send(request + b"version\r\n")
        return self.read_until_suffix(sentinel)[: -len(sentinel)]

    def value(self, key):
        """The value of `key`, or None."""
        self.send(b"get " + key + b"\r\n")
        line = self.read_line()
        if line == END:
            return None
        name, _, length = parse_value_line(line)
        assert name == key, line
        value = self.read_exact(int(length) + 2)[:-2]
        assert self.read_line() == END
        return value

    def cas_of(self, key):
        """The CAS number of `key`, which must exist."""
        self.send(b"gets " + key + b"\r\n")
        head = self.read_line().split()
        assert head[0] == b"VALUE", head
        self.read_exact(int(head[3]) + 2)
        assert self.read_line() == END
        return int(head[4])

    def stats(self, sub=b""):
        """The reply to `stats` as an ordered dict of text."""
        return dict(self.stat_lines(sub))

    def stat_lines(self, sub=b""):
        """The reply to `stats` as (name, value) in the server's order."""
        self.send(b"stats" + (b" " + sub if sub else b"") + b"\r\n")
        lines = []
        while (line := self.read_line()) != END:
            word, name, value = line.decode().rstrip("\r\n").split(" ", 2)
            assert word == "STAT", line
            lines.append((name, value))
        return lines


def parse_value_line(line):
    """`VALUE key flags length\\r\\n` as (key, flags, length)."""
    match = re.fullmatch(rb"VALUE (\S+) (\d+) (\d+)\r\n", line)
    assert match, f"no VALUE line: {line!r}"
    return match.groups()


def set_request(key, value, flags=0, exptime=0, noreply=False):
    """A `set` in bytes."""
    tail = b" noreply" if noreply else b""
    return b"set %b %d %d %d%b\r\n%b\r\n" % (key, flags, exptime, len(value), tail, value)


def resident_bytes(pid, field="VmRSS"):
    """Resident memory of a process as the kernel counts it (`VmHWM`: its peak)."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} for {pid}")


def rested_bytes(pid, field="VmRSS"):
    """The same, once a server that has begun has touched what it touches ahead: no page more in `REST_S`."""
    until, rests, seen = time.monotonic() + DEADLINE_S, 0, resident_bytes(pid)
    while rests < REST_S / POLL_S:
        assert time.monotonic() < until, f"the resident memory of {pid} does not come to rest"
        time.sleep(POLL_S)
        now = resident_bytes(pid)
        rests, seen = (rests + 1 if now == seen else 0), now
    return resident_bytes(pid, field)


def open_descriptors(pid):
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
