"""What monitoring programs read, by the rules of their own parsers, over TCP.

Each reader does what its program does with the bytes: prometheus/memcached_exporter 0.16 (with its client library),
collectd's memcached plugin, Telegraf's input and Datadog's mcache check (with python-binary-memcached's protocol).
Every reader must find the traffic that the test caused; against memcached the same readers show that they are right.
"""

import math
import re
import socket

import pytest

from conformance import servers
from conformance.conftest import NO_MEMCACHED
from conformance.packets import BinaryWire, packet
from conformance.wire import DEADLINE_S, set_request

#: What was asked before anybody looks: hits, misses, and how much of each.
TRAFFIC = (
    set_request(b"a", b"1") + set_request(b"b", b"x" * 500, exptime=1000) + set_request(b"c", b"x" * 5000)
    + b"get a\r\nget a b nothing\r\nincr a 1\r\nincr nothing 1\r\ndecr a 1\r\ndelete c\r\ndelete c\r\ntouch b 900\r\n"
    + b"cas a 0 0 1 18446744073709551615\r\n1\r\ncas nothing 0 0 1 1\r\n1\r\n"
)


@pytest.fixture(params=["cotenant", "memcached"])
def asked(request):
    """A server that has served TRAFFIC and nothing else."""
    if request.param == "memcached" and servers.find_memcached() is None:
        pytest.skip(NO_MEMCACHED)
    running = servers.start() if request.param == "cotenant" else servers.start_memcached()
    try:
        with running.wire() as wire:
            wire.ask(TRAFFIC)
            yield running
    finally:
        running.stop()


def lines_until_end(address, command):
    """The lines of a reply, as a buffered reader has them; a deadline stands for the programs' own."""
    with socket.create_connection(address, DEADLINE_S) as connection:
        connection.sendall(command + b"\r\n")
        with connection.makefile("rb") as reader:
            while (line := reader.readline()) != b"END\r\n":
                assert line.endswith(b"\r\n") and not line.startswith((b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")), line
                yield line[:-2]


class Prometheus:
    """The exporter: four commands; a line or a number that it cannot read makes the server down."""

    NEEDED = "cmd_set cas_misses cas_hits cas_badval".split()
    READ = """
    uptime time get_hits get_misses delete_hits delete_misses incr_hits incr_misses decr_hits decr_misses cas_hits cas_misses
    touch_hits touch_misses cas_badval cmd_flush bytes limit_maxbytes curr_items total_items bytes_read bytes_written
    curr_connections total_connections rejected_connections conn_yields listen_disabled_num evictions reclaimed
    lru_crawler_starts direct_reclaims crawler_items_checked crawler_reclaimed moves_to_cold moves_to_warm moves_within_lru
    accepting_conns store_too_large store_no_memory
    """.split()
    ITEMS = """
    number age number_hot number_warm number_cold age_hot age_warm hits_to_hot hits_to_warm hits_to_cold hits_to_temp
    crawler_reclaimed evicted evicted_nonzero evicted_time evicted_unfetched expired_unfetched outofmemory reclaimed
    tailrepairs mem_requested moves_to_cold moves_to_warm moves_within_lru
    """.split()
    SLABS = """
    get_hits delete_hits incr_hits decr_hits cas_hits touch_hits cas_badval cmd_set chunk_size chunks_per_page total_pages
    total_chunks used_chunks free_chunks free_chunks_end
    """.split()

    def __init__(self, address):
        self.stats, self.slabs, self.items = {}, {}, {}
        for command in (b"stats", b"stats slabs", b"stats items"):
            for line in lines_until_end(address, command):
                self.take(line)
        self.settings = {}
        for line in lines_until_end(address, b"stats settings"):
            # Read with a format of three words: fewer are an error, and so is a line beyond its reader's buffer.
            words = line.split(b" ")
            assert len(words) == 3 and words[0] == b"STAT" and all(words) and len(line) < 4096, line
            self.settings[words[1].decode()] = words[2].decode()

    def take(self, line):
        word, name, value = line.decode("ascii").split(" ", 2)
        assert word == "STAT", line
        parts = name.split(":")
        if len(parts) == 2:
            self.slabs.setdefault(int(parts[0]), {})[parts[1]] = value
        elif len(parts) == 3:
            self.items.setdefault(int(parts[1]), {})[parts[2]] = value
        else:
            assert len(parts) == 1, line
            self.stats[name] = value

    @staticmethod
    def number(fields, name):
        value = float(fields[name])
        assert math.isfinite(value) and value >= 0, (name, value)
        return value

    def metrics(self):
        found = {name: self.number(self.stats, name) for name in self.READ}
        cas = sum(self.number(self.stats, name) for name in ("cas_misses", "cas_hits", "cas_badval"))
        found["set"] = self.number(self.stats, "cmd_set") - cas
        for name in ("rusage_user", "rusage_system"):
            # Seconds and microseconds are parted at the dot, which must be there.
            seconds, micros = self.stats[name].split(".")
            found[name] = int(seconds) + int(micros) / 1e6
        for fields in self.items.values():
            for name in self.ITEMS:
                self.number(fields, name)
        for fields in self.slabs.values():
            for name in self.SLABS:
                self.number(fields, name)
            cas = sum(self.number(fields, name) for name in ("cas_hits", "cas_badval"))
            assert self.number(fields, "cmd_set") >= cas, "the class's sets would be negative"
        for name in ("active_slabs", "total_malloced"):
            found[name] = self.number(self.stats, name)
        found["max_connections"] = self.number(self.settings, "maxconns")
        if self.settings["lru_crawler"] == "yes":
            for name in ("lru_crawler_sleep", "lru_crawler_tocrawl", "hot_lru_pct", "warm_lru_pct", "hot_max_factor", "warm_max_factor"):
                found[name] = self.number(self.settings, name)
            assert self.settings["lru_maintainer_thread"] in ("yes", "no")
        assert "extstore_limit_maxbytes" not in self.stats and "proxy_backend_total" not in self.stats
        return found


def test_prometheus_exporter(asked):
    seen = Prometheus(asked.address)
    metrics = seen.metrics()
    assert all(name in seen.stats for name in Prometheus.NEEDED)
    assert (metrics["set"], metrics["get_hits"], metrics["get_misses"]) == (3, 3, 1)
    assert (metrics["incr_hits"], metrics["incr_misses"], metrics["decr_hits"]) == (1, 1, 1)
    assert (metrics["delete_hits"], metrics["delete_misses"], metrics["touch_hits"]) == (1, 1, 1)
    assert (metrics["cas_badval"], metrics["cas_misses"], metrics["curr_items"]) == (1, 1, 2)
    assert metrics["max_connections"] == 1024 and re.fullmatch(r"1\.6\.\d+", seen.stats["version"])
    assert sum(int(fields["number"]) for fields in seen.items.values()) == 2
    assert sum(int(fields["cmd_set"]) for fields in seen.slabs.values()) >= 3
    assert set(seen.items) <= set(seen.slabs)


def test_prometheus_exporter_of_an_empty_server(fresh):
    """No class has items: the replies end all the same, and nothing is missing."""
    metrics = Prometheus(fresh().address).metrics()
    assert (metrics["active_slabs"], metrics["curr_items"]) == (0, 0)


def collectd(address):
    """collectd: one read into 4,096 bytes, up to an END that ends the buffer; fields by white space, numbers as atoll and
    atof take them: what is none is zero without a word."""
    with socket.create_connection(address, DEADLINE_S) as connection:
        connection.sendall(b"stats\r\n")
        buffer = b""
        while not buffer.endswith(b"END\r\n"):
            data = connection.recv(4096 - len(buffer))
            assert data, "truncated: the reply does not fit the plugin's buffer"
            buffer += data
    found = {}
    for line in re.split(rb"[\r\n]+", buffer):
        fields = line.split(None, 2)
        if len(fields) == 3:
            number = re.match(rb"\s*[-+]?\d+(\.\d+)?", fields[2])
            found[fields[1].decode()] = float(number[0]) if number else 0.0
    return found


def test_collectd(asked):
    found = collectd(asked.address)
    assert found["bytes"] <= found["limit_maxbytes"], "or no figure of the memory is sent"
    assert 0 < found["bytes"] and found["threads"] == 2 and found["curr_items"] == 2
    assert found["cmd_get"] == found["get_hits"] + found["get_misses"] == 4
    commands = {name: value for name, value in found.items() if name.startswith("cmd_")}
    assert {"cmd_get", "cmd_set", "cmd_flush", "cmd_touch"} <= set(commands)
    assert (found["incr_misses"], found["incr_hits"], found["decr_misses"], found["decr_hits"]) == (1, 1, 0, 1)
    assert (found["delete_hits"], found["delete_misses"], found["evictions"]) == (1, 1, 0)
    assert found["bytes_read"] >= len(TRAFFIC) and found["bytes_written"] > 0
    assert {"rusage_user", "rusage_system", "curr_connections", "listen_disabled_num"} <= set(found)


TELEGRAF = """
get_hits get_misses evictions limit_maxbytes bytes uptime curr_items total_items curr_connections total_connections
connection_structures cmd_get cmd_set delete_hits delete_misses incr_hits incr_misses decr_hits decr_misses cas_hits
cas_misses bytes_read bytes_written threads conn_yields
""".split()


def telegraf(address):
    """Telegraf: every line is STAT and two parts, or the reading fails; what is no integer of 64 bits becomes a text."""
    values = {}
    for line in lines_until_end(address, b"stats"):
        parts = line.split(b" ", 2)
        assert len(parts) == 3 and parts[0] == b"STAT", line
        values[parts[1].decode()] = parts[2]
    fields = {}
    for name in TELEGRAF:
        assert re.fullmatch(rb"\d+", values[name]) and int(values[name]) < 1 << 63, (name, values[name])
        fields[name] = int(values[name])
    return fields


def test_telegraf(asked):
    fields = telegraf(asked.address)
    assert (fields["get_hits"], fields["get_misses"], fields["cmd_get"], fields["cmd_set"]) == (3, 1, 4, 5)
    assert (fields["curr_items"], fields["total_items"], fields["threads"]) == (2, fields["total_items"], 2)
    assert fields["curr_connections"] >= 1 and fields["limit_maxbytes"] == 64 << 20


class Datadog:
    """Datadog: STAT of the binary protocol, three times; names of items and slabs are cut at their colons."""

    GAUGES = "total_items curr_items limit_maxbytes uptime bytes curr_connections max_connections connection_structures threads pointer_size".split()
    RATES = """
    rusage_user rusage_system cmd_get cmd_set cmd_flush get_hits get_misses delete_misses delete_hits evictions bytes_read
    bytes_written cas_misses cas_hits cas_badval total_connections listen_disabled_num
    """.split()
    ITEMS = """
    evicted evicted_nonzero expired_unfetched evicted_unfetched outofmemory tailrepairs moves_to_cold moves_to_warm
    moves_within_lru reclaimed crawler_reclaimed lrutail_reflocked direct_reclaims number number_hot number_warm number_cold age
    evicted_time
    """.split()
    SLABS = """
    get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits used_chunks chunk_size chunks_per_page
    total_pages total_chunks free_chunks free_chunks_end
    """.split()

    def __init__(self, address):
        with BinaryWire(address) as wire:
            self.stats, self.items, self.slabs = (self.ask(wire, key) for key in (b"", b"items", b"slabs"))

    @staticmethod
    def ask(wire, key):
        answers = wire.ask(packet("stat", key))
        # The end is a packet without a key, and only that.
        assert all(answer.status == 0 for answer in answers) and [bool(a.key) for a in answers[:-1]] == [True] * (len(answers) - 1)
        assert not answers[-1].key
        return {answer.key.decode(): answer.value for answer in answers[:-1]}

    def cut(self):
        """({name: value}, {(class, name): value} of items, the same of slabs), every value a number."""
        plain = {name: float(self.stats[name]) for name in self.GAUGES + self.RATES}
        items, slabs = {}, {}
        for name, value in self.items.items():
            _, number, metric = name.split(":")
            items[int(number), metric] = float(value)
        for name, value in self.slabs.items():
            number, colon, metric = name.partition(":")
            slabs[(int(number), metric) if colon else (None, name)] = float(value)
        return plain, items, slabs


def test_datadog(asked):
    seen = Datadog(asked.address)
    plain, items, slabs = seen.cut()
    assert seen.stats["version"].decode("utf-8").startswith("1.6.")
    assert (plain["get_hits"], plain["cmd_get"], plain["curr_items"]) == (3, 4, 2)
    assert plain["bytes"] / plain["limit_maxbytes"] < 0.01 and plain["bytes"] / plain["curr_items"] > 100
    classes = {number for number, _ in items}
    assert all((number, name) in items for number in classes for name in Datadog.ITEMS)
    assert sum(items[number, "number"] for number in classes) == 2
    assert classes <= {number for number, _ in slabs}
    assert all((number, name) in slabs for number, _ in slabs if number is not None for name in Datadog.SLABS)
    assert {(None, "active_slabs"), (None, "total_malloced")} <= set(slabs)
