"""Tenants at run time and writes beyond a share: the administration, `cotenant tenant`, and what clients see of it."""

import json
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from conformance import servers
from conformance.wire import DEADLINE_S

pytestmark = pytest.mark.cotenant

MIB = 1 << 20

CONFIG = """
memory = "64MiB"

[tenant.feeds]
prefix = "feeds:"
reserved = "8MiB"

[tenant.door]
listen = "127.0.0.1:0"
"""


@pytest.fixture
def server(configured):
    return configured(CONFIG)


def address(server):
    return server.admin.removeprefix("http://")


def wait_until(is_so, deadline_s=DEADLINE_S):
    until = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def ask(server, method, path, body=None, headers=None):
    """(status, JSON) of the administration."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{address(server)}{path}", data, headers or {}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def tenant(server, *arguments):
    """(exit status, standard output, standard error) of `cotenant tenant`."""
    command = [str(servers.BINARY), "tenant", *arguments, "--admin", address(server)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


def fill(wire, keys, value):
    """Stores a value under every key, in step with the server."""
    batch = b""
    for n, key in enumerate(keys):
        batch += b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, len(value), value)
        if n % 100 == 99:
            assert wire.ask(batch) == b""
            batch = b""
    assert wire.ask(batch) == b""


def put(wire, key, value=b"v", exptime=0):
    return wire.ask(b"set %s 0 %d %d\r\n%s\r\n" % (key, exptime, len(value), value))


def test_tenants_come_change_and_go(server):
    with server.wire() as wire:
        assert put(wire, b"new:old") == b"STORED\r\n"
        status, made = ask(server, "PUT", "/tenants/new", {"prefix": "new:", "reserved_bytes": 4 * MIB, "over_share": "refuse", "rank": "lfu"})
        assert (status, made["prefix"], made["reserved_bytes"], made["items"]) == (201, "new:", 4 * MIB, 0)
        assert (made["over_share"], made["rank"]) == ("refuse", "lfu")
        assert wire.ask(b"get new:old\r\n").startswith(b"VALUE"), "what was there is there"
        assert put(wire, b"new:1") == b"STORED\r\n"
        assert ask(server, "GET", "/tenants/new")[1]["items"] == 1
        status, changed = ask(server, "POST", "/tenants/new", {"weight": 3, "credit_bytes": 1000})
        assert (status, changed["weight"], changed["credit_bytes"]) == (200, 3, 1000)
        assert (changed["reserved_bytes"], changed["over_share"], changed["rank"]) == (4 * MIB, "refuse", "lfu"), "what is not said stays"
        assert ask(server, "PUT", "/tenants/new", {"credit_bytes": None})[1]["credit_bytes"] is None
        names = [t["name"] for t in ask(server, "GET", "/tenants")[1]["tenants"]]
        assert names == ["default", "feeds", "door", "new"]
        assert ask(server, "DELETE", "/tenants/new") == (200, {"removed": "new"})
        assert wire.ask(b"get new:1\r\n") == b"END\r\n", "dead at once"
        assert wire.ask(b"get new:old\r\n").startswith(b"VALUE"), "which was the default tenant's"
        assert put(wire, b"new:1") == b"STORED\r\n"
        assert ask(server, "GET", "/tenants/new")[0] == 404


@pytest.mark.parametrize(
    "method, path, body, status, error",
    [
        ("GET", "/tenants/nobody", None, 404, "no tenant 'nobody'"),
        ("PUT", "/tenants/new", {}, 404, "needs a prefix"),
        ("PUT", "/tenants/new", b"{", 400, "no JSON"),
        ("PUT", "/tenants/new", {"prefix": ""}, 400, "prefix"),
        ("PUT", "/tenants/a%20b", {"prefix": "x:"}, 400, "'a b' is no tenant name"),
        ("PUT", "/tenants/new", {"prefix": "x:", "size": 1}, 400, "unknown field 'size'"),
        ("PUT", "/tenants/new", {"prefix": "feeds:"}, 409, "belongs to tenant 'feeds'"),
        ("PUT", "/tenants/new", {"prefix": "x:", "reserved_bytes": 60 * MIB}, 409, "cannot be reserved"),
        ("PUT", "/tenants/feeds", {"reserved_bytes": 80 * MIB}, 409, "cannot be reserved"),
        ("PUT", "/tenants/feeds", {"prefix": "x:"}, 409, "cannot change"),
        ("PUT", "/tenants/feeds", {"weight": -1}, 400, "weight"),
        ("PUT", "/tenants/feeds", {"weight": None}, 400, "weight"),
        ("PUT", "/tenants/feeds", {"reserved_bytes": None}, 400, "reserved_bytes"),
        ("DELETE", "/tenants/default", None, 409, "default tenant"),
        ("DELETE", "/tenants/door", None, 409, "connections of its own"),
        ("PUT", "/policy", {"policy": "best"}, 400, "no such policy"),
        ("PUT", "/policy", {}, 400, "nothing is to be changed"),
        ("PUT", "/policy", {"tax": 1.5}, 400, "a tax of 1.5 is outside 0 to 1"),
        ("PUT", "/policy", {"policy": "auto", "credit_bytes": 0}, 400, "a credit of zero moves nothing"),
        ("PUT", "/policy", {"learning_seconds": -1}, 400, "learning_seconds has another type or range"),
        ("PUT", "/policy", {"idle_time_seconds": 0}, 400, "everything is idle"),
        ("PUT", "/policy", {"private": 2}, 400, "a private part of 2 is outside 0 to 1"),
        ("PATCH", "/policy", {}, 405, "method"),
        ("GET", "/nothing", None, 404, "no such page"),
        ("PUT", "/policy", b" " * 70_000, 413, "the body is too large"),
        ("GET", "/tenants/%ff", None, 400, "the name in the path is no text"),
        ("GET", "/tenants/%ff/latency", None, 400, "the name in the path is no text"),
        ("GET", "/tenants/%ff/curve", None, 400, "the name in the path is no text"),
        ("GET", "/tenants/%ff/hotkeys", None, 400, "the name in the path is no text"),
        ("PUT", "/tenants/%ff", {"prefix": "x:"}, 400, "the name in the path is no text"),
        ("DELETE", "/tenants/%ff", None, 400, "the name in the path is no text"),
        ("GET", "/groups/%ff", None, 400, "the name in the path is no text"),
        ("PUT", "/groups/%ff", {}, 400, "the name in the path is no text"),
    ],
)
def test_refusals_say_why_and_what_helps(server, method, path, body, status, error):

    def settings():
        fields = ("name", "prefix", "reserved_bytes", "weight", "credit_bytes", "over_share")
        tenants = [[t[field] for field in fields] for t in ask(server, "GET", "/tenants")[1]["tenants"]]
        return tenants, ask(server, "GET", "/policy")[1]

    before = settings()
    got, answer = ask(server, method, path, body)
    assert (got, set(answer)) == (status, {"error", "cure"})
    assert error in answer["error"] and answer["cure"]
    assert settings() == before, "nothing has changed"


def test_a_refusal_helps_in_the_words_of_what_was_asked(server):
    for path, field in ("/tenants/feeds", "prefix"), ("/groups/g", "reserved_bytes"), ("/policy", "policy"), ("/bandwidth", "policy"):
        status, answer = ask(server, "PUT", path, b"no object")
        assert status == 400 and f'for example {{"{field}": ' in answer["cure"], answer
    status, answer = ask(server, "GET", "/nothing")
    for what in "curve", "latency", "hotkeys":
        assert f"/tenants/NAME/{what}" in answer["cure"], answer
    status, _, said = tenant(server, "set", "feeds", "--group", "nobody")
    assert status == 1 and "cotenant group set nobody" in said, said
    assert ask(server, "PUT", "/groups/team", {"reserved_bytes": 8 << 20})[0] == 201
    assert ask(server, "PUT", "/tenants/feeds", {"group": "team"})[0] == 200
    status, answer = ask(server, "DELETE", "/groups/team")
    assert status == 409 and "--group none" in answer["cure"], answer
    assert ask(server, "DELETE", "/groups/nobody")[1]["cure"] == "cotenant group list names all"


def test_a_body_that_cannot_be_read_is_not_one_that_is_too_large(server):
    host, port = address(server).rsplit(":", 1)
    head = b"PUT /tenants/feeds HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(head + b"5\r\n{\"wei\r\nnot a length\r\n")
        answer = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert told["error"] == "the body cannot be read" and "at most" not in told["cure"] and told["cure"], told


def test_what_a_weight_can_be_is_said_alike_everywhere(server):
    for path, body in [("/tenants/feeds", {"weight": 0}), ("/tenants/feeds", {"weight": "2"}), ("/groups/g", {"weight": 1e13}), ("/groups/g", {"weight": None})]:
        status, answer = ask(server, "PUT", path, body)
        assert status == 400 and "from 1e-12 to 1e12" in answer["cure"], answer
    status, _, err = tenant(server, "set", "feeds", "--weight", "0")
    assert status == 2 and "1e-12 to 1e12" in err.splitlines()[1], err
    reference = subprocess.run([str(servers.BINARY), "config", "reference"], capture_output=True, text=True, timeout=20, check=True).stdout
    for word in ("tenant", "group"):
        section = reference.partition(f"\n## {word}.weight\n")[2].partition("\n## ")[0]
        assert "range: 1e-12 to 1e12" in section, section
    for weight in (1e-12, 1e12):
        assert ask(server, "PUT", "/tenants/feeds", {"weight": weight})[1]["weight"] == weight


@pytest.mark.parametrize("path, more", [("/tenants/new", {"prefix": "new:"}), ("/groups/new", {}), ("/tenants/feeds", {}), ("/groups/team", {})])
def test_what_cannot_be_reserved_is_refused_with_what_can(configured, path, more):
    server = configured(CONFIG + '\n[group.team]\nreserved = "4MiB"\n')
    before = {"/tenants/feeds": 8, "/groups/team": 4}.get(path, 0)
    for wanted in (60 * MIB, 100 * MIB, (1 << 64) - 1):
        status, answer = ask(server, "PUT", path, {"reserved_bytes": wanted, **more})
        assert status == 409 and f"others reserve {12 - before}MiB of " in answer["error"], answer
    cure, unit = re.fullmatch(r"reserve at most (\d+)(MiB|KiB|B)", answer["cure"]).groups()
    wanted = int(cure) << {"MiB": 20, "KiB": 10, "B": 0}[unit]
    assert 30 * MIB < wanted < 60 * MIB
    status, taken = ask(server, "PUT", path, {"reserved_bytes": wanted, **more})
    assert status in (200, 201) and taken["reserved_bytes"] == wanted, taken


def test_what_a_member_cannot_reserve_is_its_group_s_matter(configured):
    server = configured(CONFIG + '\n[group.team]\nreserved = "4MiB"\n')
    settings = {"prefix": "new:", "group": "team", "reserved_bytes": (1 << 64) - 1}
    status, answer = ask(server, "PUT", "/tenants/new", settings)
    assert status == 409 and "group 'team'" in answer["error"] and "the group 4MiB" in answer["error"], answer


def test_the_log_says_what_was_changed_and_nothing_of_what_was_not(server):
    assert ask(server, "PUT", "/groups/team", {"weight": 1})[0] == 201
    same = ({}, {"weight": 1}, {"reserved_bytes": 8 * MIB}, {"rank": None, "placement": None, "bandwidth": None, "max_connections": None})
    for settings in same:
        assert ask(server, "PUT", "/tenants/feeds", settings)[0] == 200
    assert ask(server, "PUT", "/groups/team", {"weight": 1})[0] == 200
    changes = ({"weight": 2}, {"rank": "lru"}, {"placement": "dram"}, {"max_connections": 5}, {"over_share": "refuse"}, {"group": "team", "reserved_bytes": 0})
    for settings in changes:
        assert ask(server, "PUT", "/tenants/feeds", settings)[0] == 200
        assert ask(server, "PUT", "/tenants/feeds", settings)[0] == 200
    assert ask(server, "PUT", "/groups/team", {"weight": 2})[0] == 200
    wait_until(lambda: any("group 'team' was changed" in line for line in server.log))
    said = [line for line in server.log if "was changed" in line]
    assert len(said) == len(changes) + 1, said


def test_a_web_page_changes_nothing(server):
    for method, path in (("PUT", "/policy"), ("DELETE", "/tenants/feeds"), ("POST", "/tenants/feeds")):
        body = {"policy": "auto"} if path == "/policy" else {}
        assert ask(server, method, path, body, {"Origin": "http://127.0.0.1"})[0] == 403
    assert ask(server, "GET", "/policy")[1]["policy"] == "pooled"
    assert ask(server, "GET", "/tenants/feeds")[0] == 200


def test_the_policy_changes_and_the_journal_says_so(server):
    status, answer = ask(server, "PUT", "/policy", {"policy": "idle-tax"})
    assert (status, answer["policy"]) == (200, "idle-tax")

    def noted():
        lines = [json.loads(line) for line in server.http("/journal")[1].splitlines()]
        notes = [note for line in lines for note in line["notes"]]
        return [note["text"] for note in notes if note["reason"] == "switched"]

    wait_until(lambda: noted() == ["idle-tax"])


def test_the_policy_is_told_other_numbers(server):
    before = ask(server, "GET", "/policy")[1]
    told = {"credit_bytes": 1024, "tax": 0.25, "idle_time_seconds": 60, "learning_seconds": 7200, "private": 0.5}
    status, answer = ask(server, "PUT", "/policy", told)
    assert (status, {name: answer[name] for name in told}, answer["policy"]) == (200, told, before["policy"])
    private = lambda: ask(server, "GET", "/tenants/door")[1]["private_bytes"]
    wait_until(lambda: 0 < private())
    back = {name: value for name, value in before.items() if name != "choices"}
    assert ask(server, "PUT", "/policy", back) == (200, before)
    wait_until(lambda: private() == 0)
    assert (before["credit_bytes"], before["tax"], before["idle_time_seconds"], before["private"]) == (65536, 0.5, 18000, 0)


def test_under_one_pool_targets_follow_what_is_held(server):
    assert ask(server, "PUT", "/policy", {"policy": "pooled"})[0] == 200
    assert ask(server, "GET", "/policy")[1]["policy"] == "pooled"

    def worth():
        last = json.loads(server.http("/journal")[1].splitlines()[-1])
        return [share["worth"] and share["worth"]["more_eighth_octaves"] for _, share in last["shares"]]

    wait_until(lambda: worth() == [0, 0, 0])


def test_the_command_s_exit_status_says_what_became_of_it(server):
    assert tenant(server, "list")[0] == 0
    status, out, _ = tenant(server, "add", "new", "--prefix", "n:", "--reserved", "4MiB", "--json")
    assert (status, json.loads(out)["reserved_bytes"]) == (0, 4 * MIB)
    for arguments, wanted, text in [
        (["add", "new", "--prefix", "n:"], 1, "already"),
        (["add", "other", "--prefix", "n:"], 1, "belongs to tenant 'new'"),
        (["set", "new", "--reserved", "100MiB"], 1, "cannot be reserved"),
        (["set", "new", "--weight", "0"], 2, "weight"),
        (["set", "new", "--over-share", "maybe"], 2, "over-share"),
        (["add", "third", "--listen", "127.0.0.1:0"], 2, "no port"),
        (["show", "nobody"], 1, "no tenant"),
        (["remove", "default"], 1, "default"),
    ]:
        status, out, err = tenant(server, *arguments)
        assert (status, out) == (wanted, ""), arguments
        assert text in err and "  try: " in err, err
    assert tenant(server, "set", "new", "--over-share", "refuse")[0] == 0
    assert "refuse" in tenant(server, "show", "new")[1]
    assert tenant(server, "remove", "new")[:2] == (0, "tenant new is removed\n")
    command = [str(servers.BINARY), "tenant", "list", "--admin", "127.0.0.1:1"]
    assert subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 3


def test_what_a_tenant_was_given_is_taken_back(server):
    before = ask(server, "GET", "/tenants/default")[1]["rank"]
    assert tenant(server, "add", "back", "--prefix", "back:", "--rank", "lru", "--credit", "1KiB", "--max-connections", "9")[0] == 0
    assert tenant(server, "set", "back", "--rank", "none", "--credit", "none", "--max-connections", "none")[0] == 0
    seen = ask(server, "GET", "/tenants/back")[1]
    assert (seen["rank"], seen["credit_bytes"], seen["max_connections"]) == (before, None, None)
    assert ask(server, "PUT", "/tenants/back", {"rank": "lfu"})[1]["rank"] == "lfu"
    assert ask(server, "PUT", "/tenants/back", {"rank": None})[1]["rank"] == before
    status, answer = ask(server, "PUT", "/tenants/back", {"max_item_bytes": 0})
    assert status == 400 and "max_item_bytes" in answer["error"]
    assert tenant(server, "remove", "back")[0] == 0


def test_a_removed_tenant_s_memory_and_place_are_free(fresh):
    server = fresh("--max-tenants", "4", memory="16")
    with server.wire() as wire:
        for turn in range(6):
            name = b"p%d" % turn
            # A place is free once a control loop has read that who had it is gone, which takes it a second at most.
            claim = {"prefix": f"{name.decode()}:"}
            wait_until(lambda path=f"/tenants/{name.decode()}", claim=claim: ask(server, "PUT", path, claim)[0] == 201)
            fill(wire, (b"%s:%d" % (name, n) for n in range(2_000)), b"x" * 2_000)
            shown = ask(server, "GET", f"/tenants/{name.decode()}")[1]
            assert (shown["items"], shown["evictions"]) == (2_000, 0), f"turn {turn} finds the memory free"
            assert ask(server, "DELETE", f"/tenants/{name.decode()}")[0] == 200
        assert int(wire.stats()["curr_items"]) == 0
        assert int(wire.stats()["cmd_set"]) == 12_000, "what was counted stays counted"


def test_who_gets_an_id_has_nothing_of_the_tenant_that_was_removed(fresh):
    """No setting and no figure, nor what was observed of its requests."""
    server = fresh("-D", ":", "--max-tenants", "3", "--slow-request", "0s")
    shown = lambda name: ask(server, "GET", f"/tenants/{name}")[1]
    own = {
        "reserved_bytes": MIB, "weight": 5, "credit_bytes": 1000, "rank": "lru", "over_share": "refuse", "bandwidth": "limit 10%", "max_connections": 7,
        "requests_per_second": 100, "burst": 10, "over_rate": "wait", "max_item_bytes": 1000, "default_ttl_seconds": 50, "max_ttl_seconds": 60,
    }
    counted = ("gets", "hits", "sets", "evictions", "writes_refused", "out_of_memory", "connections", "connections_refused", "rate_waits", "rate_refusals")
    with server.wire() as wire:
        assert put(wire, b"y:1") == b"STORED\r\n"
        usual = {name: shown("y")[name] for name in own}
        assert ask(server, "PUT", "/tenants/a", {"prefix": "a:", **own})[0] == 201
        assert {name: shown("a")[name] for name in own} == own
        wire.send(b"get a:7\r\n" * 30 + b"mn\r\n")
        wire.read_until_suffix(b"MN\r\n")
        assert ask(server, "PUT", "/tenants/a", {"requests_per_second": 10_000, "burst": 10_000})[0] == 200
        wire.send(b"get a:7\r\n" * 2_000 + b"mn\r\n")
        wire.read_until_suffix(b"MN\r\n")
        assert ask(server, "GET", "/tenants/a/hotkeys")[1]["keys"][0]["key"] == "a:7"
        assert "a:7" in {slow.get("key") for slow in ask(server, "GET", "/slow")[1]["slow"]}
        assert ask(server, "PUT", "/tenants/a", {"requests_per_second": 1, "burst": 1, "over_rate": "refuse"})[0] == 200
        wire.send(b"get a:7\r\n" * 20 + b"mn\r\n")
        wire.read_until_suffix(b"MN\r\n")
        before = shown("a")
        assert 0 < before["rate_waits"] and 0 < before["rate_refusals"]
        assert ask(server, "DELETE", "/tenants/a")[0] == 200

        def comes():
            assert put(wire, b"z:1", b"x" * 2_000) == b"STORED\r\n"
            return ask(server, "GET", "/tenants/z")[0] == 200

        wait_until(comes)
        after = shown("z")
        assert after["id"] == before["id"]
        assert {name: after[name] for name in own} == usual
        assert {name: after[name] for name in counted} == {name: int(name == "sets") for name in counted}
        assert wire.ask(b"mg z:1 t\r\n") == b"HD t-1\r\n"
        wire.send(b"get z:2\r\n" * 200 + b"mn\r\n")
        assert wire.read_until_suffix(b"MN\r\n") == b"END\r\n" * 200 + b"MN\r\n", "no rate is left"
        wait_until(lambda: {row["class"]: row["requests"] for row in ask(server, "GET", "/tenants/z/latency")[1]["classes"]} == {"read": 201, "write": 1})
        hot, slow = ask(server, "GET", "/tenants/z/hotkeys")[1]["keys"], ask(server, "GET", "/slow")[1]["slow"]
        assert not [row for row in hot + slow if (row.get("key") or "").startswith("a:")]


def test_a_flush_is_in_the_figures_at_once(server):
    with server.wire() as wire:
        fill(wire, (b"feeds:%d" % n for n in range(1_000)), b"x" * 1_000)
        assert int(wire.stats()["bytes"]) > 1_000_000
        assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
        stats = wire.stats()
        assert (stats["bytes"], stats["curr_items"]) == ("0", "0")
        shown = ask(server, "GET", "/tenants/feeds")[1]
        assert (shown["held_bytes"], shown["items"]) == (0, 0)


def test_writes_beyond_a_share_are_refused_and_counted(configured):
    server = configured('policy = "shared"\n' + CONFIG)
    options = {"prefix": "r:", "over_share": "refuse"}
    assert ask(server, "PUT", "/tenants/limited", options)[0] == 201
    refusal = b"SERVER_ERROR out of memory storing object\r\n"
    with server.wire() as wire:
        stored = 0
        while (reply := put(wire, b"r:%d" % stored, b"x" * 50_000)) == b"STORED\r\n":
            stored += 1
        assert reply == refusal and stored > 10
        shown = ask(server, "GET", "/tenants/limited")[1]
        assert shown["target_bytes"] - 60_000 < shown["held_bytes"] <= shown["target_bytes"]
        assert (shown["writes_refused"], shown["out_of_memory"], shown["evictions"]) == (1, 1, 0)
        assert all(wire.ask(b"get r:%d\r\n" % n).startswith(b"VALUE") for n in range(stored))
        assert put(wire, b"r:0", b"y" * 50_000) == b"STORED\r\n", "no larger"
        assert put(wire, b"r:0", b"y" * 150_000) == refusal
        assert wire.ask(b"get r:0\r\n") == b"END\r\n", "nobody takes the older value for the new one"
        assert put(wire, b"r:0", b"y" * 50_000) == b"STORED\r\n", "there is room for it again"
        assert wire.ask(b"add r:x 0 0 50000\r\n" + b"x" * 50_000 + b"\r\n") == refusal
        assert wire.ask(b"touch r:1 100\r\n") == b"TOUCHED\r\n"
        assert put(wire, b"feeds:1", b"x" * 50_000) == b"STORED\r\n", "others go on"
        assert wire.stats()["store_no_memory"] == "3"
        rows = wire.stats(b"tenants")
        assert (rows["limited:writes_refused"], rows["feeds:writes_refused"]) == ("3", "0")


def test_what_is_acknowledged_is_there_in_a_storm_of_evictions(fresh):
    server = fresh("-D", ":", memory="16")
    failures = []

    def storm(name):
        with server.wire() as wire:
            for n in range(15_000):
                size = (n * 7919) % 3_000
                key = b"%s:%d" % (name, n)
                wire.send(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, size, b"x" * size, key))
                reply = wire.read_line(), wire.read_line()
                if reply[0] != b"STORED\r\n" or not reply[1].startswith(b"VALUE"):
                    failures.append((key, reply))
                    return
                wire.read_exact(size + 2)
                wire.read_line()

    threads = [threading.Thread(target=storm, args=(name,)) for name in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with server.wire() as wire:
        assert int(wire.stats()["evictions"]) > 10_000, "it was a storm"


def test_spraying_prefixes_spares_a_reservation(fresh):
    server = fresh(
        "-D", ":", "--max-tenants", "64", "--tenant", "name=kept,prefix=kept:,reserved=8MiB", memory="16"
    )
    with server.wire() as wire:
        fill(wire, (b"kept:%d" % n for n in range(6_000)), b"x" * 1_000)
        fill(wire, (b"s%d:k" % n for n in range(100_000)), b"y" * 400)
        hits = sum(wire.value(b"kept:%d" % n) is not None for n in range(6_000))
        shown = ask(server, "GET", "/tenants/kept")[1]
        assert (hits, shown["evictions"]) == (6_000, 0), "it holds less than it reserves"
        assert len(ask(server, "GET", "/tenants")[1]["tenants"]) == 64
        assert int(wire.stats()["evictions"]) > 10_000


def test_a_name_of_another_host_is_refused(server):
    """A web page whose name leads to this host could read what it is told otherwise."""
    for name, status in [("evil.example", 403), ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]", 200)]:
        status_now, answer = ask(server, "GET", "/tenants", headers={"Host": name})
        assert status_now == status, (name, answer)
    assert "names another host" in ask(server, "GET", "/tenants", headers={"Host": "evil.example"})[1]["error"]


def test_more_connections_than_places_wait(server):
    host, port = address(server).rsplit(":", 1)
    held = [socket.create_connection((host, int(port)), timeout=10) for _ in range(64)]
    try:
        for connection in held:
            connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
        with socket.create_connection((host, int(port)), timeout=10) as late:
            late.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            late.settimeout(0.5)
            with pytest.raises(TimeoutError):
                late.recv(1)
            held.pop().close()
            late.settimeout(10)
            assert late.recv(100).startswith(b"HTTP/1.1 200 OK")
    finally:
        for connection in held:
            connection.close()
