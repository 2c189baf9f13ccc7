"""A client in a thread of its own that asks until it is told to end, for tests of what tenants do to each other."""

import threading

from conformance.wire import END, parse_value_line, set_request


def fill(server, keys, size):
    """Stores values of so many bytes under some keys."""
    with server.wire() as wire:
        for first in range(0, len(keys), 100):
            some = keys[first : first + 100]
            wire.send(b"".join(set_request(key, b"v" * size) for key in some))
            for _ in some:
                assert wire.read_line() == b"STORED\r\n"


def read_answer(wire):
    """Bytes of the value that a get found."""
    line = wire.read_line()
    assert line != END, "a value is lost"
    length = int(parse_value_line(line)[2])
    wire.read_exact(length + 2)
    assert wire.read_line() == END
    return length


class Load(threading.Thread):
    """Gets, or stores, as fast as it may: ten keys at a time, which `some_keys` names by how many are done."""

    def __init__(self, server, some_keys, size, kind="get"):
        super().__init__()
        self.server, self.some_keys, self.size, self.kind = server, some_keys, size, kind
        self.done, self.stopped, self.failure = 0, threading.Event(), None

    def run(self):
        try:
            with self.server.wire() as wire:
                while not self.stopped.is_set():
                    some = self.some_keys(self.done)
                    if self.kind == "get":
                        wire.send(b"".join(b"get %s\r\n" % key for key in some))
                        assert all(read_answer(wire) == self.size for _ in some)
                    else:
                        wire.send(b"".join(set_request(key, b"v" * self.size) for key in some))
                        assert all(wire.read_line() == b"STORED\r\n" for _ in some)
                    self.done += len(some)
        except Exception as error:  # told by the test's thread
            self.failure = error

    def leave(self):
        """Ends it, whatever it has met: its tenant has gone."""
        self.stopped.set()
        self.join()

    def end(self):
        self.leave()
        if self.failure:
            raise self.failure
