"""Streams that are sent in pieces: where a request is cut must not show in any answer."""

import collections

from conformance.packets import packet

#: Places of a request at which it is cut: its first bytes, and its last ones.
FRONT, BACK = 64, 16


class Cuts:
    """Where each request of a stream is cut: at the place at which the fewest were, so that none is left out."""

    def __init__(self, rng):
        self.rng = rng
        self.offered, self.cut = collections.Counter(), collections.Counter()

    def draw(self, length):
        """How many bytes of a request of `length` bytes go first."""
        places = [*range(1, min(length, FRONT + 1)), *range(-1, -min(length, BACK + 1), -1)]
        self.offered.update(places)
        fewest = min(self.cut[place] for place in places)
        place = self.rng.choice([place for place in places if self.cut[place] == fewest])
        self.cut[place] += 1
        return place % length

    def check(self):
        """A guard: requests were cut, and no place was left out that as many had as there are places."""
        missed = [place for place, count in self.offered.items() if FRONT + BACK <= count and not self.cut[place]]
        assert self.cut and not missed, f"no request was cut at {missed}"


def whole_lines(requests):
    """The requests, those that leave half a line behind together with the next one."""
    joined = [b""]
    for request in requests:
        joined[-1] += request
        if joined[-1].endswith(b"\n"):
            joined.append(b"")
    return [request for request in joined if request]


def ask_cut(wire, requests, cuts, holds_back, mark=None):
    """The replies to `requests`, each of which is sent in two pieces.

    The first piece travels behind a `version`, and the second is sent when that is answered: by then the server has
    read the first. A server that `holds_back` its replies while a data block is not complete is cut before the block.
    `mark` is another (request, reply) than those of `version`.
    """
    asked, answer = mark or (b"version\r\n", wire.version_line)
    got, waiting = b"", b""
    for request in whole_lines(requests):
        cut = cuts.draw(len(request))
        if holds_back:
            cut = min(cut, request.index(b"\n"))
        wire.send(waiting + asked + request[:cut])
        got += wire.read_until(answer)
        waiting = request[cut:]
    wire.send(waiting + asked)
    return (got + wire.read_until(answer)).replace(answer, b"")


def ask_packets_cut(wire, packets, cuts, holds_back):
    """The answers to `packets`, the same way; `noop` is what travels in front of a first piece."""
    answers, waiting = [], b""
    for request in packets:
        cut = cuts.draw(len(request))
        if holds_back:
            cut = min(cut, 23)
        wire.send(waiting + packet("noop", opaque=wire.END) + request[:cut])
        answers += wire.until_end()
        waiting = request[cut:]
    return answers + wire.ask(waiting)
