"""The same requests to Debian's memcached and to the server under test: the same bytes must come back.

Random streams are drawn from a seed per command, at least 1,000 cases of that command, on few keys so that
commands meet each other's items. CAS numbers differ between servers by nature; what is compared is how each
relates to the ones before it on the same key. Streams avoid the forms of `differences.py`, whose rows are tested
here one by one, and use no exptime or delay that passes within a test.

Each stream is sent to the server under test once more with every request cut in two.

To repeat a failure: COTENANT_TEST_SEED=<seed from the message>.
"""

import os
import random
import re
import time

import pytest

from conformance.cuts import Cuts, ask_cut
from conformance.differences import CASES, DIFFERENCES
from conformance.wire import BAD_FORMAT, END, Closed, short

SEED = int(os.environ.get("COTENANT_TEST_SEED", "20261120"))
BATCH = 40

KEYS = [b"a", b"b", b"c", b"key:with:colons", b"n", b"m", b"%21", b"k" * 250]
NEVER_A_CAS = 18446744073709551615

STORAGE = ["set", "add", "replace", "append", "prepend", "cas"]
QUIET = [*STORAGE, "delete", "incr", "decr", "touch", "flush_all", "verbosity"]
LOUD = ["get", "gets", "gat", "gats", "version", *QUIET]


#: From a CAS number to one that nothing was given: the next may be that of a quiet write, or not.
UNGIVEN = 1 << 40


class Cas:
    """The number that `gets` last showed for `key` on the server it is sent to, plus `shift`."""

    def __init__(self, key, shift):
        self.key, self.shift = key, shift

    def resolve(self, seen):
        number = seen.get(self.key)
        if number is None:
            return b"%d" % NEVER_A_CAS
        return b"%d" % (number + self.shift)


def value(rng):
    """Numbers, text, line ends, and sizes around buffers.

    No number from 2^63 on: for those memcached looks for a minus sign beyond the item's end, in what the memory held
    before, and may call the number none. The edges at 2^64 are rows of `test_classic_text`.

    Never white space alone: memcached's `incr` reads on behind such a value, into whatever memory follows it.
    """
    while (drawn := any_value(rng)).isspace():
        pass
    return drawn


def any_value(rng):
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(
            [b"0", b"1", b"9", b"10", b"99", b"007", b"100", b"9999999999", b"99999", b"12  ",
             b"%d" % rng.randrange(1 << 40)]
        )
    if kind < 5:
        return rng.choice([b"", b"x", b"1x", b"-1", b"\r\nx", b"END\r\n", b"18446744073709551616", b"  7", b"1.5"])
    if kind < 9:
        return rng.randbytes(rng.randrange(1, 200))
    return rng.randbytes(rng.choice([1022, 1024, 2046, 2048, 4095, 8192, 16384]))


def exptime(rng):
    """None that passes while a test runs."""
    return rng.choice([b"0"] * 8 + [b"1000", b"2592000", b"2592001", b"-1", b"1000000000", b"-5", b"2000000000"])


def flags(rng):
    return rng.choice([b"0", b"0", b"1", b"65535", b"65536", b"2147483648", b"4294967295", b"007"])


def delta(rng, name):
    """A decrement may be of any size, it stops at 0; an increment stays far from 2^63 (see `value`)."""
    largest = b"18446744073709551615" if name == "decr" else b"4294967296"
    return rng.choice(
        [b"0", b"1", b"1", b"9", b"10", b"100", largest, b"x", b"-1", b"1x", b"18446744073709551616",
         b"%d" % rng.randrange(1 << 40)]
    )


def keys(rng):
    return b" ".join(rng.choice([*KEYS, b"absent"]) for _ in range(rng.choice([1, 1, 1, 2, 3, 8])))


def storage(rng, name, quiet):
    key, data = rng.choice(KEYS), value(rng)
    head = [name.encode(), key, flags(rng), exptime(rng), b"%d" % len(data)]
    parts = [b" ".join(head)]
    if name == "cas":
        parts += [b" ", Cas(key, rng.choice([0, 0, 0, UNGIVEN]))]
    # Where noreply goes, any other word is ignored, and so is noreply in capitals.
    parts += [b" noreply" if quiet else rng.choice([b""] * 8 + [b" ", b" x", b" NOREPLY"])]
    spoilt = rng.randrange(40)
    if spoilt == 0:
        # The block is one byte longer than declared and ends in the middle of a line.
        return parts + [b"\r\n" + data + b"?\r"]
    if spoilt == 1:
        length = rng.choice([b"-1", b"x", b"2147483647", b"-2147483648"])
        head[4] = length
        tail = [b" ", Cas(key, 0)] if name == "cas" else []
        return [b" ".join(head), *tail, b"\r\n"]
    return parts + [rng.choice([b"\r\n"] * 9 + [b"\n"]) + data + b"\r\n"]


def request(rng, name, quiet=False):
    """One request as parts: bytes, and CAS numbers to fill in."""
    end = rng.choice([b"\r\n"] * 9 + [b"\n"])
    noreply = b" noreply" if quiet else b""
    if name in STORAGE:
        return storage(rng, name, quiet)
    if name in ("get", "gets"):
        return [name.encode() + rng.choice([b" ", b" ", b"  "]) + keys(rng) + rng.choice([b"", b"", b" "]) + end]
    if name in ("gat", "gats"):
        time = rng.choice([exptime(rng)] * 9 + [b"x"])
        return [name.encode() + b" " + time + b" " + keys(rng) + end]
    key = rng.choice([*KEYS] * 4 + [b"absent", b"absent", b"k" * 251])
    if name == "delete":
        return [b"delete " + key + rng.choice([b"", b"", b" 0"]) + noreply + end]
    if name in ("incr", "decr"):
        return [name.encode() + b" " + key + b" " + delta(rng, name) + (noreply or rng.choice([b""] * 6 + [b" x"])) + end]
    if name == "touch":
        time = rng.choice([exptime(rng)] * 9 + [b"x"])
        return [b"touch " + key + b" " + time + (noreply or rng.choice([b""] * 6 + [b" x"])) + end]
    if name == "flush_all":
        # No delay: in memcached a flush to come takes back the one that was, and older items rise again.
        return [b"flush_all" + rng.choice([b"", b"", b" 0", b" -1"]) + noreply + end]
    if name == "verbosity":
        return [b"verbosity " + rng.choice([b"0", b"0", b"x"] if not quiet else [b"0"]) + noreply + end]
    if name == "version":
        return [b"bogus version\r\n" if rng.randrange(4) else b"VERSION\r\n"]
    raise AssertionError(name)


#: Commands that prepare the ground between the cases of a command under test.
GROUND = ["set"] * 8 + ["get"] * 2 + ["gets"] * 4 + ["add", "append", "delete", "incr", "decr", "touch", "gat", "cas"]


def stream(rng, name, quiet):
    """At least CASES requests `name` among others, in batches of parts; and how many there are."""
    batches, batch, cases = [], [], 0
    while cases < CASES:
        if rng.random() < 0.4:
            batch.append(request(rng, rng.choice(GROUND)))
        else:
            batch.append(request(rng, name, quiet))
            cases += 1
        if len(batch) >= BATCH:
            # Shows what the batch did, quiet commands above all, and feeds CAS numbers to the next.
            batch.append([b"gets " + b" ".join(KEYS) + b"\r\n"])
            batches.append(batch)
            batch = []
    batch.append([b"gets " + b" ".join(KEYS) + b"\r\n"])
    batches.append(batch)
    return batches, cases


class Side:
    """One of the two servers: how requests are asked there, and the CAS numbers that it has shown."""

    def __init__(self, ask):
        self.ask = ask
        assert ask([b"flush_all\r\n"]) == b"OK\r\n"
        self.seen = {}

    def play(self, batch):
        """The replies to `batch` with CAS numbers replaced by their relation to earlier ones.

        A counter that becomes shorter keeps its length, padded, but not where memcached still holds the item for
        a reply of the same batch: then it writes a new item without padding. So no reply is pending when a number
        changes.
        """
        resolved = [
            b"".join(part.resolve(self.seen) if isinstance(part, Cas) else part for part in parts) for parts in batch
        ]
        reply, waiting = b"", []
        for request in resolved:
            if request[:5] in (b"incr ", b"decr ") and waiting and waiting[-1].endswith(b"\n"):
                reply += self.ask(waiting)
                waiting = []
            waiting.append(request)
        reply += self.ask(waiting)
        return self.normalise(reply), b"".join(resolved)

    def normalise(self, reply):
        out, at = [], 0
        while at < len(reply):
            end = reply.find(b"\n", at) + 1
            assert end > 0, f"half a line: {short(reply[at:])}"
            words = reply[at:end].split()
            if words[0] != b"VALUE":
                out.append(reply[at:end])
                at = end
                continue
            data_end = end + int(words[3]) + 2
            if len(words) == 5:
                key, number = words[1], int(words[4])
                before = self.seen.get(key)
                relation = b"new" if before is None else b"same" if number == before else b"up" if before < number else b"down"
                self.seen[key] = number
                out.append(b" ".join(words[:4]) + b" <" + relation + b">\r\n")
            else:
                out.append(reply[at:end])
            out.append(reply[end:data_end])
            at = data_end
        return out


def first_difference(mine, other):
    for index, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b:
            return f"line {index}: server {short(a)}, memcached {short(b)}"
    return f"server has {len(mine)} lines, memcached {len(other)}; the longer one goes on with " + short(
        b"".join(mine[len(other) :] or other[len(mine) :])
    )


VARIANTS = [(name, False) for name in LOUD] + [(name, True) for name in QUIET]


def check_stream(server, peer, side, batches, seed):
    """The batches to both servers, then cut to the one under test; `side` makes one of the servers of how it is asked."""
    answers = []
    with server.wire() as mine, peer.wire() as theirs:
        here, there = (side(lambda requests, wire=wire: wire.ask(b"".join(requests))) for wire in (mine, theirs))
        for number, batch in enumerate(batches):
            (got, sent), (wanted, _) = here.play(batch), there.play(batch)
            check_batch(got, wanted, sent, f"batch {number} of seed {seed!r}")
            answers.append(wanted)
    cuts = Cuts(random.Random(f"{seed} cuts"))
    with server.wire() as mine:
        here = side(lambda requests: ask_cut(mine, requests, cuts, server.is_debian))
        for number, (batch, wanted) in enumerate(zip(batches, answers, strict=True)):
            got, sent = here.play(batch)
            check_batch(got, wanted, sent, f"batch {number} of seed {seed!r}, cut")
    cuts.check()


def check_batch(got, wanted, sent, where):
    assert got == wanted, (
        f"{where} (COTENANT_TEST_SEED={SEED}): {first_difference(got, wanted)}\nsent: {short(sent, 4000)}"
    )


@pytest.mark.parametrize("name, quiet", VARIANTS, ids=[n + (" noreply" if q else "") for n, q in VARIANTS])
def test_random_stream(server, peer, compared, name, quiet):
    seed = f"{SEED} {name} {quiet}"
    batches, cases = stream(random.Random(seed), name, quiet)
    check_stream(server, peer, Side, batches, seed)
    compared("classic", name + " noreply" * quiet, cases)


def little_stream(rng, count):
    """Requests of every command on small values, without CAS numbers to fill in."""
    names = [name for name in LOUD if name not in ("cas", "version")] + ["cas"]
    chosen = []
    while len(chosen) < count:
        name = names[len(chosen) % len(names)]
        parts = request(rng, name, quiet=name in QUIET and rng.random() < 0.3)
        sent = b"".join(b"%d" % NEVER_A_CAS if isinstance(part, Cas) else part for part in parts)
        if len(sent) < 120:
            chosen.append(sent)
    return chosen


def one_by_one(wire, requests):
    """Each request's reply, on an empty server."""
    assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
    return [wire.ask(sent) for sent in requests]


def whole(requests):
    """What can be asked one by one: requests that leave no half line behind."""
    return [sent for sent in requests if sent.endswith(b"\n")]


def strip_cas(reply):
    """`reply` with every CAS number replaced by a mark."""
    out, at = [], 0
    while at < len(reply):
        end = reply.find(b"\n", at) + 1
        assert end > 0, f"half a line: {short(reply[at:])}"
        words = reply[at:end].split()
        if words[0] == b"VALUE":
            data_end = end + int(words[3]) + 2
            out.append(b" ".join(words[:4]) + (b" <cas>" if len(words) == 5 else b"") + b"\r\n" + reply[end:data_end])
            at = data_end
        else:
            out.append(reply[at:end])
            at = end
    return b"".join(out)


@pytest.fixture(scope="module")
def little(peer):
    """(requests, memcached's replies), every command in them."""
    requests = whole(little_stream(random.Random(f"{SEED} split"), 48))
    with peer.wire() as wire:
        return requests, [strip_cas(reply) for reply in one_by_one(wire, requests)]


def check_cuts(server, requests, replies, normalise):
    """The stream in two sends, cut at each byte in turn. What the first part completes is answered before the
    second part is sent, so the cut is a cut for the server too. (Not so within a data block: memcached keeps
    replies back until the block is complete.)"""
    data, wanted = b"".join(requests), b"".join(replies)
    ends = [sum(map(len, requests[: i + 1])) for i in range(len(requests))]
    with server.wire() as wire:
        sentinel = wire.version_line
        for cut in range(len(data) + 1):
            assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
            complete = sum(end <= cut for end in ends)
            if b"\n" in data[ends[complete - 1] if complete else 0 : cut]:
                complete = 0
            wire.send(data[:cut])
            answered = read_replies(wire, replies[:complete])
            wire.send(data[cut:] + b"version\r\n")
            rest = wire.read_until_suffix(sentinel)[: -len(sentinel)]
            assert normalise(answered + rest) == wanted, f"cut at byte {cut} of {short(data, 4000)}"


def test_split_at_every_byte(server, little):
    check_cuts(server, *little, strip_cas)


def few(draw, most=4, longest=60, end=b"\n"):
    """Some short requests of those that `draw` gives, whole ones all."""
    drawn = []
    while len(drawn) < most:
        sent = draw()
        if len(sent) <= longest and sent.endswith(end):
            drawn.append(sent)
    return drawn


@pytest.mark.parametrize("name, quiet", VARIANTS, ids=[n + (" noreply" if q else "") for n, q in VARIANTS])
def test_each_command_split_at_every_byte(server, peer, name, quiet):
    rng = random.Random(f"{SEED} split {name} {quiet}")

    def drawn(name, quiet=False):
        parts = request(rng, name, quiet)
        return b"".join(b"%d" % NEVER_A_CAS if isinstance(part, Cas) else part for part in parts)

    requests = few(lambda: drawn("set"), 1) + few(lambda: drawn(name, quiet)) + few(lambda: drawn("gets"), 1)
    with peer.wire() as wire:
        replies = [strip_cas(reply) for reply in one_by_one(wire, requests)]
    check_cuts(server, requests, replies, strip_cas)


def read_replies(wire, replies):
    """Reads as many lines (and values) as `replies` hold."""
    got = b""
    for reply in replies:
        at = 0
        while at < len(reply):
            end = reply.find(b"\n", at) + 1
            line = wire.read_line()
            got += line
            words = line.split()
            if reply.startswith(b"VALUE ", at) and words[0] == b"VALUE":
                got += wire.read_exact(int(words[3]) + 2)
                at = end + int(reply[at:end].split()[3]) + 2
            else:
                at = end
    return got


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_in_tiny_pieces(server, little, piece):
    requests, replies = little
    data = b"".join(requests)
    with server.wire() as wire:
        assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
        for at in range(0, len(data), piece):
            wire.send(data[at : at + piece])
        got = wire.ask(b"")
    assert strip_cas(got) == b"".join(replies)


@pytest.mark.parametrize("length", [2047, 2048, 2049, 2300, 8000, 15000])
def test_long_lines(server, peer, length):
    """A line that comes at once is answered, and what is behind it, too. (memcached closes from 2,049 bytes on if the end is not
    there yet.)"""
    lines = [
        b"mg a v L%s", b"delete %s", b"incr %s 1", b"touch %s 0", b"verbosity 0 %s", b"get %s", b"%s", b"mn %s",
        b"flush_all 0 %s",
    ]
    for line in lines:
        request = line % (b"x" * (length - len(line))) + b"\r\n"
        assert len(request) == length
        with server.wire() as wire, peer.wire() as other:
            assert wire.ask(b"flush_all\r\n") == other.ask(b"flush_all\r\n")
            assert wire.ask(request) == other.ask(request), request[:40]


@pytest.mark.cotenant
def test_the_longest_line(server):
    """In pieces, too; a longer one ends the connection."""
    with server.wire() as wire:
        line = b"delete " + b"k" * (16384 - 9) + b"\r\n"
        assert len(line) == 16384 and wire.ask(line) == BAD_FORMAT
        wire.send(line[:9000])
        time.sleep(0.05)
        assert wire.ask(line[9000:]) == BAD_FORMAT
    with server.wire() as wire:
        wire.send(b"delete " + b"k" * (16385 - 9) + b"\r\n")
        with pytest.raises(Closed):
            wire.read_exact(1)


@pytest.mark.parametrize("row", DIFFERENCES, ids=[row.name for row in DIFFERENCES])
def test_documented_difference(server, peer, row):
    with peer.wire() as wire:
        wire.ask(b"flush_all\r\n")
        assert wire.ask(row.request) == row.debian, f"memcached 1.6.18 does not answer as recorded: {row}"
    with server.wire() as wire:
        wire.ask(b"flush_all\r\n")
        got = wire.ask(row.request)
    if server.is_debian:
        assert got == row.debian
    elif row.known == "read":
        assert got in (row.current, row.debian), f"neither version's answer: {got}\n{row}"
    else:
        assert got == row.current, f"{got}\n{row}"


COUNTED = ["cmd_get", "get_hits", "get_misses", "cmd_touch", "touch_hits", "touch_misses"]


@pytest.mark.parametrize("command", [b"get", b"gets", b"gat -1", b"gats 5000"])
def test_keys_before_one_that_is_none_are_served(server, peer, command):
    """They are read, touched and counted; nothing is answered but the error."""
    told = []
    for side in (server, peer):
        with side.wire() as wire:
            wire.ask(b"flush_all\r\n" + b"".join(b"delete %b\r\nset %b 0 0 1\r\nx\r\n" % (key, key) for key in (b"a", b"b", b"c")))
            before, heard = wire.stats(), []
            for keys in (b"a absent b %b c", b"%b c", b"c " * 300 + b"%b"):
                heard.append(wire.ask(b"%b %b\r\n" % (command, keys % (b"k" * 251))))
            after = wire.stats()
            heard.append([int(after[name]) - int(before[name]) for name in COUNTED])
            heard.append(re.sub(rb" t\d+", b" t~", wire.ask(b"mg a h t\r\nmg b h t\r\nmg c h t\r\n")))
        told.append(heard)
    assert told[0] == told[1]
    assert told[0][:3] == [BAD_FORMAT] * 3


def test_end_of_all(server, peer):
    """Both servers are in step and alike in the end."""
    for side in (server, peer):
        with side.wire() as wire:
            assert wire.ask(b"flush_all\r\nget a\r\n") == b"OK\r\n" + END
