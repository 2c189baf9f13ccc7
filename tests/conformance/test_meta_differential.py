"""Random streams of meta commands to Debian's memcached and to the server under test: the same bytes must come back.

At least 1,000 cases per command and flag, among classic and meta commands on the same few keys, and once more to the
server under test with every request cut in two. CAS numbers are numbered in the order in which a server shows them;
times to live and since the last access are compared to the hundred. Streams avoid the forms of `differences.py`, and
what depends on the second: `t` of what has expired.

The flags are all those that memcached 1.6.18 takes; `E`, `x` and the answer to `s` of `ms` came later and have
recorded answers in `test_meta`.

To repeat a failure: COTENANT_TEST_SEED=<seed from the message>.
"""

import base64
import functools
import random
import re

import pytest

from conformance.differences import CASES
from conformance.test_differential import SEED, check_cuts, check_stream, few, one_by_one
from conformance.wire import short

BATCH = 40
KEYS = [b"a", b"b", b"c", b"d:e", b"n", b"k" * 250]
#: Keys that are only ever given in base64.
BINARY = [base64.b64encode(key) for key in (b"\x00\x01", b"binary key", b"\r\n\xff")]
ABSENT = b"absent"

LETTERS = "b c h k l q s t u v C D F I J L M N O P R T f".split()
#: Command: its flags; the others have none, or none that mean anything.
FLAGS = {"mg": LETTERS, "ms": LETTERS, "md": LETTERS, "ma": LETTERS, "me": ["b"], "mn": []}
#: Words that `me` and `mn` do not look at.
IGNORED = [b"v", b"k", b"x", b"O1", b"q"]
#: What tells of a hit before: memcached forgets that with each overwrite, a documented difference, so a key is deleted
#: before it is stored. Nor is anything made there that a hit or an overwrite may follow unseen.
TELLS_OF_HITS = {("mg", "h"), ("me", ""), ("me", "b")}
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


def flags_of(rng, verb, flag):
    """The flags of a request, `flag` among them unless it would spoil the comparison."""
    others = [letter for letter in FLAGS[verb] if (verb, letter) not in {("mg", "h"), ("ms", "s")}]
    chosen = set(rng.sample(others, rng.choice([0, 1, 2, 2, 3, 4, 6])))
    chosen.add(flag or rng.choice(others))
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
    if flag == "h":
        chosen -= {"N"}
    return chosen


def request(rng, verb, flag=""):
    """One request as parts."""
    end = rng.choice([b"\r\n"] * 9 + [b"\n"])
    if verb in ("me", "mn"):
        # Too short for 1.6.45 with less than four bytes: a documented difference.
        return [silent_flags(rng, verb, flag) + (b"\r\n" if verb == "mn" else end)]
    chosen = flags_of(rng, verb, flag)
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
    parts.append(end)
    if verb == "ms":
        parts.append(value + b"\r\n")
    return parts


def silent_flags(rng, verb, flag):
    """A line of `me` or `mn`, whose words mean nothing but for a `b` behind the key."""
    words = rng.sample(IGNORED, rng.choice([0, 0, 1, 2]))
    if verb == "me":
        words = [rng.choice([*BINARY, b"YQ==", b"a"]), b"b"] if flag else [rng.choice([*KEYS, ABSENT]), *words]
    return rng.choice([b" ", b" ", b"  "]).join([verb.encode(), *words])


def ground(rng):
    key = rng.choice(KEYS)
    value = b"%d" % rng.randrange(100) if key == b"n" else rng.randbytes(rng.randrange(50))
    return rng.choice([
        [b"set %b %d %b %d\r\n%b\r\n" % (key, rng.randrange(9), rng.choice([b"0", b"0", b"3050"]), len(value), value)],
        [b"set n 0 0 2\r\n10\r\n"], [b"delete " + key + b"\r\n"], [b"touch " + key + b" 0\r\n"], [b"get " + key + b"\r\n"],
        [b"mg " + key + b" c\r\n"], [b"mg " + key + b" v c f s k\r\n"], [b"md " + key + b" I\r\n"], [b"mn\r\n"],
        [b"ms " + key + b" 1 c\r\n5\r\n"],
    ])


def ground_of_hits(rng):
    """The same where nothing is stored over anything."""
    key = rng.choice(KEYS)
    stored = rng.choice([b"set %b 5 3050 2\r\n10\r\n", b"ms %b 1 c\r\n5\r\n", b"add %b 0 0 0\r\n\r\n"]) % key
    binary = rng.choice(BINARY)
    return rng.choice([
        [b"delete %b\r\n" % key + stored], [b"delete %b\r\n" % key + stored], [b"delete %b\r\n" % key],
        [b"md %b b\r\nms %b 1 b\r\nx\r\n" % (binary, binary)], [b"mg %b b v\r\n" % binary],
        [b"touch " + key + b" 0\r\n"], [b"get " + key + b"\r\n"], [b"gat 0 " + key + b"\r\n"],
        [b"mg " + key + b" v c f s k u\r\n"], [b"mg " + key + b"\r\n"], [b"md " + key + b" I\r\n"],
    ])


class Side:
    """One of the two servers: how requests are asked there, and the CAS numbers that it has shown."""

    def __init__(self, ask, without_size=False):
        self.ask = ask
        assert ask([b"flush_all\r\n"]) == b"OK\r\n"
        self.shown = []
        #: Whether sizes are left out: 1.6.18 tells none that is stored.
        self.without_size = without_size

    def play(self, batch):
        """The replies to `batch`, one line each, and what was sent. Nothing waits when a number changes: memcached
        would make a new item then, without padding and without its marks."""
        sent, reply, waiting = b"", [], []
        for parts in batch:
            data = b"".join(self.number(part.ago) if isinstance(part, Number) else part for part in parts)
            if data.startswith(b"ma "):
                reply += self.normalise(self.ask(waiting)) + self.normalise(self.ask([data]))
                waiting = []
            else:
                waiting.append(data)
            sent += data
        return reply + self.normalise(self.ask(waiting)), sent

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
                line = re.sub(rb" ([tl])(\d+)(?=[ \r])", lambda m: b" %b~%d" % (m[1], int(m[2]) // 100), line)
            if self.without_size and words[:1] != [b"VALUE"]:
                line = re.sub(rb" s\d+(?=[ \r])", b"", line)
            if words[:1] == [b"ME"]:
                line = re.sub(rb" cas=(\d+) ", self.mark, line)
                line = re.sub(rb"\b(exp=-|la=)(\d+)", lambda m: m[1] + b"~%d" % (int(m[2]) // 100), line)
                line = re.sub(rb"\b(cls|size)=\d+", rb"\1=#", line)
            if words[:1] in ([b"VA"], [b"VALUE"]):
                length = int(words[1] if words[0] == b"VA" else words[3])
                line, at = line + reply[end : end + length + 2], end + length + 2
            out.append(line)
        return out


def has_flag(parts, flag):
    """Whether a request still has the flag that it was drawn for: some go for others' sake."""
    line = b"".join(b"" if isinstance(part, Number) else part for part in parts).split(b"\n")[0]
    return any(word.startswith(flag.encode()) for word in line.split()[3 if line.startswith(b"ms") else 2 :])


VARIANTS = [(verb, flag) for verb, flags in FLAGS.items() for flag in flags] + [("me", ""), ("mn", "")]
IDS = [f"{verb} {flag}".strip() for verb, flag in VARIANTS]


def stream(rng, verb, flag):
    """Batches with at least CASES requests of `verb` with `flag`, and how many they are."""
    batches, cases = [], 0
    between = ground_of_hits if (verb, flag) in TELLS_OF_HITS else ground
    while cases < CASES:
        batch = []
        while len(batch) < BATCH:
            if rng.random() < 0.3:
                batch.append(between(rng))
            else:
                batch.append(request(rng, verb, flag))
                cases += not flag or has_flag(batch[-1], flag)
        # Shows what the batch did.
        batches.append(batch + [[b"mg " + key + b" v f s c u\r\n"] for key in KEYS])
    return batches, cases


@pytest.mark.parametrize("verb, flag", VARIANTS, ids=IDS)
def test_random_stream(server, peer, compared, verb, flag):
    seed = f"{SEED} {verb} {flag}"
    batches, cases = stream(random.Random(seed), verb, flag)
    check_stream(server, peer, functools.partial(Side, without_size=(verb, flag) == ("ms", "s")), batches, seed)
    compared("meta", f"{verb} {flag}".strip(), cases)


LONG_OPAQUE = b"O" + b"1" * 32
MADE = b"mg k N7050\r\n"
#: What is there before a request with such an opaque.
FOUND = [
    b"", b"set k 0 0 1\r\n5\r\n", b"set k 3 7050 1\r\n5\r\n", b"set k 0 0 1\r\nx\r\n", b"ms k 1\r\n5\r\nmd k I T7050\r\n",
    MADE,
]
#: What its words are drawn of: flags that act, that hold the item, and that are wrong where both servers say so alike.
WORDS = [b"T5050", b"T8050", b"N5050", b"N8050", b"R6000", b"h", b"l", b"t", b"q", b"v", b"k", b"u", b"C9", b"MX", b"J7", b"D2", b"I"]
WRONG_WORDS = [b"Tx", b"Cx", b"W", b"Fx", b"b", b"Dx"]


@pytest.mark.parametrize("verb", ["mg", "ms", "md", "ma"])
def test_an_opaque_that_is_too_long_is_told_last(server, peer, verb):
    """Behind all that is wrong; reads and counters have acted by then, with the flags before it. `md` with wrong flags is a documented
    difference."""
    rng = random.Random(f"{SEED} long opaque {verb}")
    with server.wire() as mine, peer.wire() as theirs:
        for case in range(CASES):
            words = rng.sample(WORDS, rng.choice([0, 1, 2, 3, 4])) + rng.sample(WRONG_WORDS, verb != "md" and rng.random() < 0.1)
            words = list({word[:1]: word for word in words}.values())
            words.insert(rng.randrange(len(words) + 1), LONG_OPAQUE)
            line = b" ".join([verb.encode(), b"k", *([b"1"] if verb == "ms" else []), *words]) + b"\r\n"
            found = rng.choice(FOUND)
            # What is made by itself, or overwritten, is as hot as before here only.
            shown = b"mg k h t" if verb == "mg" and found != MADE else b"mg k t"
            sent = [b"delete k\r\n" + found, line + b"7\r\n" * (verb == "ms"), shown + b" f v s R6000\r\n", b"mg k\r\n"]
            told = [[re.sub(rb" t(\d+)", lambda m: b" t~%d" % (int(m[1]) // 100), wire.ask(one)) for one in sent] for wire in (mine, theirs)]
            assert told[0] == told[1], f"seed {SEED}, case {case}: {sent}"


def test_an_opaque_that_is_too_long_counts_no_hit(server, peer):
    names = ["cmd_get", "get_hits", "get_misses", "cmd_touch", "touch_hits", "touch_misses", "incr_hits", "incr_misses", "total_items"]
    counted = []
    for side in (server, peer):
        with side.wire() as wire:
            wire.ask(b"flush_all\r\nset k 0 0 1\r\n5\r\n")
            for line in (b"mg k", b"mg k v T5050", b"mg none", b"ma k", b"ma none", b"ma new N0"):
                before = wire.stats()
                assert wire.ask(line + b" " + LONG_OPAQUE + b"\r\n") == b"CLIENT_ERROR opaque token too long\r\n"
                after = wire.stats()
                counted.append([int(after[name]) - int(before[name]) for name in names])
    assert counted[:6] == counted[6:]


def test_what_is_past_is_told_by_memcacheds_clock(server, peer):
    """Which shows some 62 seconds when it starts; and so are those told who watch."""
    for side in (server, peer):
        with side.wire() as wire, side.wire() as watcher:
            watcher.send(b"watch mutations\r\n")
            assert watcher.read_line() == b"OK\r\n"
            wire.ask(b"delete past\r\n")
            now = 62 + int(wire.stats()["uptime"])
            got = wire.ask(b"mg past N-1 t\r\nset past 0 0 1\r\n1\r\nmg past T1000000000 t\r\nset past 0 0 1\r\n1\r\nma past T-1 t\r\n")
            told = re.findall(rb" t(\d+)", got)
            wire.ask(b"set past 0 -1 1\r\nx\r\nset past 0 1000000000 1\r\nx\r\n")
            lines = watcher.read_until(b"key=past status=stored cmd=set ttl=4")
            told.append(b"4" + watcher.read_until(b" ")[:-1])
            assert len(told) == 4 and b"ttl=0" in lines, (got, lines)
            assert all(-3 <= (1 << 32) + 1 - now - int(one) <= 5 for one in told), (now, told)


def little(rng, verb, flag=""):
    """A request without a CAS number that a server showed."""
    return b"".join(b"3" if isinstance(part, Number) else part for part in request(rng, verb, flag))


def strip(reply):
    """`reply` without what differs between servers, or from second to second."""
    reply = re.sub(rb" (c|cas=)(?!0\b)\d+(?=[ \r])", rb" \1~", reply)
    reply = re.sub(rb"\b(exp=-|la=|cls=|size=)\d+", rb"\1~", reply)
    return re.sub(rb" ([tl])\d+(?=[ \r])", rb" \1~", reply)


def test_split_at_every_byte(server, peer):
    rng = random.Random(f"{SEED} split meta")
    requests = few(lambda: little(rng, rng.choice(["mg", "ms", "md", "ma"])), 40, 100)
    with peer.wire() as wire:
        replies = [strip(reply) for reply in one_by_one(wire, requests)]
    check_cuts(server, requests, replies, strip)


@pytest.mark.parametrize("verb, flag", VARIANTS, ids=IDS)
def test_each_flag_split_at_every_byte(server, peer, verb, flag):
    rng = random.Random(f"{SEED} split {verb} {flag}")
    between = ground_of_hits if (verb, flag) in TELLS_OF_HITS else ground
    requests = few(lambda: b"".join(between(rng)), 2) + few(lambda: little(rng, verb, flag))
    without_size = lambda reply: re.sub(rb" s\d+(?=[ \r])", b"", strip(reply))
    compared = without_size if (verb, flag) == ("ms", "s") else strip
    with peer.wire() as wire:
        replies = [compared(reply) for reply in one_by_one(wire, requests)]
    check_cuts(server, requests, replies, compared)
