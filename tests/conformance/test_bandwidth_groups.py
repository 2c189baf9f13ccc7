"""Tenants in a group share what the group is given of a tier's time, of its bandwidth, and of DRAM with it."""

import pytest

from conformance.test_admin import ask, wait_until
from conformance.test_bandwidth import TIER, at_work, bandwidth, decisions, fill, id_of, tenant_json, used
from conformance.test_symbiosis import QUICK, held_back
from conformance.test_symbiosis import TIER as AUTO_TIER
from conformance.test_symbiosis import fill as fill_some
from conformance.wire import DEADLINE_S

pytestmark = pytest.mark.cotenant

#: A part of the tier's time that clients in one interpreter pass on a busy machine.
LIMIT = 0.0001


def serve(fresh, policy, group, *tenants, tier=TIER):
    flags = [word for name, more in tenants for word in ("--tenant", f"name={name},prefix={name}:{more}")]
    return fresh(*tier, "--bandwidth-policy", policy, "--group", f"name=team{group}", *flags)


def together(server, names, epochs):
    """The part of the tier's time that tenants used in each of the last epochs, all together."""
    each = [used(server, name, epochs) for name in names]
    return [sum(cost for cost, _, _ in epoch) / epoch[0][1] for epoch in zip(*each)]


def grants(server, names):
    """The parts of the tier's time that tenants are granted now; none of who is free."""
    return [tenant_json(server, name)["bandwidth_budget_part"] for name in names]


def test_members_share_the_limit_of_their_group(fresh):
    tenants = (("a", ",group=team"), ("b", ",group=team"), ("lone", ""))
    server = serve(fresh, "limit", f",bandwidth=limit {100 * LIMIT}%", *tenants)
    some = at_work(server, (b"a", 1000, "get"), (b"b", 2000, "set"), (b"lone", 500, "get"))
    try:
        start = bandwidth(server)["decisions"]
        wait_until(lambda: start + 13 <= bandwidth(server)["decisions"])
        parts = together(server, "ab", 10)
        assert sum(parts) / len(parts) < 1.02 * LIMIT, parts
        granted = grants(server, "ab")
        # What the group owes of an epoch before comes off its budget.
        assert sum(granted) <= 1.001 * LIMIT, granted
        assert grants(server, ["lone"]) == [None], "who is in no group is free"
        assert some[2].done > 10 * some[0].done
    finally:
        for load in some:
            load.end()


def test_what_one_member_leaves_another_has_and_groups_change(fresh):
    server = serve(fresh, "limit", f",bandwidth=limit {100 * LIMIT}%", ("a", ",group=team"), ("b", ",group=team"))
    some = at_work(server, (b"a", 1000, "get"))
    fill(server, b"b", 1000)
    try:
        # Who asks for nothing keeps a little to begin with.
        wait_until(lambda: None not in grants(server, "ab") and 0.9 * LIMIT < grants(server, "a")[0])
        assert 0 < grants(server, "b")[0] < 0.1 * LIMIT
        assert ask(server, "PUT", "/groups/team", {"bandwidth": "limit 1%"})[0] == 200
        assert ask(server, "GET", "/groups/team")[1]["bandwidth"] == "limit 1%"
        wait_until(lambda: 0.009 < sum(grants(server, "ab")) <= 0.010001)
        # A member's own limit holds inside its group.
        assert ask(server, "PUT", "/tenants/a", {"bandwidth": "limit 0.1%"})[0] == 200
        wait_until(lambda: grants(server, "a")[0] <= 0.001001 and 0.008 < grants(server, "b")[0])
        assert ask(server, "PUT", "/tenants/a", {"bandwidth": ""})[0] == 200
        assert ask(server, "PUT", "/tenants/a", {"group": None})[0] == 200
        wait_until(lambda: grants(server, "a") == [None] and 0.009 < grants(server, "b")[0])
        assert ask(server, "PUT", "/tenants/b", {"group": None})[0] == 200
        assert ask(server, "DELETE", "/groups/team")[0] == 200
        wait_until(lambda: grants(server, "ab") == [None, None])
    finally:
        for load in some:
            load.end()


def test_members_share_the_caps_of_their_group(fresh):
    claim = ",bandwidth=cap writes 2MB/s"
    server = serve(fresh, "prevention", claim, ("a", ",group=team"), ("b", ",group=team"), ("lone", ""))

    def caps():
        return [tenant_json(server, name)["bandwidth_cap_write_bytes_per_second"] for name in ("a", "b", "lone")]

    some = at_work(server, (b"a", 5000, "set"), (b"b", 5000, "set"))
    try:
        start = bandwidth(server)["decisions"]
        wait_until(lambda: start + 40 <= bandwidth(server)["decisions"])
        assert sum(caps()[:2]) <= 2_000_000 and caps()[2] is None
        assert bandwidth(server)["incidents"] == 0
        ids, written, length = [id_of(server, name) for name in "ab"], 0, 0
        for decision in decisions(server)[-30:]:
            rows = [row for row in decision["tenants"] if row["tenant"] in ids]
            written += sum(row["signal"]["bytes"]["slow_write"] for row in rows)
            length += (decision["window"]["end_ns"] - decision["window"]["start_ns"]) / 1e9
        assert written / length < 1.05 * 2_000_000
    finally:
        for load in some:
            load.end()


@pytest.mark.parametrize("policy", ["static", "symbiosis"])
def test_a_group_has_a_share_of_both_that_its_members_divide(fresh, policy):
    tenants = (("a", ",group=team"), ("b", ",group=team"), ("lone", ""))
    server = serve(fresh, policy, "", *tenants, tier=(*AUTO_TIER, *QUICK))
    for name in ("a", "b", "lone"):
        fill_some(server, name.encode(), 200, 1000)
    wait_until(lambda: all(None not in held_back(server, name) for name in ("a", "b", "lone")))
    before = bandwidth(server)["decisions"]
    wait_until(lambda: before + 3 <= bandwidth(server)["decisions"])
    (a, a_part), (b, b_part), (lone, part) = (held_back(server, name) for name in ("a", "b", "lone"))
    # By the floors of the auction; alike where shares are fixed.
    slack = 0.01 if policy == "static" else 0.6
    assert a + b == pytest.approx(lone, rel=slack) and a_part + b_part == pytest.approx(part, rel=slack)
    if policy == "static":
        assert a == pytest.approx(b, rel=0.01)


def test_what_a_group_cannot_claim_is_refused(fresh):
    server = serve(fresh, "limit", "", ("a", ",group=team"))
    status, answer = ask(server, "PUT", "/groups/team", {"bandwidth": "as much as possible"})
    assert status == 400 and "limit 20%" in answer["cure"]
    assert ask(server, "GET", "/groups/team")[1]["bandwidth"] == ""


@pytest.mark.parametrize("policy", ["fair-slowdown", "proportional"])
def test_slowdowns_of_groups_are_no_tenants(fresh, policy):
    server = serve(fresh, policy, "", ("a", ",group=team"), ("b", ",group=team"), ("lone", ""))
    some = at_work(server, (b"a", 1000, "get"), (b"b", 2000, "set"), (b"lone", 500, "get"))
    try:
        slowed = set()

        def is_told_of_both():
            notes = (note for one in decisions(server) for note in one["notes"] if note["reason"] == "slowed")
            slowed.update(note["tenant"] for note in notes)
            # A group is none in the journal.
            return id_of(server, "lone") in slowed and None in slowed

        # By pauses at random moments: some seconds in most runs, a dozen in one of twenty.
        wait_until(is_told_of_both, deadline_s=5 * DEADLINE_S)
        wait_until(lambda: tenant_json(server, "lone")["tier_slowdown"] is not None)
        server.check_alive()
    finally:
        for load in some:
            load.end()
