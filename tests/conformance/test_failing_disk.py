"""A tier on a disk that fails while the server runs: values are missed or wait in DRAM, none is wrong, and all is well again after it."""

import pathlib
import platform
import subprocess
import time

import pytest

from conformance import servers
from conformance.test_tiers import end_clean, fill, fill_below, get_all, keys, refused, store_all, tier, tiers_of, value
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant

SOURCE = pathlib.Path(__file__).with_name("failing_disk.c")
#: Longest wait for a tier to be tried again.
AGAIN_S = 40.0


class Disk:
    """What the disk does from now on."""

    def __init__(self, control):
        self.control = control
        self.is_well()

    def fails(self, how):
        self.control.write_text(how, encoding="ascii")

    def is_well(self):
        self.fails("")


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    path = tmp_path_factory.mktemp("disk") / "failing_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture
def disk(shim, tmp_path, monkeypatch):
    control = tmp_path / "disk"
    monkeypatch.setenv("FAILING_DISK", str(control))
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    return Disk(control)


@pytest.fixture
def far(disk, fresh, tmp_path):
    """A server with values in the tier, more than its DRAM holds."""
    return begin(fresh, tmp_path, "file")


def begin(fresh, folder, medium):
    server = fresh("--tier", tier(folder, medium=medium), "--placement", "ssd", memory="8")
    with server.wire() as wire:
        fill_below(wire, {key: value(key) for key in keys()})
    return server


def until(wire, what, holds):
    end = time.monotonic() + AGAIN_S
    while not holds():
        assert time.monotonic() < end, f"{what}\n{tiers_of(wire)}"
        time.sleep(0.2)


def is_right(found, versions):
    return all(text == value(key, versions.get(key, 0)) for key, text in found.items())


def test_values_that_cannot_be_read_are_misses(disk, far):
    with far.wire() as wire:
        assert get_all(wire, keys()[:100]) == {key: value(key) for key in keys()[:100]}
        store_all(wire, [set_request(b"small", b"in DRAM")])
        before = int(tiers_of(wire)["ssd:errors"])
        disk.fails("reads")
        found = get_all(wire, keys()[:300])
        # What is being gathered, or was read just now, is in memory.
        assert len(found) < 200 and is_right(found, {})
        assert wire.ask(b"get small\r\n") == b"VALUE small 0 7\r\nin DRAM\r\nEND\r\n"
        assert before < int(tiers_of(wire)["ssd:errors"])
    far.check_alive()
    disk.is_well()
    with far.wire() as wire:
        found = get_all(wire, keys())
        assert len(keys()) - 400 < len(found) and is_right(found, {}), f"{len(found)} are left"
        fill(wire, keys()[:300], version=1)
        assert is_right(get_all(wire, keys()[:300]), dict.fromkeys(keys()[:300], 1))


@pytest.mark.parametrize("how", ["writes", "full"])
def test_what_cannot_be_written_is_missed_or_in_dram(disk, far, how):
    some = keys()[:2000]
    with far.wire() as wire:
        before = tiers_of(wire)
        disk.fails(how)
        fill(wire, some, version=1)
        until(wire, "errors are counted", lambda: int(before["ssd:errors"]) < int(tiers_of(wire)["ssd:errors"]))
        versions = dict.fromkeys(some, 1)
        assert is_right(get_all(wire, keys()), versions), "nothing old, nothing torn"
        disk.is_well()

        def goes_down():
            fill(wire, keys(), version=2)
            return int(tiers_of(wire)["below:items"]) == len(keys())

        until(wire, "values go down again", goes_down)
        found = get_all(wire, keys())
        assert len(found) == len(keys()) and is_right(found, dict.fromkeys(keys(), 2))


def test_a_tier_that_is_never_well_again_is_left_as_it_is(disk, far):
    """Also the end is one: what is in DRAM goes, nothing hangs, and a start finds nothing wrong."""
    with far.wire() as wire:
        disk.fails("reads writes syncs")
        fill(wire, keys()[:1000], version=1)
        assert is_right(get_all(wire, keys()[:1000]), dict.fromkeys(keys()[:1000], 1))
    far.process.terminate()
    assert far.process.wait(timeout=servers.STOP_S) in (0, 3), far.said()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim's filter for msync is for x86-64")
def test_a_disk_that_keeps_nothing_at_the_start_is_refused(disk, fresh, tmp_path):
    """Writes of before the start may be lost, and that the notes are worthless then cannot be said."""
    end_clean(begin(fresh, tmp_path, "file"))
    disk.fails("syncs")
    said = refused("--tier", tier(tmp_path), "--placement", "ssd")
    assert str(tmp_path / "tier") in said and "Input/output error" in said, said
    disk.is_well()
    with fresh("--tier", tier(tmp_path), "--placement", "ssd", memory="8").wire() as wire:
        found = get_all(wire, keys())
        assert is_right(found, {})


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim's filter for msync is for x86-64")
def test_notes_that_were_not_kept_are_believed_by_no_later_start(disk, fresh, tmp_path):
    """A delete that a disk does not take is done all the same; what a crash leaves there is not trusted after it."""
    some = keys()[:100]
    for fails in False, True:
        far = begin(fresh, tmp_path, "synced")
        with far.wire() as wire:
            if fails:
                disk.fails("syncs")
            for key in some:
                assert wire.ask(b"delete %s\r\n" % key) == b"DELETED\r\n"
            assert get_all(wire, some) == {}
        far.process.kill()
        far.process.wait(timeout=servers.STOP_S)
        disk.is_well()
        again = fresh("--tier", tier(tmp_path, medium="synced"), "--placement", "ssd", memory="8")
        with again.wire() as wire:
            assert get_all(wire, some) == {}
            restored = int(tiers_of(wire)["ssd:restored"])
            assert restored == 0 if fails else len(keys()) // 2 < restored
            fill(wire, some, version=2)
            assert get_all(wire, some) == {key: value(key, 2) for key in some}
        end_clean(again)
