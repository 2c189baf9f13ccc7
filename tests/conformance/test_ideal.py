"""DRAM and a tier's time by speeds that were measured beforehand: what a file says is what is divided by, and what is wrong with it
is told."""

import json
import os
import signal
import subprocess
import urllib.request

import pytest

from conformance import servers
from conformance.test_admin import ask, wait_until
from conformance.test_bandwidth import bandwidth, decisions, id_of
from conformance.test_symbiosis import QUICK, TIER, check_sums, fill, held_back
from conformance.test_tiers import refused

pytestmark = pytest.mark.cotenant

NAMES = ("x", "y")
TENANTS = [word for name in NAMES for word in ("--tenant", f"name={name},prefix={name}:")]
#: More than the DRAM and all of the part of the tier that is divided.
MEMORY, PART = 256 << 20, 0.002


def table(by_memory, by_tier):
    """Speeds that rise by so much with DRAM, and with the tier's time."""
    speeds = [[1 + by_memory * i + by_tier * j for j in range(5)] for i in range(9)]
    return {"memory_bytes": MEMORY, "tier_part": PART, "speeds": speeds}


def write(path, **tenants):
    path.write_text(json.dumps({"tenants": tenants}), encoding="utf-8")


@pytest.fixture
def speeds(tmp_path):
    """A file by which x gains from DRAM and y from the tier's time."""
    path = tmp_path / "speeds.json"
    write(path, x=table(10, 0.01), y=table(0.01, 10))
    return path


def serve(fresh, *flags):
    server = fresh(*TIER, *QUICK, *TENANTS, *flags)
    for name in NAMES:
        fill(server, name.encode(), 200, 1000)
    return server


def favours(server, memory, tier):
    """Whether one has more DRAM than the other, who has more of the tier's time."""
    (more, less), (none, much) = held_back(server, memory), held_back(server, tier)
    return None not in (more, none) and none < 0.8 * more and less < 0.95 * much


def test_shares_follow_the_file(fresh, speeds):
    server = serve(fresh, "--bandwidth-policy", "ideal", "--bandwidth-speeds", str(speeds))
    wait_until(lambda: favours(server, "x", "y"))
    seen = decisions(server)[-1]
    x = next(row for row in seen["tenants"] if row["tenant"] == id_of(server, "x"))
    assert x["signal"]["utility"]["table"], "the journal has what was divided by"
    check_sums(seen)
    # The same the other way round, read again when the policy is named again.
    write(speeds, x=table(0.01, 10), y=table(10, 0.01))
    assert ask(server, "PUT", "/bandwidth", {"policy": "ideal"})[0] == 200
    wait_until(lambda: favours(server, "y", "x"))
    assert ask(server, "PUT", "/bandwidth", {"policy": "none"})[0] == 200
    wait_until(lambda: all(held_back(server, name) == (None, None) for name in NAMES))


def test_a_file_is_read_again_with_the_settings(configured, tmp_path, speeds):
    head = f'tier = ["pm=emulated:2dimm:128MiB"]\nmemory = "64MiB"\nbandwidth_epoch = "300ms"\nbandwidth_part = {PART}\n'
    tenants = "".join(f'[tenant.{name}]\nprefix = "{name}:"\n' for name in NAMES)
    server = configured(head + tenants)
    for name in NAMES:
        fill(server, name.encode(), 200, 1000)
    text = f'bandwidth_policy = "ideal"\nbandwidth_speeds = "{speeds}"\n' + head + tenants

    def read_again():
        (tmp_path / "cotenant.toml").write_text(text, encoding="ascii")
        os.kill(server.pid, signal.SIGHUP)

    read_again()
    wait_until(lambda: favours(server, "x", "y"))
    write(speeds, x=table(0.01, 10), y=table(10, 0.01))
    read_again()
    wait_until(lambda: favours(server, "y", "x"))
    # What is wrong leaves in force what there is.
    write(speeds, x=table(10, 0.01), z=table(0.01, 10))
    read_again()
    wait_until(lambda: "names tenant 'z', which is not there" in server.said())
    assert bandwidth(server)["policy"] == "ideal" and favours(server, "y", "x")


def test_a_daemon_finds_its_file_again(tmp_path, speeds):
    """It has left the folder that its speeds are in."""
    config = tmp_path / "cotenant.toml"
    head = 'tier = ["pm=emulated:2dimm:128MiB"]\nmemory = "64MiB"\npidfile = "pid"\n'
    text = head + f'bandwidth_speeds = "{speeds.name}"\n' + "".join(f'[tenant.{name}]\nprefix = "{name}:"\n' for name in NAMES)
    config.write_text(text, encoding="ascii")
    command = [str(servers.BINARY), "serve", "-d", "--config", config.name, "-l", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    started = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert started.returncode == 0, started.stderr
    pid = int((tmp_path / "pid").read_text())
    try:
        admin = servers.parse_ready(started.stdout + started.stderr)[1].removeprefix("http://")
        config.write_text('bandwidth_policy = "ideal"\n' + text, encoding="ascii")
        os.kill(pid, signal.SIGHUP)

        def policy():
            with urllib.request.urlopen(f"http://{admin}/bandwidth", timeout=10) as answer:
                return json.load(answer)["policy"]

        wait_until(lambda: policy() == "ideal")
    finally:
        os.kill(pid, signal.SIGTERM)


def test_who_is_not_in_the_file_bids_by_what_is_measured(fresh, tmp_path):
    path = tmp_path / "speeds.json"
    write(path, x=table(10, 0.01))
    server = serve(fresh, "--bandwidth-policy", "ideal", "--bandwidth-speeds", str(path))
    wait_until(lambda: None not in held_back(server, "y"))
    rows = {row["tenant"]: row["signal"] for row in decisions(server)[-1]["tenants"]}
    utilities = {name: (rows[id_of(server, name)] or {}).get("utility") or {} for name in NAMES}
    assert "table" in utilities["x"] and "table" not in utilities["y"]


def test_what_is_wrong_with_a_file_is_told(fresh, tmp_path, speeds):
    def said(*flags):
        return refused(*TIER, *TENANTS, "--bandwidth-policy", "ideal", *flags)

    assert "bandwidth_speeds names no file" in said()
    assert "cannot read the speeds" in said("--bandwidth-speeds", str(tmp_path / "none"))
    file = ("--bandwidth-speeds", str(speeds))
    good = speeds.read_text(encoding="utf-8")
    for change, what in [
        ("{", "has no speeds of tenants: EOF"),
        ("{}", "it has no tenants"),
        (good.replace('"tier_part"', '"tier"', 1), "tenant 'x' has tier, which is nothing that is known"),
        (good.replace("0.002", "2", 1), "tenant 'x' has a tier_part of 2"),
        (good.replace('[[1,', '[[', 1).replace('[[1.0,', '[[', 1), "rows of different lengths"),
        (good.replace('"x"', '"nobody"', 1), "names tenant 'nobody', which is not there"),
    ]:
        assert change != good
        speeds.write_text(change, encoding="utf-8")
        text = said(*file)
        assert what in text and "try: " in text, text
    speeds.write_text(json.dumps({"tenants": {"x": {**table(1, 1), "speeds": [[2, 1], [1, 2]]}}}), encoding="utf-8")
    assert "more of one slows down at point 1" in said(*file)
    server = fresh(*TIER, *TENANTS, *file)
    status, answer = ask(server, "PUT", "/bandwidth", {"policy": "ideal"})
    assert status == 409 and "more of one slows down at point 1" in answer["error"] and "a row per" in answer["cure"]
    assert bandwidth(server)["policy"] == "none"
