"""What is observed of requests: times, hot keys, slow requests; in stats, over HTTP and as metrics."""

import re
import time

import pytest

from conformance.test_admin import ask, wait_until
from conformance.packets import count, packet, read, store, touch
from conformance.wire import DEADLINE_S, set_request

pytestmark = pytest.mark.cotenant


def load(server):
    """2,000 reads, three of four for one key, and ten writes, of the tenant `a`."""
    with server.wire() as wire:
        for n in range(10):
            assert wire.ask(set_request(b"a:%d" % n, b"v")) == b"STORED\r\n"
        reads = b"".join(b"get a:%d\r\n" % (n % 10 if n % 4 == 0 else 7) for n in range(2000))
        wire.send(reads + b"mn\r\n")
        wire.read_until_suffix(b"MN\r\n")


def test_requests_are_timed_by_tenant_and_operation(fresh):
    server = fresh("--tenant", "name=a,prefix=a:")
    load(server)
    with server.wire() as wire:
        # The last are timed once their replies have been sent.
        wait_until(lambda: wire.stats(b"latency").get("a:get:requests") == "2000")
        stats = wire.stats(b"latency")
        assert stats["a:set:requests"] == "10"
        assert 0 < int(stats["a:get:p50_us"]) <= int(stats["a:get:p99_us"]) <= int(stats["a:get:p999_us"])
    status, seen = ask(server, "GET", "/tenants/a/latency")
    assert status == 200
    assert {row["class"]: row["requests"] for row in seen["classes"]} == {"read": 2000, "write": 10}
    assert {row["operation"]: row["requests"] for row in seen["operations"]} == {"get": 2000, "set": 10}
    shown = ask(server, "GET", "/tenants/a")[1]
    assert 0 < shown["read_p50_us"] <= shown["read_p99_us"]
    assert ask(server, "GET", "/tenants/nobody/latency")[0] == 404
    metrics = server.http("/metrics")[1]
    name = "cotenant_request_latency_seconds"
    assert f"# TYPE {name} histogram" in metrics
    rows = [line for line in metrics.splitlines() if line.startswith(name) and 'tenant="a"' in line]
    reads = [line for line in rows if 'class="read"' in line]
    buckets = [int(line.rsplit(" ", 1)[1]) for line in reads if "_bucket" in line]
    assert buckets == sorted(buckets) and buckets[-1] == 2000, "buckets are cumulative"
    last = [line for line in reads if "_bucket" in line][-1]
    assert 'le="+Inf"' in last, "the last bucket has no bound, which readers of the format insist on"
    assert any(line.startswith(f"{name}_count") and line.endswith(" 2000") for line in reads)


#: operation -> the requests for it in the text protocols.
FORMS = {
    "get": b"get k\r\ngets k\r\nmg k v\r\nmg aw== b v\r\n", "debug": b"me k\r\n", "set": b"set k 0 0 1\r\n1\r\nms k 1\r\n1\r\nms k 1 MS\r\n1\r\n",
    "add": b"add k 0 0 1\r\n1\r\nms k 1 ME\r\n1\r\n", "replace": b"replace k 0 0 1\r\n1\r\nms k 1 MR\r\n1\r\n",
    "append": b"append k 0 0 1\r\n1\r\nms k 1 MA\r\n1\r\n", "prepend": b"prepend k 0 0 1\r\n1\r\nms k 1 MP\r\n1\r\n",
    "cas": b"cas k 0 0 1 7\r\n1\r\nms k 1 C7\r\n1\r\n", "delete": b"delete k\r\nmd k\r\nmd aw== b\r\n",
    "incr": b"incr k 1\r\nma k\r\nma k M+\r\nma k MI D2\r\n", "decr": b"decr k 1\r\nma k M-\r\nma k MD\r\n",
    "touch": b"touch k 0\r\n", "gat": b"gat 0 k\r\ngats 0 k\r\n",
}
#: The same of the binary protocol, by its names.
PACKETS = {
    "get": [packet("get", b"k"), packet("getk", b"k")], "delete": [packet("delete", b"k")],
    "append": [packet("append", b"k", b"1")], "prepend": [packet("prepend", b"k", b"1")],
    **{name: [store(name, b"k", b"1")] for name in ("set", "add", "replace")}, "cas": [store("set", b"k", b"1", cas=7)],
    "incr": [count("increment", b"k", 1)], "decr": [count("decrement", b"k", 1)],
    "touch": [touch("touch", b"k", 0)], "gat": [touch("gat", b"k", 0), touch("gatk", b"k", 0)],
}


def counted(wire):
    """{operation: its requests} of the default tenant."""
    rows = {tuple(name.rsplit(":", 2)[1:]): number for name, number in wire.stats(b"latency").items()}
    return {name: int(number) for (name, what), number in rows.items() if what == "requests" and name != "other"}


def test_each_command_is_an_operation_in_every_protocol(fresh):
    server = fresh()
    wanted = {name: forms.count(b" k") + forms.count(b"aw==") for name, forms in FORMS.items()}
    with server.wire() as wire:
        for forms in FORMS.values():
            wire.ask(forms)
        wait_until(lambda: counted(wire) == wanted)
    with server.wire() as wire:
        wire.send(b"".join(b"".join(each) for each in PACKETS.values()) + packet("noop", opaque=7))
        while read(wire).opaque != 7:
            pass
    for name, each in PACKETS.items():
        wanted[name] += len(each)
    with server.wire() as wire:
        wait_until(lambda: counted(wire) == wanted)


def test_hot_keys_are_named(fresh):
    server = fresh("--tenant", "name=a,prefix=a:")
    for _ in range(5):
        load(server)
    status, seen = ask(server, "GET", "/tenants/a/hotkeys")
    assert status == 200
    hottest = seen["keys"][0]
    assert hottest["key"] == "a:7"
    assert 0.5 < hottest["part"] <= 1
    assert 50 < seen["samples"] * seen["sampling"] / 64 < 350, "10,050 keys at one in 64"
    with server.wire() as wire:
        assert wire.stats(b"hotkeys")["a:1:key"] == "a:7"
    assert ask(server, "GET", "/tenants/nobody/hotkeys")[0] == 404


def test_keys_in_base64_are_named_as_others(fresh):
    server = fresh("--tenant", "name=a,prefix=a:", "--slow-request", "0s")
    with server.wire() as wire:
        for _ in range(10):
            wire.send(b"mg YTo3 v b\r\n" * 200 + b"mn\r\n")
            wire.read_until_suffix(b"MN\r\n")
        assert wire.stats(b"hotkeys")["a:1:key"] == "a:7"
        assert "a:7" in {value for name, value in wire.stats(b"slow").items() if name.endswith(":key")}


def test_the_first_request_of_a_new_prefix_is_its_own(fresh):
    server = fresh("-D", ":")
    with server.wire() as wire:
        assert wire.ask(set_request(b"first:1", b"v")) == b"STORED\r\n"
        assert wire.ask(b"ms c2Vjb25kOjE= 1 b\r\nx\r\n") == b"HD\r\n"
        stats = wire.stats(b"latency")
    assert (stats["first:set:requests"], stats["second:set:requests"]) == ("1", "1")
    assert "default:set:requests" not in stats


def test_slow_requests_are_listed_with_who_asked(fresh):
    server = fresh("--tenant", "name=a,prefix=a:", "--slow-request", "0s")
    with server.wire() as wire:
        wire.ask(set_request(b"a:" + b"k" * 200, b"v" * 100))
        stats = wire.stats(b"slow")
        assert stats["threshold_us"] == "0" and int(stats["total"]) >= 1
        at = next(name for name, value in stats.items() if value == "write").split(":")[0]
        assert stats[f"{at}:tenant"] == "a" and stats[f"{at}:command"] == "set"
        assert stats[f"{at}:key"] == "a:" + "k" * 62, "64 bytes of a key are kept"
        assert int(stats[f"{at}:received_bytes"]) > 300
        assert stats[f"{at}:addr"].startswith("tcp:127.0.0.1:")
    status, seen = ask(server, "GET", "/slow")
    assert status == 200
    assert seen["total"] >= len(seen["slow"]) >= 1
    assert seen["slow"][-1]["number"] == 1
    assert {"set", "stats"} <= {slow["command"] for slow in seen["slow"]}


def test_nothing_is_slow_below_the_threshold(fresh):
    server = fresh("--slow-request", "1h")
    load(server)
    assert ask(server, "GET", "/slow")[1]["total"] == 0


def test_a_tenant_of_its_own_sees_its_own(fresh):
    server = fresh("--tenant", "name=own,listen=127.0.0.1:0", "--slow-request", "0s")
    with server.wire() as wire, server.tenant_wire("own") as own:
        wire.ask(set_request(b"shared", b"v"))
        own.ask(set_request(b"secret", b"v"))
        rows = [line for what in (b"latency", b"slow", b"hotkeys") for line in wire.stats(what).items()]
        assert not [row for row in rows if "own" in row[0] or row[1] in ("own", "secret")]
        seen = own.stats(b"slow")
        keys = [value for name, value in seen.items() if name.endswith(":key")]
        assert "secret" in keys and "shared" not in keys
        assert own.stats(b"latency")["own:set:requests"] == "1"
        theirs = [line for what in (b"latency", b"slow", b"hotkeys") for line in own.stats(what).items()]
        assert not [row for row in theirs if "default" in row[0] or row[1] in ("default", "shared")]


@pytest.mark.parametrize("level", ["-v", "-vv"])
def test_the_log_tells_who_connects_and_what_is_asked(fresh, level):
    server = fresh(level, "--tenant", "name=own,listen=127.0.0.1:0")
    with server.wire() as wire, server.tenant_wire("own") as own:
        wire.ask(b"set logged 0 0 6\r\nsecret\r\nget logged\r\n")
        own.ask(b"get its\r\n")
    deadline = time.monotonic() + DEADLINE_S
    while sum(" gone" in line for line in server.log) < 2:
        assert time.monotonic() < deadline, server.said()
        time.sleep(0.01)
    log = "\n".join(server.log)
    assert re.search(r"connection \d+: from 127\.0\.0\.1:\d+ at \S+, of tenant 'own'", log)
    asked = re.findall(r"connection \d+: (set logged 0 0 6|get logged|get its)\b", log)
    assert asked == (["set logged 0 0 6", "get logged", "get its"] if level == "-vv" else [])
    assert "secret" not in log
