"""Who may use a tier how fast: limits that hold, waits that block nobody else, policies and claims that change live."""

import json
import os
import signal
import subprocess

import pytest

from conformance import loads, servers
from conformance.loads import Load, read_answer
from conformance.test_admin import ask, tenant, wait_until
from conformance.test_tenants import samples
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant

TIER = ("--tier", "pm=emulated:2dimm:128MiB", "--placement", "pm")
#: Keys of each tenant.
KEYS = 200


def text(prefix, n):
    return b"%s:%d" % (prefix, n % KEYS)


def fill(server, prefix, size):
    loads.fill(server, [text(prefix, n) for n in range(KEYS)], size)


def load_of(server, prefix, size, kind):
    return Load(server, lambda done: [text(prefix, done + i) for i in range(10)], size, kind)


def at_work(server, *those):
    """Clients at work, by prefix, size and kind."""
    for prefix, size, _ in those:
        fill(server, prefix, size)
    some = [load_of(server, *one) for one in those]
    for load in some:
        load.start()
    return some


def bandwidth(server):
    return json.loads(server.http("/bandwidth")[1])


def decisions(server):
    return [json.loads(line) for line in server.http("/bandwidth/journal")[1].splitlines()]


def id_of(server, name):
    return tenant_json(server, name)["id"]


def tenant_json(server, name):
    return json.loads(server.http(f"/tenants/{name}")[1])


def used(server, name, epochs):
    """Of each of the last epochs: the tier's time that a tenant used and the epoch's length, in seconds; whether it ran out."""
    own = id_of(server, name)
    seen = []
    for decision in decisions(server)[-epochs:]:
        window = decision["window"]
        length = (window["end_ns"] - window["start_ns"]) / 1e9
        signal = next(t["signal"] for t in decision["tenants"] if t["tenant"] == own)
        seen.append((signal["cost_ps"] / 1e12, length, signal["depleted_at_ns"] is not None))
    return seen


def part(epochs):
    """The part of the tier's time that was used in some epochs."""
    return sum(cost for cost, _, _ in epochs) / sum(length for _, length, _ in epochs)


def test_a_limit_holds_for_every_kind_and_size(fresh):
    # So low that clients in one interpreter pass them on a busy machine.
    limits = {"gets": 0.00005, "sets": 0.0001, "mixed": 0.0002}
    claims = [("--tenant", f"name={name},prefix={name}:,bandwidth=limit {100 * part}%") for name, part in limits.items()]
    server = fresh(*TIER, "--bandwidth-policy", "limit", *[word for claim in claims for word in claim])
    some = at_work(
        server, (b"gets", 1000, "get"), (b"sets", 3000, "set"), (b"mixed", 200, "get"), (b"free", 500, "get")
    )
    some += [load_of(server, b"mixed", 200, "set")]
    some[-1].start()
    try:
        start = bandwidth(server)["decisions"]
        wait_until(lambda: start + 13 <= bandwidth(server)["decisions"])
        for name, limit in limits.items():
            epochs = used(server, name, 10)
            assert part(epochs) < 1.01 * limit, f"{name} has a limit of {limit}: {epochs}"
            # A busy machine may not let a client come to its limit; who ran out had all of it.
            ran_out = [one for one in epochs if one[2]]
            assert not ran_out or 0.95 * limit < part(ran_out), f"{name} has a limit of {limit}: {epochs}"
    finally:
        for load in some:
            load.end()
    assert some[3].done > 10 * some[0].done, "who has no limit is as fast as it is"


def test_who_is_held_back_waits_alone(fresh):
    server = fresh(
        *TIER, "-t", "1", "--bandwidth-policy", "limit", "--tenant", "name=slow,prefix=slow:,bandwidth=limit 0.0001%"
    )
    fill(server, b"other", 1000)
    with server.wire() as held, server.wire() as free:
        # Its own writes come to the tier, too: what is there of it uses its budget up.
        held.send(b"".join(set_request(text(b"slow", n), b"v" * 1000) for n in range(KEYS)))
        for n in range(2000):
            free.send(b"get %s\r\n" % text(b"other", n))
            assert read_answer(free) == 1000
        assert int(free.stats(b"tenants")["slow:items"]) < KEYS, "its budget is used up"
        assert ask(server, "PUT", "/tenants/slow", {"bandwidth": ""})[0] == 200
        for _ in range(KEYS):
            assert held.read_line() == b"STORED\r\n"
        held.send(b"get %s\r\n" % text(b"slow", KEYS - 1))
        assert read_answer(held) == 1000


def test_policies_change_while_clients_work_and_nothing_is_lost(fresh):
    claims = ("--tenant", "name=a,prefix=a:,bandwidth=slowdown 1.5", "--tenant", "name=b,prefix=b:")
    server = fresh(*TIER, *claims, "--bandwidth-epoch", "200ms")
    some = at_work(server, (b"a", 1000, "get"), (b"b", 2000, "set"), (b"c", 300, "get"))
    try:
        choices = bandwidth(server)["choices"]
        # That one needs a file.
        choices.remove("ideal")
        for policy in choices[1:] + ["none"]:
            before = bandwidth(server)["decisions"]
            assert ask(server, "PUT", "/bandwidth", {"policy": policy})[0] == 200
            wait_until(lambda before=before: before + 2 <= bandwidth(server)["decisions"])
            assert bandwidth(server)["policy"] == policy
        switches = [note for decision in decisions(server) for note in decision["notes"] if note["reason"] == "switched"]
        assert [note["text"] for note in switches][-1:] == ["none"]
        done = [load.done for load in some]
        wait_until(lambda: all(load.done > before for load, before in zip(some, done)))
    finally:
        for load in some:
            load.end()
    wait_until(lambda: not tenant_json(server, "b")["bandwidth_paused"])
    assert all(tenant_json(server, name)["bandwidth_delay_ns"] == 0 for name in "ab"), "nobody is held back by none"


@pytest.mark.parametrize("policy", ["fair-slowdown", "proportional"])
def test_a_tenant_that_leaves_in_mid_experiment(fresh, policy):
    server = fresh(*TIER, "--bandwidth-policy", policy)
    for name in "xyz":
        assert ask(server, "PUT", f"/tenants/{name}", {"prefix": f"{name}:"})[0] in (200, 201)
    some = at_work(server, (b"x", 1000, "get"), (b"y", 1000, "set"), (b"z", 300, "get"))

    def experiments():
        return sum(note["reason"] == "experiment" for one in decisions(server) for note in one["notes"])

    try:
        wait_until(lambda: 3 <= experiments())
        assert ask(server, "DELETE", "/tenants/y")[0] == 200
        before = bandwidth(server)["decisions"]
        wait_until(lambda: before + 5 <= bandwidth(server)["decisions"])
        done = [some[0].done, some[2].done]
        wait_until(lambda: all(before < load.done for before, load in zip(done, (some[0], some[2]))))
        # Whoever is left is paused for moments only.
        for name in "xz":
            wait_until(lambda name=name: not tenant_json(server, name)["bandwidth_paused"])
    finally:
        for load in (some[0], some[2]):
            load.end()
        some[1].leave()
    server.check_alive()


def test_a_promise_that_cannot_be_kept_is_an_incident(fresh):
    server = fresh(*TIER, "--bandwidth-policy", "qos", "--tenant", "name=c,prefix=c:,bandwidth=p99 1us")
    (load,) = at_work(server, (b"c", 1000, "get"))
    try:
        wait_until(lambda: bandwidth(server)["incidents"] > 0)
        assert "goal" in bandwidth(server)["incident"]
        assert any(note["reason"] == "incident" for one in decisions(server) for note in one["notes"])
    finally:
        load.end()


def refusals(server):
    """Goals of the newest decision that were not taken on: by tenant, why."""
    told = [note for note in decisions(server)[-1]["notes"] if note["reason"] == "incident"]
    return {note["tenant"]: note["text"] for note in told if "is best-effort" in note["text"]}


def test_a_goal_that_cannot_be_kept_beside_the_others_is_not_taken_on(fresh):
    claims = {"a": "keep reads 12GB/s", "b": "keep writes 2GB/s"}
    tenants = [word for name, claim in claims.items() for word in ("--tenant", f"name={name},prefix={name}:,bandwidth={claim}")]
    server = fresh(*TIER, "--bandwidth-policy", "qos", *tenants)
    b = id_of(server, "b")
    wait_until(lambda: b in refusals(server))
    assert "beside the others' goals" in refusals(server)[b] and list(refusals(server)) == [b]
    assert bandwidth(server)["incidents"] > 0
    # When there is room for it it is taken on.
    assert ask(server, "PUT", "/tenants/a", {"bandwidth": "keep reads 1GB/s"})[0] == 200
    wait_until(lambda: not refusals(server))


def test_a_latency_below_that_of_an_idle_tier_is_not_taken_on(fresh):
    server = fresh(*TIER, "--bandwidth-policy", "qos", "--tenant", "name=c,prefix=c:,bandwidth=p50 100ns")
    (load,) = at_work(server, (b"c", 200, "get"))
    try:
        wait_until(lambda: "what the tier takes alone" in refusals(server).get(id_of(server, "c"), ""))
    finally:
        load.end()


def test_a_profile_of_another_machine_is_not_believed(fresh, tmp_path):
    path = tmp_path / "tier"
    spec = f"file:{path}:32MiB"
    probe = [str(servers.BINARY), "probe", spec, "--time", "1s"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = tmp_path / "tier.profile.json"

    def probed():
        server = fresh("--tier", f"ssd={spec}")
        seen = server.wire().stats(b"controller")["bandwidth_probed"]
        assert server.stop() == 0
        return seen, server.said()

    assert probed()[0] == "1"
    text = kept.read_text(encoding="utf-8")
    kept.write_text(text.replace(json.loads(text)["machine"], "a Cray-1, 1 processor"), encoding="utf-8")
    seen, said = probed()
    assert seen == "0" and "another machine" in said and "cotenant probe" in said


@pytest.mark.parametrize(
    "body, what",
    [
        ({"policy": "fastest"}, "there is no policy 'fastest'"),
        ({"policy": "mba-only"}, "memory bandwidth allocation"),
        ({}, "there is no policy ''"),
        ({"tier": "x"}, "unknown field"),
    ],
)
def test_policies_that_cannot_be(fresh, body, what):
    server = fresh(*TIER)
    status, answer = ask(server, "PUT", "/bandwidth", body)
    assert status == 400 and what in answer["error"] and answer["cure"]
    assert bandwidth(server)["policy"] == "none"


def test_claims_are_checked_and_shown(fresh):
    server = fresh(*TIER)
    assert ask(server, "PUT", "/tenants/t", {"prefix": "t:", "bandwidth": "limit 1000 reads of 1KB per second"})[0] == 201
    assert tenant_json(server, "t")["bandwidth"] == "limit 1000 reads of 1024B per second"
    status, answer = ask(server, "PUT", "/tenants/t", {"bandwidth": "as much as possible"})
    assert status == 400 and "limit 20%" in answer["cure"]
    code, said, _ = tenant(server, "set", "t", "--bandwidth", "slowdown 1.5; limit 50%")
    assert code == 0 and "limit 50%; slowdown 1.5" in said
    assert tenant(server, "set", "t", "--bandwidth", "")[0] == 0
    assert tenant_json(server, "t")["bandwidth"] == ""
    seen = server.wire().stats(b"controller")
    assert seen["bandwidth_policy"] == "none" and seen["bandwidth_tier"] == "pm" and seen["bandwidth_probed"] == "1"
    assert "cotenant_tenant_tier_time_seconds_total" in server.http("/metrics")[1]


def test_a_configuration_is_read_again(configured, tmp_path):
    base = 'tier = ["pm=emulated:2dimm:64MiB"]\nplacement = "pm"\nmemory = "64MiB"\n'
    claims = '[tenant.t]\nprefix = "t:"\nbandwidth = "{}"\n'
    server = configured(base + claims.format("limit 5%"))
    assert tenant_json(server, "t")["bandwidth"] == "limit 5%"
    path = tmp_path / "cotenant.toml"
    path.write_text('bandwidth_policy = "limit"\n' + base + claims.format("limit 7%"), encoding="ascii")
    os.kill(server.pid, signal.SIGHUP)
    wait_until(lambda: bandwidth(server)["policy"] == "limit" and tenant_json(server, "t")["bandwidth"] == "limit 7%")
    wait_until(lambda: (tenant_json(server, "t")["bandwidth_budget_part"] or 0) > 0.069)
    path.write_text('bandwidth_step = "64MiB"\nbandwidth_donation = 0\n' + path.read_text(encoding="ascii"), encoding="ascii")
    os.kill(server.pid, signal.SIGHUP)
    wait_until(lambda: "bandwidth_step 64MiB, bandwidth_donation 0" in server.said())


def test_counts_of_decisions_are_those_of_all_policies(fresh):
    server, before = fresh(*TIER, "--bandwidth-policy", "limit"), 0
    for policy in ("limit", "qos", "limit"):
        assert ask(server, "PUT", "/bandwidth", {"policy": policy})[0] == 200
        wait_until(lambda least=before + 2: least <= bandwidth(server)["decisions"])
        seen = samples(server)
        [(labels, count)] = seen["cotenant_bandwidth_decisions_total"]
        assert "policy" not in labels and before + 2 <= count
        assert seen["cotenant_bandwidth_incidents_total"] == [(labels, 0)]
        assert seen["cotenant_bandwidth_policy"] == [(f'{{policy="{policy}"}}', 1)]
        before = int(count)


def test_steps_are_read_again_by_who_takes_them(configured, tmp_path):
    base = 'tier = ["pm=emulated:2dimm:64MiB"]\nmemory = "64MiB"\n'
    server = configured(base + 'bandwidth_policy = "qos"\n')
    path = tmp_path / "cotenant.toml"

    def begun():
        return [n["text"] for decision in decisions(server) for n in decision["notes"] if n["reason"] == "switched"]

    for policy, step, times in (("qos", 64, 1), ("limit", 64, 2), ("limit", 32, 2), ("proportional", 32, 3), ("proportional", 16, 4)):
        path.write_text(f'{base}bandwidth_policy = "{policy}"\nbandwidth_step = "{step}MiB"\n', encoding="ascii")
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda n=step: f"bandwidth_step {n}MiB" in server.said())
        wait_until(lambda name=policy: bandwidth(server)["policy"] == name)
        before = bandwidth(server)["decisions"]
        wait_until(lambda before=before: before + 2 <= bandwidth(server)["decisions"])
        assert len(begun()) == times, f"{policy} with {step} MiB: {begun()}"


def test_what_waits_for_a_tier_is_slow(fresh):
    server = fresh(*TIER, "--bandwidth-policy", "limit", "--tenant", "name=slow,prefix=slow:")
    fill(server, b"slow", 1000)
    claim = {"bandwidth": "limit 50 reads of 1KB per second"}
    assert ask(server, "PUT", "/tenants/slow", claim)[0] == 200
    with server.wire() as wire:
        # The limit's epoch is a second: those beyond it wait for the next ones.
        for n in range(160):
            wire.send(b"get %s\r\n" % text(b"slow", n))
            assert read_answer(wire) == 1000
        longest = int(wire.stats(b"latency")["slow:get:p999_us"])
    assert longest > 200_000, "a request that its tier's limit held back took as long as it took"


def test_a_busy_connection_shuts_no_other_of_its_tenant_out(fresh):
    # The first has more to ask for than the tenant may have in a minute: in every epoch it could take all there is.
    server = fresh(*TIER, "-t", "1", "--bandwidth-policy", "limit", "--tenant", "name=slow,prefix=slow:")
    fill(server, b"slow", 1000)
    claim = {"bandwidth": "limit 20 reads of 1KB per second"}
    assert ask(server, "PUT", "/tenants/slow", claim)[0] == 200
    with server.wire() as busy, server.wire() as other:
        busy.send(b"get %s\r\n" % text(b"slow", 0) * 2000)
        assert read_answer(busy) == 1000
        for n in range(3):
            other.send(b"get %s\r\n" % text(b"slow", n))
            assert read_answer(other) == 1000
        assert read_answer(busy) == 1000, "nor is it shut out itself"


@pytest.mark.parametrize(
    "change", [{"bandwidth": "limit 2 reads of 16KB per second"}, {"requests_per_second": 4, "burst": 2}]
)
def test_who_waits_at_a_disk_keeps_its_values(fresh, tmp_path, change):
    spec = f"ssd=file:{tmp_path / 'tier'}:64MiB"
    server = fresh("-t", "1", "--tier", spec, "--placement", "ssd", "--bandwidth-policy", "limit", "--tenant", "name=slow,prefix=slow:")
    # More than what is gathered in memory before it is written.
    fill(server, b"slow", 16000)
    fill(server, b"other", 16000)
    assert ask(server, "PUT", "/tenants/slow", change)[0] == 200
    wires = [server.wire() for _ in range(16)]
    # All come at once, so that all are on their way to the disk before the first is charged or has its token.
    os.kill(server.pid, signal.SIGSTOP)
    for n, wire in enumerate(wires):
        wire.send(b"get %s\r\n" % text(b"slow", n))
    os.kill(server.pid, signal.SIGCONT)
    with server.wire() as other:
        for wire in wires:
            # What others read makes the worker forget what it has fetched and not used.
            other.send(b"".join(b"get %s\r\n" % text(b"other", n) for n in range(KEYS)))
            assert all(read_answer(other) == 16000 for _ in range(KEYS))
            assert read_answer(wire) == 16000
            wire.close()


def told(server, name):
    """The slowdown that decisions told last of a tenant, in thousandths."""
    own = id_of(server, name)
    notes = [note for decision in decisions(server) for note in decision["notes"]]
    return [note["amount"] for note in notes if note["reason"] == "slowed" and note["tenant"] == own][-1:]


def test_a_slowdown_is_seen_while_somebody_measures_it(fresh):
    server = fresh(*TIER, "--bandwidth-policy", "fair-slowdown", "--tenant", "name=a,prefix=a:", "--tenant", "name=b,prefix=b:")
    some = at_work(server, (b"a", 1000, "get"), (b"b", 3000, "set"))
    try:
        with server.wire() as wire:
            wait_until(lambda: told(server, "a") and told(server, "b"))
            # The next decision may tell another between two readings.
            wait_until(lambda: float(wire.stats(b"tenants")["a:tier_slowdown"]) * 1000 == told(server, "a")[0])
            assert 0 < tenant_json(server, "b")["tier_slowdown"]
            assert 1000 <= int(wire.stats(b"tenants")["a:tier_bytes_per_miss"])
            assert 'cotenant_tenant_tier_slowdown_ratio{tenant="b"} 0.0' not in server.http("/metrics")[1]
            assert ask(server, "PUT", "/bandwidth", {"policy": "none"})[0] == 200
            assert "a:tier_slowdown" not in wire.stats(b"tenants")
            assert tenant_json(server, "b")["tier_slowdown"] is None
            assert 'cotenant_tenant_tier_slowdown_ratio{tenant="b"} 0.0' in server.http("/metrics")[1]
    finally:
        for load in some:
            load.end()
