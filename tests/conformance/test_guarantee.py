"""Bandwidth that was promised by kind: demands, and what critical tenants come to need, kept by caps of the others."""

import json
import subprocess

import pytest

from conformance import servers
from conformance.test_admin import ask, wait_until
from conformance.test_bandwidth import at_work, bandwidth, decisions, id_of, tenant_json
from conformance.test_tiers import refused

pytestmark = pytest.mark.cotenant

#: Bytes per second of the tier that tests pretend to have measured: so few that clients in one interpreter pass their caps.
READS, WRITES = 4_000_000, 1_000_000


def proportional(steps=4):
    """What a probe would keep of a tier whose writes cost four times its reads."""
    reads = [READS * i / steps for i in range(steps + 1)]
    writes = [WRITES * i / steps for i in range(steps + 1)]

    def got(read, write):
        part = min(1, READS / max(1, read + write * READS / WRITES))
        return [read * part, write * part]

    return {
        "access_bytes": 4096,
        "reads_bytes_per_sec": reads,
        "writes_bytes_per_sec": writes,
        "got_bytes_per_sec": [got(read, write) for read in reads for write in writes],
    }


@pytest.fixture
def probed(tmp_path):
    """A file tier's specification and the profile that was kept of it."""
    spec = f"file:{tmp_path / 'tier'}:64MiB"
    probe = [str(servers.BINARY), "probe", spec, "--time", "1s"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept of reads" in done.stdout
    return spec, tmp_path / "tier.profile.json"


@pytest.fixture
def pretended(probed):
    """The same, as if the tier were a slow one."""
    spec, kept = probed
    rewrite(kept, competition=proportional())
    return spec


def rewrite(kept, **changes):
    kept.write_text(json.dumps({**json.loads(kept.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def serve(fresh, spec, policy, *claims):
    tenants = [f"name={name},prefix={name}:,bandwidth={claim}" for name, claim in claims]
    flags = [word for tenant in tenants for word in ("--tenant", tenant)]
    return fresh("--tier", f"ssd={spec}", "--placement", "ssd", "--bandwidth-policy", policy, *flags)


def caps(server, name):
    """What a tenant may read and write at most, in bytes per second."""
    seen = tenant_json(server, name)
    return seen["bandwidth_cap_read_bytes_per_second"], seen["bandwidth_cap_write_bytes_per_second"]


def rates(server, name, count):
    """Bytes per second that a tenant read and wrote in the last so many windows, by the server's meter."""
    own, read, written, length = id_of(server, name), 0, 0, 0
    for decision in decisions(server)[-count:]:
        signal = next(t["signal"] for t in decision["tenants"] if t["tenant"] == own)
        read += signal["bytes"]["slow_read"]
        written += signal["bytes"]["slow_write"]
        length += (decision["window"]["end_ns"] - decision["window"]["start_ns"]) / 1e9
    return read / length, written / length


def notes(server, reason):
    return [note for decision in decisions(server) for note in decision["notes"] if note["reason"] == reason]


def after(server, count):
    start = bandwidth(server)["decisions"]
    wait_until(lambda: start + count <= bandwidth(server)["decisions"])


def test_a_probe_keeps_what_reads_and_writes_leave_each_other(probed):
    found = json.loads(probed[1].read_text(encoding="utf-8"))
    assert found["format"] == 2
    table = found["competition"]
    reads, writes = table["reads_bytes_per_sec"], table["writes_bytes_per_sec"]
    for rates_of in (reads, writes):
        assert rates_of[0] == 0 and 2 <= len(rates_of) <= 5 and rates_of == sorted(set(rates_of))
    assert len(table["got_bytes_per_sec"]) == len(reads) * len(writes)
    assert table["got_bytes_per_sec"][0] == [0, 0]


def test_a_demand_is_kept_by_caps_of_the_others(fresh, pretended):
    server = serve(fresh, pretended, "none", ("a", "keep reads 1MB/s"), ("b", ""), ("c", ""))
    some = at_work(server, (b"a", 20_000, "get"), (b"b", 20_000, "get"), (b"c", 20_000, "set"))
    try:
        assert ask(server, "PUT", "/bandwidth", {"policy": "guarantee"})[0] == 200
        after(server, 35)
        assert bandwidth(server)["incidents"] == 0, bandwidth(server)
        held = {name: caps(server, name) for name in "abc"}
        assert 1_000_000 <= held["a"][0] and held["b"] == held["c"]
        # All that may be used together leaves the demand nine tenths of itself.
        reads = sum(read for read, _ in held.values())
        writes = sum(write for _, write in held.values())
        assert reads + 4 * writes < 1.15 * READS, held
        for name in "abc":
            read, written = rates(server, name, 30)
            assert read < 1.02 * held[name][0] and written < 1.02 * held[name][1], f"{name}: {held}"
        assert all(load.done for load in some)
    finally:
        for load in some:
            load.end()


def test_a_kind_that_was_not_declared_is_a_trickle(fresh, pretended):
    server = serve(fresh, pretended, "guarantee", ("a", "keep reads 1MB/s"))
    after(server, 1)
    # A hundredth of what there is, by the tenants there are: this one and the one without a prefix.
    assert caps(server, "a")[1] == WRITES // 100 // 2
    (load,) = at_work(server, (b"a", 1_000, "set"))
    try:
        after(server, 35)
        assert rates(server, "a", 30)[1] < 1.02 * WRITES / 100 / 2
    finally:
        load.end()


def test_a_demand_that_does_not_fit_is_an_incident_until_it_does(fresh, pretended):
    server = serve(fresh, pretended, "guarantee", ("a", "keep reads 2MB/s"), ("b", "keep writes 800000B/s"))
    wait_until(lambda: bandwidth(server)["incidents"] > 0)
    assert "cannot be kept beside the others" in bandwidth(server)["incident"]
    told = notes(server, "incident")
    assert {note["tenant"] for note in told} == {id_of(server, "b")}, "the earlier one is kept"
    assert 2_000_000 <= caps(server, "a")[0] and caps(server, "b")[1] < 800_000
    assert ask(server, "PUT", "/tenants/a", {"bandwidth": "keep reads 100000B/s"})[0] == 200
    wait_until(lambda: 800_000 <= caps(server, "b")[1])
    before = bandwidth(server)["incidents"]
    after(server, 5)
    assert bandwidth(server)["incidents"] == before


def test_what_critical_tenants_come_to_need_is_taken_from_the_others(fresh, pretended):
    server = serve(fresh, pretended, "slo", ("a", "critical"), ("b", ""))
    after(server, 3)
    assert caps(server, "a") == (None, None), "who is critical is never capped"
    quiet = caps(server, "b")
    assert 0.2 * READS < quiet[0] < READS and 0.1 * WRITES < quiet[1] < WRITES
    assert bandwidth(server)["incidents"] == 0
    (load,) = at_work(server, (b"a", 200_000, "get"))
    try:
        # It reads more than the tier is said to have.
        wait_until(lambda: bandwidth(server)["incidents"] > 0)
        assert "critical tenants want more" in bandwidth(server)["incident"]
        wait_until(lambda: caps(server, "b")[0] < READS / 50)
        assert 0 < caps(server, "b")[0], "nobody is locked out"
    finally:
        load.end()
    wait_until(lambda: all(0.95 * before <= now for before, now in zip(quiet, caps(server, "b"))))
    before = bandwidth(server)["incidents"]
    after(server, 5)
    assert bandwidth(server)["incidents"] == before


@pytest.mark.parametrize("policy, claim", [("guarantee", "keep reads 1MB/s"), ("slo", "critical")])
def test_a_table_of_another_machine_caps_nobody(fresh, probed, policy, claim):
    spec, kept = probed
    rewrite(kept, competition=proportional(), machine="a Cray-1, 1 processor")
    server = serve(fresh, spec, policy, ("a", claim), ("b", ""))
    after(server, 3)
    assert caps(server, "a") == caps(server, "b") == (None, None)
    told = notes(server, "fallback")
    assert told and all("another machine" in note["text"] for note in told)


def test_without_a_table_the_command_that_measures_it_is_told(fresh, probed):
    spec, kept = probed
    server = fresh("--tier", f"ssd={spec}")
    assert ask(server, "PUT", "/bandwidth", {"policy": "guarantee"})[0] == 200
    assert server.stop() == 0
    for content in (None, {"competition": None}, {"format": 1}, {"competition": {**proportional(), "got_bytes_per_sec": []}}):
        if content is None:
            text = kept.read_text(encoding="utf-8")
            kept.unlink()
        else:
            kept.write_text(text, encoding="utf-8")
            rewrite(kept, **content)
        flags = ("--tier", f"ssd={spec}")
        said = refused(*flags, "--bandwidth-policy", "slo")
        assert "nobody has measured it" in said and f"cotenant probe {spec}" in said
        server = fresh(*flags)
        status, answer = ask(server, "PUT", "/bandwidth", {"policy": "guarantee"})
        assert status == 409 and "nobody has measured it" in answer["error"]
        assert f"cotenant probe {spec}" in answer["cure"]
        assert bandwidth(server)["policy"] == "none"
        seen = server.wire().stats(b"controller")["bandwidth_probed"]
        assert seen == ("0" if content is None else "1"), "what accesses cost is known all the same"
        assert server.stop() == 0


def test_an_emulated_tier_needs_no_probe(fresh):
    server = serve(fresh, "emulated:2dimm:64MiB", "guarantee", ("a", "keep reads 4GB/s; keep writes 1GB/s"))
    after(server, 2)
    assert bandwidth(server)["incidents"] == 0
    reads, writes = caps(server, "a")
    assert 4e9 <= reads < 13e9 and 1e9 <= writes < 4.1e9
    assert ask(server, "PUT", "/tenants/a", {"bandwidth": "keep reads 12GB/s; keep writes 4GB/s"})[0] == 200
    wait_until(lambda: bandwidth(server)["incidents"] > 0)
