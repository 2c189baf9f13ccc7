"""Starts that are ended before they serve: the next has everything that they would have had."""

import random
import signal
import subprocess
import threading
import time
import types

import pytest

from conformance import servers
from conformance.test_tiers import end_clean, fill_below, get_all, value
from conformance.wire import DEADLINE_S

pytestmark = pytest.mark.cotenant

#: Small items: enough that a start has moments before, within and behind the load.
MANY = 300_000
#: Values that are in a tier.
BELOW = 300


def small(number):
    return b"small:%d" % number


def fill_small(wire, count=MANY):
    for start in range(0, count, 10_000):
        some = range(start, start + 10_000)
        wire.send(b"".join(b"set %s 0 0 8 noreply\r\n%08d\r\n" % (small(n), n) for n in some))
    wire.send(b"version\r\n")
    assert wire.read_line().startswith(b"VERSION")


def items_of(server):
    with server.wire() as wire:
        return int(wire.stats()["curr_items"])


class Starting:
    """A server that is not waited for."""

    def __init__(self, arguments):
        command = [servers.BINARY, "serve", "-p", "0", "-m", "64", "-t", "2", *arguments]
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.log = []
        self.begins = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if "comes back" in line:
                self.begins.set()
        self.begins.set()

    def end(self, sign, pause_s):
        """Sends a signal so long after the load has begun; the exit status and all that was said."""
        assert self.begins.wait(servers.START_S)
        # Not to wait for something: any moment is as good, and they are to differ.
        time.sleep(pause_s)
        self.process.send_signal(sign)
        status = self.process.wait(timeout=servers.STOP_S)
        self.reader.join(timeout=DEADLINE_S)
        return status, "".join(self.log)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_start_that_is_ended_at_any_moment_loses_nothing(fresh, tmp_path, sign):
    arguments = ("-e", str(tmp_path / "items"))
    server = fresh(*arguments)
    with server.wire() as wire:
        fill_small(wire)
    end_clean(server)
    rng = random.Random(int(sign))
    broken_off = 0
    for turn in range(8):
        starting = Starting((*arguments, "--admin", "off"))
        status, said = starting.end(sign, turn % 2 * rng.random() * 0.3)
        if sign == signal.SIGKILL:
            assert status == -sign
            if "cotenant ready" in said or not (tmp_path / "items").exists():
                # It served: whatever was kept is this process's, and went with it.
                again = fresh(*arguments)
                with again.wire() as wire:
                    fill_small(wire)
                end_clean(again)
            continue
        assert status == 0, said
        is_broken_off = "the start is broken off" in said
        assert is_broken_off != ("items were saved" in said), said
        broken_off += is_broken_off
    assert broken_off or sign == signal.SIGKILL, "half of them were told at once"
    again = fresh(*arguments)
    assert items_of(again) == MANY, again.said()
    with again.wire() as wire:
        some = [small(number) for number in rng.sample(range(MANY), 1000)]
        assert get_all(wire, some) == {key: b"%08d" % int(key.partition(b":")[2]) for key in some}


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_tiers_are_the_same_after_a_start_that_was_broken_off(fresh, tmp_path, sign):
    arguments = ("--tier", f"ssd=file:{tmp_path}/tier:64MiB", "--placement", "ssd")
    saved = tmp_path / "tier.saved"
    below = {b"key:%d" % n: value(b"key:%d" % n) for n in range(BELOW)}
    server = fresh(*arguments)
    with server.wire() as wire:
        fill_below(wire, below)
        fill_small(wire)
    end_clean(server)
    for turn in range(4):
        status, said = Starting((*arguments, "--admin", "off")).end(sign, turn * 0.02)
        assert status == (0 if sign == signal.SIGTERM else -sign), said
        if sign == signal.SIGKILL and not saved.exists():
            pytest.skip("it was ready before it was killed")
    again = fresh(*arguments)
    assert items_of(again) == MANY + BELOW, again.said()
    assert "after a clean end, 0 were dropped" in again.said()
    with again.wire() as wire:
        assert get_all(wire, list(below)) == below


def test_health_says_that_it_starts_until_it_serves(fresh, tmp_path):
    arguments = ("-e", str(tmp_path / "items"))
    server = fresh(*arguments)
    with server.wire() as wire:
        fill_small(wire)
    end_clean(server)
    port = servers._free_port()
    starting = Starting((*arguments, "--admin", f"127.0.0.1:{port}"))
    administration = types.SimpleNamespace(admin=f"http://127.0.0.1:{port}")
    assert starting.begins.wait(servers.START_S)
    until = time.monotonic() + servers.START_S
    answers = []
    while not answers or answers[-1][0] != 200:
        assert time.monotonic() < until, "".join(starting.log)
        try:
            answers.append(servers.Server.http(administration, "/health"))
        except OSError:
            # A connection that was made when it began to serve.
            continue
    assert answers[-1] == (200, "ok\n")
    assert all(answer == (503, "starting\n") for answer in answers[:-1])
    assert starting.end(signal.SIGTERM, 0)[0] == 0
