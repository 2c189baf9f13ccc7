"""What `stats` promises to those who read it: exporters, dashboards, client libraries."""

import re
import threading
import time

import pytest

from conformance import servers
from conformance.test_admin import wait_until
from conformance.wire import DEADLINE_S, END, ERROR, TOO_LARGE, set_request

#: Plain `stats` of memcached 1.6.45 without TLS, proxy, extstore and idle timeout, in its order.
PLAIN = """
pid uptime time version libevent pointer_size rusage_user rusage_system max_connections curr_connections
total_connections rejected_connections connection_structures response_obj_oom response_obj_count response_obj_bytes
read_buf_count read_buf_bytes read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch
cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses
decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds
auth_errors bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num time_in_listen_disabled_us
threads conn_yields hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues
slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes
slab_reassign_busy_nomem slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running
lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written log_watcher_skipped
log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback bytes curr_items total_items
slab_global_page_pool expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed
crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims
lru_bumps_dropped
""".split()

#: 1.6.18 has one of its own and lacks two.
PLAIN_DEBIAN_ONLY = {"slab_reassign_evictions_nomem"}

SETTINGS = """
maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask shutdown_command growth_factor
chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled reqs_per_event cas_enabled tcp_backlog
binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max maxconns_fast hashpower_init slab_reassign
slab_automove slab_automove_ratio slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep
lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled hash_algorithm lru_maintainer_thread lru_segmented
hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor temp_lru temporary_ttl idle_timeout watcher_logbuf_size
worker_logbuf_size read_buf_mem_limit track_sizes inline_ascii_response drop_privileges ext_item_size ext_item_age
ext_low_ttl ext_recache_rate ext_wbuf_size ext_compact_under ext_drop_under ext_max_sleep ext_max_frag
slab_automove_freeratio ext_drop_unread ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers
ssl_ca_cert ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version proxy_enabled proxy_uring_enabled
num_napi_ids memory_file client_flags_size
""".split()

#: What readers use by name: the exporter, and libraries that convert them to booleans and numbers.
SETTINGS_NEEDED = """
maxbytes maxconns tcpport udpport verbosity evictions domain_socket umask growth_factor chunk_size num_threads
stat_key_prefix detail_enabled reqs_per_event cas_enabled tcp_backlog auth_enabled_sasl item_size_max maxconns_fast
slab_reassign slab_automove lru_crawler lru_crawler_sleep lru_crawler_tocrawl flush_enabled hash_algorithm
lru_maintainer_thread hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor
""".split()

ITEMS = """
number number_hot number_warm number_cold number_temp age_hot age_warm age mem_requested evicted evicted_nonzero
evicted_time outofmemory tailrepairs reclaimed expired_unfetched evicted_unfetched evicted_active crawler_reclaimed
crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims hits_to_hot
hits_to_warm hits_to_cold hits_to_temp
""".split()

SLABS = """
chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks free_chunks_end get_hits cmd_set
delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits
""".split()

#: Without these the official exporter reports memcached as down.
MANDATORY = {"cmd_set", "cas_misses", "cas_hits", "cas_badval"}


@pytest.fixture(scope="module")
def server():
    """A server with its usual threads: what they do has names in `stats`."""
    running = servers.start()
    yield running
    running.stop()


@pytest.fixture
def filled(wire):
    """A connection to a server with items in several size classes, of which some were read."""
    for size in (1, 100, 1000, 10_000, 100_000):
        for n in range(5):
            assert wire.ask(set_request(b"s%d:%d" % (size, n), b"x" * size)) == b"STORED\r\n"
        wire.value(b"s%d:0" % size)
    return wire


def raw(wire, request):
    """The bytes of a `stats` reply."""
    wire.send(request)
    out = b""
    while not out.endswith(END):
        out += wire.read_line()
    return out


def in_order(names, reference):
    """Whether `names` come in the order of `reference`."""
    places = [reference.index(name) for name in names]
    return places == sorted(places)


def test_plain_names_in_order(server, filled):
    names = [name for name, _ in filled.stat_lines()]
    assert len(names) == len(set(names)), "a name twice"
    if server.is_debian:
        known = [name for name in names if name not in PLAIN_DEBIAN_ONLY]
        assert in_order(known, PLAIN)
        assert set(PLAIN) - set(known) == {"slab_reassign_busy_nomem", "slab_reassign_last_busy_status"}
    else:
        assert names == PLAIN


def test_plain_values(server, filled):
    stats = filled.stats()
    for name in ("rusage_user", "rusage_system"):
        assert re.fullmatch(r"\d+\.\d{6}", stats[name]), f"{name} {stats[name]}: libmemcached runs off without the dot"
    assert len(stats["version"]) <= 23, "libmemcached's buffer"
    assert re.match(r"1\.6\.\d+", stats["version"])
    assert stats["version"] == server.version
    for name, value in stats.items():
        if name not in ("version", "libevent", "rusage_user", "rusage_system", "slab_reassign_last_busy_status"):
            assert re.fullmatch(r"\d+", value), f"{name} {value}: numbers are plain decimal"
    assert int(stats["pid"]) == server.pid
    assert stats["pointer_size"] == "64"
    assert stats["limit_maxbytes"] == str(64 << 20)
    assert stats["threads"] == "2"
    assert stats["curr_items"] == "25"
    assert MANDATORY <= set(stats)


def test_plain_fits_a_page(filled):
    assert len(raw(filled, b"stats\r\n")) < 4096, "collectd reads it into 4,096 bytes"


@pytest.mark.parametrize("sub", ["", " items", " slabs"])
def test_colons(filled, sub):
    """The exporter aborts the scrape at any other colon."""
    for line in raw(filled, b"stats%b\r\n" % sub.encode()).decode().split("\r\n")[:-2]:
        word, name, _value = line.split(" ", 2)
        assert word == "STAT"
        parts = name.split(":")
        if len(parts) == 2:
            assert re.fullmatch(r"\d+", parts[0]), line
        elif len(parts) == 3:
            assert re.fullmatch(r"\d+", parts[1]), line
        else:
            assert len(parts) == 1, line


@pytest.mark.parametrize("sub", [b"stats", b"stats items", b"stats slabs", b"stats settings"])
def test_end_always(wire, sub):
    """On an empty server too; the exporter waits for END until its timeout."""
    assert wire.ask(sub + b"\r\n").endswith(END)


@pytest.mark.parametrize("sub", [b"foo", b"tenantz", b"ITEMS", b"noreply"])
def test_unknown_is_an_error(wire, sub):
    assert wire.ask(b"stats " + sub + b"\r\n") == ERROR


def test_settings(server, filled):
    reply = raw(filled, b"stats settings\r\n")
    lines = reply.decode().split("\r\n")
    assert lines[-2:] == ["END", ""]
    names = []
    for line in lines[:-2]:
        assert len(line) <= 4000
        words = line.split(" ")
        if not server.is_debian:
            assert len(words) == 3, f"{line!r}: name and value, nothing else; an empty value is NULL"
        assert words[0] == "STAT"
        assert words[2] != ""
        names.append(words[1])
    assert len(names) == len(set(names))
    assert in_order([name for name in names if name in SETTINGS], SETTINGS)
    assert set(SETTINGS_NEEDED) <= set(names), sorted(set(SETTINGS_NEEDED) - set(names))
    settings = filled.stats(b"settings")
    assert settings["evictions"] in ("on", "off")
    for name in ("cas_enabled", "detail_enabled", "lru_crawler", "lru_maintainer_thread", "flush_enabled", "maxconns_fast"):
        assert settings[name] in ("yes", "no"), f"{name} {settings[name]}"
    assert settings["maxbytes"] == str(64 << 20)
    assert settings["maxconns"] == "1024"
    assert settings["num_threads"] == "2"
    assert settings["item_size_max"] == str(1 << 20)
    assert settings["domain_socket"] == "NULL"
    assert settings["tcpport"] == str(server.address[1])


def test_settings_echo_flags(fresh):
    sizes = {"watcher_logbuf_size": 100 << 10, "worker_logbuf_size": 100 << 10, "read_buf_mem_limit": 10 << 20}
    given = "watcher_logbuf_size=100,worker_logbuf_size=100,read_buf_mem_limit=10"
    server = fresh("-c", "77", "-R", "33", "-b", "99", "-M", "-o", given, memory="32")
    with server.wire() as wire:
        settings = wire.stats(b"settings")
        assert settings["maxconns"] == "77"
        assert settings["reqs_per_event"] == "33"
        assert settings["tcp_backlog"] == "99"
        assert {name: int(settings[name]) for name in sizes} == sizes, "in bytes"
        assert settings["evictions"] == "off"
        assert settings["maxbytes"] == str(32 << 20)
        assert wire.stats()["max_connections"] == "77"


def by_class(lines, pattern):
    """{class: [names]} and the lines that belong to none."""
    classes, rest = {}, []
    for name, value in lines:
        match = re.fullmatch(pattern, name)
        if match:
            classes.setdefault(int(match.group(1)), {})[match.group(2)] = value
        else:
            rest.append((name, value))
    return classes, rest


def test_items(server, filled):
    classes, rest = by_class(filled.stat_lines(b"items"), r"items:(\d+):(\w+)")
    assert rest == []
    assert list(classes) == sorted(classes)
    assert all(1 <= number <= 63 for number in classes)
    for fields in classes.values():
        assert in_order(list(fields), ITEMS)
        assert set(ITEMS) - set(fields) <= {"number_temp"}
        assert 1 <= int(fields["number"]), "only classes with items"
        assert all(re.fullmatch(r"\d+", value) for value in fields.values())
    if not server.is_debian:  # which splits large items into chunks of another class
        assert 3 <= len(classes)
    assert sum(int(fields["number"]) for fields in classes.values()) == 25
    assert 555_505 <= sum(int(fields["mem_requested"]) for fields in classes.values())


def summed(wire, name):
    """The sum of a field of `stats items` over its classes."""
    classes, _ = by_class(wire.stat_lines(b"items"), r"items:(\d+):(\w+)")
    return sum(int(fields[name]) for fields in classes.values())


def at_rest(wire, *names):
    """`stats` once none of these changes any more: a cleaner may be at it for a moment after the last write."""
    until, before = time.monotonic() + DEADLINE_S, None
    while before is None or any(before[name] != now[name] for name in names):
        assert time.monotonic() < until, names
        before = wire.stats()
        time.sleep(0.1)
        now = wire.stats()
    return now


@pytest.mark.cotenant
def test_items_tell_what_became_of_evicted_and_expired_items(fresh):
    """The fields that exporters and `memcached-tool` show: sums of classes are the whole's, while every class has an item: here all are of one."""
    with fresh(memory="8").wire() as wire:
        for round in range(20):
            wire.ask(b"".join(set_request(b"%d-%d" % (round, i), b"x" * 960, 0, 1000 * (i % 2), True) for i in range(1000)))
        whole = at_rest(wire, "evictions", "evicted_unfetched")
        assert summed(wire, "evicted") == int(whole["evictions"]) > 0
        assert 0 < summed(wire, "evicted_nonzero") < int(whole["evictions"])
        assert summed(wire, "evicted_unfetched") == int(whole["evicted_unfetched"])
        uptime = int(wire.stats()["uptime"])
        ages = [int(value) for name, value in wire.stat_lines(b"items") if name.endswith((":age", ":evicted_time"))]
        assert max(ages) <= uptime + 1
        # Half of all expire at once; what is stored then takes their memory.
        wire.ask(b"".join(set_request(b"short-%d" % i, b"x" * 960, 0, -1, True) for i in range(1000)))
        for round in range(20):
            wire.ask(b"".join(set_request(b"late-%d-%d" % (round, i), b"x" * 960, 0, 0, True) for i in range(1000)))
        whole = at_rest(wire, "expired_unfetched", "reclaimed")
        assert summed(wire, "expired_unfetched") == int(whole["expired_unfetched"]) > 0
        assert summed(wire, "reclaimed") == int(whole["reclaimed"]) >= int(whole["expired_unfetched"])


@pytest.mark.cotenant
def test_the_age_of_a_class_is_that_of_its_oldest_item(fresh):
    server = fresh()
    with server.wire() as wire:
        wire.ask(set_request(b"old", b"x") + set_request(b"large", b"x" * 1000))
        until = time.monotonic() + DEADLINE_S
        while not (ages := [int(value) for name, value in wire.stat_lines(b"items") if name.endswith(":age")]) or min(ages) < 2:
            assert time.monotonic() < until, ages
            time.sleep(0.05)
        wire.ask(set_request(b"large", b"x" * 1000))
        small, large = (int(value) for name, value in wire.stat_lines(b"items") if name.endswith(":age"))
        assert large < 2 <= small <= int(wire.stats()["uptime"]) + 1


@pytest.mark.cotenant
def test_items_count_writes_that_found_no_memory(fresh):
    with fresh("-M", memory="8").wire() as wire:
        answer, i = b"", 0
        while b"out of memory" not in answer:
            answer, i = wire.ask(set_request(b"%d" % i, b"x" * 10000)), i + 1
        assert summed(wire, "outofmemory") == int(wire.stats()["store_no_memory"]) == 1


@pytest.mark.cotenant
def test_what_there_is_no_room_to_touch_is_answered_as_it_is(fresh):
    """A miss would make the client store it again, for which there is no room either."""
    with fresh("-M", memory="8").wire() as wire:
        wire.ask(set_request(b"kept", b"v" * 100) + set_request(b"old", b"v" * 100))
        assert wire.ask(b"md old I\r\n") == b"HD\r\n"
        for length in (10000, 100, 1):
            answer, i = b"", 0
            while b"out of memory" not in answer:
                answer, i = wire.ask(set_request(b"%d-%d" % (length, i), b"x" * length)), i + 1
        value = b"v" * 100 + b"\r\n"
        for i in range(2000):
            assert wire.ask(b"gat 100 kept\r\n") == b"VALUE kept 0 100\r\n" + value + END
            assert wire.ask(b"mg kept v T100\r\n") == b"VA 100\r\n" + value
        # Who wins there is not noted, so that nobody does.
        assert wire.ask(b"mg old v\r\n") in (b"VA 100 X\r\n" + value, b"VA 100 X W\r\n" + value, b"VA 100 W X\r\n" + value)
        assert wire.ask(b"get kept\r\n") == b"VALUE kept 0 100\r\n" + value + END


def test_slabs(server, filled):
    classes, rest = by_class(filled.stat_lines(b"slabs"), r"(\d+):(\w+)")
    assert [name for name, _ in rest] == ["active_slabs", "total_malloced"]
    assert int(rest[0][1]) == len(classes)
    assert int(rest[1][1]) > 0
    for fields in classes.values():
        assert in_order([name for name in fields if name in SLABS], SLABS)
        assert set(SLABS) <= set(fields)
        assert {"cmd_set", "cas_hits", "cas_badval"} <= set(fields), "mandatory for the exporter"
        assert int(fields["used_chunks"]) + int(fields["free_chunks"]) <= int(fields["total_chunks"])
    sizes = [int(fields["chunk_size"]) for fields in classes.values()]
    assert sizes == sorted(sizes)
    if not server.is_debian:
        items, _ = by_class(filled.stat_lines(b"items"), r"items:(\d+):(\w+)")
        assert set(items) <= set(classes), "an item class is a slab class"


@pytest.mark.cotenant
def test_slab_counters_add_up(fresh):
    """What the classes count is what the whole counts: the exporter subtracts one from the other."""
    with fresh().wire() as wire:
        wire.ask(b"set a 0 0 1\r\n1\r\nset b 5 900 1000\r\n" + b"x" * 1000 + b"\r\nget a b\r\nincr a 2\r\ndecr a 1\r\n")
        wire.ask(b"cas a 0 0 1 %d\r\n2\r\ncas a 0 0 1 1\r\n3\r\ntouch b 800\r\nmg a T0\r\n" % wire.cas_of(b"a"))
        whole = wire.stats()
        classes, _ = by_class(wire.stat_lines(b"slabs"), r"(\d+):(\w+)")
        for name in ("get_hits", "cmd_set", "incr_hits", "decr_hits", "cas_hits", "cas_badval", "touch_hits"):
            summed = sum(int(fields[name]) for fields in classes.values())
            assert 0 < summed == int(whole[name]), name


#: (first, request, what the counters do). Every counter not named stays.
COUNTERS = [
    (b"", b"set a 0 0 1\r\n1\r\n", {"cmd_set": 1, "curr_items": 1, "total_items": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"set a 0 0 1\r\n2\r\n", {"cmd_set": 1, "total_items": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"get a\r\n", {"cmd_get": 1, "get_hits": 1}),
    (b"", b"get a\r\n", {"cmd_get": 1, "get_misses": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"gets a b c\r\n", {"cmd_get": 3, "get_hits": 1, "get_misses": 2}),
    (b"set a 0 0 1\r\n1\r\n", b"gat 0 a\r\n", {"cmd_touch": 1, "touch_hits": 1}),
    (b"", b"gats 0 a\r\n", {"cmd_touch": 1, "touch_misses": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"touch a 0\r\n", {"cmd_touch": 1, "touch_hits": 1}),
    (b"", b"touch a 0\r\n", {"cmd_touch": 1, "touch_misses": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"incr a 1\r\n", {"incr_hits": 1}),
    (b"", b"incr a 1\r\n", {"incr_misses": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"decr a 1\r\n", {"decr_hits": 1}),
    (b"", b"decr a 1\r\n", {"decr_misses": 1}),
    (b"set a 0 0 1\r\nx\r\n", b"incr a 1\r\n", {}),
    (b"set a 0 0 1\r\n1\r\n", b"incr a x\r\n", {}),
    (b"set a 0 0 1\r\n1\r\n", b"delete a\r\n", {"delete_hits": 1, "curr_items": -1}),
    (b"", b"delete a\r\n", {"delete_misses": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"cas a 0 0 1 18446744073709551615\r\n1\r\n", {"cmd_set": 1, "cas_badval": 1}),
    (b"", b"cas a 0 0 1 1\r\n1\r\n", {"cmd_set": 1, "cas_misses": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"append a 0 0 1\r\n1\r\n", {"cmd_set": 1, "total_items": 1}),
    (b"", b"append a 0 0 1\r\n1\r\n", {"cmd_set": 1}),
    (b"", b"prepend a 0 0 1\r\n1\r\n", {"cmd_set": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"add a 0 0 1\r\n1\r\n", {"cmd_set": 1}),
    (b"", b"replace a 0 0 1\r\n1\r\n", {"cmd_set": 1}),
    (b"", b"set a 0 0 1\r\n?a?get a\r\n", {"cmd_set": 1, "cmd_get": 1, "get_misses": 1}),
    (b"set a 0 0 1\r\n9\r\n", b"incr a 1\r\n", {"incr_hits": 1, "total_items": 1}),
    (b"set a 0 0 2\r\n10\r\n", b"decr a 1\r\n", {"decr_hits": 1}),
    (b"", b"ms a 1\r\n?a?get a\r\n", {"cmd_set": 1, "cmd_get": 1, "get_misses": 1}),
    (b"", b"mg a\r\n", {"cmd_get": 1, "get_misses": 1}),
    (b"", b"me a\r\n", {"cmd_meta": 1}),
    (b"set a 0 0 1\r\n1\r\n", b"md a C18446744073709551615\r\n", {"delete_misses": 1}),
    (b"", b"ms a 1048576\r\n" + b"x" * 1048576 + b"\r\n", {"store_too_large": 1}),
    (b"", b"flush_all\r\n", {"cmd_flush": 1}),
    (b"", b"set a 0 0 1048576\r\n" + b"x" * 1048576 + b"\r\n", {"store_too_large": 1}),
    (b"", b"bogus\r\n", {}),
]

COUNTED = """
cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses delete_misses delete_hits incr_misses incr_hits
decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory
curr_items total_items evictions auth_cmds auth_errors
""".split()


@pytest.fixture(scope="module")
def counting():
    """A server that nobody else talks to."""
    running = servers.start()
    yield running
    running.stop()


@pytest.mark.parametrize("first, request_bytes, moves", COUNTERS, ids=[row[1].split(b"\r")[0].decode() + (" behind set" if row[0] else "") for row in COUNTERS])
def test_counters(counting, first, request_bytes, moves):
    with counting.wire() as wire:
        wire.ask(b"flush_all\r\nget a\r\n" + first)
        before = wire.stats()
        wire.ask(request_bytes)
        after = wire.stats()
    moved = {name: int(after[name]) - int(before[name]) for name in COUNTED if after[name] != before[name]}
    assert moved == moves


def test_cas_hit_is_counted(counting):
    with counting.wire() as wire:
        wire.ask(b"set a 0 0 1\r\n1\r\n")
        number = wire.cas_of(b"a")
        before = wire.stats()
        assert wire.ask(b"cas a 0 0 1 %d\r\n2\r\n" % number) == b"STORED\r\n"
        after = wire.stats()
    for name, step in {"cas_hits": 1, "cmd_set": 1, "cas_badval": 0, "total_items": 1}.items():
        assert int(after[name]) - int(before[name]) == step, name


def test_bytes_are_counted(counting):
    with counting.wire() as wire:
        wire.ask(b"delete v\r\n")
        before = wire.stats()
        assert wire.ask(set_request(b"v", b"x" * 10_000)) == b"STORED\r\n"
        wire.value(b"v")
        after = wire.stats()
    step = {name: int(after[name]) - int(before[name]) for name in ("bytes", "bytes_read", "bytes_written")}
    # memcached forgets flushed items late, so one of them may leave meanwhile.
    assert 9_000 <= step["bytes"]
    assert 10_000 <= step["bytes_read"]
    assert 10_000 <= step["bytes_written"]


def test_a_worker_that_never_rests_counts_bytes_too(fresh):
    server, is_over = fresh("-t", "1"), threading.Event()
    request = set_request(b"k", b"v", noreply=True)

    def flood():
        with server.wire() as wire:
            while not is_over.is_set():
                wire.send(request * 20_000)

    flooding = [threading.Thread(target=flood) for _ in range(2)]
    for thread in flooding:
        thread.start()
    try:
        with server.wire() as wire:
            wait_until(lambda: 200_000 <= int(wire.stats()["cmd_set"]))
            seen = int(wire.stats()["cmd_set"]) * len(request)
            wait_until(lambda: seen <= int(wire.stats()["bytes_read"]))
    finally:
        is_over.set()
        for thread in flooding:
            thread.join()


def test_connections_are_counted(counting):
    with counting.wire() as wire:
        before = wire.stats()
        others = [counting.wire() for _ in range(5)]
        for other in others:
            assert other.ask(b"get a\r\n") is not None
        after = wire.stats()
        for other in others:
            other.close()
    assert int(after["curr_connections"]) - int(before["curr_connections"]) == 5
    assert int(after["total_connections"]) - int(before["total_connections"]) == 5


def test_reset(counting):
    """Zeroes what memcached zeroes; what is, stays."""
    with counting.wire() as wire:
        wire.ask(b"flush_all\r\nset a 0 0 1\r\n1\r\nget a\r\nget b\r\nincr a 1\r\ntouch a 0\r\ndelete b\r\n")
        wire.ask(set_request(b"big", b"x" * (1 << 20)))
        items = wire.stats()["curr_items"]
        assert wire.ask(b"stats reset\r\n") == b"RESET\r\n"
        stats = wire.stats()
        for name in """cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses delete_misses delete_hits incr_hits incr_misses
                    touch_hits touch_misses store_too_large total_items evictions cas_misses rejected_connections""".split():
            assert stats[name] == "0", f"{name} {stats[name]}"
        assert stats["curr_items"] == items
        assert 0 < int(stats["bytes"])
        assert wire.value(b"a") == b"2"


def test_too_large_is_counted_once_per_request(counting):
    with counting.wire() as wire:
        before = int(wire.stats()["store_too_large"])
        assert wire.ask(set_request(b"big", b"x" * (1 << 20)) * 3) == TOO_LARGE * 3
        assert int(wire.stats()["store_too_large"]) - before == 3
