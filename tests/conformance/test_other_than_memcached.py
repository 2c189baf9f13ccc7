"""What the page of differences says of memory, items and commands, and no other file shows."""

import re
import time

import pytest

from conformance.packets import NO_MEMORY, TOO_LARGE, BinaryWire, count, packet, read, store
from conformance.packets import OK as OK_STATUS
from conformance.test_admin import wait_until
from conformance.test_operate import OK, dumped, events
from conformance.test_stats import by_class
from conformance.wire import DEADLINE_S, END, ERROR, NON_NUMERIC, Closed, set_request

pytestmark = pytest.mark.cotenant

STORED = b"STORED\r\n"
NO_ROOM = b"SERVER_ERROR out of memory storing object\r\n"


def fill(wire, name, length, bytes_in_all):
    """Values of one length without replies."""
    count = bytes_in_all // length
    for start in range(0, count, 500):
        keys = range(start, min(start + 500, count))
        wire.send(b"".join(set_request(b"%b%d" % (name, i), b"x" * length, noreply=True) for i in keys))
    assert wire.ask(b"") == b""
    return count


def test_memory_that_small_values_had_serves_large_ones(fresh):
    """There is no calcification: of what comes last most is there, whatever the sizes before."""
    with fresh("--rank", "lru", memory="16").wire() as wire:
        fill(wire, b"small", 100, 40 << 20)
        count = fill(wire, b"large", 50_000, 8 << 20)
        assert 0.5 * count < sum(wire.value(b"large%d" % i) is not None for i in range(count))


def test_classes_are_four_per_octave(fresh):
    with fresh().wire() as wire:
        wire.ask(b"".join(set_request(b"k%d" % i, b"x" * (i * i)) for i in range(150)))
        sizes = [int(value) for name, value in wire.stat_lines(b"slabs") if name.endswith("chunk_size")]
        for start in (128, 256, 512, 1024, 2048):
            assert [size for size in sizes if start <= size < 2 * start] == [start + start // 4 * i for i in range(4)]


#: Counters of machinery that is not here.
NOTHING = """
slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items
slab_reassign_busy_deletes slab_reassign_busy_nomem slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts
lru_maintainer_juggles crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm
moves_within_lru lru_bumps_dropped evicted_active
""".split()
NOTHING_OF_A_CLASS = """
number_hot number_warm age_hot age_warm tailrepairs evicted_active crawler_reclaimed crawler_items_checked lrutail_reflocked
moves_to_cold moves_to_warm moves_within_lru hits_to_hot hits_to_warm hits_to_temp
""".split()


def test_what_has_no_counterpart_counts_nothing(fresh):
    with fresh(memory="8").wire() as wire:
        fill(wire, b"k", 1000, 30 << 20)
        stats = wire.stats()
        assert 0 < int(stats["evictions"]) and {stats[name] for name in NOTHING} == {"0"}
        classes, _ = by_class(wire.stat_lines(b"items"), r"items:(\d+):(\w+)")
        for fields in classes.values():
            assert {fields[name] for name in NOTHING_OF_A_CLASS} == {"0"} and fields["number_cold"] == fields["number"]


@pytest.mark.parametrize("flags, most", [([], 32), (["--memory-max", "48MiB"], 48)])
def test_the_memory_limit_goes_no_further_than_said_at_the_start(fresh, flags, most):
    with fresh(*flags, memory="32").wire() as wire:
        assert wire.stats()["limit_maxbytes"] == str(32 << 20)
        beyond = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
        assert wire.ask(b"cache_memlimit %d\r\ncache_memlimit 1000000000\r\n" % (most + 1)) == beyond * 2
        assert wire.ask(b"cache_memlimit %d\r\n" % most) == OK and wire.stats()["limit_maxbytes"] == str(most << 20)
        assert wire.ask(b"cache_memlimit 8\r\n") == OK and wire.stats()["limit_maxbytes"] == str(8 << 20)
        assert wire.ask(b"cache_memlimit 32\r\n") == OK and wire.stats()["limit_maxbytes"] == str(32 << 20)


def test_what_has_expired_does_not_count(fresh):
    with fresh().wire() as wire:
        wire.ask(set_request(b"stays", b"x") + set_request(b"goes", b"x" * 1000, 0, 1))
        until = time.monotonic() + DEADLINE_S
        while (stats := wire.stats())["curr_items"] != "1" or 1000 < int(stats["bytes"]):
            assert time.monotonic() < until, stats
            time.sleep(0.05)


def test_cachedump_looks_at_a_part_of_the_index(fresh):
    with fresh().wire() as wire:
        total = fill(wire, b"k", 20, 20 * 200_000)
        shown = sum(wire.ask(b"stats cachedump %d 0\r\n" % number).count(b"ITEM ") for number in range(1, 64))
        assert 0 < shown <= 8192 * 8 < total


def test_words_of_operating_commands(fresh):
    """In memcached 1.6.18 the first two are silent, the third begins nothing, and the last has a factor of one."""
    with fresh().wire() as wire:
        for request, answer in [
            (b"slabs automove 1 noreply", b"OK"), (b"lru mode flat noreply", b"OK"),
            (b"lru_crawler crawl ,", b"BADCLASS invalid class id"), (b"lru tune 10 25 0x1 2", b"ERROR"),
        ]:
            assert wire.ask(request + b"\r\n") == answer + b"\r\n", request


def test_what_tunes_memcacheds_machinery_changes_nothing(fresh):
    with fresh().wire() as wire:
        before = wire.stat_lines(b"settings")
        tuned = [b"lru tune 10 25 0.1 1.5", b"lru mode flat", b"lru temp_ttl 5", b"lru_crawler sleep 7", b"lru_crawler tocrawl 5",
                 b"lru_crawler crawl all", b"slabs automove 2", b"slabs automove ratio 0.5", b"verbosity 2"]
        assert wire.ask(b"".join(line + b"\r\n" for line in tuned)) == OK * len(tuned)
        assert wire.stat_lines(b"settings") == before


def test_what_comes_behind_other_requests(server):
    """A list is served, and a watch begins, where memcached says that it cannot pipeline."""
    with server.wire() as wire:
        answer = wire.ask(set_request(b"behind", b"v") + b"lru_crawler metadump all\r\n")
        assert answer.startswith(b"STORED\r\n") and b"key=behind " in answer and answer.endswith(b"END\r\n")
        wire.send(b"mn\r\nwatch deletions\r\n")
        assert wire.read_line() + wire.read_line() == b"MN\r\nOK\r\n"


def test_what_watchers_are_not_told(server):
    """Of look-ups inside of writes; and of an appended item nothing but what the request has."""
    with server.wire() as wire, server.wire() as watcher:
        watcher.send(b"watch fetchers mutations\r\n")
        assert watcher.read_line() == OK
        wire.ask(b"set told 0 50 3\r\nabc\r\nappend told 0 0 1\r\nd\r\ntouch told 60\r\nincr none 1\r\nget told\r\n")
        lines = watcher.read_until(b"item_get").decode().splitlines()
    stores = [line for line in lines if "type=item_store" in line]
    assert "cmd=append" in stores[1] and "ttl=0" in stores[1] and "size=1" in stores[1], lines
    assert len(stores) == 2 and "item_get" in lines[-1], lines


def test_metadump_in_the_order_of_the_index(fresh):
    """What an item is charged is what all of them take together, and its class is one of `stats items`."""
    with fresh().wire() as wire:
        wire.ask(b"".join(set_request(b"k%d" % i, b"x" * i) for i in range(500)))
        lists = [wire.ask(b"lru_crawler metadump " + which + b"\r\n") for which in (b"all", b"hash")]
        assert lists[0] == lists[1] and lists[0].count(b"key=") == 500
        items = dumped(lists[0])
        assert sum(int(item["size"]) for item in items.values()) == int(wire.stats()["bytes"])
        classes, _ = by_class(wire.stat_lines(b"items"), r"items:(\d+):(\w+)")
        numbers = [int(item["cls"]) for item in items.values()]
        assert {number: str(numbers.count(number)) for number in numbers} == {n: f["number"] for n, f in classes.items()}


def test_where_nothing_is_dead_what_writes_anew_is_out_of_memory(fresh):
    """A counter is told with one text by the binary protocol, whether it was there or is made."""
    server, digits = fresh("-M", memory="8"), b"1" * 19
    with server.wire() as wire:
        wire.ask(set_request(b"n", digits))
        for length in (10_000, 100, 1):
            answer, i = b"", 0
            while NO_ROOM not in answer:
                answer, i = wire.ask(set_request(b"%d-%d" % (length, i), b"x" * length)), i + 1
        for sent in (b"touch n 100\r\n", b"incr n 1\r\n", b"decr n 1\r\n"):
            assert wire.ask(sent).startswith(b"SERVER_ERROR out of memory"), sent
        assert wire.value(b"n") == digits
    with BinaryWire(server.address) as wire:
        told = [wire.one(count("increment", key, 1, int(digits), 0)) for key in (b"n", b"new")]
        assert {one.status for one in told} == {NO_MEMORY} and told[0].value == told[1].value, told


def test_other_words_behind_a_deleted_key(wire):
    usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
    wire.ask(set_request(b"a", b"x"))
    assert wire.ask(b"delete a 1\r\ndelete a x y\r\ndelete a 0 1\r\nget a\r\n") == usage * 3 + b"VALUE a 0 1\r\nx\r\n" + END


def test_a_shorter_number_keeps_its_length_while_it_is_sent(wire):
    request = b"set n 0 0 3\r\n100\r\nget n\r\ndecr n 1\r\nget n\r\nget n\r\n"
    assert wire.ask(request) == STORED + b"VALUE n 0 3\r\n100\r\nEND\r\n99\r\n" + b"VALUE n 0 3\r\n99 \r\nEND\r\n" * 2


def test_a_number_is_read_from_the_value_alone(wire):
    wire.ask(set_request(b"digits", b"12345678901234567890") * 10)
    assert wire.ask(b"set a 0 0 1\r\n \r\nincr a 1\r\nset a 0 0 3\r\n   \r\ndecr a 1\r\n") == (STORED + NON_NUMERIC) * 2
    for number in (1 << 63, (1 << 63) + 1, (1 << 64) - 2):
        assert wire.ask(b"set n 0 0 %d\r\n%d\r\nincr n 1\r\n" % (len(str(number)), number)) == STORED + b"%d\r\n" % (number + 1)


def test_a_get_of_a_mebibyte(wire):
    """And no longer."""
    keys = (b"k" * 249 + b" ") * 4190
    assert 1_040_000 < len(keys) < (1 << 20)
    assert wire.ask(b"get " + keys + b"\r\n") == END
    wire.send(b"get " + keys * 2)
    with pytest.raises(Closed):
        wire.read_exact(1)


def test_cas_may_not_be_turned_off(fresh):
    server = fresh("-C")
    with server.wire() as wire:
        wire.ask(set_request(b"a", b"x"))
        assert 0 < wire.cas_of(b"a") and wire.stats(b"settings")["cas_enabled"] == "yes"
    wait_until(lambda: any("-C" in line for line in server.log))


def test_sizes_are_counted_always(server):
    """Who asks for more or less of it hears so, and an end."""
    with server.wire() as wire, BinaryWire(server.address) as binary:
        wire.ask(set_request(b"a", b"x"))
        before = wire.stat_lines(b"sizes")
        assert before
        for word, told in ((b"enable", b"enabled"), (b"disable", b"disabled")):
            assert wire.ask(b"stats sizes_%b\r\n" % word) == b"STAT sizes_status %b\r\n" % told + END
            row, end = binary.ask(packet("stat", b"sizes_" + word))
            assert (row.key, row.value, end.key, end.value) == (b"sizes_status", told, b"", b"")
        assert wire.stat_lines(b"sizes") == before


def test_packets_ask_for_what_lines_ask_for(server):
    with BinaryWire(server.address) as wire:
        for what, shown in ((b"conns", b"state"), (b"tenants", b"default"), (b"cleaner", b""), (b"latency", b"")):
            rows = wire.ask(packet("stat", what))
            assert {row.status for row in rows} == {OK_STATUS} and any(shown in row.key for row in rows), what


def test_numbers_of_connections_are_no_descriptors(fresh):
    """They are not used again."""
    server = fresh()
    with server.wire() as wire:
        seen = set()
        for _ in range(20):
            with server.wire() as other:
                other.ask(b"")
                _, port = other.sock.getsockname()
                conns = wire.stats(b"conns")
                mine = next(name.split(":")[0] for name, value in conns.items() if value.endswith(f"127.0.0.1:{port}"))
            assert mine not in seen
            seen.add(mine)
        wire.send(b"watch connevents\r\n")
        assert wire.read_line() == OK
        with server.wire() as other:
            other.ask(b"")
            _, port = other.sock.getsockname()
            what, rest = events(wire, b"rport=%d " % port)[-1]
        assert what == "conn_new" and int(re.search(r"cfd=(\d+)", rest)[1]) > max(map(int, seen)), rest


def test_a_reset_leaves_what_is_not_memcacheds(fresh):
    server = fresh()
    with server.wire() as wire:
        wire.ask(set_request(b"a", b"x") + b"get a\r\nget b\r\nstats reset\r\n")
        assert wire.stats()["cmd_set"] == "0"
        assert wire.stats(b"tenants")["default:sets"] == "1"
        assert wire.stats(b"tiers")["dram:items"] == "1"
        assert any(int(value) for name, value in wire.stats(b"latency").items() if name.endswith(":requests"))
    assert re.search(r'memcached_commands_total\{[^}]*command="set"[^}]*\} 1\b', server.http("/metrics")[1])


def test_who_creates_by_asking_has_missed(fresh):
    with fresh().wire() as wire:
        assert wire.ask(b"mg v N30\r\nmg n N0 v\r\n") == b"HD W\r\nVA 0 W\r\n\r\n"
        assert [wire.stats()[name] for name in ("cmd_get", "get_misses", "get_hits", "curr_items")] == ["2", "2", "0", "2"]


#: What only the server as a whole counts, and what it is as a whole.
SERVERS_ALONE = "auth_cmds auth_errors conn_yields listen_disabled_num read_buf_oom direct_reclaims".split()
OF_ALL = "pid version pointer_size max_connections threads hash_power_level hash_is_expanding slab_global_page_pool".split()


def test_a_tenants_listener(fresh):
    server = fresh("-A", "--tenant", "name=own,listen=127.0.0.1:0")
    with server.wire() as wire, server.tenant_wire("own") as own:
        assert own.ask(b"shutdown\r\nlru_crawler enable\r\n").count(b"CLIENT_ERROR ") == 2
        assert own.ask(set_request(b"mine", b"x")) == wire.ask(set_request(b"common", b"x")) == STORED
        lists = [b"".join(side.ask(b"stats cachedump %d 0\r\n" % i) for i in range(1, 64)) for side in (own, wire)]
        assert [re.findall(rb"ITEM (\S+)", shown) for shown in lists] == [[b"mine"], [b"common"]]
        here, whole = own.stats(), wire.stats()
        assert {here[name] for name in SERVERS_ALONE} == {"0"}
        assert {name: here[name] for name in OF_ALL} == {name: whole[name] for name in OF_ALL}
        assert int(here["curr_connections"]) == 1 < int(whole["curr_connections"])
    server.check_alive()


def test_a_value_in_packets_is_refused_before_it_comes(server):
    big = store("set", b"a", b"x" * (2 << 20))
    with BinaryWire(server.address) as wire:
        wire.send(big[: 24 + 8 + 1])
        assert read(wire).status == TOO_LARGE
        assert wire.ask(big[24 + 8 + 1 :]) == []


def test_what_is_no_command_here(wire):
    for line in (b"extstore free_memchunks 1 2", b"extstore item_age 5", b"debugtime p", b"debugtime 5", b"misbehave"):
        assert wire.ask(line + b"\r\n") == ERROR, line


def test_a_delayed_flush_takes_nothing_back(fresh, peer_fresh):
    """In memcached a flush to come takes back the one that was, and older items rise again."""
    answers = []
    for server in (fresh(), peer_fresh("-o", "no_lru_maintainer,no_lru_crawler")):
        with server.wire() as wire:
            wire.ask(set_request(b"a", b"x"))
            answers.append(wire.ask(b"flush_all\r\nflush_all 1000\r\nget a\r\n"))
    assert answers == [OK * 2 + END, OK * 2 + b"VALUE a 0 1\r\nx\r\n" + END]


def test_requests_behind_a_flush_meet_nothing_older(wire):
    """Within the same second."""
    for i in range(200):
        value = b"%d" % i
        sent = set_request(b"a", b"old") + b"flush_all\r\nget a\r\n" + set_request(b"a", value) + b"get a\r\n"
        assert wire.ask(sent) == STORED + OK + END + STORED + b"VALUE a 0 %d\r\n%b\r\n" % (len(value), value) + END


def test_our_defaults_and_echoes(fresh):
    with fresh("-f", "1.5", "-n", "64", "-N", "2", "-o", "hashpower=20").wire() as wire:
        settings = wire.stats(b"settings")
    assert settings["reqs_per_event"] == "64"
    assert (settings["growth_factor"], settings["chunk_size"], settings["hashpower_init"]) == ("1.5", "64", "20")
