"""A client of the meta commands that is not ours: meta-memcache. The suite of another, memcache, is in `test_own_suites`."""

import random
import time

import pytest

from conformance.test_clients import Checks, empty  # noqa: F401  (a fixture)

#: A key that is sent in base64, as is whatever is no ASCII or too long.
BINARY_KEY = "schlüssel mit leerzeichen"
HOUR_S = 3600
#: Longest wait for a time to live of one second to pass.
DEADLINE_S = 10
#: More than the largest value here.
BUFFER_BYTES = 2 << 20
#: What the checks below come to.
COUNT = 75


@pytest.fixture
def meta():
    return pytest.importorskip("meta_memcache", reason="meta-memcache is not installed (tests/requirements.txt)")


@pytest.fixture
def client(meta, empty):  # noqa: F811
    host, port = empty.address
    # What its buffer does not hold takes the client many seconds.
    pools = meta.connection_pool_factory_builder(
        connection_timeout=DEADLINE_S, recv_timeout=DEADLINE_S, read_buffer_size=BUFFER_BYTES,
    )
    return meta.CacheClient.cache_client_from_servers([meta.ServerAddress(host, port)], pools)


def test_meta_memcache(meta, client, passed):
    check = Checks()
    stores(meta, client, check)
    numbers(client, check)
    swaps(meta, client, check)
    herds(meta, client, check)
    tells(meta, client, check)
    acts(meta, client, check)
    times(client, check)
    assert COUNT <= check.count
    passed("meta-memcache", f"(meta commands): {check.count} checks passed")


def stores(meta, client, check):
    mode = meta.SetMode
    for key in ["text", BINARY_KEY, "k" * 250, "k" * 300]:
        check(client.set(key, "käse", ttl=HOUR_S), True)
        check(client.get(key), "käse")
    check(client.set("object", {"a": [1, 2.5, None]}, ttl=HOUR_S), True)
    check(client.get("object"), {"a": [1, 2.5, None]})
    check(client.set("ends", b"\r\nEN\r\nHD\r\n\0", ttl=HOUR_S), True)
    check(client.get("ends"), b"\r\nEN\r\nHD\r\n\0")
    check(client.set("empty", b"", ttl=HOUR_S), True)
    check(client.get("empty"), b"")
    check(client.set("text", "no", ttl=HOUR_S, set_mode=mode.ADD), False)
    check(client.refill("new", "yes", ttl=HOUR_S), True)
    check(client.set("new", "still", ttl=HOUR_S, set_mode=mode.REPLACE), True)
    check(client.set("none", "no", ttl=HOUR_S, set_mode=mode.REPLACE), False)
    check(client.set("log", b"b", ttl=HOUR_S), True)
    check(client.set("log", b"c", ttl=HOUR_S, set_mode=mode.APPEND), True)
    check(client.set("log", b"a", ttl=HOUR_S, set_mode=mode.PREPEND), True)
    check(client.get("log"), b"abc")
    check(client.set("none", b"x", ttl=HOUR_S, set_mode=mode.APPEND), False)
    check(client.get("none"), None)
    for i in range(100):
        client.set(f"many{i}", i, ttl=HOUR_S, no_reply=True)
    keys = [f"many{i}" for i in range(200)]
    got = {key.key: value for key, value in client.multi_get(keys).items()}
    check(got, {f"many{i}": i if i < 100 else None for i in range(200)})
    # Random, as the client would compress it.
    large = random.Random(1).randbytes(1_000_000)
    check(client.set("large", large, ttl=HOUR_S), True)
    check(client.get("large"), large)
    check(client.delete("text"), True)
    check(client.delete("text"), False)
    check(client.invalidate("text"), True)


def numbers(client, check):
    check(client.delta_and_get("number", 1), None)
    check(client.delta_initialize_and_get("number", 1, initial_value=42, initial_ttl=HOUR_S), 42)
    check(client.delta_initialize_and_get("number", 8, initial_value=42, initial_ttl=HOUR_S), 50)
    check(client.delta_and_get("number", -20), 30)
    check(client.delta_and_get("number", -100), 0)
    check(client.delta("number", 7), True)
    # A shorter number is padded in place.
    check(int(client.get("number")), 7)


def swaps(meta, client, check):
    first = client.set_cas("swapped", "one", ttl=HOUR_S)
    check(client.get_cas("swapped"), ("one", first))
    second = client.set_cas("swapped", "two", ttl=HOUR_S, cas_token=first)
    check(first < second, True)
    check(client.set("swapped", "three", ttl=HOUR_S, cas_token=first), False)
    check(client.delete("swapped", cas_token=first), False)
    check(client.get("swapped"), "two")
    # A write that comes too late for its number is stored, stale.
    late = meta.configuration.StalePolicy(mark_stale_on_cas_mismatch=True)
    check(client.set("swapped", "late", ttl=HOUR_S, cas_token=first, stale_policy=late), True)
    check([client.get("swapped") for _ in range(2)], [None, "late"])
    check(client.delete("swapped", cas_token=second), False)
    check(client.delete("swapped", cas_token=client.get_cas("swapped")[1]), True)


def herds(meta, client, check):
    """Of all who find nothing, something old or something stale, one is told to store it again."""
    lease = meta.configuration.LeasePolicy(ttl=HOUR_S, miss_retries=1)
    winner, number = client.get_or_lease_cas("leased", lease)
    check((winner, number > 0), (None, True))
    flags = meta.RequestFlags(return_value=True, vivify_on_miss_ttl=HOUR_S)
    loser = client.meta_get(meta.Key("leased"), flags)
    check((loser.size, loser.flags.win), (0, False))
    check(client.set("leased", "filled", ttl=HOUR_S, cas_token=number), True)
    check(client.get_or_lease("leased", lease), "filled")

    early = meta.configuration.RecachePolicy(ttl=HOUR_S)
    check(client.set("old", "value", ttl=100), True)
    check([client.get("old", recache_policy=early) for _ in range(3)], [None, "value", "value"])

    stale = meta.configuration.StalePolicy(mark_stale_on_deletion_ttl=HOUR_S)
    check(client.set("stale", "value", ttl=HOUR_S), True)
    check(client.delete("stale", stale_policy=stale), True)
    check([client.get("stale") for _ in range(3)], [None, "value", "value"])
    check(client.set("stale", "new", ttl=HOUR_S), True)
    check([client.get("stale") for _ in range(2)], ["new", "new"])


def tells(meta, client, check):
    """What a client asks to be told of an item."""
    flags = meta.RequestFlags(
        no_update_lru=True, return_value=True, return_ttl=True, return_size=True, return_last_access=True,
        return_fetched=True, return_client_flag=True, return_cas_token=True, return_key=True, opaque=b"o1",
    )
    key = meta.Key("told")
    check(client.set("told", b"12345", ttl=HOUR_S), True)
    for fetched in (False, True):
        told = client.meta_get(key, flags)
        check((bytes(told.value), told.flags.size), (b"12345", 5))
        check((told.flags.fetched, told.flags.last_access in (0, 1, 2)), (fetched, True))
        check(HOUR_S - 5 <= told.flags.ttl <= HOUR_S, True)
        check((told.flags.opaque, 0 < told.flags.cas_token), (b"o1", True))
        client.get("told")


def acts(meta, client, check):
    """The commands themselves, some without a reply."""
    key = meta.Key("acted")
    check(isinstance(client.meta_delete(key), meta.Miss), True)
    down = meta.RequestFlags(
        mode=meta.protocol.MA_MODE_DEC, ma_initial_value=10, ma_delta_value=3, vivify_on_miss_ttl=HOUR_S, return_value=True,
    )
    check([int(client.meta_arithmetic(key, down).value) for _ in range(2)], [10, 7])
    check(client.delete("acted", no_reply=True), True)
    check(client.get("acted"), None)


def times(client, check):
    check(client.touch("told", ttl=1000), True)
    check(client.touch("none", ttl=1000), False)
    check(client.get("told", touch_ttl=500), b"12345")
    check(client.set("soon", "x", ttl=1), True)
    until = time.monotonic() + DEADLINE_S
    while client.get("soon") is not None and time.monotonic() < until:
        pass
    check(client.get("soon"), None)
