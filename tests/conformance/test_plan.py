"""`cotenant plan`: what a tenant would hit with more memory, live and from a trace."""

import contextlib
import json
import random
import socket
import threading
import time

import pytest

from conformance import servers
from conformance.test_cli import check_refused, run
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A loop over 500 keys of 100 bytes each, ten times, and a tenant that asks for one key."""
    path = tmp_path_factory.mktemp("plan") / "trace.csv"
    rows = [f"{i},loop,{i % 500},20,{100 - 20 - 19},get,0" for i in range(5_000)]
    rows += [f"{5_000 + i},one,1,20,61,get,0" for i in range(100)]
    path.write_text("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n" + "\n".join(rows) + "\n")
    return path


def test_a_trace_gives_a_curve_per_tenant(trace):
    done = run("plan", "--trace", trace, "--at", "40KiB", "--change", "-50%,+50%", "--json")
    assert done.returncode == 0, done.stderr
    plans = {plan["tenant"]: plan for plan in map(json.loads, done.stdout.splitlines())}
    assert plans.keys() == {"loop", "one"}
    now, less, more = plans["loop"]["sizes"]
    assert (now["memory"], less["bytes"], more["memory"]) == ("now", 20 << 10, "+50%")
    assert less["hit_ratio"] < 0.01 and more["hit_ratio"] == pytest.approx(0.9, abs=0.01)
    assert more["hits_gained"] == pytest.approx(4_500, abs=60)


def test_a_wanted_ratio_out_of_reach_is_a_no(trace):
    reached = run("plan", "--trace", trace, "--tenant", "loop", "--want", "0.85", "--json")
    assert reached.returncode == 0 and 48_000 < json.loads(reached.stdout)["bytes_for_want"] < 52_000
    done = run("plan", "--trace", trace, "--tenant", "loop", "--want", "0.95")
    assert done.returncode == 1 and "no memory gives" in done.stdout and done.stderr == ""


def test_wrong_use(trace):
    check_refused(run("plan"), "--tenant")
    check_refused(run("plan", "--tenant", "x", "--want", "2"), "2")
    check_refused(run("plan", "--tenant", "x", "--change", "much"), "much")
    done = run("plan", "--trace", trace, "--tenant", "lop")
    check_refused(done, "lop")
    assert "did you mean 'loop'?" in done.stderr


def test_the_format_of_a_trace_can_be_named(trace, tmp_path):
    done = run("plan", "--trace", trace, "--format", "mix", "--tenant", "loop", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["tenant"] == "loop", done.stderr
    check_refused(run("plan", "--trace", trace, "--format", "mixed"), "mixed")
    unknown = tmp_path / "unknown"
    unknown.write_text("what is this\n")
    done = run("plan", "--trace", unknown)
    check_refused(done, "unknown")
    assert "--format" in done.stderr, done.stderr


def test_names_that_clients_choose_do_not_speak_to_the_terminal(tmp_path):
    # Of those that a key may hold in a trace.
    name, shown = "x\x9b2J", r"x\u{9b}2J"
    path = tmp_path / "trace.csv"
    rows = "".join(f"0,{name},{key},20,61,get,0\n" for key in (1, 1, 2))
    path.write_text("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n" + rows + "0,a\x9b,1,20,61,get,0\n", encoding="utf-8")
    done = run("plan", "--trace", path)
    assert done.returncode == 0 and f"tenant {shown}: " in done.stdout and r"tenant 'a\u{9b}' has no" in done.stderr
    wrong = run("plan", "--trace", path, "--tenant", "nobody")
    check_refused(wrong, "nobody")
    replayed = run("replay", path)
    assert shown in replayed.stdout, replayed.stderr
    for said in (done, wrong, replayed):
        assert shown in said.stdout + said.stderr
        assert "\x9b" not in said.stdout + said.stderr


def test_an_administration_that_drips_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                while True:
                    client.sendall(b"H")
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        done = run("plan", "--tenant", "default", "--admin", f"127.0.0.1:{listener.getsockname()[1]}")
    assert done.returncode == 3 and "no whole answer in 10s" in done.stderr, done.stderr
    assert time.monotonic() - began < 20


def test_where_nothing_is_asked_twice_there_is_no_plan(tmp_path):
    path = tmp_path / "once.csv"
    path.write_text("t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n0,once,1,20,61,get,0\n1,once,2,20,61,get,0\n")
    for arguments, words in [([], "no key is looked up twice"), (["--tenant", "once"], "tenant 'once' has no curve")]:
        done = run("plan", "--trace", path, *arguments)
        assert (done.returncode, done.stdout) == (1, "") and words in done.stderr and "  try: " in done.stderr, done.stderr


def test_a_server_that_is_not_there_is_status_3():
    done = run("plan", "--tenant", "default", "--admin", f"127.0.0.1:{servers._free_port()}")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 2, done.stderr


def test_a_running_server_is_asked(fresh):
    server = fresh()
    admin = server.admin.removeprefix("http://")
    done = run("plan", "--tenant", "defalt", "--admin", admin)
    check_refused(done, "defalt")
    assert "did you mean 'default'?" in done.stderr
    early = run("plan", "--tenant", "default", "--admin", admin)
    assert early.returncode == 1 and early.stderr.startswith("error: "), early.stderr
    rng = random.Random(1)
    until = time.monotonic() + 30
    done = early
    with server.wire() as wire:
        while done.returncode != 0 and time.monotonic() < until:
            for _ in range(2_000):
                key = b"k%d" % int(500 * rng.random() ** 2)
                if wire.value(key) is None:
                    wire.ask(set_request(key, b"x" * 100))
            done = run("plan", "--tenant", "default", "--admin", admin, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["live"] and plan["samples"] > 100 and [row["memory"] for row in plan["sizes"]] == ["now", "+20%", "-20%"]
    status, body = server.http("/tenants/default/curve")
    assert status == 200 and json.loads(body)["what_if"].keys() == {"+20%", "-20%"}
    assert server.http("/tenants/nobody/curve")[0] == 404
