"""What `stats` and the lists tell after random requests, of Debian's memcached and of the server under test.

At least 1,000 questions of each kind. Names and their order are those of memcached; the values are compared where they
are alike by nature: what clients asked, not what a server's machinery makes of it. What tells when something gone was
removed (`get_expired`, `get_flushed`, `curr_items`, `reclaimed`, …) is memcached's threads' affair.

To repeat a failure: COTENANT_TEST_SEED=<seed from the message>.
"""

import random
import re

import pytest

from conformance import servers
from conformance.conftest import NO_MEMCACHED, QUIET_BACKGROUND
from conformance.test_differential import CASES, NEVER_A_CAS, QUIET, SEED, Cas, request
from conformance.test_operate import LINE
from conformance.test_operate_differential import ask
from conformance.test_stats import ITEMS, PLAIN_DEBIAN_ONLY, SLABS, by_class
from conformance.wire import END, short

#: Of `stats`, what is the same of both.
ALIKE = """
pointer_size max_connections rejected_connections response_obj_oom read_buf_oom reserved_fds cmd_get cmd_set cmd_flush
cmd_touch cmd_meta get_hits get_misses delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses
cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors limit_maxbytes
accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields hash_is_expanding
slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items
slab_reassign_busy_deletes slab_reassign_running slabs_moved malloc_fails log_worker_dropped log_worker_written
log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback total_items evicted_unfetched
evicted_active evictions crawler_reclaimed direct_reclaims lru_bumps_dropped
""".split()
#: 1.6.45 has them and 1.6.18 has not.
NEWER = {"slab_reassign_busy_nomem", "slab_reassign_last_busy_status"}

#: Of `stats settings`, what is each server's own: addresses, defaults that the page of differences names, machinery that
#: is not here, and what is not given (NULL, where 1.6.18 says (null)).
OWN_SETTINGS = set(
    "tcpport inter verbosity oldest num_threads_per_udp reqs_per_event slab_reassign slab_automove hash_algorithm "
    "lru_maintainer_thread lru_segmented ssl_chain_cert ssl_key ssl_min_version num_napi_ids memory_file".split()
)

COMMANDS = ["set", "set", "get", "gets", "add", "append", "prepend", "replace", "delete", "incr", "decr", "touch", "gat", "gats", "cas"]


@pytest.fixture(scope="module")
def pair():
    """(server, memcached), both fresh, both with prefixes."""
    if servers.find_memcached() is None:
        pytest.skip(NO_MEMCACHED)
    both = [servers.start(["-D", ":"]), servers.start_memcached(["-D", ":"])]
    yield both
    for one in both:
        one.stop()


@pytest.fixture
def wires(pair):
    """A connection to each, both empty."""
    with pair[0].wire() as mine, pair[1].wire() as theirs:
        for wire in (mine, theirs):
            for sent in (b"cache_memlimit 64\r\n", b"lru_crawler enable\r\n", b"stats detail on\r\n", b"flush_all\r\n", b"stats reset\r\n"):
                ask(wire, sent)
        yield mine, theirs


def drawn(rng, name):
    """A request of `test_differential`, in bytes, that leaves no half line."""
    while True:
        parts = request(rng, name, name in QUIET and rng.random() < 0.2)
        sent = b"".join(b"%d" % NEVER_A_CAS if isinstance(part, Cas) else part for part in parts)
        if sent.endswith(b"\n"):
            return sent


def same(wires, sent, where):
    """`sent` to both, whose answers are alike but for CAS numbers."""
    got, wanted = (re.sub(rb"(VALUE \S+ \d+ \d+) \d+", rb"\1", ask(wire, sent)) for wire in wires)
    assert got == wanted, f"{where}: {short(sent)}: server {short(got)}, memcached {short(wanted)}"


def check_general(wires, where):
    mine, theirs = (wire.stat_lines() for wire in wires)
    names = [[name for name, _ in lines if name not in NEWER | PLAIN_DEBIAN_ONLY] for lines in (mine, theirs)]
    assert names[0] == names[1], where
    mine, theirs = dict(mine), dict(theirs)
    other = {name: (mine[name], theirs[name]) for name in ALIKE if mine[name] != theirs[name]}
    assert not other, f"{where}: (server, memcached) {other}"


def test_random_stats(wires, compared):
    """Every counter of what clients ask, after each request; set back now and then."""
    rng = random.Random(f"{SEED} stats")
    for case in range(CASES):
        name = rng.choice([*COMMANDS, *COMMANDS, "flush_all", "verbosity", "reset", "bogus"])
        sent = {"reset": b"stats reset\r\n", "bogus": b"bogus\r\n"}.get(name) or drawn(rng, name)
        same(wires, sent, f"seed {SEED}, case {case}")
        check_general(wires, f"seed {SEED}, case {case}: {short(sent)}")
    compared("operating", "stats", CASES)


def test_random_settings(wires, compared):
    """Names, order and values of `stats settings`, and what commands change there."""
    rng = random.Random(f"{SEED} settings")
    commands = [b"cache_memlimit %d" % limit for limit in range(8, 65)]
    commands += [b"lru_crawler enable", b"lru_crawler disable", b"stats detail on", b"stats detail off", b"stats detail dump"] * 4
    for case in range(CASES):
        same(wires, rng.choice(commands) + b"\r\n", f"seed {SEED}, case {case}")
        mine, theirs = (wire.stat_lines(rng.choice([b"settings", b"settings x"])) for wire in wires)
        shown = dict(mine)
        assert set(dict(theirs)) <= set(shown), case
        in_both = [(name, value) for name, value in mine if name in dict(theirs)]
        assert [name for name, _ in in_both] == [name for name, _ in theirs], case
        other = [(name, shown[name], value) for name, value in theirs if shown[name] != value and name not in OWN_SETTINGS]
        assert not other, f"seed {SEED}, case {case}: (name, server, memcached) {other}"
    compared("operating", "stats settings", CASES)


#: What of `stats` has classes: how its lines are named, their names in order, and what sums up to the number of items
#: (not the chunks: memcached holds some for replies).
CLASSES = [("items", r"items:(\d+):(\w+)", ITEMS, ["number"]), ("slabs", r"(\d+):(\w+)", SLABS, [])]


@pytest.mark.parametrize("sub, pattern, names, counts", CLASSES, ids=["items", "slabs"])
def test_random_classes(fresh, peer_fresh, compared, sub, pattern, names, counts):
    """Each class has memcached's fields in its order; ours of `items` hold as many items as memcached, and there is one of `slabs`. The classes
    are each server's own; nothing expires or is flushed, for that counts until it is removed. What memcached's classes sum up to is not asked:
    its maintainer moves items between lists that are counted one after the other, and one item in some 10,000 looks is counted twice."""
    rng = random.Random(f"{SEED} {sub}")
    names = [name for name in names if name != "number_temp"]
    with fresh().wire() as mine, peer_fresh().wire() as theirs:
        for case in range(CASES):
            sent = drawn(rng, rng.choice(["set", "add", "get", "delete", "incr", "append"]))
            sent = re.sub(rb"^(\w+ \S+ \d+) -?\d+ ", rb"\1 0 ", sent)
            same((mine, theirs), sent, f"seed {SEED}, case {case}")
            told = []
            for wire in (mine, theirs):
                classes, rest = by_class(wire.stat_lines(sub.encode()), pattern)
                for fields in classes.values():
                    assert [name for name in fields if name != "number_temp"] == names, case
                held = lambda count: sum(int(fields[count]) for fields in classes.values())
                summed = [held(count) if wire is mine else int(theirs.stats()["curr_items"]) for count in counts]
                told.append(([name for name, _ in rest], summed))
            assert told[0] == told[1], f"seed {SEED}, case {case}: {short(sent)}"
        assert all(by_class(wire.stat_lines(sub.encode()), pattern)[0] for wire in (mine, theirs))
    compared("operating", f"stats {sub}", CASES)


def test_random_prefixes(wires, compared):
    """What was asked of each prefix. `gat` and meta commands are counted by one of the two only."""
    rng = random.Random(f"{SEED} prefixes")
    keys = [b"p:a", b"p:b", b"q:a", b"q:a:b", b"p:", b"plain"]
    stored = b"".join(b"set %b 0 0 1\r\nx\r\n" % key for key in (b"p:a", b"q:a"))
    same(wires, stored, "at first")
    for case in range(CASES):
        key = rng.choice(keys)
        sent = rng.choice([
            b"get %b %b\r\n" % (key, rng.choice(keys)), b"gets %b\r\n" % key, b"delete %b\r\n" % key, b"incr %b 1\r\n" % key,
            b"set %b 0 0 1\r\n1\r\n" % key, b"add %b 0 0 1\r\nx\r\n" % key, b"append %b 0 0 1\r\n2\r\n" % key,
            b"stats detail on\r\n", b"touch %b 0\r\n" % key, b"stats reset\r\n" + stored if rng.random() < 0.2 else b"verbosity 0\r\n",
        ])
        same(wires, sent, f"seed {SEED}, case {case}")
        told = [sorted(ask(wire, b"stats detail dump\r\n").splitlines()) for wire in wires]
        assert told[0] == told[1], f"seed {SEED}, case {case}: {short(sent)}"
    compared("operating", "stats detail", CASES)


def connections(wire):
    """Of `stats conns`: the names of each connection's lines, and its state if that is alike."""
    found = {}
    for name, value in wire.stat_lines(b"conns"):
        number, field = name.split(":")
        found.setdefault(number, []).append(value if field == "state" and value in ("conn_listening", "conn_watch") else field)
    return sorted(found.values())


def test_random_connections(wires, pair, compared):
    """One more or one less at a time; that one is gone the server notices some time later."""
    rng = random.Random(f"{SEED} conns")
    opened = ([], [])
    for case in range(CASES):
        if opened[0] and (rng.random() < 0.4 or 20 < len(opened[0])):
            at = rng.randrange(len(opened[0]))
            for side in opened:
                side.pop(at).close()
        else:
            for side, server in zip(opened, pair, strict=True):
                side.append(server.wire())
                side[-1].ask(b"")
        told = []
        for wire in wires:
            while len(shown := connections(wire)) != len(opened[0]) + 2:
                pass
            told.append(shown)
        assert told[0] == told[1], f"seed {SEED}, case {case}"
    for wire in opened[0] + opened[1]:
        wire.close()
    compared("operating", "stats conns", CASES)


def test_random_questions(wires, compared):
    """`stats` of nothing, or with wrong words. What is asked of `sizes` is a documented difference."""
    rng = random.Random(f"{SEED} questions")
    word = lambda: bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyzABC019_-.") for _ in range(rng.randrange(1, 12)))
    numbers = [b"0", b"1", b"63", b"64", b"99", b"x", b"-1", b"1x", b"1.5", b"2147483647", b"noreply"]
    kinds = [
        lambda: [word()], lambda: [word(), word()], lambda: [rng.choice([b"ITEMS", b"item", b"settings2", b"noreply", b"Reset"])],
        lambda: [b"cachedump", *(rng.choice(numbers) for _ in range(rng.choice([0, 1, 2, 3])))],
        lambda: [b"detail", *rng.choice([[], [word()], [b"ON"], [b"on", word()]])], lambda: [b"extstore", *rng.choice([[], [word()]])],
        lambda: [b"reset", *rng.choice([[], [word()]])],
        lambda: [rng.choice([b"reset\t", b"\treset", b"reset\r", b"settings\t", b"\t", b"\r", b"items\x0b"])],
    ]
    for case in range(CASES):
        same(wires, b" ".join([b"stats", *rng.choice(kinds)()]) + b"\r\n", f"seed {SEED}, case {case}")
    compared("operating", "stats of nothing", CASES)


LISTED = [b"a", b"b:c", b"%21", b"n" * 250, b"k\x01\x7f\x80\xff", b"d=e&f"]


def change(rng, wires):
    """Stores an item, deletes or reads one. A key that is stored over is as hot as before here only, so it goes first."""
    key = rng.choice(LISTED)
    value = rng.randbytes(rng.choice([0, 1, 50, 900]))
    stored = b"delete %b\r\nset %b %d 0 %d\r\n%b\r\n" % (key, key, rng.randrange(3), len(value), value)
    same(wires, rng.choice([stored, stored, b"delete %b\r\n" % key, b"get %b\r\n" % key, b"touch %b 0\r\n" % key]), "a change")


def metadump(wire, which):
    """The lines of a list, sorted, but for what is each server's own. What follows a list in one piece memcached does
    not answer until more comes."""
    while True:
        wire.send(b"lru_crawler metadump " + which + b"\r\n")
        lines = []
        while (line := wire.read_line()) != END and not line.startswith(b"BUSY"):
            match = LINE.fullmatch(line)
            assert match, line
            lines.append((match["key"], match["exp"], match["fetch"]))
        assert wire.ask(b"") == b""
        if line == END:
            return sorted(lines)


def test_random_metadumps(fresh, peer_fresh, compared):
    """memcached leaves out an item that its maintainer holds at that moment, so it has none here."""
    rng = random.Random(f"{SEED} metadump")
    quiet = ("-o", "no_lru_maintainer")
    with fresh(*quiet).wire() as mine, peer_fresh(*quiet).wire() as theirs:
        for case in range(CASES):
            change(rng, (mine, theirs))
            which = rng.choice([b"all", b"hash"])
            assert metadump(mine, which) == metadump(theirs, which), f"seed {SEED}, case {case}"
    compared("operating", "lru_crawler metadump", CASES)


def test_random_cachedumps(fresh, peer_fresh, compared):
    """All classes together: they are each server's own. memcached shows one of its queues, which is all of it here."""
    rng = random.Random(f"{SEED} cachedump")
    with fresh(*QUIET_BACKGROUND).wire() as mine, peer_fresh(*QUIET_BACKGROUND).wire() as theirs:
        for case in range(CASES):
            change(rng, (mine, theirs))
            asked = b"".join(b"stats cachedump %d %d\r\n" % (number, rng.choice([0, 100])) for number in range(1, 64))
            told = [sorted(ask(wire, asked).replace(END, b"").splitlines()) for wire in (mine, theirs)]
            assert told[0] == told[1], f"seed {SEED}, case {case}"
    compared("operating", "stats cachedump", CASES)
