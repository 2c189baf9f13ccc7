"""SIGHUP: settings are read again, what can change does, what cannot is named, and nothing is lost."""

import os
import signal
import subprocess
import time

import pytest

from conformance import servers
from conformance.test_admin import ask, wait_until
from conformance.wire import DEADLINE_S, END, Wire, set_request

pytestmark = pytest.mark.cotenant

MIB = 1 << 20

BEFORE = """
memory = "64MiB"
policy = "shared"
slow_request = "10ms"

[group.team]
reserved = "8MiB"

[tenant.feeds]
prefix = "feeds:"
reserved = "8MiB"

[tenant.shop]
prefix = "shop:"
reserved = "20MiB"
weight = 2.0

[tenant.old]
prefix = "old:"

[tenant.door]
listen = "127.0.0.1:0"
"""


class Reloaded:
    """A server whose file changes."""

    def __init__(self, path, text, arguments=()):
        self.path = path
        path.write_text(text, encoding="ascii")
        self.server = servers.start_cotenant(["--config", str(path), *arguments], memory=None)

    def reload(self, text):
        """What the log says of new settings."""
        self.path.write_text(text, encoding="ascii")
        before = len(self.server.log)
        self.server.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + DEADLINE_S
        while not any("the settings" in line for line in self.server.log[before:]):
            assert time.monotonic() < until, self.server.said()
            time.sleep(0.01)
        # Whatever it says of them is said at once; a request shows that the control thread goes on.
        ask(self.server, "GET", "/tenants")
        return self.server.log[before:]

    def tenant(self, name):
        status, shown = ask(self.server, "GET", f"/tenants/{name}")
        return shown if status == 200 else None


@pytest.fixture
def reloaded(tmp_path):
    reloaded = Reloaded(tmp_path / "cotenant.toml", BEFORE)
    yield reloaded
    assert reloaded.server.stop() == 0


def test_what_can_change_does_and_nothing_is_lost(reloaded):
    keys = [b"feeds:%d" % n for n in range(500)] + [b"shop:%d" % n for n in range(500)] + [b"plain-%d" % n for n in range(500)]
    with reloaded.server.wire() as wire, reloaded.server.tenant_wire("door") as door:
        for key in keys:
            wire.ask(set_request(key, b"of " + key))
        wire.ask(set_request(b"old:k", b"v"))
        door.ask(set_request(b"k", b"v"))
        # What the administration changed and the file does not speak of stays.
        assert ask(reloaded.server, "PUT", "/tenants/feeds", {"weight": 7.0})[0] == 200
        assert ask(reloaded.server, "PUT", "/tenants/mine", {"prefix": "mine:"})[0] == 201
        after = BEFORE.replace('policy = "shared"', 'policy = "partitioned"\nrank = "lru"\nmax_connections = 500\nprivate = 0.5\ncredit = "1KiB"\ntax = 0.25\nidle_time = "1h"\nlearning = "2h"')
        after = after.replace('memory = "64MiB"', 'memory = "60MiB"').replace('slow_request = "10ms"', 'slow_request = "0s"')
        # One gives back what the other takes, and the group takes more: together it fits only in this order.
        after = after.replace('prefix = "feeds:"\nreserved = "8MiB"', 'prefix = "feeds:"\nreserved = "24MiB"')
        after = after.replace('reserved = "20MiB"\nweight = 2.0', 'reserved = "2MiB"\nmax_connections = 9\nrank = "lfu"')
        after = after.replace('[group.team]\nreserved = "8MiB"', '[group.team]\nreserved = "9MiB"')
        after = after.replace('[tenant.old]\nprefix = "old:"', '[tenant.new]\nprefix = "new:"\nreserved = "1MiB"\ngroup = "team"')
        said = "\n".join(reloaded.reload(after))
        for what in ("policy partitioned", "credit 1KiB", "tax 0.25", "idle_time 1h", "learning 2h", "private 0.5", "rank lru", "memory 60MiB",
                     "tenant 'feeds' changed", "tenant 'shop' changed",
                     "tenant 'old' removed", "tenant 'new' added", "group 'team' changed"):
            assert f"the settings were read again: {what}" in said, (what, said)
        assert "but not" not in said and "restart" not in said, said
        wait_until(lambda: 0 < reloaded.tenant("mine")["private_bytes"])
        feeds, shop, new = (reloaded.tenant(name) for name in ("feeds", "shop", "new"))
        assert (feeds["reserved_bytes"], feeds["weight"], feeds["rank"]) == (24 * MIB, 7.0, "lru")
        assert (shop["reserved_bytes"], shop["weight"], shop["rank"]) == (2 * MIB, 1.0, "lfu")
        assert (shop["max_connections"], new["reserved_bytes"], new["group"]) == (9, MIB, "team")
        assert reloaded.tenant("old") is None and reloaded.tenant("mine")["prefix"] == "mine:"
        assert all(wire.value(key) == b"of " + key for key in keys)
        assert door.value(b"k") == b"v" and wire.value(b"old:k") is None
        settings, stats = wire.stats(b"settings"), wire.stats()
        assert (settings["maxconns"], settings["maxbytes"], settings["rank"]) == ("500", str(60 * MIB), "lru")
        assert stats["max_connections"] == "500"
        assert ask(reloaded.server, "GET", "/slow")[1]["threshold_us"] == 0
        shown = ask(reloaded.server, "GET", "/policy")[1]
        assert shown["policy"] == "partitioned" and (shown["credit_bytes"], shown["tax"]) == (1024, 0.25)
        assert (shown["idle_time_seconds"], shown["learning_seconds"]) == (3600, 7200)
        # And back, on the same connections.
        said = "\n".join(reloaded.reload(BEFORE))
        assert "but not" not in said and "restart" not in said, said
        wait_until(lambda: reloaded.tenant("mine")["private_bytes"] == 0)
        assert all(wire.value(key) == b"of " + key for key in keys)
        assert reloaded.tenant("new") is None and reloaded.tenant("shop")["max_connections"] is None
        assert wire.stats(b"settings")["maxbytes"] == str(64 * MIB)


def test_what_cannot_change_is_named(reloaded):
    after = BEFORE.replace('memory = "64MiB"', 'memory = "65MiB"\nthreads = 3\nmax_item_size = "64KiB"')
    after = after.replace('prefix = "feeds:"', 'prefix = "news:"').replace('listen = "127.0.0.1:0"', 'listen = "127.0.0.1:1"')
    after += '[tenant.late]\nlisten = "127.0.0.1:2"\n'
    for _ in range(2):
        said = "\n".join(reloaded.reload(after))
        assert "max_item_size needs a restart to change from 1MiB to 64KiB" in said, said
    said = "\n".join(reloaded.reload(BEFORE) + reloaded.reload(after))
    for what in (
        "but not memory 65MiB: 64MiB is the most it started with", "but not prefix of tenant 'feeds': that needs a restart",
        "but not listen of tenant 'door'", "but not tenant 'late' added: its address is listened on from the start",
    ):
        assert what in said, (what, said)
    # The tests' usual flags say -t 2: a flag goes before the file, now as at the start.
    assert "threads" not in said
    said = "\n".join(reloaded.reload(BEFORE.replace("[tenant.door]", "[tenant.shut]")))
    assert "but not tenant 'door' removed: tenant 'door' has connections of its own" in said
    with reloaded.server.tenant_wire("door") as wire:
        assert wire.ask(b"get k\r\n") == END


def test_private_memory_changes_at_once(tmp_path):
    """Without groups, and under a policy that decides once a minute."""
    said = 'policy = "idle-tax"\n[tenant.feeds]\nprefix = "feeds:"\n[tenant.shop]\nprefix = "shop:"\nreserved = "4MiB"\n'
    reloaded = Reloaded(tmp_path / "cotenant.toml", said)
    try:
        private = lambda name: reloaded.tenant(name)["private_bytes"]
        for part in ("0.5", "0"):
            assert "the settings were read again: private" in "\n".join(reloaded.reload(f"private = {part}\n{said}"))
            wait_until(lambda p=part: (0 < private("feeds")) == (p != "0"))
            assert private("shop") == 4 * MIB
    finally:
        assert reloaded.server.stop() == 0


def test_another_memory_is_divided_at_once(tmp_path):
    """By a client's word or the file, under a policy that decides once a minute."""
    said = 'policy = "idle-tax"\nmemory = "%dMiB"\n[tenant.feeds]\nprefix = "feeds:"\n'
    reloaded = Reloaded(tmp_path / "cotenant.toml", said % 64)
    divided = lambda: sum(tenant["target_bytes"] for tenant in ask(reloaded.server, "GET", "/tenants")[1]["tenants"])
    try:
        wait_until(lambda: 40 * MIB < divided())
        with reloaded.server.wire() as wire:
            assert wire.ask(b"cache_memlimit 32\r\n") == b"OK\r\n"
        wait_until(lambda: divided() < 32 * MIB)
        reloaded.reload(said % 48)
        wait_until(lambda: 32 * MIB < divided() < 48 * MIB)
    finally:
        assert reloaded.server.stop() == 0


@pytest.mark.parametrize(
    "wrong, what",
    [
        ("memroy = 5\n", "cotenant.toml:1: unknown setting 'memroy'; did you mean 'memory'?"),
        ('memory = "64"\n', "cotenant.toml:1: memory: "),
        ("memory = [", "cotenant.toml:1"),
        ('[tenant.a]\nprefix = "a:"\nreserved = "1TiB"\n', "reservations are"),
        ('[tenant.a]\nweight = 1.0\n', "tenant 'a' has neither a prefix nor a listen address"),
    ],
)
def test_wrong_settings_change_nothing(reloaded, wrong, what):
    with reloaded.server.wire() as wire:
        wire.ask(set_request(b"feeds:k", b"v"))
        before, settings = ask(reloaded.server, "GET", "/tenants")[1], wire.stats(b"settings")
        lines = [line for line in reloaded.reload(wrong) if "the settings" in line]
        assert len(lines) == 1 and "the settings stay as they were: " in lines[0] and what in lines[0], lines
        known = [(t["name"], t["reserved_bytes"], t["weight"]) for t in ask(reloaded.server, "GET", "/tenants")[1]["tenants"]]
        assert known == [(t["name"], t["reserved_bytes"], t["weight"]) for t in before["tenants"]]
        assert wire.value(b"feeds:k") == b"v" and wire.stats(b"settings") == settings
        reloaded.path.unlink()
        reloaded.server.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + DEADLINE_S
        while not any("cannot read the configuration" in line for line in reloaded.server.log):
            assert time.monotonic() < until, reloaded.server.said()
            time.sleep(0.01)


def test_a_daemon_finds_its_file_again(tmp_path):
    """It has left the folder that its file is in."""
    config = tmp_path / "cotenant.toml"
    config.write_text('pidfile = "pid"\nunix_socket = "sock"\nmax_connections = 100\n', encoding="ascii")
    command = [str(servers.BINARY), "serve", "-d", "--config", "cotenant.toml", "-l", "127.0.0.1:0", "--admin", "off"]
    started = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert started.returncode == 0, started.stderr
    pid = int((tmp_path / "pid").read_text())
    try:
        address, _, _ = servers.parse_ready(started.stdout + started.stderr)
        with Wire(address) as wire:
            config.write_text(config.read_text(encoding="ascii").replace("100", "90"), encoding="ascii")
            os.kill(pid, signal.SIGHUP)
            until = time.monotonic() + DEADLINE_S
            while wire.stats()["max_connections"] != "90":
                assert time.monotonic() < until
                time.sleep(0.01)
    finally:
        os.kill(pid, signal.SIGTERM)


def test_a_daemon_sees_no_change_where_there_is_none(tmp_path):
    """Its paths are those of the folder that it has left."""
    config, log = tmp_path / "cotenant.toml", tmp_path / "log"
    config.write_text('pidfile = "pid"\nlisten = ["127.0.0.1:0"]\n[tenant.door]\nlisten = "unix:door"\n', encoding="ascii")
    command = [str(servers.BINARY), "serve", "-d", "-v", "--config", "cotenant.toml", "--admin", "off"]
    with open(log, "wb") as stderr:
        assert subprocess.run(command, cwd=tmp_path, stderr=stderr, timeout=60).returncode == 0
    pid = int((tmp_path / "pid").read_text())
    try:
        before = len(log.read_text().splitlines())
        os.kill(pid, signal.SIGHUP)
        until = time.monotonic() + DEADLINE_S
        while not any("the settings were read again" in line for line in log.read_text().splitlines()[before:]):
            assert time.monotonic() < until
            time.sleep(0.01)
        said = log.read_text().splitlines()[before:]
        assert not any("WARN" in line for line in said), said
    finally:
        os.kill(pid, signal.SIGTERM)


def test_what_fits_in_one_order_only_is_taken_in_that(tmp_path):
    """A group shrinks once a member has left it, and the file names a tenant that is there already."""
    group = '[group.team]\nreserved = "%s"\n[tenant.a]\nprefix = "a:"\nreserved = "6MiB"\ngroup = "team"\n'
    mover = '[tenant.b]\nprefix = "b:"\nreserved = "4MiB"\n'
    listed = '[tenant.feeds]\nprefix = "feeds:"\nreserved = "3MiB"\nweight = 2.0\nbandwidth = "limit 10%"\n'
    start = 'memory = "64MiB"\nprefix_delimiter = ":"\n'
    before = start + group % "10MiB" + mover + 'group = "team"\n'
    moved = Reloaded(tmp_path / "cotenant.toml", before)
    with moved.server.wire() as wire:
        wire.ask(set_request(b"feeds:1", b"x"))
    assert moved.tenant("feeds")["reserved_bytes"] == 0
    said = moved.reload(start + group % "6MiB" + mover + listed)
    assert not any("stays" in line or "WARN" in line for line in said), said
    assert ask(moved.server, "GET", "/groups/team")[1]["reserved_bytes"] == 6 * MIB
    assert moved.tenant("b")["group"] is None
    shown = moved.tenant("feeds")
    assert (shown["reserved_bytes"], shown["weight"], shown["bandwidth"]) == (3 * MIB, 2.0, "limit 10%")
    assert moved.server.stop() == 0


def test_what_the_administration_removed_stays_removed(reloaded):
    """Until the file says something new of it; and what is gone already is not removed again."""
    for gone in ("tenants/feeds", "tenants/old", "groups/team"):
        assert ask(reloaded.server, "DELETE", f"/{gone}")[0] in (200, 204)
    said = reloaded.reload(BEFORE)
    assert not any("added" in line or "WARN" in line for line in said), said
    assert reloaded.tenant("feeds") is None and ask(reloaded.server, "GET", "/groups/team")[0] == 404
    without = BEFORE.replace('[tenant.old]\nprefix = "old:"\n', "").replace('[group.team]\nreserved = "8MiB"\n', "")
    for _ in range(2):
        said = reloaded.reload(without)
        assert not any("removed" in line or "WARN" in line for line in said), said
    said = "\n".join(reloaded.reload(without.replace('prefix = "feeds:"\nreserved = "8MiB"', 'prefix = "feeds:"\nreserved = "4MiB"')))
    assert "tenant 'feeds' added" in said and "WARN" not in said, said
    assert reloaded.tenant("feeds")["reserved_bytes"] == 4 * MIB


def test_an_order_of_ones_own_stays_whatever_it_is(reloaded):
    """Though it was the server's when the administration gave it."""
    usual = reloaded.tenant("feeds")["rank"]
    assert ask(reloaded.server, "PUT", "/tenants/feeds", {"rank": usual})[0] == 200
    own = 'weight = 2.0\nrank = "lfu"'
    reloaded.reload('rank = "lru"\n' + BEFORE.replace("weight = 2.0", own))
    assert [reloaded.tenant(name)["rank"] for name in ("feeds", "shop", "old")] == [usual, "lfu", "lru"]
    reloaded.reload('rank = "lru"\n' + BEFORE)
    assert [reloaded.tenant(name)["rank"] for name in ("feeds", "shop", "old")] == [usual, "lru", "lru"]
    reloaded.reload(BEFORE)
    assert [reloaded.tenant(name)["rank"] for name in ("feeds", "shop", "old")] == [usual] * 3


def test_what_needs_a_restart_is_named_each_time_with_both_values(reloaded):
    assert ask(reloaded.server, "PUT", "/tenants/mine", {"prefix": "mine:"})[0] == 201
    after = BEFORE.replace('prefix = "feeds:"', 'prefix = "news:"') + '[tenant.mine]\nprefix = "other:"\n'
    for _ in range(2):
        said = "\n".join(reloaded.reload(after))
        assert "but not prefix of tenant 'feeds': that needs a restart to change from 'feeds:' to 'news:'" in said, said
        assert "but not prefix of tenant 'mine': that needs a restart to change from 'mine:' to 'other:'" in said, said
    said = reloaded.reload(BEFORE + '[tenant.mine]\nprefix = "mine:"\n')
    assert not any("WARN" in line for line in said), said


def test_numbers_that_change_are_named(reloaded):
    numbers = 'max_connections = 500\nidle_timeout = "90s"\nsend_timeout = "7s"\n'
    said = "\n".join(reloaded.reload(numbers + BEFORE.replace('slow_request = "10ms"', 'slow_request = "20ms"')))
    for what in ("max_connections 500", "idle_timeout 90s", "send_timeout 7s", "slow_request 20ms"):
        assert f"the settings were read again: {what}" in said, said


def test_what_was_refused_is_tried_again(reloaded):
    """The same file, once what was in its way has gone; what an operator changed meanwhile stays."""
    more = BEFORE.replace('reserved = "20MiB"', 'reserved = "30MiB"').replace("weight = 2.0", "weight = 3.0")
    assert ask(reloaded.server, "PUT", "/tenants/mine", {"prefix": "mine:", "reserved_bytes": 20 * MIB})[0] == 201
    said = "\n".join(reloaded.reload(more + '[group.late]\nreserved = "10MiB"\n'))
    assert "tenant 'shop' changed: " in said and "group 'late' changed: " in said
    assert reloaded.tenant("shop")["weight"] == 2.0
    assert ask(reloaded.server, "PUT", "/tenants/feeds", {"weight": 7.0})[0] == 200
    assert ask(reloaded.server, "DELETE", "/tenants/mine")[0] in (200, 204)
    said = "\n".join(reloaded.reload(more))
    assert "tenant 'shop' changed" in said and "WARN" not in said and "late" not in said
    shop = reloaded.tenant("shop")
    assert (shop["reserved_bytes"], shop["weight"]) == (30 * MIB, 3.0)
    assert reloaded.tenant("feeds")["weight"] == 7.0


def test_the_file_of_users_stays_that_of_the_start(tmp_path):
    """What it says is read again, and what another says that the settings name is not."""
    files = [tmp_path / name for name in ("first", "other")]
    files[0].write_text("ann:one\n", encoding="ascii")
    files[1].write_text("ann:two\n", encoding="ascii")
    settings = 'memory = "64MiB"\nauth_file = "%s"\n'
    reloaded = Reloaded(tmp_path / "cotenant.toml", settings % files[0])
    try:
        def lets_in(password):
            with reloaded.server.wire() as wire:
                return wire.ask(set_request(b"auth", b"ann " + password)) == b"STORED\r\n"

        def times_read():
            return sum("users are known" in line for line in reloaded.server.log)

        assert lets_in(b"one") and not lets_in(b"two")
        for _ in range(2):
            before = times_read()
            assert "auth_file" in "\n".join(reloaded.reload(settings % files[1]))
            wait_until(lambda before=before: before < times_read())
            assert lets_in(b"one") and not lets_in(b"two")
        files[0].write_text("ann:three\n", encoding="ascii")
        reloaded.reload(settings % files[1])
        wait_until(lambda: lets_in(b"three"))
    finally:
        assert reloaded.server.stop() == 0
