"""Tenants by port, by prefix and by `-D`: who shares keys with whom, who flushes whom, who is counted where."""

import re
import time
import urllib.parse

import pytest

from conformance import packets, servers, test_admin
from conformance.wire import DEADLINE_S, END, set_request

pytestmark = pytest.mark.cotenant

MIB = 1 << 20

CONFIG = """
memory = "64MiB"

[tenant.feeds]
prefix = "feeds:"
reserved = "8MiB"

[tenant.private]
listen = "127.0.0.1:0"

[tenant.other]
listen = "127.0.0.1:0"
reserved = "4MiB"
"""

#: Names that the Grafana memcached mixin reads; served natively, so nobody needs an exporter beside us.
MIXIN = """
memcached_up memcached_version memcached_uptime_seconds memcached_max_connections memcached_current_connections
memcached_connections_total memcached_commands_total memcached_current_bytes memcached_current_items
memcached_items_total memcached_items_evicted_total memcached_read_bytes_total memcached_written_bytes_total
memcached_process_user_cpu_seconds_total memcached_process_system_cpu_seconds_total
memcached_slab_items_outofmemory_total
""".split()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("tenants") / "cotenant.toml"
    path.write_text(CONFIG, encoding="ascii")
    running = servers.start_cotenant(["--config", str(path)], memory=None)
    yield running
    running.stop()


class Doors:
    """A connection through each door, all key spaces empty."""

    def __init__(self, server):
        self.open = server.wire()
        self.private = server.tenant_wire("private")
        self.other = server.tenant_wire("other")
        for wire in (self.open, self.private, self.other):
            assert wire.ask(b"flush_all\r\n") == b"OK\r\n"

    def close(self):
        for wire in (self.open, self.private, self.other):
            wire.close()


@pytest.fixture
def doors(server):
    doors = Doors(server)
    yield doors
    doors.close()


def samples(server):
    """{name: [(labels, value)]} of /metrics."""
    status, body = server.http("/metrics")
    assert status == 200
    found = {}
    for line in body.splitlines():
        match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)( \S+)?", line)
        if match:
            found.setdefault(match.group(1), []).append((match.group(2) or "", float(match.group(3))))
        else:
            assert line == "" or line.startswith("#"), f"no metric line: {line!r}"
    return found


def held(server, tenant):
    """The bytes that `tenant` holds by /metrics, None if it is unknown there."""
    for labels, value in samples(server).get("cotenant_tenant_held_bytes", []):
        if f'tenant="{tenant}"' in labels:
            return value
    return None


def eventually(question, what):
    """Metrics may lag by a control step; asking is what passes the time."""
    until = time.monotonic() + DEADLINE_S
    while not question():
        assert time.monotonic() < until, what


def store(wire, key, value):
    assert wire.ask(set_request(key, value)) == b"STORED\r\n"


def test_ready_line_names_every_listener(server):
    assert set(server.tenants) == {"private", "other"}
    assert server.admin is not None
    assert "memory 64MiB" in server.ready_line
    assert "policy pooled" in server.ready_line
    ports = {server.address[1], *(port for _, port in server.tenants.values())}
    assert len(ports) == 3
    assert 0 not in ports


def test_port_tenants_have_key_spaces_of_their_own(doors):
    for number, wire in enumerate((doors.open, doors.private, doors.other)):
        store(wire, b"k", b"value %d" % number)
    for number, wire in enumerate((doors.open, doors.private, doors.other)):
        assert wire.value(b"k") == b"value %d" % number
    assert doors.private.ask(b"delete k\r\n") == b"DELETED\r\n"
    assert doors.open.value(b"k") == b"value 0"
    assert doors.other.value(b"k") == b"value 2"
    assert doors.private.ask(b"incr k 1\r\ntouch k 0\r\nappend k 0 0 1\r\nx\r\n") == b"NOT_FOUND\r\n" * 2 + b"NOT_STORED\r\n"


def test_a_prefix_does_not_lead_out_of_a_port_tenant(doors):
    store(doors.open, b"feeds:1", b"feed")
    assert doors.private.value(b"feeds:1") is None
    store(doors.private, b"feeds:1", b"mine")
    assert doors.open.value(b"feeds:1") == b"feed"


def test_cas_numbers_do_not_cross(doors):
    store(doors.open, b"k", b"x")
    store(doors.private, b"k", b"x")
    number = doors.open.cas_of(b"k")
    if number == doors.private.cas_of(b"k"):
        store(doors.private, b"k", b"x")
    assert doors.private.ask(b"cas k 0 0 1 %d\r\ny\r\n" % number) == b"EXISTS\r\n"
    assert doors.open.ask(b"cas k 0 0 1 %d\r\ny\r\n" % number) == b"STORED\r\n"
    assert doors.private.value(b"k") == b"x"


def test_prefix_tenant_keeps_its_prefix_and_shares_the_key_space(doors):
    store(doors.open, b"feeds:1", b"feed")
    assert doors.open.ask(b"get feeds:1\r\n") == b"VALUE feeds:1 0 4\r\nfeed\r\n" + END
    assert doors.open.value(b"1") is None


def test_bound_flush_touches_its_own_items_only(doors):
    for wire in (doors.open, doors.private, doors.other):
        store(wire, b"k", b"x")
    store(doors.open, b"feeds:1", b"feed")
    assert doors.private.ask(b"flush_all\r\nget k\r\n") == b"OK\r\n" + END
    assert doors.open.value(b"k") == b"x"
    assert doors.open.value(b"feeds:1") == b"feed"
    assert doors.other.value(b"k") == b"x"


def test_unbound_flush_spares_port_tenants(doors):
    for wire in (doors.open, doors.private, doors.other):
        store(wire, b"k", b"x")
    store(doors.open, b"feeds:1", b"feed")
    assert doors.open.ask(b"flush_all\r\nget k feeds:1\r\n") == b"OK\r\n" + END
    assert doors.private.value(b"k") == b"x"
    assert doors.other.value(b"k") == b"x"


def test_stats_of_a_bound_connection_are_its_own(doors):
    for number in range(10):
        store(doors.open, b"k%d" % number, b"x" * 1000)
    for number in range(3):
        store(doors.private, b"k%d" % number, b"x" * 1000)
    private, other, unbound = doors.private.stats(), doors.other.stats(), doors.open.stats()
    assert list(private) == list(unbound), "the same names in the same order"
    assert private["curr_items"] == "3"
    assert other["curr_items"] == "0"
    assert 3000 <= int(private["bytes"]) < 5000
    assert 0 < int(private["limit_maxbytes"]) < 64 * MIB, "its target"
    assert 4 * MIB <= int(other["limit_maxbytes"]), "a target never falls below the reservation"
    gets = int(private["cmd_get"])
    doors.open.value(b"k1")
    assert int(doors.private.stats()["cmd_get"]) == gets, "another's gets are not counted"
    doors.private.value(b"k1")
    assert int(doors.private.stats()["cmd_get"]) == gets + 1


def test_stats_items_of_a_bound_connection_are_its_own(doors):
    store(doors.open, b"k", b"x" * 5000)
    store(doors.private, b"k", b"x" * 100)
    numbers = {name: value for name, value in doors.private.stats(b"items").items() if name.endswith(":number")}
    assert list(numbers.values()) == ["1"]


def test_health(server):
    status, _ = server.http("/health")
    assert status == 200


def test_unknown_path_is_404(server):
    assert server.http("/no/such/path")[0] == 404


def test_metrics_name_tenants(server, doors):
    for number in range(1000):
        store(doors.open, b"feeds:%d" % number, b"x" * 1000)
    eventually(lambda: (held(server, "feeds") or 0) >= 1_000_000, "cotenant_tenant_held_bytes{tenant=\"feeds\"} stays low")
    assert held(server, "private") is not None
    assert held(server, "other") is not None


@pytest.mark.parametrize("name", MIXIN)
def test_metrics_have_memcached_names(server, doors, name):
    store(doors.open, b"k", b"x")
    found = samples(server)
    assert name in found, f"no sample of {name}"
    if name == "memcached_up":
        assert found[name][0][1] == 1
    if name == "memcached_version":
        assert 'version="1.6.' in found[name][0][0]


def test_metrics_have_the_memory_in_force(fresh):
    server = fresh()
    with server.wire() as wire:
        assert wire.ask(b"cache_memlimit 32\r\n") == b"OK\r\n"
        assert wire.stats()["limit_maxbytes"] == str(32 << 20)
    assert samples(server)["memcached_limit_bytes"][0][1] == 32 << 20


def test_commands_total_has_the_mixin_s_labels(server, doors):
    doors.open.ask(b"get nope\r\nset a 0 0 1\r\nx\r\nget a\r\n")
    labels = [labels for labels, _ in samples(server)["memcached_commands_total"]]
    for command, status in [("get", "hit"), ("get", "miss"), ("set", "hit")]:
        assert any(f'command="{command}"' in one and f'status="{status}"' in one for one in labels), (command, status)


def test_a_neighbour_s_flood_spares_the_reservation(server, doors):
    """The feeds' floor of 8 MiB holds against one who writes four times the memory."""
    keys = [b"feeds:kept:%d" % number for number in range(4000)]
    for start in range(0, len(keys), 500):
        doors.open.ask(b"".join(set_request(key, b"v" * 1000, noreply=True) for key in keys[start : start + 500]))
    for turn in range(256):
        doors.private.ask(b"".join(set_request(b"flood:%d:%d" % (turn, n), b"x" * 10_000, noreply=True) for n in range(100)))
    lost = [key for key in keys if doors.open.value(key) != b"v" * 1000]
    assert not lost, f"{len(lost)} of {len(keys)} items (4 MB) lost under a reservation of 8 MiB, {lost[0]} first"


def names_of_tenants(server):
    held = samples(server).get("cotenant_tenant_held_bytes", [])
    return {re.search(r'tenant="([^"]*)"', labels).group(1) for labels, _ in held}


def test_delimiter_makes_tenants_of_stored_prefixes(fresh):
    server = fresh("-D", ":")
    with server.wire() as wire:
        known = names_of_tenants(server)
        assert wire.ask(b"get asked:1\r\n") == END
        assert wire.ask(b"replace refused:1 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
        assert wire.ask(b"incr counted:1 1\r\n") == b"NOT_FOUND\r\n"
        store(wire, b"stored:1", b"x")
        store(wire, b"plain", b"x")
        eventually(lambda: names_of_tenants(server) - known, "no tenant after a store")
        born = names_of_tenants(server) - known
        assert {name.rstrip(":") for name in born} == {"stored"}, "a successful store makes a tenant, nothing else does"
        assert wire.value(b"stored:1") == b"x"
        store(wire, b"stored:2", b"x")
        store(wire, b"second:1:2", b"x")
        eventually(lambda: len(names_of_tenants(server) - known) == 2, "the second prefix makes the second tenant")
        assert {name.rstrip(":") for name in names_of_tenants(server) - known} == {"stored", "second"}


#: What may follow the first store of a prefix in the same batch; each leaves the item there.
FOLLOWING = [
    b"incr %b 1\r\n", b"decr %b 1\r\n", b"append %b 0 0 1\r\n1\r\n", b"prepend %b 0 0 1\r\n1\r\n", b"replace %b 0 0 1\r\n1\r\n",
    b"touch %b 50\r\n", b"gat 50 %b\r\n", b"mg %b v T30\r\n", b"ms %b 1 MA\r\n1\r\n", b"ma %b\r\n", b"md %b I T30\r\n",
]  # fmt: skip


def test_what_follows_the_first_store_of_a_prefix_is_its_tenants(fresh):
    """In one batch: the item, and what was asked, are nobody else's."""
    server = fresh("-D", ":")
    with server.wire() as wire:
        for n, following in enumerate(FOLLOWING):
            key = b"p%d:1" % n
            wire.ask(set_request(key, b"9") + following % key + b"get %b\r\n" % key)
        stats = wire.stats(b"tenants")
    assert {stats[f"p{n}:items"] for n in range(len(FOLLOWING))} == {"1"}
    assert stats["default:items"] == stats["default:held_bytes"] == "0"
    assert {stats[f"p{n}:gets"] != "0" for n in range(len(FOLLOWING))} == {True}
    assert stats["default:gets"] == "0"


def test_two_servers_on_one_host(fresh):
    """Two processes live side by side."""
    one, two = fresh(), fresh()
    assert one.address != two.address
    one.check_alive()
    two.check_alive()


def test_default_listener_s_classes_leave_port_tenants_out(doors):
    before = doors.open.ask(b"stats items\r\n")
    for i in range(50):
        assert doors.private.ask(b"set classes:%d 0 0 700\r\n%b\r\n" % (i, b"v" * 700)) == b"STORED\r\n"
    assert doors.open.ask(b"stats items\r\n") == before


def test_reset_of_a_bound_connection_is_its_own(doors):
    assert doors.open.ask(b"get reset:nothing\r\n") == doors.private.ask(b"get reset:nothing\r\n") == b"END\r\n"
    before = int(doors.open.stats()["get_misses"])
    assert 0 < before
    assert doors.private.ask(b"stats reset\r\n") == b"RESET\r\n"
    assert int(doors.private.stats()["get_misses"]) == 0
    assert int(doors.open.stats()["get_misses"]) == before


def test_names_that_clients_choose_are_one_line_and_one_word(fresh):
    """A key of the binary protocol may hold anything, and so may the name of the tenant that it makes."""
    server = fresh("-D", ":")
    with packets.BinaryWire(server.address) as wire:
        for key in (b"x\nERROR all is lost\x1b[2J:k", b"a\tb:k", b"a b:k", b"a_b:k"):
            assert wire.one(packets.store("set", key, b"v")).status == packets.OK
    with server.wire() as wire:
        words = {name.removesuffix(":items") for name in wire.stats(b"tenants") if name.endswith(":items")}
    assert words == {"default", "x%0AERROR%20all%20is%20lost%1B[2J", "a%09b", "a%20b", "a_b"}
    name = urllib.parse.quote("x\nERROR all is lost\x1b[2J")
    assert test_admin.ask(server, "PUT", f"/tenants/{name}", {"weight": 2.0})[0] == 200
    assert test_admin.ask(server, "DELETE", f"/tenants/{name}")[0] in (200, 204)
    until = time.monotonic() + DEADLINE_S
    while not any("was removed" in line for line in server.log):
        assert time.monotonic() < until, server.said()
        time.sleep(0.01)
    told = [line for line in server.log if "all is lost" in line]
    assert any("tenant 'x\\nERROR all is lost\\u{1b}[2J' was removed" in line for line in told), told
    assert all(" INFO " in line and "\x1b" not in line for line in told), told


def test_stats_of_a_tenants_listener_tell_of_nobody_else(fresh):
    server = fresh("--tenant", "name=alpha,listen=127.0.0.1:0", "--tenant", "name=beta,listen=127.0.0.1:0")
    with server.wire() as wire, server.tenant_wire("alpha") as alpha, server.tenant_wire("beta") as beta:
        others = [server.tenant_wire("beta") for _ in range(3)]
        for other in others:
            other.ask(b"flush_all\r\n")
        beta.ask(set_request(b"k", b"x" * 100_000))
        beta.value(b"k")
        assert alpha.ask(set_request(b"big", b"x" * (2 * MIB))) == b"SERVER_ERROR object too large for cache\r\n"
        assert alpha.ask(set_request(b"big", b"x" * (2 * MIB))) == b"SERVER_ERROR object too large for cache\r\n"
        own, seen, default = alpha.stats(), beta.stats(), wire.stats()
        assert [own[name] for name in ("curr_connections", "total_connections", "cmd_flush", "store_too_large")] == ["1", "1", "0", "2"]
        assert [seen[name] for name in ("curr_connections", "total_connections", "cmd_flush", "store_too_large")] == ["4", "4", "3", "0"]
        assert default["store_too_large"] == "0"
        assert int(default["curr_connections"]) >= 6, "an operator sees them all"
        assert int(own["bytes_written"]) < 50_000 < 100_000 <= int(seen["bytes_written"])
        assert 100_000 <= int(seen["bytes_read"]) < 4 * MIB <= int(own["bytes_read"])
        for other in others:
            other.close()
        deadline = time.monotonic() + DEADLINE_S
        while beta.stats()["curr_connections"] != "1":
            assert time.monotonic() < deadline, "connections that went are counted as open"
        assert beta.stats()["total_connections"] == "4"
        assert beta.ask(b"stats reset\r\n") == b"RESET\r\n"
        seen = beta.stats()
        assert (seen["cmd_flush"], seen["curr_connections"], seen["total_connections"]) == ("0", "1", "0")
        assert int(seen["bytes_written"]) < 50_000


def test_a_reset_holds_when_a_tenants_items_are_of_another_class(fresh):
    server = fresh("--tenant", "name=own,listen=127.0.0.1:0")
    with server.tenant_wire("own") as own:
        for n in range(5):
            own.ask(set_request(b"small%d" % n, b"x"))
        own.ask(b"get small0 small1 small2\r\nstats reset\r\n")
        own.ask(set_request(b"large", b"x" * 100_000))
        slabs = {name.split(":")[1]: value for name, value in own.stats(b"slabs").items() if ":" in name}
        assert (slabs["get_hits"], slabs["cmd_set"]) == ("0", "1")
