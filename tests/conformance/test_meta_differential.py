"""Random streams of meta commands to Debian's memcached and to the server under test: the same bytes must come back.

At least 1,000 cases per command and flag, among classic and meta commands on the same few keys. CAS numbers are
numbered in the order in which a server shows them; times to live are compared to the hundred. Streams avoid the
forms of `differences.py`, and what depends on the second: `l`, and `t` of what has expired.

To repeat a failure: COTENANT_TEST_SEED=<seed from the message>.
"""

import base64
import random
import re

import pytest

from conformance.differences import CASES
from conformance.test_differential import SEED, check_cuts, first_difference, one_by_one
from conformance.wire import short

BATCH = 40
KEYS = [b"a", b"b", b"c", b"d:e", b"n", b"k" * 250]
#: Keys that are only ever given in base64.
BINARY = [base64.b64encode(key) for key in (b"\x00\x01", b"binary key", b"\r\n\xff")]
ABSENT = b"absent"

FLAGS = {
    "mg": "b c C f k N O q R s t T u v P L I F D J".split(),
    "ms": "b c C F I k M N O q T P v t f D".split(),
    "md": "b C I k O q T P v t c".split(),
    "ma": "b C c D J k M N O q t T v P f".split(),
}
#: What is asked at most once in so many requests: most cases shall do something.
SPOILT = 30


class Number:
    """The CAS number that a server showed so many showings ago."""

    def __init__(self, ago):
        self.ago = ago


def time(rng):
    return rng.choice([b"0", b"0", b"1050", b"2050", b"5050", b"2591950", b"-1", b"9050"])


def token(rng, verb, flag):
    """The flag with what belongs behind it, as parts."""
    if flag == "C":
        wrong = [b"C" + rng.choice([b"0", b"1", b"18446744073709551615"])]
        return wrong if rng.random() < 0.3 else [b"C", Number(rng.choice([1, 1, 1, 2, 5]))]
    number = b"%d" % rng.choice([0, 1, 1, 2, 10, 99, rng.randrange(1 << 30)])
    wrong = rng.randrange(SPOILT) == 0
    behind = {
        "T": time(rng), "N": time(rng).replace(b"-1", b"7050"), "R": rng.choice([b"0", b"1500", b"4500", b"9500"]),
        "F": number, "D": number, "J": number, "O": b"%d" % rng.randrange(1 << 40), "P": b"/x", "L": b"7",
        "M": rng.choice([b"E", b"A", b"P", b"R", b"S"] if verb == "ms" else [b"I", b"D", b"+", b"-"]),
    }.get(flag, b"")
    if wrong and verb in ("mg", "ms") and flag in "TNRFDJ":
        behind = rng.choice([b"x", b"1x", b"99999999999999999999999"])
    return [flag.encode() + behind]


def request(rng, verb, flag=None):
    """One request as parts."""
    count = rng.choice([0, 1, 2, 2, 3, 4, 6])
    chosen = set(rng.sample(FLAGS[verb], min(count, len(FLAGS[verb]))))
    chosen.add(flag or rng.choice(FLAGS[verb]))
    if flag != "b" and rng.random() < 0.8:
        chosen.discard("b")
    if "b" in chosen:
        # Shown raw after a creation, an append or a longer number: a documented difference.
        chosen -= {"N", "M"} if flag == "b" else {"b"}
    if verb == "ms" and "N" in chosen:
        chosen.discard("M")
    if verb == "ma" and "N" in chosen:
        chosen.discard("q")
    if "T" in chosen and flag != "t":
        chosen.discard("t")
    if "t" in chosen:
        chosen.discard("T")
    steady = verb == "ma" and "T" in chosen
    chosen |= {"D"} if steady else set()
    order = sorted(chosen)
    rng.shuffle(order)
    key = rng.choice(BINARY if "b" in chosen else [*KEYS, ABSENT])
    if verb == "ma" and "b" not in chosen:
        key = rng.choice([b"n", b"n", b"n", b"a", ABSENT])
    value = rng.choice([b"", b"1", b"22", b"x", b"\r\nx", b"END\r\n", rng.randbytes(rng.randrange(1, 300)), b"7" * 9])
    if key == b"n":
        value = b"%d" % rng.randrange(1000)
    parts = [verb.encode(), b" ", key]
    if verb == "ms":
        parts.append(b" %d" % len(value))
    for letter in order:
        # A number that becomes longer forgets its new time in memcached: a documented difference.
        behind = [b"D0"] if steady and letter == "D" else token(rng, verb, letter)
        parts += [rng.choice([b" ", b" ", b" ", b"  "]), *behind]
    parts.append(rng.choice([b"\r\n"] * 9 + [b"\n"]))
    if verb == "ms":
        parts.append(value + b"\r\n")
    return parts


def ground(rng):
    key = rng.choice(KEYS)
    value = b"%d" % rng.randrange(100) if key == b"n" else rng.randbytes(rng.randrange(50))
    return rng.choice([
        [b"set %b %d %b %d\r\n%b\r\n" % (key, rng.randrange(9), rng.choice([b"0", b"0", b"3050"]), len(value), value)],
        [b"set n 0 0 2\r\n10\r\n"], [b"delete " + key + b"\r\n"], [b"touch " + key + b" 0\r\n"], [b"get " + key + b"\r\n"],
        [b"mg " + key + b" c\r\n"], [b"mg " + key + b" v c f s k\r\n"], [b"md " + key + b" I\r\n"], [b"mn\r\n"],
        [b"ms " + key + b" 1 c\r\n5\r\n"],
    ])


class Side:
    """One of the two servers: its connection and the CAS numbers it has shown."""

    def __init__(self, wire):
        self.wire = wire
        assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
        self.shown = []

    def play(self, batch):
        """The replies to `batch`, one line each, and what was sent. Nothing waits when a number changes: memcached
        would make a new item then, without padding and without its marks."""
        sent, reply, waiting = b"", [], b""
        for parts in batch:
            data = b"".join(self.number(part.ago) if isinstance(part, Number) else part for part in parts)
            if data.startswith(b"ma "):
                reply += self.normalise(self.wire.ask(waiting)) + self.normalise(self.wire.ask(data))
                waiting = b""
            else:
                waiting += data
            sent += data
        return reply + self.normalise(self.wire.ask(waiting)), sent

    def number(self, ago):
        return b"%d" % self.shown[-ago] if ago <= len(self.shown) else b"3"

    def mark(self, match):
        number = int(match[1])
        if number not in self.shown:
            self.shown.append(number)
        return b" c#%d" % self.shown.index(number)

    def normalise(self, reply):
        out, at = [], 0
        while at < len(reply):
            end = reply.find(b"\n", at) + 1
            assert end > 0, f"half a line: {short(reply[at:])}"
            line, at = reply[at:end], end
            words = line.split()
            if words[:1] in ([b"HD"], [b"VA"], [b"EX"], [b"NF"], [b"NS"]):
                line = re.sub(rb" c(?!0\b)(\d+)(?=[ \r])", self.mark, line)
                line = re.sub(rb" t(\d+)(?=[ \r])", lambda m: b" t~%d" % (int(m[1]) // 100), line)
            if words[:1] in ([b"VA"], [b"VALUE"]):
                length = int(words[1] if words[0] == b"VA" else words[3])
                line, at = line + reply[end : end + length + 2], end + length + 2
            out.append(line)
        return out


def has_flag(parts, flag):
    """Whether a request still has the flag that it was drawn for: some go for others' sake."""
    line = b"".join(b"" if isinstance(part, Number) else part for part in parts).split(b"\n")[0]
    return any(word.startswith(flag.encode()) for word in line.split()[3 if line.startswith(b"ms") else 2 :])


VARIANTS = [(verb, flag) for verb, flags in FLAGS.items() for flag in flags]


@pytest.mark.parametrize("verb, flag", VARIANTS, ids=[f"{verb} {flag}" for verb, flag in VARIANTS])
def test_random_stream(server, peer, compared, verb, flag):
    seed = f"{SEED} {verb} {flag}"
    rng = random.Random(seed)
    cases, number = 0, 0
    with server.wire() as mine, peer.wire() as theirs:
        here, there = Side(mine), Side(theirs)
        while cases < CASES:
            batch = []
            while len(batch) < BATCH:
                if rng.random() < 0.3:
                    batch.append(ground(rng))
                else:
                    batch.append(request(rng, verb, flag))
                    cases += has_flag(batch[-1], flag)
            # Shows what the batch did.
            batch += [[b"mg " + key + b" v f s c u\r\n"] for key in KEYS]
            (got, sent), (wanted, _) = here.play(batch), there.play(batch)
            assert got == wanted, (
                f"batch {number} of seed {seed!r} (COTENANT_TEST_SEED={SEED}): {first_difference(got, wanted)}\n"
                f"sent: {short(sent, 4000)}"
            )
            number += 1
    compared("meta", f"{verb} {flag}", cases)


def little_stream(rng, count):
    requests = []
    while len(requests) < count:
        parts = request(rng, rng.choice([*FLAGS]))
        data = b"".join(b"3" if isinstance(part, Number) else part for part in parts)
        if len(data) < 100 and b" c" not in data:
            requests.append(data)
    return requests


def strip_times(reply):
    return re.sub(rb" t\d+", b" t~", reply)


def test_split_at_every_byte(server, peer):
    requests = little_stream(random.Random(f"{SEED} split meta"), 40)
    with peer.wire() as wire:
        replies = [strip_times(reply) for reply in one_by_one(wire, requests)]
    check_cuts(server, requests, replies, strip_times)
