"""Lists of items, log lines, and commands that operate memcached's machinery."""

import re
import socket
import time

import pytest

from conformance import servers
from conformance.servers import START_S
from conformance.packets import NOT_FOUND, OK as BINARY_OK, BinaryWire, packet, store
from conformance.test_admin import ask
from conformance.test_auth import wire_auth
from conformance.wire import BAD_FORMAT, END, ERROR, Closed

OK = b"OK\r\n"
RATIO = b"ERROR hot and warm pcts must not exceed 80\r\n"
FACTOR = b"ERROR hot/warm age factors must be greater than 0\r\n"
SLEEP = b"CLIENT_ERROR sleep must be one second or less\r\n"
BAD_CLASS = b"BADCLASS invalid class id\r\n"

#: request -> reply; the same of 1.6.18 and 1.6.45
ANSWERS = {
    b"lru_crawler\r\nlru_crawler foo\r\nlru_crawler foo bar\r\n": ERROR * 3,
    b"lru_crawler sleep 10\r\nlru_crawler sleep 1000001\r\nlru_crawler sleep x\r\nlru_crawler sleep\r\n": OK + SLEEP + BAD_FORMAT + ERROR,
    b"lru_crawler tocrawl 5\r\nlru_crawler tocrawl x\r\n": OK + BAD_FORMAT,
    b"lru_crawler crawl x\r\nlru_crawler metadump x\r\nlru_crawler metadump 999\r\n": BAD_CLASS * 3,
    b"lru\r\nlru tune\r\nlru tune x\r\nlru mode x\r\nlru temp_ttl x\r\nlru foo x\r\n": ERROR * 6,
    b"lru tune 50 50 0.1 2.0\r\nlru tune 10 25 0 2\r\nlru tune 10 25 0.1 2.0\r\n": RATIO + FACTOR + OK,
    b"lru mode flat\r\nlru mode segmented\r\nlru temp_ttl 5\r\nlru temp_ttl -1\r\n": OK * 4,
    b"slabs\r\nslabs reassign 1\r\nslabs automove\r\nslabs automove 3\r\n": ERROR * 4,
    b"slabs reassign x 2\r\nslabs automove x\r\n": BAD_FORMAT * 2,
    b"slabs reassign 1 1\r\nslabs reassign -1 99\r\n": b"SAME src and dst class are identical\r\nBADCLASS invalid src or dst class id\r\n",
    b"slabs automove 0\r\nslabs automove ratio 0.8\r\nslabs automove ratio x\r\n": OK * 2 + ERROR,
    b"slabs reassign 0 5\r\n": b"NOSPARE source class has no spare pages\r\n",
    b"cache_memlimit 7\r\ncache_memlimit 0\r\n": b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n" * 2,
    b"cache_memlimit 1000000001\r\n": b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
    b"stats extstore\r\n": END,
    b"stats detail\r\nstats detail x\r\n": b"CLIENT_ERROR usage: stats detail on|off|dump\r\n" * 2,
    b"stats cachedump\r\nstats cachedump 1\r\n": b"CLIENT_ERROR bad command line\r\n" * 2,
    b"stats cachedump 99 0\r\n": b"CLIENT_ERROR Illegal slab id\r\n",
    b"watch x\r\nwatch fetchers x\r\n": ERROR * 2,
    b"shutdown\r\nshutdown foo\r\n": b"ERROR: shutdown not enabled\r\n" * 2,
}


@pytest.mark.parametrize("request_", ANSWERS, ids=[request.split(b"\r\n")[0].decode() for request in ANSWERS])
def test_answer(wire, request_):
    assert wire.ask(request_) == ANSWERS[request_]


def test_a_crawler_that_begins_disabled_is_shown_as_it_is(fresh):
    with fresh("-o", "no_lru_crawler").wire() as wire:
        assert wire.stats(b"settings")["lru_crawler"] == "no"
        assert wire.ask(b"lru_crawler metadump all\r\n") == b"CLIENT_ERROR lru crawler disabled\r\n"
        assert wire.ask(b"lru_crawler enable\r\n") == OK
        assert wire.stats(b"settings")["lru_crawler"] == "yes"
        assert wire.ask(b"lru_crawler metadump all\r\n") == END
        assert wire.ask(b"lru_crawler disable\r\n") == OK
        assert wire.stats(b"settings")["lru_crawler"] == "no"


@pytest.mark.cotenant
def test_the_crawler_is_turned_off_and_on(fresh):
    with fresh().wire() as wire:
        assert wire.ask(b"lru_crawler enable\r\n") == b"ERROR failed to start lru crawler thread\r\n"
        assert wire.ask(b"lru_crawler disable\r\nlru_crawler metadump all\r\n") == OK + b"CLIENT_ERROR lru crawler disabled\r\n"
        assert wire.stats(b"settings")["lru_crawler"] == "no"
        assert wire.ask(b"lru_crawler enable\r\nlru_crawler metadump all\r\n") == OK + END


LINE = re.compile(
    rb"key=(?P<key>\S+) exp=(?P<exp>-?\d+) la=(?P<la>\d+) cas=(?P<cas>\d+) fetch=(?P<fetch>yes|no) "
    rb"cls=(?P<cls>\d+) size=(?P<size>\d+)(?: flags=(?P<flags>\d+))?\n"
)


def dumped(reply):
    """The lines of a metadump by key."""
    assert reply.endswith(END)
    lines = reply[: -len(END)].splitlines(keepends=True)
    return {match["key"]: match for match in map(LINE.fullmatch, lines)}


def test_metadump(wire):
    wire.ask(b"set a 5 0 1\r\nx\r\nset b 0 3000 3\r\nxyz\r\nms Yg09 1 b\r\nx\r\nget b\r\n")
    now = int(wire.stats()["time"])
    items = dumped(wire.ask(b"lru_crawler metadump all\r\n"))
    assert set(items) == {b"a", b"b", b"b%0D%3D"}
    assert items[b"a"]["exp"] == b"-1" and abs(int(items[b"b"]["exp"]) - now - 3000) < 100
    assert items[b"a"]["fetch"] == b"no" and abs(int(items[b"a"]["la"]) - now) < 100
    assert set(dumped(wire.ask(b"lru_crawler metadump hash\r\n"))) == set(items)
    cls = items[b"b"]["cls"]
    assert b"b" in dumped(wire.ask(b"lru_crawler metadump " + cls + b"\r\n"))
    wire.ask(b"flush_all\r\n")


@pytest.mark.cotenant
def test_metadump_of_many_is_whole_and_requests_go_on_behind_it(fresh):
    server = fresh()
    with server.wire() as wire:
        count = 30_000
        for start in range(0, count, 1000):
            wire.send(b"".join(b"set key%d 0 0 1 noreply\r\nx\r\n" % i for i in range(start, start + 1000)))
        wire.ask(b"")
        wire.send(b"lru_crawler metadump all\r\nget key7\r\nlru_crawler mgdump all\r\n")
        reply = wire.read_until_suffix(b"EN\r\n")
        at = reply.index(END) + len(END)
        items = dumped(reply[:at])
        assert len(items) == count == reply[:at].count(b"key=") and items[b"key7"]["flags"] == b"0"
        value = b"VALUE key7 0 1\r\nx\r\n" + END
        assert reply[at:].startswith(value)
        requests = reply[at + len(value) : -len(b"EN\r\n")]
        assert sorted(requests.splitlines()) == sorted(b"mg key%d" % i for i in range(count))
        assert wire.ask(b"get key9\r\n") == b"VALUE key9 0 1\r\nx\r\n" + END


@pytest.mark.cotenant
def test_mgdump_fetches_any_key(wire):
    wire.ask(b"set a 0 0 1\r\nx\r\nms AAoN 1 b\r\ny\r\n")
    requests = wire.ask(b"lru_crawler mgdump all\r\n")
    assert sorted(requests[: -len(b"EN\r\n")].splitlines()) == [b"mg AAoN b", b"mg a"]
    assert wire.ask(b"mg AAoN b v\r\n") == b"VA 1\r\ny\r\n"
    wire.ask(b"flush_all\r\n")


def test_cachedump(wire):
    wire.ask(b"set a 0 0 1\r\nx\r\nset b 0 3000 3\r\nxyz\r\n")
    shown = []
    for cls in {name.split(":")[1] for name, _ in wire.stat_lines(b"items")}:
        shown += wire.ask(b"stats cachedump %b 0\r\n" % cls.encode())[: -len(END)].splitlines()
    assert any(line == b"ITEM a [1 b; 0 s]" for line in shown)
    assert any(re.fullmatch(rb"ITEM b \[3 b; \d{10} s\]", line) for line in shown)
    wire.ask(b"flush_all\r\n")


@pytest.mark.cotenant
def test_sizes_conns_and_ours(fresh):
    with fresh().wire() as wire:
        assert wire.ask(b"stats sizes\r\n") == END
        wire.ask(b"set a 0 0 1\r\nx\r\nset b 0 0 1000\r\n" + b"x" * 1000 + b"\r\n")
        sizes = [(int(size), int(count)) for size, count in wire.stat_lines(b"sizes")]
        assert sum(count for _, count in sizes) == 2 and sizes == sorted(sizes) and 1000 < sizes[-1][0]
        conns = wire.stats(b"conns")
        host, port = wire.sock.getsockname()
        mine = next(name.split(":")[0] for name, value in conns.items() if value == f"tcp:{host}:{port}")
        names = [name.split(":")[1] for name in conns if name.startswith(mine + ":")]
        assert names == ["addr", "listen_addr", "state", "secs_since_last_cmd"]
        listening = [name.split(":")[0] for name, value in conns.items() if value == "conn_listening"]
        _, port = wire.sock.getpeername()
        assert [int(conns[number + ":addr"].rsplit(":", 1)[1]) for number in listening] == [port]
        tiers, controller = wire.stats(b"tiers"), wire.stats(b"controller")
        assert tiers["dram:items"] == "2" and 1000 < int(tiers["dram:used_bytes"]) < int(tiers["dram:capacity_bytes"])
        assert controller["policy"] and int(controller["held_bytes"]) == int(tiers["dram:used_bytes"])


@pytest.mark.cotenant
def test_detail_counts_prefixes(fresh):
    with fresh("-D", ":").wire() as wire:
        wire.ask(b"set p:a 0 0 1\r\nx\r\n")
        wire.ask(b"get p:a p:b\r\ndelete p:a\r\nget q:a\r\nset plain 0 0 1\r\nx\r\n")
        assert wire.ask(b"stats detail on\r\nstats detail dump\r\n") == OK + b"PREFIX p get 2 hit 1 set 1 del 1\r\n" + END


EVENT = re.compile(rb"ts=\d+\.\d+ gid=\d+ type=(?P<what>\w+) (?P<rest>.*)\n")


def events(wire, until):
    """(type, rest) of the lines up to one that holds `until`."""
    got = []
    while True:
        match = EVENT.fullmatch(line := wire.read_line())
        assert match, line
        got.append((match["what"].decode(), match["rest"].decode()))
        if until in match["rest"]:
            return got


@pytest.mark.cotenant
def test_a_reset_takes_prefixes_and_lines_along(fresh):
    with fresh("-D", ":").wire() as wire, fresh("-D", ":").wire() as other:
        for each in (wire, other):
            each.ask(b"set a:1 0 0 1\r\nx\r\nset b:1 0 0 1\r\nx\r\nget a:1\r\n")
        assert wire.ask(b"stats reset\r\nget b:1\r\nstats detail dump\r\n").endswith(b"PREFIX b get 1 hit 1 set 0 del 0\r\nEND\r\n")
        assert b"PREFIX a " not in wire.ask(b"stats detail dump\r\n")
        assert b"PREFIX a " in other.ask(b"stats detail dump\r\n")
    server = fresh()
    with server.wire() as watcher, server.wire() as wire:
        watcher.send(b"watch fetchers\r\n")
        assert watcher.read_line() == OK
        wire.ask(b"get a b\r\n")
        names = ("log_worker_written", "log_watcher_sent")
        assert [wire.stats()[name] for name in names] == ["2", "2"]
        wire.ask(b"stats reset\r\nget a\r\n")
        assert [wire.stats()[name] for name in names] == ["1", "1"]


@pytest.mark.cotenant
def test_figures_go_on_after_a_reset_though_a_connection_has_left(fresh, tmp_path):
    """What a connection was counted for goes with it to another tenant; what the others do is counted on from there."""
    users = tmp_path / "users"
    users.write_text("ann:one\nbob:two\n", encoding="ascii")
    server = fresh("-S", "-Y", str(users))
    with BinaryWire(server.address) as goes, server.wire() as ann:
        assert wire_auth(goes, b"ann", b"one").status == BINARY_OK
        goes.one(store("set", b"k", b"x" * 100_000))
        ann.send(b"set a 0 0 7\r\nann one\r\n")
        assert ann.read_exact(8) == b"STORED\r\n"
        assert 100_000 < int(ann.stats()["bytes_read"])
        ann.ask(b"stats reset\r\n")
        assert wire_auth(goes, b"bob", b"two").status == BINARY_OK
        # What comes behind it is answered once it is bob's.
        goes.one(store("set", b"k", b"x"))
        before = int(ann.stats()["bytes_read"])
        for _ in range(2):
            ann.ask(b"set j 0 0 1000\r\n%b\r\n" % (b"x" * 1000))
        assert 2000 < int(ann.stats()["bytes_read"]) - before < 10_000


@pytest.mark.cotenant
def test_a_reset_leaves_nothing_to_who_gets_the_id(fresh):
    server = fresh("-D", ":", "--max-tenants", "2")
    with server.wire() as wire:
        wire.ask(b"set a:1 0 0 1\r\nx\r\n" * 500)
        wire.ask(b"stats reset\r\n")
        assert ask(server, "DELETE", "/tenants/a")[0] in (200, 204)
        deadline = time.monotonic() + START_S
        while "z" not in [tenant["name"] for tenant in ask(server, "GET", "/tenants")[1]["tenants"]]:
            assert time.monotonic() < deadline, "the id is not free again"
            wire.ask(b"set z:1 0 0 1\r\nx\r\n")
        wire.ask(b"set z:1 0 0 1\r\nx\r\n")
        assert re.search(rb"PREFIX z get 0 hit 0 set [1-9]", wire.ask(b"stats detail dump\r\n"))


@pytest.mark.cotenant
def test_watch(fresh):
    server = fresh()
    with server.wire() as watcher, server.wire() as wire:
        wire.ask(b"")
        watcher.send(b"watch fetchers mutations deletions connevents\r\n")
        assert watcher.read_line() == OK
        wire.ask(b"get a%20\r\nset k:1 0 100 3\r\nabc\r\nadd k:1 0 0 1\r\nx\r\nmg k:1 v\r\nms m 1 C1\r\nx\r\ndelete k:1\r\ndelete k:1\r\n")
        with server.wire() as other:
            other.ask(b"get last\r\n")
        got = [(what, re.sub(r"(cfd|rport|clsid)=\d+", r"\1=#", rest)) for what, rest in events(watcher, b"key=last")]
        assert got == [
            ("item_get", "key=a%2520 status=not_found clsid=# cfd=# size=0"),
            ("item_store", "key=k%3A1 status=stored cmd=set ttl=100 clsid=# cfd=# size=3"),
            ("item_store", "key=k%3A1 status=not_stored cmd=add ttl=0 clsid=# cfd=# size=1"),
            ("item_get", "key=k%3A1 status=found clsid=# cfd=# size=3"),
            ("item_store", "key=m status=not_found cmd=cas ttl=0 clsid=# cfd=# size=1"),
            ("deleted", "key=k%3A1 cmd=delete cfd=#"),
            ("conn_new", "rip=127.0.0.1 rport=# transport=tcp cfd=#"),
            ("item_get", "key=last status=not_found clsid=# cfd=# size=0"),
        ]
        assert events(watcher, b"reason=normal")[-1][0] == "conn_close"
        assert wire.stats()["log_watchers"] == "1"


def reset(wire):
    wire.ask(b"get a\r\n")
    wire.reset()


ENDINGS = {
    "normal": [lambda wire: wire.close(), lambda wire: wire.send(b"quit\r\n"), lambda wire: wire.send(b"\x80\x07" + bytes(22)),
               lambda wire: wire.sock.shutdown(socket.SHUT_WR)],
    "error": [reset, lambda wire: wire.send(b"x" * 20_000), lambda wire: wire.send(b"GET / HTTP/1.1\r\n"),
              lambda wire: wire.send(b"\x80\x0a" + bytes(22) + b"\x81" + bytes(23))],
    "idle_timeout": [lambda wire: None],
    "shutdown": [lambda wire: wire.send(b"shutdown\r\n")],
}


@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_a_close_has_its_reason(fresh, engine):
    """As memcached has it, which runs this, too."""
    own = [] if servers.PEER_ONLY else ["--io-engine", engine]
    server = fresh("-A", "-o", "idle_timeout=3", *own)
    with server.wire() as watcher:
        watcher.send(b"watch connevents\r\n")
        assert watcher.read_line() == OK
        for reason, ways in ENDINGS.items():
            for at, end in enumerate(ways):
                with server.wire() as wire:
                    client = f"rport={wire.sock.getsockname()[1]} transport=tcp"
                    end(wire)
                    try:
                        all_told = events(watcher, f"{client} reason=".encode())
                    except Closed:
                        # A server that ends may end before it has said so.
                        assert reason == "shutdown"
                        continue
                    told = [(what, rest) for what, rest in all_told if client in rest]
                    assert [what for what, _ in told] == ["conn_new", "conn_close"]
                    assert f" reason={reason} " in told[1][1], f"{reason} {at}: {told[1]}"


@pytest.mark.cotenant
def test_watchers_see_pairs_of_connections_that_log_in(fresh, tmp_path):
    """Who logs in goes for those who saw it come, and comes for those who watch its tenant."""
    users = tmp_path / "users"
    users.write_text("root:zero\nann:one\n", encoding="ascii")
    server = fresh("-Y", str(users), "--shared-users", "root")
    log_in = {user: b"set a 0 0 %d\r\n%b\r\n" % (len(user), user) for user in (b"root zero", b"ann one")}
    with server.wire() as root, server.wire() as ann:
        for watcher, user in ((root, b"root zero"), (ann, b"ann one")):
            watcher.send(log_in[user] + b"watch connevents\r\n")
            assert watcher.read_exact(12) == b"STORED\r\n" + OK
        told, seen, closed = [], [], b"rport=%d transport=tcp reason="
        for user in (b"ann one", None, b"root zero", b"ann one"):
            with server.wire() as wire:
                if user:
                    wire.send(log_in[user])
                    assert wire.read_exact(8) == b"STORED\r\n"
                told.append(wire.sock.getsockname()[1])
            seen += events(root, closed % told[-1])
        kinds = lambda watcher, port: [what for what, rest in watcher if f"rport={port} " in rest]
        pair = ["conn_new", "conn_close"]
        assert [kinds(seen, port) for port in told] == [pair] * 4
        seen = events(ann, closed % told[-1])
        assert [kinds(seen, port) for port in told] == [pair, [], [], pair]


@pytest.mark.cotenant
def test_watch_tells_how_an_item_has_died(fresh):
    """memcached's words, which it says of what its background threads have not removed yet."""
    server = fresh("-t", "1")
    with server.wire() as watcher, server.wire() as wire, BinaryWire(server.address) as binary:
        watcher.send(b"watch fetchers\r\n")
        assert watcher.read_line() == OK
        expired = b"set %b 0 -1 1\r\nx\r\n"
        wire.ask(expired % b"e" + b"get e\r\ngat 10 e\r\nmg e v\r\nmg e v N30\r\nmg e v\r\n")
        wire.ask(b"set f 0 0 1\r\nx\r\nset g 0 0 1\r\nx\r\nflush_all\r\nget f g\r\nset g 0 0 1\r\nx\r\nget g\r\n" + expired % b"b")
        assert binary.one(packet("get", b"b")).status == NOT_FOUND
        wire.ask(b"get last\r\n")
        got = [re.match(r"key=(\w+) status=(\w+) ", rest).groups() for _, rest in events(watcher, b"key=last")]
    assert got == [("e", "expired")] * 4 + [("e", "found"), ("f", "flushed"), ("g", "flushed"), ("g", "found"), ("b", "expired"), ("last", "not_found")]


@pytest.mark.cotenant
def test_watch_tells_of_what_is_refused_and_made(fresh):
    server = fresh("-I", "1m")
    big = b" 1048576\r\n" + b"x" * 1048576 + b"\r\n"
    with server.wire() as watcher, server.wire() as wire:
        watcher.send(b"watch fetchers mutations\r\n")
        assert watcher.read_line() == OK
        for start in (b"set big 0 100", b"add big 0 0", b"ms big", b"ms YWJj"):
            wire.ask(start + (big.replace(b"\r\n", b" ME b\r\n", 1) if start.endswith(b"YWJj") else big))
        wire.ask(b"ma n N60 J12\r\nma n N60 q\r\nmg v N30 v\r\nget last\r\n")
        got = [(what, re.sub(r"(cfd|clsid)=\d+", r"\1=#", rest)) for what, rest in events(watcher, b"key=last")]
    refused = "status=too_large cmd={} ttl=0 clsid=# cfd=# size=0"
    assert got == [
        ("item_store", "key=big " + refused.format("set")),
        ("item_store", "key=big " + refused.format("add")),
        ("item_store", "key=big " + refused.format("set")),
        ("item_store", "key=abc " + refused.format("add")),
        ("item_store", "key=n status=stored cmd=add ttl=60 clsid=# cfd=# size=2"),
        ("item_get", "key=v status=not_found clsid=# cfd=# size=0"),
        ("item_get", "key=last status=not_found clsid=# cfd=# size=0"),
    ]


@pytest.mark.cotenant
def test_evictions_are_watched(fresh):
    server = fresh(memory="8")
    with server.wire() as watcher, server.wire() as wire:
        watcher.send(b"watch evictions\r\n")
        assert watcher.read_line() == OK
        value = b"x" * 10_000
        for start in range(0, 3000, 100):
            wire.send(b"".join(b"set k%d 0 0 10000 noreply\r\n%b\r\n" % (i, value) for i in range(start, start + 100)))
        wire.ask(b"")
        what, rest = events(watcher, b"key=")[0]
        assert what == "eviction"
        assert re.fullmatch(r"key=k\d+ fetch=no ttl=-1 la=\d+ clsid=\d+ size=10000", rest)


@pytest.mark.cotenant
def test_a_watcher_who_does_not_read_holds_nobody_up(fresh):
    server = fresh()
    with server.wire(receive_buffer=4096) as watcher, server.wire() as wire:
        watcher.send(b"watch fetchers\r\n")
        assert watcher.read_line() == OK
        for _ in range(100):
            wire.ask(b"get " + b" ".join(b"key%d" % i for i in range(1000)) + b"\r\n")
        stats = wire.stats()
        assert 0 < int(stats["log_watcher_skipped"])
        assert int(stats["log_watcher_skipped"]) + int(stats["log_watcher_sent"]) == 100_000
        server.check_alive()


@pytest.mark.cotenant
def test_a_tenant_sees_its_own_only(fresh):
    server = fresh("--tenant", "name=own,listen=127.0.0.1:0")
    with server.wire() as wire, server.tenant_wire("own") as own, server.tenant_wire("own") as watcher:
        watcher.send(b"watch fetchers mutations\r\n")
        assert watcher.read_line() == OK
        wire.ask(b"set common 0 0 1\r\nx\r\nget common\r\n")
        own.ask(b"set mine 0 0 1\r\nx\r\nget mine nothing\r\n")
        keys = [(what, rest.split()[0]) for what, rest in events(watcher, b"key=nothing")]
        assert keys == [("item_store", "key=mine"), ("item_get", "key=mine"), ("item_get", "key=nothing")]
        assert set(dumped(own.ask(b"lru_crawler metadump all\r\n"))) == {b"mine"}
        assert set(dumped(wire.ask(b"lru_crawler metadump all\r\n"))) == {b"common"}
        assert own.ask(b"lru_crawler disable\r\n").startswith(b"CLIENT_ERROR ")
        shown = own.stats(b"conns").values()
        host, port = wire.sock.getsockname()
        assert "conn_watch" in shown and f"tcp:{host}:{port}" not in shown and "conn_listening" not in shown
        _, port = own.sock.getpeername()
        assert "conn_listening" in (all_of_them := wire.stats(b"conns").values())
        assert not any(address.endswith(f":{port}") for address in all_of_them)
        assert own.ask(b"cache_memlimit 32\r\n").startswith(b"CLIENT_ERROR not on a tenant's own listener")


@pytest.mark.cotenant
def test_a_tenant_that_watches_takes_no_place_of_others(fresh):
    server = fresh("--tenant", "name=loud,listen=127.0.0.1:0", "--tenant", "name=calm,listen=127.0.0.1:0")
    watchers = [server.tenant_wire("loud") for _ in range(5)]
    for watcher in watchers[:4]:
        watcher.send(b"watch fetchers\r\n")
        assert watcher.read_line() == OK
    assert watchers[4].ask(b"watch fetchers\r\n").startswith(b"WATCHER_TOO_MANY ")
    with server.tenant_wire("calm") as calm, server.wire() as wire, server.tenant_wire("loud") as loud:
        for name, other in (("calm", calm), ("the default listener", wire)):
            other.ask(b"get a b c\r\n")
            assert other.stats()["log_watchers"] == "0", name
            assert other.stats()["log_worker_written"] == "0", f"lines of {name} that nobody may see"
        loud.ask(b"get a b c\r\n")
        stats = loud.stats()
        assert (stats["log_worker_written"], stats["log_watcher_sent"], stats["log_watchers"]) == ("3", "12", "4")
        for wire_ in (calm, wire):
            wire_.send(b"watch fetchers\r\n")
            assert wire_.read_line() == OK


@pytest.mark.cotenant
def test_dumps_and_watching_can_be_refused(fresh):
    with fresh("-X", "-W").wire() as wire:
        assert wire.ask(b"lru_crawler metadump all\r\nlru_crawler mgdump all\r\n") == b"ERROR metadump not allowed\r\n" * 2
        assert wire.ask(b"stats cachedump 1 0\r\n") == b"CLIENT_ERROR stats cachedump not allowed\r\n"
        for what in (b"on", b"off", b"dump"):
            assert wire.ask(b"stats detail " + what + b"\r\n") == b"CLIENT_ERROR stats detail not allowed\r\n"
        assert wire.ask(b"watch\r\n") == b"CLIENT_ERROR watch commands not allowed\r\n"


@pytest.mark.cotenant
@pytest.mark.parametrize("how", [b"shutdown\r\n", b"shutdown graceful\r\n"])
def test_shutdown(fresh, how):
    server = fresh("-A")
    with server.wire() as wire:
        assert wire.ask(b"shutdown now\r\n") == b"CLIENT_ERROR invalid shutdown mode\r\n"
        wire.send(how)
        assert wire.read_to_close() == b""
    assert server.process.wait(timeout=START_S) == 0


@pytest.mark.cotenant
def test_who_ends_its_sending_gets_the_whole_list(fresh):
    server = fresh()
    with server.wire() as wire:
        wire.send(b"".join(b"set key%d 0 0 1 noreply\r\nx\r\n" % i for i in range(20_000)))
        wire.ask(b"")
        wire.send(b"lru_crawler metadump all\r\n")
        wire.sock.shutdown(socket.SHUT_WR)
        assert len(dumped(wire.read_to_close())) == 20_000
