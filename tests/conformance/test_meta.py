"""The meta commands: what is sent, and the exact bytes that come back.

Expected bytes are facts of memcached 1.6.45. Rows hold for Debian's 1.6.18 as well, but for those of NEWER, whose
flags came later. CAS numbers are replaced by `#1`, `#2`, … in the order in which they appear.
"""

import re

import pytest

from conformance.wire import BAD_CHUNK, BAD_FORMAT, NON_NUMERIC, TOO_LARGE

STORED = b"STORED\r\n"
BAD_TOKEN = b"CLIENT_ERROR bad token in command line format\r\n"
BAD_KEY = b"CLIENT_ERROR error decoding key\r\n"
OPAQUE = b"CLIENT_ERROR opaque token too long\r\n"
K250 = b"k" * 250


def lines(*parts):
    return b"".join(part + b"\r\n" for part in parts)


#: name -> (request lines, reply lines)
GET = {
    "miss": ([b"mg a"], [b"EN"]),
    "miss with what is copied": ([b"mg a k O77 v s t"], [b"EN ka O77"]),
    "quiet miss": ([b"mg a q v", b"mn"], [b"MN"]),
    "hit without value": ([b"ms a 2", b"hi", b"mg a"], [b"HD", b"HD"]),
    "hit with value": ([b"ms a 2", b"hi", b"mg a v"], [b"HD", b"VA 2", b"hi"]),
    "flags in the order asked": (
        [b"set a 5 0 2", b"hi", b"mg a s v t f k O1 q c"],
        [b"STORED", b"VA 2 s2 t-1 f5 ka O1 c#1", b"hi"],
    ),
    "hit before": ([b"set a 0 0 1", b"x", b"mg a h", b"mg a h"], [b"STORED", b"HD h0", b"HD h1"]),
    "no bump is no hit": ([b"set a 0 0 1", b"x", b"mg a u v", b"mg a h"], [b"STORED", b"VA 1", b"x", b"HD h0"]),
    "last access": ([b"set a 0 0 1", b"x", b"mg a l"], [b"STORED", b"HD l0"]),
    "touch shows what it found at its place": (
        [b"set a 0 0 1", b"x", b"mg a t T3000", b"mg a T0 t"], [b"STORED", b"HD t-1", b"HD t-1"]
    ),
    "touch into the past": ([b"set a 0 0 1", b"x", b"mg a T-1 v", b"mg a"], [b"STORED", b"VA 1", b"x", b"EN"]),
    "vivify": ([b"mg a N3000 v k", b"mg a N3000 v", b"get a"], [b"VA 0 ka W", b"", b"VA 0 Z", b"", b"VALUE a 0 0", b"", b"END"]),
    "vivify, then store": ([b"mg a N3000", b"ms a 1", b"x", b"mg a v"], [b"HD W", b"HD", b"VA 1", b"x"]),
    "vivify in silence": ([b"mg a N3000 q", b"mn"], [b"HD W", b"MN"]),
    "recache": (
        [b"ms a 1 T3000", b"x", b"mg a R1000", b"mg a R9000", b"mg a R9000", b"mg a", b"ms a 1", b"y", b"mg a R9000"],
        [b"HD", b"HD", b"HD W", b"HD Z", b"HD Z", b"HD", b"HD"],
    ),
    "recache of what never expires": ([b"ms a 1", b"x", b"mg a R9000"], [b"HD", b"HD"]),
    "recache behind a touch": ([b"ms a 1 T3000", b"x", b"mg a T9000 R5000", b"mg a R10000"], [b"HD", b"HD", b"HD W"]),
    "a classic get sees what meta stored": ([b"ms a 2 F7", b"hi", b"get a"], [b"HD", b"VALUE a 7 2", b"hi", b"END"]),
    "spaces": ([b"mg  a   k "], [b"EN ka"]),
    "hints to proxies are ignored": ([b"mg a Pfoo L12 k"], [b"EN ka"]),
    "unknown flag": ([b"mg a W"], [b"CLIENT_ERROR invalid flag"]),
    "flag twice": ([b"mg a v v"], [b"CLIENT_ERROR duplicate flag"]),
    "flag beyond ASCII": ([b"mg a \xe4"], [b"CLIENT_ERROR duplicate flag"]),
    "no number": ([b"mg a Tx", b"mg a Rx", b"mg a Nx", b"mg a Cx"], [BAD_TOKEN[:-2]] * 4),
    "opaque": ([b"mg a O" + b"1" * 31, b"mg a O" + b"1" * 32], [b"EN O" + b"1" * 31, OPAQUE[:-2]]),
    "key too long": ([b"mg " + K250, b"mg " + K250 + b"k"], [b"EN", BAD_FORMAT[:-2]]),
}

BASE64 = {
    "store and read": (
        [b"ms YQ== 2 b k", b"hi", b"mg YQ== b k v", b"mg a k v"],
        [b"HD kYQ== b", b"VA 2 kYQ== b", b"hi", b"VA 2 kYQ== b", b"hi"],
    ),
    "the item remembers how it was stored": (
        [b"set a 0 0 1", b"x", b"mg YQ== b k"], [b"STORED", b"HD ka"]
    ),
    "any bytes": ([b"ms AAr/IA== 1 b", b"x", b"mg AAr/IA== b k v"], [b"HD", b"VA 1 kAAr/IA== b", b"x"]),
    "delete": ([b"ms YQ== 1 b", b"x", b"md YQ== b k O9", b"md YQ== b k"], [b"HD", b"HD kYQ== b O9", b"NF kYQ== b"]),
    "arithmetic": ([b"ma AA== b N0 J7 k v"], [b"VA 1 kAA== b", b"7"]),
    "no base64": ([b"mg a b", b"mg YQ b", b"mg ==== b", b"ms a 1 b", b"x"], [BAD_KEY[:-2]] * 4),
    "other letters are skipped": ([b"mg YQ=*= b k"], [b"EN kYQ== b"]),
}

SET = {
    "modes": (
        [b"ms a 1 MR", b"1", b"ms a 1 ME", b"2", b"ms a 1 ME", b"3", b"ms a 1 MA", b"4", b"ms a 1 MP", b"5", b"mg a v",
         b"ms a 1 MR", b"6", b"ms a 1 MS", b"7", b"mg a v"],
        [b"NS", b"HD", b"NS", b"HD", b"HD", b"VA 3", b"524", b"HD", b"HD", b"VA 1", b"7"],
    ),
    "append and prepend to nothing": ([b"ms a 1 MA", b"x", b"ms a 1 MP", b"x"], [b"NS", b"NS"]),
    "wrong mode": ([b"ms a 1 MX", b"x"], [b"CLIENT_ERROR invalid mode for ms M token"]),
    "what is copied": ([b"ms a 1 k O5 c", b"x", b"mg a c"], [b"HD ka O5 c#1", b"HD c#1"]),
    "CAS": (
        [b"ms a 1 C1 c", b"x", b"ms a 1", b"x", b"ms a 1 C1 c k", b"y", b"ms a 1 MR C1", b"y", b"ms a 1 MA C1", b"y", b"mg a v"],
        [b"NF c0", b"HD", b"EX c0 ka", b"EX", b"EX", b"VA 1", b"x"],
    ),
    "CAS of 0": (
        [b"ms a 1 C0", b"x", b"ms a 1", b"x", b"ms a 1 C0", b"y", b"ms a 1 MA C0", b"y", b"mg a v"],
        [b"NF", b"HD", b"EX", b"HD", b"VA 2", b"xy"],
    ),
    "an older CAS stores as stale": (
        [b"ms a 1 T3000 F1", b"x", b"ms a 1 C1 I T9000 F2", b"y", b"mg a v f", b"mg a v", b"ms a 1", b"z", b"mg a v"],
        [b"HD", b"HD", b"VA 1 f2 X W", b"y", b"VA 1 Z X", b"y", b"HD", b"VA 1", b"z"],
    ),
    "a newer CAS does not": ([b"ms a 1", b"x", b"ms a 1 C18446744073709551615 I", b"y"], [b"HD", b"EX"]),
    "quiet": ([b"ms a 1 q", b"x", b"ms a 1 q C1", b"y", b"ms b 1 q MR", b"y", b"mn"], [b"EX", b"NS", b"MN"]),
    "expired at once": ([b"ms a 1 T-1", b"x", b"mg a"], [b"HD", b"EN"]),
    "empty": ([b"ms a 0", b"", b"mg a v"], [b"HD", b"VA 0", b""]),
    "without a length": ([b"ms a", b"ms a S1", b"ms a -1", b"ms a x"], [BAD_FORMAT[:-2]] * 4),
    "wrong flags take the block along": ([b"ms a 1 Fx", b"x", b"ms a 1 W", b"x", b"mn"], [BAD_FORMAT[:-2], b"CLIENT_ERROR invalid flag", b"MN"]),
    "long opaque": ([b"ms a 1 O" + b"1" * 32, b"x", b"mg a"], [OPAQUE[:-2], b"EN"]),
}

DELETE = {
    "hit and miss": ([b"ms a 1", b"x", b"md a", b"md a k O1"], [b"HD", b"HD", b"NF ka O1"]),
    "quiet": ([b"ms a 1", b"x", b"md a q C1", b"md a q", b"md a q", b"mn"], [b"HD", b"EX", b"NF", b"MN"]),
    "CAS": ([b"ms a 1", b"x", b"md a C1 k", b"mg a v"], [b"HD", b"EX ka", b"VA 1", b"x"]),
    "stale": (
        [b"ms a 1 F3", b"x", b"md a I", b"mg a v f", b"mg a v", b"mg a", b"md a I", b"mg a"],
        [b"HD", b"HD", b"VA 1 f3 X W", b"x", b"VA 1 Z X", b"x", b"HD Z X", b"HD", b"HD X W"],
    ),
    "stale has a new CAS": ([b"ms a 1 c", b"x", b"md a I", b"mg a c"], [b"HD c#1", b"HD", b"HD c#2 X W"]),
    "stale, then touched": ([b"ms a 1", b"x", b"md a I", b"touch a 0", b"mg a"], [b"HD", b"HD", b"TOUCHED", b"HD X W"]),
}

ARITHMETIC = {
    "miss": ([b"ma a", b"ma a q", b"ma a k O1"], [b"NF", b"NF", b"NF ka O1"]),
    "creates": ([b"ma a N0", b"ma b N0 J9 v", b"mg a v"], [b"HD", b"VA 1", b"9", b"VA 1", b"0"]),
    "up and down": (
        [b"set a 0 0 2", b"10", b"ma a", b"ma a v D5", b"ma a v MD", b"ma a v M- D100", b"ma a v M+ D3", b"ma a v MI"],
        [b"STORED", b"HD", b"VA 2", b"16", b"VA 2", b"15", b"VA 1", b"0", b"VA 1", b"3", b"VA 1", b"4"],
    ),
    "quiet": ([b"set a 0 0 1", b"1", b"ma a q v", b"mn"], [b"STORED", b"MN"]),
    "CAS": ([b"set a 0 0 1", b"1", b"ma a C1 k", b"ma a C0 c", b"mg a c"], [b"STORED", b"EX ka", b"HD c#1", b"HD c#1"]),
    "expiry at its place": ([b"set a 0 0 1", b"1", b"ma a t T0"], [b"STORED", b"HD t-1"]),
    "no number": ([b"set a 0 0 1", b"x", b"ma a q"], [b"STORED", NON_NUMERIC[:-2]]),
    "wrong flags": (
        [b"ma a W", b"ma a v v", b"ma a Dx", b"ma a Jx", b"ma a MX"],
        [b"CLIENT_ERROR invalid or duplicate flag"] * 4 + [b"CLIENT_ERROR invalid mode for ma M token"],
    ),
}

OTHER = {
    "no-op": ([b"mn", b"mn x"], [b"MN", b"MN"]),
    "debug miss": ([b"me a"], [b"EN"]),
}

NEWER = {
    "size of what is stored": ([b"ms a 3 s", b"abc", b"ms a 2 MA s", b"de", b"ms a 1 ME s", b"x"], [b"HD s3", b"HD s5", b"NS s1"]),
    "append that creates": (
        [b"ms a 1 MA N3000 T1", b"x", b"ms a 1 MP N3000 s", b"y", b"mg a v"], [b"HD", b"HD s2", b"VA 2", b"yx"]
    ),
    "told CAS": (
        [b"ms a 1 E77 c", b"x", b"mg a c", b"ms a 1 C77 E18446744073709551615 c", b"y", b"mg a c", b"mg b N0 E5 c"],
        [b"HD c77", b"HD c77", b"HD c18446744073709551615", b"HD c18446744073709551615", b"HD c5 W"],
    ),
    "told CAS of ma": ([b"ma a N0 E3 c", b"ma a E2 C3 c", b"mg a c"], [b"HD c3", b"HD c2", b"HD c2"]),
    "told CAS of md": ([b"ms a 1 E9", b"x", b"md a I E4 C9", b"mg a c"], [b"HD", b"HD", b"HD c4 X W"]),
    "the value goes": (
        [b"ms a 3 F7 T3000 E9", b"abc", b"md a x", b"mg a v f t c"], [b"HD", b"HD", b"VA 0 f0 t-1 c9", b""]
    ),
    "the value goes and the rest is stale": (
        [b"ms a 3", b"abc", b"md a x I T0 F5", b"mg a v f"], [b"HD", b"HD", b"VA 0 f5 X W", b""]
    ),
    "every flag is taken by every command": ([b"mg a x I C1 D1 J1 F1", b"md a v t R1 N1 s", b"me a v"], [b"EN", b"NF", b"EN"]),
}

TABLES = {"mg": GET, "b": BASE64, "ms": SET, "md": DELETE, "ma": ARITHMETIC, "other": OTHER, "newer": NEWER}
ROWS = [(f"{table}: {name}", *row) for table, rows in TABLES.items() for name, row in rows.items()]


def marked(reply):
    """CAS numbers of the server's choice, greater than any told ones here, as marks."""
    seen = {}
    mark = lambda m: b" c#%d" % seen.setdefault(m[1], len(seen) + 1)
    return re.sub(rb" c(?!0\b)(\d+)(?=[ \r])", mark, reply)


@pytest.mark.parametrize("name, request_, reply", ROWS, ids=[row[0] for row in ROWS])
def test_row(server, wire, name, request_, reply):
    if server.is_debian and name.startswith("newer"):
        pytest.skip("flags that 1.6.18 does not have")
    got = wire.ask(lines(*request_))
    assert (got if name.startswith("newer") else marked(got)) == lines(*reply)


def test_block_of_another_length(server, wire):
    """The second error is that of the line that remains; 1.6.18 has other words for it."""
    got = wire.ask(b"ms a 1\r\nxyz\r\n")
    assert got.startswith(BAD_CHUNK) and got.count(b"\n") == 2


def test_too_large_takes_the_older_item_along(server, wire):
    for key, flag in ((b"a", b""), (b"YQ==", b" b")):
        assert wire.ask(b"ms a 1\r\nx\r\n") == b"HD\r\n"
        size = 16 << 20
        got = wire.ask(b"ms %b %d%b MA\r\n" % (key, size, flag) + b"x" * size + b"\r\nmg a\r\n")
        assert got == TOO_LARGE + b"EN\r\n"


@pytest.mark.cotenant
def test_many_words(wire):
    flags = [b"c", b"f", b"h", b"k", b"l", b"q", b"s", b"t", b"u", b"v", b"x", b"C1", b"D1", b"E1", b"F1", b"I", b"J1", b"N1"]
    assert wire.ask(b"mg a " + b" ".join(flags) + b" R1\r\n") == b"CLIENT_ERROR options flags are too long\r\n"
    assert wire.ask(b"md a " + b" ".join(flags[:17]) + b" R1\r\n") == b"NF ka\r\n"


def test_debug(wire):
    got = wire.ask(b"set a 0 3000 3\r\nabc\r\nme a\r\nmg a\r\nme a\r\n")
    shown = re.findall(rb"ME a exp=-(\d+) la=(\d+) cas=\d+ fetch=(yes|no) cls=\d+ size=\d+\r\n", got)
    assert [fetch for _, _, fetch in shown] == [b"no", b"yes"]
    assert all(2900 < int(exp) <= 3000 and int(la) < 100 for exp, la, _ in shown)


def test_debug_looks_at_no_word_but_a_b_behind_the_key(wire):
    wire.ask(b"set a 0 0 1\r\nx\r\nset YQ== 0 0 1\r\nx\r\ndelete YQ==\r\n")
    for request_ in (b"me a z z", b"me a v b", b"me YQ== b z", b"me a" + b" x" * 30):
        assert wire.ask(request_ + b"\r\n").startswith(b"ME a "), request_
    assert wire.ask(b"me YQ== v b\r\nme a b\r\n") == b"EN\r\nCLIENT_ERROR bad command line format\r\n"


def test_ttl_is_counted_down(wire):
    got = wire.ask(b"ms a 1 T3000\r\nx\r\nmg a t\r\nma n t N5000\r\nma n t\r\n")
    first, created, later = map(int, re.findall(rb" t(-?\d+)\r", got))
    assert 2900 < first <= 3000 and created == -1 and 4900 < later <= 5000


@pytest.mark.cotenant
def test_meta_commands_are_counted(wire):
    before = wire.stats()
    wire.ask(b"ms a 1\r\nx\r\nme a\r\nmg a\r\nmg b\r\nmd a\r\nma a\r\nmg a T0\r\n")
    after = wire.stats()
    moved = {name: int(after[name]) - int(before[name]) for name in ("cmd_meta", "get_hits", "get_misses", "cmd_touch", "touch_misses", "cmd_set", "delete_hits", "incr_misses")}
    assert moved == {"cmd_meta": 1, "get_hits": 1, "get_misses": 1, "cmd_touch": 1, "touch_misses": 1, "cmd_set": 1, "delete_hits": 1, "incr_misses": 1}


def test_what_would_become_too_large_stays_as_it_was(fresh):
    server = fresh("-I", "1m")
    half = b"x" * 600_000
    with server.wire() as wire:
        assert wire.ask(b"ms a 600000\r\n%b\r\n" % half) == b"HD\r\n"
        for mode in b"A", b"P":
            assert wire.ask(b"ms a 600000 M%b\r\n%b\r\n" % (mode, half)) == b"NS\r\n"
        assert wire.ask(b"mg a s\r\n") == b"HD s600000\r\n"
