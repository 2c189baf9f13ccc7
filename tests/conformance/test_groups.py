"""Groups of tenants: what they reserve stays with them, and they come, change and go while the server runs."""

import json
import subprocess

import pytest

from conformance import servers
from conformance.test_admin import MIB, address, ask, fill

pytestmark = pytest.mark.cotenant

CONFIG = """
memory = "32MiB"

[group.team]
reserved = "12MiB"
weight = 2
policy = "partitioned"

[tenant.a]
prefix = "a:"
group = "team"
reserved = "2MiB"

[tenant.b]
prefix = "b:"
group = "team"

[tenant.lone]
prefix = "lone:"
reserved = "4MiB"
"""


@pytest.fixture
def server(configured):
    return configured(CONFIG)


def target(server, name):
    return ask(server, "GET", f"/tenants/{name}")[1]["target_bytes"]


def command(server, *arguments):
    return subprocess.run(
        [str(servers.BINARY), *arguments, "--admin", address(server)], capture_output=True, text=True, check=False
    )


def test_a_group_keeps_what_it_reserves(server):
    status, team = ask(server, "GET", "/groups/team")
    assert status == 200
    assert (team["reserved_bytes"], team["weight"], team["policy"]) == (12 * MIB, 2.0, "partitioned")
    assert team["members"] == ["a", "b"]
    with server.wire() as wire:
        fill(wire, (b"a:%d" % n for n in range(6_000)), b"x" * 1_000)
        fill(wire, (b"lone:%d" % n for n in range(60_000)), b"y" * 1_000)
        hits = sum(wire.value(b"a:%d" % n) is not None for n in range(6_000))
        assert hits == 6_000, "6 MB of a are within what its group reserves, though it reserves 2 MiB itself"
        assert int(wire.stats()["evictions"]) > 10_000
        rows = wire.stats(b"tenants")
        assert rows["a:group"] == "team" and "lone:group" not in rows
    metrics = server.http("/metrics")[1]
    assert 'cotenant_group_reserved_bytes{group="team"} 12582912' in metrics
    assert 'cotenant_tenant_group{tenant="b",group="team"} 1' in metrics
    team = ask(server, "GET", "/groups/team")[1]
    assert 12 * MIB <= team["target_bytes"] and 6_000_000 <= team["held_bytes"]


def test_tenants_change_groups_and_lose_nothing(server):
    with server.wire() as wire:
        fill(wire, (b"lone:%d" % n for n in range(2_000)), b"x" * 1_000)
        alone = target(server, "lone")
        status, made = ask(server, "PUT", "/groups/others", {"reserved_bytes": 5 * MIB, "weight": 0.5})
        assert (status, made["members"]) == (201, [])
        assert ask(server, "PUT", "/tenants/lone", {"group": "others"})[1]["group"] == "others"
        made = ask(server, "GET", "/groups/others")[1]
        assert made["members"] == ["lone"] and abs(made["target_bytes"] - alone) < MIB, "it goes on from where it was"
        assert ask(server, "PUT", "/groups/others", {"weight": 3, "policy": "idle-tax"})[0] == 200
        assert ask(server, "PUT", "/policy", {"policy": "partitioned"})[0] == 200
        assert ask(server, "PUT", "/tenants/lone", {"group": None})[1]["group"] is None
        assert ask(server, "DELETE", "/groups/others") == (200, {"removed": "others"})
        assert all(wire.value(b"lone:%d" % n) is not None for n in range(2_000)), "no item is lost for it"
        assert wire.stats()["evictions"] == "0"


@pytest.mark.parametrize(
    "path, body, status, error",
    [
        ("/tenants/a", {"group": "nowhere"}, 409, "there is no group 'nowhere'"),
        ("/tenants/a", {"reserved_bytes": 13 * MIB}, 409, "reserve 13MiB together, the group 12MiB"),
        ("/tenants/lone", {"group": "team", "reserved_bytes": 11 * MIB}, 409, "reserve 13MiB together"),
        ("/groups/team", {"reserved_bytes": MIB}, 409, "reserve 2MiB together, the group 1MiB"),
        ("/groups/team", {"reserved_bytes": 64 * MIB}, 409, "cannot be reserved"),
        ("/groups/new", {"weight": 0}, 400, "the weight of group 'new' is 0"),
        ("/groups/a%20b", {}, 400, "no group name"),
        ("/groups/new", {"policy": "best"}, 400, "no such policy"),
        ("/groups/new", {"group": "team"}, 400, "unknown field 'group'"),
    ],
)
def test_what_does_not_go_together_is_refused(server, path, body, status, error):

    def settings():
        groups, tenants = (ask(server, "GET", f"/{what}")[1][what] for what in ("groups", "tenants"))
        return (
            [[one[field] for field in ("name", "reserved_bytes", "weight", "policy", "members")] for one in groups],
            [[one[field] for field in ("name", "reserved_bytes", "weight", "group")] for one in tenants],
        )

    before = settings()
    seen, answer = ask(server, "PUT", path, body)
    assert seen == status and error in answer["error"] and answer["cure"]
    assert settings() == before, "nothing has changed"


def test_groups_are_limited_and_go_when_nobody_is_in_them(server):
    seen, answer = ask(server, "DELETE", "/groups/team")
    assert seen == 409 and "has 2 members" in answer["error"]
    for n in range(63):
        assert ask(server, "PUT", f"/groups/g{n}", {})[0] == 201
    seen, answer = ask(server, "PUT", "/groups/one-more", {})
    assert seen == 409 and "64 groups" in answer["error"]


def test_the_commands_speak_of_groups(server):
    assert command(server, "group", "set", "new", "--reserved", "1MiB").returncode == 0
    assert command(server, "tenant", "set", "lone", "--reserved", "0B", "--group", "new").returncode == 0
    shown = json.loads(command(server, "group", "show", "new", "--json").stdout)
    assert shown["members"] == ["lone"]
    assert command(server, "tenant", "set", "lone", "--group", "").returncode == 0
    assert "team" in command(server, "group", "list").stdout
    assert command(server, "group", "remove", "new").returncode == 0
    assert command(server, "group", "remove", "new").returncode == 1
    wrong = command(server, "tenant", "set", "a", "--group", "nowhere")
    assert wrong.returncode == 1 and "there is no group 'nowhere'" in wrong.stderr


def test_a_configuration_that_makes_no_sense_says_so(tmp_path):
    path = tmp_path / "cotenant.toml"
    for text, told in [
        ('[tenant.a]\nprefix = "a:"\ngroup = "team"', "tenant 'a' is in group 'team', which is not there"),
        (CONFIG.replace('"2MiB"', '"13MiB"'), "the members of group 'team' reserve 13MiB together"),
        ('[group.team]\ngroup = "other"', "unknown setting 'group' of a group"),
    ]:
        path.write_text(text, encoding="ascii")
        checked = subprocess.run(
            [str(servers.BINARY), "config", "check", "--config", str(path)],
            capture_output=True, text=True, check=False,
        )
        assert checked.returncode == 2 and told in checked.stderr, checked.stderr
