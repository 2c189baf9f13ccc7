"""Overload: tenants' connections and rates are limited, slow readers hold no memory, connections share a worker fairly."""

import os
import signal
import socket
import time

import pytest

from conformance.packets import BinaryWire, packet
from conformance.test_admin import ask, wait_until
from conformance.test_tenants import samples
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant


def of_tenant(server, name):
    """{name: value} of one tenant's figures in /metrics."""
    labelled = {metric: dict(values) for metric, values in samples(server).items()}
    label = f'{{tenant="{name}"}}'
    return {metric: values[label] for metric, values in labelled.items() if label in values}


def test_connections_of_a_tenant_are_limited(fresh):
    server = fresh("--tenant", "name=own,listen=127.0.0.1:0,max_connections=2")
    with server.tenant_wire("own") as first, server.tenant_wire("own") as second:
        for wire in (first, second):
            assert wire.ask(b"mn\r\n") == b"MN\r\n"
        with server.tenant_wire("own") as third:
            assert third.read_to_close() == b"ERROR Too many open connections\r\n"
        with server.wire() as other:
            assert other.ask(b"mn\r\n") == b"MN\r\n", "others are not concerned"
            assert other.stats()["rejected_connections"] == "1", "who looks at all of them sees it"
        shown = ask(server, "GET", "/tenants/own")[1]
        assert (shown["connections"], shown["connections_refused"], shown["max_connections"]) == (2, 1, 2)
        metrics = of_tenant(server, "own")
        assert (metrics["cotenant_tenant_connections"], metrics["cotenant_tenant_connections_limit"]) == (2, 2)
        assert metrics["cotenant_tenant_connections_refused_total"] == 1
        assert "cotenant_tenant_connections_limit" not in of_tenant(server, "default"), "it has none"
    wait_until(lambda: ask(server, "GET", "/tenants/own")[1]["connections"] == 0)
    with server.tenant_wire("own") as wire:
        assert wire.ask(b"mn\r\n") == b"MN\r\n", "places become free"
    assert ask(server, "PUT", "/tenants/own", {"max_connections": None})[0] == 200
    wires = [server.tenant_wire("own") for _ in range(5)]
    assert all(wire.ask(b"mn\r\n") == b"MN\r\n" for wire in wires)
    for wire in wires:
        wire.close()


def test_requests_beyond_the_rate_wait(fresh):
    server = fresh("--tenant", "name=a,prefix=a:")
    assert ask(server, "PUT", "/tenants/a", {"requests_per_second": 100, "burst": 10})[0] == 200
    with server.wire() as wire:
        began = time.monotonic()
        wire.send(b"get a:k\r\n" * 60 + b"mn\r\n")
        assert wire.read_until_suffix(b"MN\r\n") == b"END\r\n" * 60 + b"MN\r\n"
        # A lower bound holds on a busy machine, too: 50 keys have no token at first, at 10 ms each.
        took_s = time.monotonic() - began
        assert 0.49 < took_s
    shown = ask(server, "GET", "/tenants/a")[1]
    assert shown["rate_waits"] > 0 and shown["rate_refusals"] == 0
    metrics = of_tenant(server, "a")
    assert metrics["cotenant_tenant_rate_waits_total"] == shown["rate_waits"]
    assert 0 < metrics["cotenant_tenant_rate_waited_seconds_total"] <= took_s
    assert (metrics["cotenant_tenant_rate_limit"], metrics["cotenant_tenant_rate_refused_total"]) == (100, 0)
    with server.wire() as wire:
        wire.send(b"get b:k\r\n" * 1000 + b"mn\r\n")
        wire.read_until_suffix(b"MN\r\n")
    assert ask(server, "PUT", "/tenants/a", {"requests_per_second": None, "burst": None})[0] == 200
    before = ask(server, "GET", "/tenants/a")[1]["rate_waits"]
    with server.wire() as wire:
        wire.send(b"get a:k\r\n" * 1000 + b"mn\r\n")
        wire.read_until_suffix(b"MN\r\n")
    assert ask(server, "GET", "/tenants/a")[1]["rate_waits"] == before


def test_who_waits_for_the_rate_is_answered_by_a_server_that_ends(fresh):
    server = fresh("--tenant", "name=a,prefix=a:,requests_per_second=1,burst=1")
    with server.wire() as wire, server.wire() as other:
        wire.send(b"get a:k\r\n" * 60 + b"mn\r\n")
        other.send(b"get a:k\r\n" * 20 + b"mn\r\n")
        wait_until(lambda: 2 <= ask(server, "GET", "/tenants/a")[1]["rate_waits"])
        server.process.send_signal(signal.SIGTERM)
        # A minute's tokens, and a third of one: nobody waits for them.
        assert wire.read_to_close() == b"END\r\n" * 60 + b"MN\r\n"
        assert other.read_to_close() == b"END\r\n" * 20 + b"MN\r\n"
    assert server.stop() == 0


def test_requests_beyond_the_rate_are_refused_where_that_is_asked_for(fresh):
    tenant = "name=a,prefix=a:,requests_per_second=1,burst=5,over_rate=refuse"
    server = fresh("--tenant", tenant)
    with server.wire() as wire:
        wire.send(b"get a:k\r\n" * 20 + b"get other\r\nmn\r\n")
        answer = wire.read_until_suffix(b"MN\r\n")
        refused = answer.count(b"SERVER_ERROR too many requests\r\n")
        assert 14 <= refused <= 15 and answer.count(b"END\r\n") == 21 - refused
        silent = set_request(b"a:k", b"v", noreply=True)
        assert wire.ask(silent + b"mn\r\n") == b"MN\r\n"
        get = bytes.fromhex("80000003000000000000000301020304") + bytes(8) + b"a:k"
    with server.wire() as wire:
        wire.send(get)
        header = wire.read_exact(24)
        assert header[6:8] == b"\x00\x86" and header[12:16] == b"\x01\x02\x03\x04"
    assert ask(server, "GET", "/tenants/a")[1]["rate_refusals"] > refused
    with server.wire() as wire:
        told = wire.stats(b"tenants")
    assert int(told["a:rate_refusals"]) == of_tenant(server, "a")["cotenant_tenant_rate_refused_total"] > refused


def test_items_of_a_tenant_are_limited_in_size_and_time(fresh):
    server = fresh("--tenant", "name=a,prefix=a:,max_item=1KiB,default_ttl=100s,max_ttl=1000s")
    with server.wire() as wire:
        assert wire.ask(set_request(b"a:k", b"v" * 1021)) == b"STORED\r\n"
        assert wire.ask(set_request(b"a:k", b"v" * 1022)) == b"SERVER_ERROR object too large for cache\r\n"
        assert wire.value(b"a:k") is None, "the older item goes with it"
        assert wire.ask(set_request(b"k", b"v" * 5000)) == b"STORED\r\n"
        for exptime, longest in ((0, 100), (50, 50), (5000, 1000)):
            wire.ask(set_request(b"a:t", b"v", exptime=exptime))
            left = int(wire.ask(b"mg a:t t\r\n").split(b" t")[1])
            assert longest - 2 <= left <= longest, exptime
        assert wire.ask(b"ms a:t 1 T5000\r\nx\r\n") == b"HD\r\n"
        assert int(wire.ask(b"mg a:t t\r\n").split(b" t")[1]) <= 1000
        assert wire.ask(b"mg a:t t T9000\r\n").startswith(b"HD t1000")


@pytest.mark.parametrize("limit, kept, left", [("max_item=1KiB", False, -1), ("default_ttl=100s", True, 100), ("max_ttl=1000s", True, 1000)])
def test_one_limit_of_items_alone_holds(fresh, limit, kept, left):
    server = fresh("--tenant", f"name=a,prefix=a:,{limit}")
    with server.wire() as wire:
        reply = b"STORED\r\n" if kept else b"SERVER_ERROR object too large for cache\r\n"
        assert wire.ask(set_request(b"a:k", b"v" * 1022)) == reply
        assert wire.ask(set_request(b"a:t", b"v")) == b"STORED\r\n"
        seconds = int(wire.ask(b"mg a:t t\r\n").split(b" t")[1])
        assert left - 2 * (0 < left) <= seconds <= left


def test_a_large_value_that_its_tenant_may_not_store_is_refused_before_it_comes(fresh):
    """No memory is made for it, and nobody's items go."""
    server = fresh("-m", "64", "-I", "16m", "--tenant", "name=a,prefix=a:,max_item=1KiB")
    large, too_large = 8_000_000, b"SERVER_ERROR object too large for cache\r\n"
    requests = {
        b"set a:k 0 0 %d\r\n" % large: too_large,
        b"set a:k 0 0 %d noreply\r\n" % large: b"",
        b"append a:k 0 0 %d\r\n" % large: b"NOT_STORED\r\n",
        b"ms a:k %d\r\n" % large: too_large,
        b"ms YTpr %d b\r\n" % large: too_large,
    }
    with server.wire() as wire, BinaryWire(server.address) as binary:
        for n in range(44):
            assert wire.ask(set_request(b"other%d" % n, b"v" * 1_000_000)) == b"STORED\r\n"
        before = wire.stats()
        for head, reply in requests.items():
            assert wire.ask(set_request(b"a:k", b"v")) == b"STORED\r\n"
            wire.send(head)
            assert wire.read_exact(len(reply)) == reply, head
            wire.send(b"v" * large + b"\r\nmn\r\n")
            assert wire.read_line() == b"MN\r\n"
            assert (wire.value(b"a:k") is None) == (b"append" not in head), "a set takes the older item along"
            assert wire.ask(b"set k 0 0 %d\r\n" % 1_000_000 + b"v" * 1_000_000 + b"\r\n") == b"STORED\r\n", "others are not concerned"
        assert binary.one(packet("set", b"a:k", b"v" * large, bytes(8))).status == 3, "too large"
        assert (before["evictions"], wire.stats()["evictions"]) == ("0", "0")


def test_settings_that_make_no_sense_are_refused(fresh):
    server = fresh("--tenant", "name=a,prefix=a:")
    for body, word in (
        ({"max_connections": 0}, "max_connections"),
        ({"requests_per_second": 1.5}, "requests_per_second"),
        ({"burst": 5}, "burst"),
        ({"over_rate": "drop"}, "over_rate"),
    ):
        status, answer = ask(server, "PUT", "/tenants/a", body)
        assert status == 400 and word in answer["error"], body


def test_slow_readers_hold_no_memory(fresh):
    """Eighty connections ask for 6 MB of values and more, and read nothing; buffers may take 4 MiB at most."""
    server = fresh(memory="16")
    with server.wire() as wire:
        at_rest = wire.stats(b"controller")["buffer_bytes"]
        # Of many lengths: wherever the kernel's send buffers end, they end in the midst of most values.
        lengths = [150_000 + 10_007 * i for i in range(16)]
        for length in lengths:
            assert wire.ask(set_request(b"big:%d" % length, b"v" * length)) == b"STORED\r\n"
        readers = [server.wire(receive_buffer=4096) for _ in range(80)]
        for i, reader in enumerate(readers):
            reader.send(b"get big:%d\r\n" % lengths[i % len(lengths)] * 40)
        wait_until(lambda: "cotenant_slow_readers_closed_total{} 0" not in server.http("/metrics")[1])
        stats = wire.stats(b"controller")
        assert int(stats["buffer_bytes"]) <= 5 << 20
        assert wire.value(b"big:%d" % lengths[0]) == b"v" * lengths[0], "others are served"
        for reader in readers:
            reader.reset()
        wait_until(lambda: wire.stats(b"controller")["buffer_bytes"] == at_rest)


def test_who_does_not_take_a_reply_for_long_is_closed(fresh):
    server = fresh("--send-timeout", "1s", memory="64")
    value = b"x" * 900_000
    with server.wire() as wire, socket.socket() as silent:
        assert wire.ask(set_request(b"big", value)) == b"STORED\r\n"
        # More than the system's buffers take, and nobody reads it.
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(server.address)
        silent.sendall(b"get big\r\n" * 40)
        wait_until(lambda: "cotenant_slow_readers_closed_total{} 1" in server.http("/metrics")[1])
        wait_until(lambda: wire.stats()["curr_connections"] == "1")
        assert wire.value(b"big") == value, "others are not concerned"


def test_one_connection_does_not_keep_a_worker_to_itself(fresh):
    """Of two who come at once the second, with one request, need not wait for the 20,000 of the first."""
    server = fresh("-t", "1", "-R", "10")
    # So few that the first one's socket takes all of them: what has not come then was not sent.
    answers = b"END\r\n" * 20_000
    overtaken = 0
    with server.wire(receive_buffer=1 << 20) as many, server.wire() as one:
        for _ in range(20):
            # Stopped, the server sees neither before both are there.
            os.kill(server.pid, signal.SIGSTOP)
            many.send(b"get k\r\n" * 20_000)
            one.send(b"mn\r\n")
            os.kill(server.pid, signal.SIGCONT)
            assert one.read_line() == b"MN\r\n"
            overtaken += many.has_come() < len(answers)
            assert many.read_exact(len(answers)) == answers
        assert 0 < overtaken, "whoever shares a worker waits for all that another has sent"
        assert 0 < int(one.stats()["conn_yields"])


def test_silent_connections_are_closed(fresh):
    server = fresh("--idle-timeout", "1s")
    with server.wire() as wire:
        assert wire.ask(b"mn\r\n") == b"MN\r\n"
        assert wire.read_to_close() == b""


def test_a_rate_counts_for_the_tenant_of_each_key(fresh):
    slow = "requests_per_second=1,burst=5,over_rate=refuse"
    names = ("a", slow), ("b", slow), ("c", slow.replace("burst=5", "burst=1"))
    server = fresh(*[word for name, more in names for word in ("--tenant", f"name={name},prefix={name}:,{more}")])
    refused = b"SERVER_ERROR too many requests\r\n"
    with server.wire() as wire:
        assert wire.ask(b"get c:1 x c:2 x c:3\r\n") == b"END\r\n", "one token is enough for a request of more keys"
        many = b" ".join(b"b:%d" % n for n in range(100))
        assert wire.ask(b"get x a:1 %b\r\n" % many) == b"END\r\n", "the default tenant has no rate"
        assert wire.ask(b"get x b:1\r\n") == refused, "its tokens are gone"
        for _ in range(10):
            assert wire.ask(b"get a:1 b:1\r\n") == refused, "none is taken from a then"
        # a:k in base64. Four of its five tokens are left, and one comes in a second.
        answers = [wire.ask(b"mg YTpr b\r\n") for _ in range(20)]
        assert 4 <= answers.count(b"EN\r\n") <= 10 and answers[-1] == refused


def test_who_waits_long_for_tokens_is_refused(fresh):
    server = fresh("--tenant", "name=a,prefix=a:,requests_per_second=1,burst=1")
    with server.wire(deadline_s=30.0) as wire:
        # A hundred tokens are owed for the first.
        assert wire.ask(b"get %b\r\n" % b" ".join(b"a:%d" % n for n in range(100))) == b"END\r\n"
        began = time.monotonic()
        assert wire.ask(b"get a:k\r\n") == b"SERVER_ERROR too many requests\r\n"
        assert 4.9 < time.monotonic() - began
    shown = ask(server, "GET", "/tenants/a")[1]
    assert shown["rate_refusals"] == 1


def test_who_is_not_idle_is_not_closed_for_it(fresh, tmp_path):
    path = tmp_path / "socket"
    server = fresh("-o", "idle_timeout=1", "-l", f"127.0.0.1:0,unix:{path}:700")
    with socket.socket(socket.AF_UNIX) as local, server.wire() as watcher, server.wire() as idle:
        local.connect(str(path))
        local.settimeout(10)
        watcher.send(b"watch evictions\r\n")
        assert watcher.read_line() == b"OK\r\n"
        assert idle.read_to_close() == b""
        with server.wire() as wire:
            assert int(wire.stats()["idle_kicks"]) == 1
            conns = wire.stats(b"conns")
            assert "conn_watch" in conns.values()
        local.sendall(b"mn\r\n")
        assert local.recv(100) == b"MN\r\n"


def test_a_connection_is_kept_alive_by_the_system(fresh):
    """Field 5 of a row of /proc/net/tcp begins with 2 while the timer of keep-alive runs."""
    server = fresh()
    with server.wire() as wire:
        assert wire.ask(b"mn\r\n") == b"MN\r\n"
        ours, theirs = server.address[1], wire.sock.getsockname()[1]
        ends = [f"{ours:04X}", f"{theirs:04X}"]

        def runs():
            with open(f"/proc/{server.pid}/net/tcp", encoding="ascii") as table:
                rows = [line.split() for line in table][1:]
            (timer,) = [row[5] for row in rows if [end.split(":")[1] for end in row[1:3]] == ends]
            return timer.startswith("02:")

        # Before that the timer of what is not acknowledged yet may run.
        wait_until(runs)


@pytest.mark.parametrize("engine", ("epoll", "auto"))
def test_the_refusal_of_a_large_value_waits_for_nothing(fresh, engine):
    """The value is passed over, and its client hears so without asking for anything more."""
    limits = "name=a,prefix=a:,requests_per_second=1,burst=1,over_rate=refuse"
    server = fresh("-m", "64", "-I", "4m", "-t", "1", "--io-engine", engine, "--tenant", limits)
    with server.wire() as wire:
        assert wire.ask(b"get a:0 a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9\r\n") == b"END\r\n", "ten tokens, nine of them owed"
        for _ in range(3):
            wire.send(set_request(b"a:k", b"v" * 2_000_000))
            assert wire.read_line() == b"SERVER_ERROR too many requests\r\n"


@pytest.mark.parametrize("limits", ("", ",requests_per_second=1000000,burst=1000000"))
@pytest.mark.parametrize("request_line", (b"get", b"gets", b"gat 0"))
def test_a_get_of_more_keys_than_a_turn_looks_at_answers_each_in_its_place(fresh, limits, request_line):
    server = fresh("-m", "64", "-t", "1", "--tenant", "name=a,prefix=a:" + limits)
    keys = [b"a:%d" % n if n % 3 else b"other:%d" % n for n in range(5_000)]
    there = [key for n, key in enumerate(keys) if n % 2 == 0]
    with server.wire() as wire:
        wire.send(b"".join(set_request(key, key * 20, noreply=True) for key in there) + b"mn\r\n")
        assert wire.read_line() == b"MN\r\n"
        wire.send(request_line + b" " + b" ".join(keys) + b"\r\nget none\r\nmn\r\n")
        for key in there:
            words = wire.read_line().split()
            assert words[:4] == [b"VALUE", key, b"0", b"%d" % (len(key) * 20)]
            assert wire.read_exact(len(key) * 20 + 2) == key * 20 + b"\r\n"
        assert [wire.read_line() for _ in range(3)] == [b"END\r\n", b"END\r\n", b"MN\r\n"]
        counted = wire.stats()
        hits, misses = (int(counted["get_" + kind]) + int(counted["touch_" + kind]) for kind in ("hits", "misses"))
        assert (hits, misses) == (len(there), len(keys) - len(there) + 1)


def test_who_is_served_alone_listens_for_others(fresh):
    """Somebody may come while a long request, or many of them, are answered: a worker looks after each part of it."""
    server = fresh("-m", "128", "-t", "1", "-I", "2m")
    with server.wire(receive_buffer=4 << 20) as wire, server.wire() as other:
        yields = lambda: int(other.stats()["conn_yields"])
        assert wire.ask(set_request(b"k", b"v" * 200_000)) == b"STORED\r\n"
        answer = b"VALUE k 0 200000\r\n" + b"v" * 200_000 + b"\r\n"
        before = yields()
        wire.send(b"get" + b" k" * 50 + b"\r\n")
        assert wire.read_exact(50 * len(answer) + 5) == 50 * answer + b"END\r\n"
        after_one = yields()
        assert before < after_one
        wire.send(b"get x\r\n" * 5_000)
        assert wire.read_exact(25_000) == b"END\r\n" * 5_000
        assert after_one < yields()


def test_what_was_asked_before_a_large_value_is_answered_before_it_comes(fresh):
    server = fresh("-m", "64", "-t", "1")
    with server.wire() as wire:
        wire.send(b"get a\r\nset big 0 0 1000000\r\n" + b"v" * 1_000)
        assert wire.read_line() == b"END\r\n"
        wire.send(b"v" * 999_000 + b"\r\n")
        assert wire.read_line() == b"STORED\r\n"


def test_a_watcher_who_had_nothing_to_read_is_no_slow_reader(fresh):
    """More than fits its socket, after it has been told nothing for longer than others may take for their replies."""
    server = fresh("--send-timeout", "5s", memory="64")
    with server.wire(receive_buffer=4096) as watcher, server.wire() as wire:
        watcher.send(b"watch fetchers\r\n")
        assert watcher.read_line() == b"OK\r\n"
        time.sleep(6.5)
        wire.send(b"get k\r\n" * 100_000)
        wire.read_exact(500_000)
        assert b"type=item_get" in watcher.read_line()
        assert "cotenant_slow_readers_closed_total{} 0" in server.http("/metrics")[1]
