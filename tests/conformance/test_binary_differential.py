"""The same random packets to Debian's memcached and to the server under test: the same answers must come back.

At least 1,000 of each opcode, among others on the same few keys, and once more to the server under test with every
packet cut in two. CAS numbers differ between servers by nature; compared is how each relates to the ones before it on
the same key. What `stat` tells is the affair of `test_stats`.

To repeat a failure: COTENANT_TEST_SEED=<seed from the message>.
"""

import random
import struct

import pytest

from conformance.cuts import Cuts, ask_packets_cut
from conformance.packets import OPCODES, BinaryWire, packet
from conformance.test_binary import K250, K251, flags
from conformance.test_differential import CASES, SEED, UNGIVEN, few, value
from conformance.wire import Late, short

KEYS = [b"a", b"b", b"n", b"m", b"with space", b"\0\x80\r\n", K250]
STORES = ["set", "add", "replace"]
JOINS = ["append", "prepend"]
COUNTS = ["increment", "decrement"]
TOUCHES = ["touch", "gat", "gatk"]
STATISTICS = [
    b"", b"settings", b"settings x", b"items", b"slabs", b"bogus", b"item", b"reset", b"resets", b" items", b"items ", b"slabs x",
    b"cachedump", b"cachedump 1 1", b"extstore", b"detail", b"detail x", b"detail  on", b"detail on", b"detail offx", b"detail dump",
]

RANDOM = [name for name in OPCODES if name not in ("quit", "quitq")] + [0x1F, 0x25, 0x80, 0xFF]


class Cas:
    """The number that the server last showed for `key`, plus `shift`."""

    def __init__(self, key, shift):
        self.key, self.shift = key, shift


def exptime(rng):
    """None that passes while a test runs."""
    return rng.choice([0] * 8 + [1000, 2592000, 2592001, 1000000000, 2000000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE])


def request(rng, name):
    """(name, keywords of `packet`, whether it counts)."""
    base = name.removesuffix("q") if isinstance(name, str) and name != "q" else name
    key = rng.choice([*KEYS, b"absent"])
    cas = rng.choice([0] * 5 + [Cas(key, 0), Cas(key, 0), Cas(key, UNGIVEN)])
    more = {"noise": rng.randbytes(3)}
    if base in STORES:
        number = rng.choice([0, 1, 65535, 0x80000000, 0xFFFFFFFF])
        return dict(more, key=key, value=value(rng), extras=struct.pack(">II", number, exptime(rng)), cas=cas)
    if base in JOINS:
        return dict(more, key=key, value=value(rng)[:300], cas=cas)
    if base in COUNTS:
        delta = rng.choice([0, 1, 10, 1 << 32, rng.randrange(1 << 40)])
        if base == "decrement":
            delta = rng.choice([delta, (1 << 64) - 1])
        initial, until = rng.choice([0, 1, 99, 1 << 40]), rng.choice([0xFFFFFFFF, exptime(rng)])
        return dict(more, key=rng.choice([key, b"n", b"m"]), extras=struct.pack(">QQI", delta, initial, until), cas=cas)
    if base in TOUCHES:
        return dict(more, key=key, extras=flags(exptime(rng)), cas=rng.choice([0, 5]))
    if base in ("get", "getk"):
        return dict(more, key=key, cas=rng.choice([0, 5]))
    if base == "delete":
        return dict(more, key=key, cas=cas)
    if base == "flush":
        return dict(more, extras=rng.choice([b"", b"\0\0\0\0"]))
    if base == "stat":
        return dict(more, key=rng.choice(STATISTICS))
    if base in ("noop", "version", "sasl_list"):
        return more
    if base in ("sasl_auth", "sasl_step"):
        return dict(more, key=rng.choice([b"PLAIN", b"CRAM-MD5", b"X" * 40]), value=value(rng)[:500])
    # An opcode without a meaning: memcached counts its key and extras twice when it skips them, see the differences.
    return dict(more, value=value(rng)[:500])


GROUND = ["set"] * 8 + ["setq", "get", "getk", "add", "append", "delete", "increment", "touch", "gat", "getkq"]


def stream(rng, name):
    """(batches, cases): CASES requests `name` among others, in batches that begin with what counts: no answer that memcached still
    holds may refer to the item then, or it keeps no length (see `test_differential.Side.play`)."""
    batches, batch, cases = [], [], 0
    while cases < CASES:
        ground = rng.random() < 0.4
        chosen = rng.choice(GROUND) if ground else name
        cases += not ground
        counts = isinstance(chosen, str) and chosen.removesuffix("q") in COUNTS
        if batch and (counts or len(batch) >= 30):
            batches.append(batch)
            batch = []
        batch.append((chosen, request(rng, chosen)))
    batches.append(batch)
    return batches, cases


class Side:
    """One of the two servers: how packets are asked there, and the CAS numbers that it has shown."""

    def __init__(self, ask):
        self.ask = ask
        ask([packet("flush")])
        self.seen = {}

    def play(self, batch):
        """What the server answers: opcode, status, the request it belongs to, the parts, and how the CAS relates."""
        sent = []
        for at, (name, parts) in enumerate(batch):
            cas = parts.get("cas", 0)
            if isinstance(cas, Cas):
                cas = self.seen.get(cas.key, 1 << 62) + cas.shift
            sent.append(packet(name, **dict(parts, cas=cas, opaque=at)))
        answers = []
        for got in self.ask(sent + [packet("getk", key, opaque=len(batch) + i) for i, key in enumerate(KEYS)]):
            at = got.opaque
            key = batch[at][1].get("key") if at < len(batch) else KEYS[at - len(batch)]
            relation = "none"
            if got.cas:
                before = self.seen.get(key)
                relation = "new" if before is None else "same" if got.cas == before else "up" if before < got.cas else "down"
                self.seen[key] = got.cas
            if not is_statistic(got):
                answers.append(without_version(got)._replace(cas=relation))
        return answers


def is_statistic(answer):
    return answer.opcode == OPCODES["stat"] and answer.key


def without_version(answer):
    return answer._replace(value=b"") if answer.opcode == OPCODES["version"] else answer


def check_batch(got, wanted, batch, where):
    if wanted != got:
        pairs = zip(wanted + [None] * len(got), got + [None] * len(wanted))
        first = next((w, g) for w, g in pairs if w != g)
        asked = batch[first[0].opaque] if first[0] and first[0].opaque < len(batch) else None
        raise AssertionError(
            f"{where}: {asked}\nmemcached {short(repr(first[0]).encode())}\nthis      {short(repr(first[1]).encode())}"
        )


def kind(name):
    return name if isinstance(name, str) else f"opcode {name:#x}"


@pytest.mark.parametrize("name", RANDOM, ids=kind)
def test_random_packets(server, peer, compared, name):
    seed = f"{SEED} binary {name}"
    batches, cases = stream(random.Random(seed), name)
    answers = []
    with BinaryWire(server.address) as mine, BinaryWire(peer.address) as theirs:
        ours, other = (Side(lambda packets, wire=wire: wire.ask(b"".join(packets))) for wire in (mine, theirs))
        for number, batch in enumerate(batches):
            answers.append(other.play(batch))
            check_batch(ours.play(batch), answers[-1], batch, f"seed {SEED}, {name}, batch {number}")
    cuts = Cuts(random.Random(f"{seed} cuts"))
    with BinaryWire(server.address) as mine:
        ours = Side(lambda packets: ask_packets_cut(mine, packets, cuts, server.is_debian))
        for number, (batch, wanted) in enumerate(zip(batches, answers, strict=True)):
            check_batch(ours.play(batch), wanted, batch, f"seed {SEED}, {name}, batch {number}, cut")
    cuts.check()
    compared("binary", kind(name), cases)


def plain(answers):
    """Answers without what differs between servers by nature."""
    return [without_version(one)._replace(cas=0) for one in answers if not is_statistic(one)]


@pytest.mark.parametrize("name", RANDOM, ids=kind)
def test_each_opcode_split_at_every_byte(server, peer, name):
    """What is before the cut was read by then: a `noop` in front of it is answered."""
    rng = random.Random(f"{SEED} split {name}")

    def drawn(chosen):
        return packet("stat", b"bogus") if chosen == "stat" else packet(chosen, **dict(request(rng, chosen), cas=0))

    data = b"".join(few(lambda: drawn("set"), 2, 90, b"") + few(lambda: drawn(name), 3, 90, b""))
    with BinaryWire(peer.address) as wire:
        wanted = plain(wire.ask(packet("flush") + data))
    with BinaryWire(server.address) as wire:
        for cut in range(1, len(data)):
            wire.send(packet("flush") + packet("noop", opaque=wire.END) + data[:cut])
            first = wire.until_end()
            assert plain(first + wire.ask(data[cut:])) == wanted, f"cut at {cut} of {short(data, 1000)}"


def empty(*sides):
    for side in sides:
        with BinaryWire(side.address) as wire:
            wire.one(packet("flush"))


def last_packet(rng):
    """A packet after which the connection ends, or one that is longer than it has use for."""
    name = rng.choice(list(OPCODES.values()))
    key = rng.choice([b"", b"a", b"abc", K250, K251, b"k" * 1000])
    extras = rng.randbytes(rng.choice([0, 1, 4, 8, 19, 20, 21, 24]))
    body = rng.choice([None] * 6 + [0, len(key)])
    surplus = rng.choice([b"", b"", b"x" * 30]) if body is None else b""
    if body is not None and body < len(key) + len(extras):
        return packet(name, key, b"", extras, opaque=7, body=body)
    return packet(name, key, surplus, extras, opaque=7)


#: Those that have no use for a value and do not mind one: it is read as the next packet.
CARELESS = {OPCODES[name] for name in ("touch", "gat", "gatq", "gatk", "gatkq", "stat")}


def is_other(sent):
    """Where memcached does otherwise: it skips too much of a packet of an unknown opcode with a key or extras, and
    keeps back the answers before a packet of another magic; a flush to come takes back the one that was."""
    opcode, key_len, extras_len, body = struct.unpack(">xBHB3xI", sent[:12])
    is_unknown = opcode == OPCODES["verbosity"] and key_len + extras_len > 0
    is_delayed = opcode in (OPCODES["flush"], OPCODES["flushq"]) and extras_len == 4
    return is_unknown or is_delayed or (opcode in CARELESS and key_len + extras_len < body)


def test_random_ends(server, peer):
    """Packets of any shape, each on a connection of its own, up to its end."""
    rng = random.Random(f"{SEED} ends")
    empty(server, peer)
    compared = 0
    while compared < CASES:
        sent = last_packet(rng)
        if is_other(sent):
            continue
        heard = []
        for side in (peer, server):
            with BinaryWire(side.address) as wire:
                answers = wire.last_words(sent + packet("quit", opaque=8))
            heard.append(plain(answers))
        assert heard[0] == heard[1], f"seed {SEED}: {short(sent)}"
        compared += 1


def test_a_header_is_waited_for(server, peer):
    """And then another magic ends the connection."""
    for side in (server, peer):
        with BinaryWire(side.address, deadline_s=0.3) as wire:
            wire.ask(b"")
            wire.send(b"\x81" + b"\0" * 22)
            with pytest.raises(Late):
                wire.read_exact(1)
            wire.send(b"\0")
            assert wire.read_to_close() == b""


@pytest.mark.parametrize("name", ["quit", "quitq"])
def test_random_quits(server, peer, compared, name):
    rng = random.Random(f"{SEED} {name}")
    empty(server, peer)
    for _ in range(CASES):
        before = rng.choice(["set", "setq", "get", "getq", "noop", "delete"])
        sent = packet(before, **dict(request(rng, before), cas=0)) + packet(name, opaque=5, noise=rng.randbytes(3))
        sent += rng.choice([b"", packet("noop", opaque=6), rng.randbytes(20)])
        heard = []
        for side in (peer, server):
            with BinaryWire(side.address) as wire:
                heard.append(plain(wire.last_words(sent)))
        assert heard[0] == heard[1], f"seed {SEED}: {short(sent)}"
    compared("binary", name, CASES)
