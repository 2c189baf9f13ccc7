"""Random streams of operating commands to Debian's memcached and to the server under test.

At least 1,000 cases per command, with good and spoilt arguments. What is alike by nature is compared byte by byte, once
more with every request cut in two; of `stats` and lists, which speak of each server's own machinery, the names, their
order, and the values that are alike. Streams avoid the forms of `differences.py`, and these, in which the page of
differences says how the server does otherwise: more memory than `-m`, the classes that memcached has not, `stats sizes`.

To repeat a failure: COTENANT_TEST_SEED=<seed from the message>.
"""

import random
import socket
import string

import pytest

from conformance import servers
from conformance.conftest import NO_MEMCACHED
from conformance.cuts import Cuts, ask_cut
from conformance.test_differential import CASES, SEED
from conformance.wire import short

WORDS = [b"x", b"1x", b"-1", b"1.5", b"noreply", b"all", b"0x1", b"?", b"a" * 60]
#: memcached's machinery is at it; it is asked again.
BUSY = b"BUSY "
#: What shows where an answer ends: these streams ask for versions themselves.
MARK = (b"mn\r\n", b"MN\r\n")


@pytest.fixture(scope="module")
def pair():
    """(server, memcached), both fresh, with their usual threads."""
    if servers.find_memcached() is None:
        pytest.skip(NO_MEMCACHED)
    both = [servers.start(), servers.start_memcached()]
    yield both
    for one in both:
        one.stop()


def number(rng, *more):
    return rng.choice([b"0", b"1", b"2", b"%d" % rng.randrange(100), b"%d" % rng.randrange(1 << 31), b"+3", b"007", *more])


def words(rng, *drawn):
    """The words, now and then with one too few, one too many or one that is another."""
    line = list(drawn)
    kind = rng.randrange(12)
    if kind == 0:
        line = line[:-1]
    elif kind == 1:
        line += [rng.choice(WORDS[:4])]
    elif kind == 2 and 1 < len(line):
        line[rng.randrange(1, len(line))] = rng.choice(WORDS[:4])
    return line


def cache_memlimit(rng):
    limit = rng.choice([b"%d" % rng.randrange(8, 65), b"%d" % rng.randrange(9), b"1000000001", b"4294967295", b"+20", b"020"])
    if rng.randrange(20) == 0:
        return [b"cache_memlimit"]
    return [b"cache_memlimit", rng.choice([limit, limit, limit, rng.choice(WORDS)]), *rng.choice([[], [], [b"noreply"], [b"x"]])]


def slabs(rng):
    if rng.randrange(3):
        # memcached has 39 classes of these sizes.
        source, target = (b"%d" % rng.choice([-2, -1, *range(40), 64, 99, 1000, 1 << 30]) for _ in range(2))
        return words(rng, b"slabs", b"reassign", source, target)
    level = rng.choice([[b"0"], [b"1"], [b"2"], [b"3"], [b"ratio"], [b"ratio", rng.choice([b"0.8", b"1", b"x", b".5", b"1e2"])]])
    return words(rng, b"slabs", b"automove", *level)


def lru(rng):
    factor = lambda: rng.choice([b"0.1", b"2.0", b"1", b"0", b"-1", b"1e3", b".5", b"5.", b"1e400", b"1e-400", b"0e9", b"inf", b"x"])
    tune = [b"tune", *(b"%d" % rng.choice([0, 10, 25, 40, 41, 80, 100]) for _ in range(2)), factor(), factor()]
    return words(rng, b"lru", *rng.choice([tune, [b"mode", rng.choice([b"flat", b"segmented"])], [b"temp_ttl", number(rng, b"-5")]]))


def lru_crawler(rng):
    classes = rng.choice([b"all", b"1", b"1,2,3", b"63", b"64", b"0", b"1,x", b"5,64", b"1,,2", b",3", b"%d" % rng.randrange(1, 64)])
    bad_class = rng.choice([b"x", b"999", b"64", b"1,x"])
    return words(rng, b"lru_crawler", *rng.choice([
        [b"enable"], [b"disable"], [b"sleep", number(rng, b"1000000", b"1000001")], [b"tocrawl", number(rng)],
        [b"crawl", classes], [b"crawl", classes], [b"crawl", b"hash"], [b"metadump", bad_class],
    ]))


def verbosity(rng):
    return [b"verbosity", rng.choice([number(rng), rng.choice(WORDS)]), *rng.choice([[], [], [b"noreply"]])]


def version(rng):
    return [rng.choice([b"version"] * 5 + [b"VERSION", b"versions", b"versio"]), *rng.sample(WORDS, rng.choice([0, 0, 1, 2]))]


def shutdown(rng):
    return [b"shutdown", *rng.sample([b"graceful", b"now", *WORDS], rng.choice([0, 1, 1, 2]))]


def refresh_certs(rng):
    return [b"refresh_certs", *rng.sample(WORDS, rng.choice([0, 0, 1, 2]))]


def flush_all(rng):
    """Answers only: in memcached a flush to come takes back the one that was, and older items rise again."""
    delay = rng.choice([[], [number(rng)], [b"-1"], [b"2592001"], [b"1000000000"], [b"2000000000"], [rng.choice(WORDS)]])
    return [b"flush_all", *delay, *rng.choice([[], [], [b"noreply"]])][: 2 if delay == [b"noreply"] else 3]


#: What is a command, though it may be refused, what is documented to be none here, and 1.6.18's other name of `get`.
KNOWN = set(
    b"bget get gets gat gats set add replace append prepend cas delete incr decr touch flush_all version verbosity stats quit "
    b"cache_memlimit lru lru_crawler slabs watch shutdown refresh_certs mg ms md ma mn me extstore debugtime misbehave".split()
)


def unknown(rng):
    """A command that is none, or nearly one."""
    name = bytearray(rng.choice(sorted(KNOWN)))
    letters = (string.ascii_letters + string.digits + "_-:%\t").encode()
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(name) + 1)
        name[at : at + rng.randrange(2)] = bytes([rng.choice(letters)])
    if len(name) < 4 or bytes(name) in KNOWN:
        return unknown(rng)
    return [bytes(name), *rng.sample(WORDS, rng.choice([0, 1, 2, 4]))]


#: Whose answers are alike to the byte.
STREAMS = {
    draw.__name__: draw
    for draw in (cache_memlimit, slabs, lru, lru_crawler, verbosity, version, shutdown, refresh_certs, unknown, flush_all)
}


#: Before which spaces may stand in both.
SPACED = set(STREAMS) - {"version", "unknown"}

#: What these streams leave out, as the page says: `noreply` behind `slabs`, `lru` and `watch`, a list of classes with commas alone,
#: hexadecimal factors.


def ask(wire, request, send=None):
    """The answer, once memcached is not busy. Its crawler is asked to stop, and stops some time later."""
    while True:
        reply = send(request) if send else wire.ask_until(request, *MARK)
        if request.split() == [b"lru_crawler", b"disable"]:
            while b"disabled" not in wire.ask_until(b"lru_crawler crawl 0\r\n", *MARK):
                pass
        if not reply.startswith(BUSY):
            return reply


def named(reply, server):
    return reply.replace(server.version.encode(), b"<version>")


def check_answers(pair, requests, seed):
    """Each request to both, then cut to the server under test."""
    server, peer = pair
    cuts = Cuts(random.Random(f"{seed} cuts"))
    first = [b"lru_crawler enable\r\n", b"flush_all\r\n"]
    with server.wire() as mine, peer.wire() as theirs, server.wire() as cut:
        for wire in (mine, theirs):
            for request in first:
                wire.ask(request)
        wanted = [named(ask(theirs, request), peer) for request in requests]
        for at, request in enumerate(requests):
            got = named(ask(mine, request), server)
            assert got == wanted[at], f"seed {seed!r}, request {at}: {short(request)}\nserver {short(got)}\nmemcached {short(wanted[at])}"
        mine.ask(first[0])
        for at, request in enumerate(requests):
            got = named(ask(cut, request, lambda sent: ask_cut(cut, [sent], cuts, server.is_debian, MARK)), server)
            assert got == wanted[at], f"seed {seed!r}, request {at}, cut: {short(request)}: {short(got)}"
    cuts.check()


@pytest.mark.parametrize("name", STREAMS)
def test_random_stream(pair, compared, name):
    seed = f"{SEED} {name}"
    rng = random.Random(seed)
    requests = []
    while len(requests) < CASES:
        line = STREAMS[name](rng)
        if name in SPACED and rng.randrange(20) == 0:
            line[0] = b" " + line[0]
        requests.append(rng.choice([b" ", b" ", b" ", b"  "]).join(line) + rng.choice([b"\r\n"] * 9 + [b"\n"]))
    check_answers(pair, requests, seed)
    compared("operating", name, len(requests))


#: Words of `watch` that both know.
EVENTS = [b"fetchers", b"mutations", b"evictions", b"connevents", b"sysevents", b"rawcmds", b"proxyreqs", b"proxyuser"]
WATCHERS = 20


def watch(rng, spoilt):
    wanted = rng.sample(EVENTS, rng.choice([0, 1, 2, 4])) + rng.sample([b"x", b"1", b"FETCHERS", b"fetchers,mutations"], spoilt)
    rng.shuffle(wanted)
    return rng.choice([b" ", b"  "]).join([b"watch", *wanted]) + b"\r\n"


def test_random_watches(fresh, peer_fresh, compared):
    """Each on a connection of its own, of which as many stay open as may watch; the next one is refused."""
    rng = random.Random(f"{SEED} watch")
    sides, watching = [fresh(), peer_fresh()], []
    for case in range(CASES):
        request, heard = watch(rng, rng.random() < 0.9), []
        for side in sides:
            wire = side.wire()
            assert wire.ask(b"") == b""
            wire.send(request)
            heard.append(wire.read_line())
            if heard[-1] == b"OK\r\n":
                watching.append(wire)
            else:
                assert wire.ask(b"") == b""
                wire.close()
        assert heard[0] == heard[1], f"seed {SEED}, case {case}: {request}: {heard}"
    assert len(watching) == WATCHERS * len(sides)
    for wire in watching:
        wire.close()
    compared("operating", "watch", CASES)


ENDINGS = [b"quit", b"quit", b"quit noreply", b"quit x", b"quit  ", b"QUIT", b"quits", b"", b"GET / HTTP/1.1"]


def test_random_endings(pair, compared):
    """Each on a connection of its own: what comes before the end, and what is not run behind it."""
    rng = random.Random(f"{SEED} endings")
    for case in range(CASES):
        some = [b"get e", b"set e 0 0 1\r\nx", b"delete e", b"mn", b"mg e v q", b"verbosity 0 noreply", b"bogus"]
        ending = rng.choice(ENDINGS)
        # A browser's line ends the connection at once, whatever waits.
        before = [] if b"HTTP" in ending else rng.sample(some, rng.choice([0, 1, 2]))
        lines = [*before, ending, *rng.sample(some, rng.choice([0, 1, 2]))]
        request = b"".join(line + b"\r\n" for line in lines if line)
        heard = []
        for side in pair:
            with side.wire() as wire:
                assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
                wire.send(request)
                try:
                    wire.sock.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # closed already
                heard.append(wire.read_to_close())
        assert heard[0] == heard[1], f"seed {SEED}, case {case}: {short(request)}: {heard}"
    compared("operating", "quit", CASES)
