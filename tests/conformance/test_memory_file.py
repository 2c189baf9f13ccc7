"""The file of `-e`: what a clean end saves in it, the next start has again."""

import os
import random
import shutil
import signal
import time

import pytest

from conformance import servers
from conformance.test_tiers import end_clean, fill, get_all, keys, refused, value
from conformance.wire import DEADLINE_S, set_request

pytestmark = pytest.mark.cotenant

LARGE = random.Random(5).randbytes(450_000).hex().encode()


def test_a_memory_file_keeps_dram_over_a_restart(fresh, tmp_path):
    file = tmp_path / "items"
    arguments = ("-e", str(file), "-D", ":")
    server = fresh(*arguments)
    with server.wire() as wire:
        fill(wire, keys(3000))
        # In pages of its own.
        wire.send(set_request(b"large", LARGE, flags=7))
        assert wire.read_line() == b"STORED\r\n"
        assert wire.stats(b"settings")["memory_file"] == str(file)
    end_clean(server, signal.SIGUSR1)
    assert 3000 * 200 + len(LARGE) < file.stat().st_size
    again = fresh(*arguments)
    assert not file.exists(), "what was read is not read again"
    with again.wire() as wire:
        assert get_all(wire, keys(3000)) == {key: value(key) for key in keys(3000)}
        assert int(wire.stats(b"tenants")["key:items"]) == 3000, "a tenant of a prefix comes again"
        assert wire.value(b"large") == LARGE


def test_a_damaged_memory_file_is_no_wrong_value(fresh, tmp_path):
    file = tmp_path / "items"
    server = fresh("-e", str(file))
    with server.wire() as wire:
        fill(wire, keys(2000))
    end_clean(server)
    saved = bytearray(file.read_bytes())
    for at in random.Random(3).sample(range(24, len(saved)), 5):
        saved[at] ^= 0x10
    file.write_bytes(saved[: len(saved) * 9 // 10])
    again = fresh("-e", str(file))
    assert "not all of it: it is damaged" in again.said(), "why it is not all there"
    with again.wire() as wire:
        found = get_all(wire, keys(2000))
        assert all(found[key] == value(key) for key in found)
        assert len(found) < 2000, "a tenth of the file is not there"


def test_a_memory_file_that_is_something_else_is_left_as_it_is(fresh, tmp_path):
    file = tmp_path / "items"
    file.write_text("hello")
    said = refused("-e", str(file))
    assert f"{file}: it holds something else than saved items" in said and "remove" in said
    assert file.read_text() == "hello"
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for place in folder, pipe:
        assert "it is no file" in refused("-e", str(place))
        assert place.exists()
    assert "write" in refused("-e", str(tmp_path / "no" / "items"))
    some = tmp_path / "tier"
    spec = f"ssd=file:{some}:64MiB"
    assert "tier 'ssd' lies there" in refused("--tier", spec, "-e", f"{folder}/../tier")
    assert not some.exists()
    end_clean(fresh("--tier", spec))
    before = some.read_bytes()
    assert "tier 'ssd' lies there" in refused("--tier", spec, "-e", str(some))
    assert "something else" in refused("-e", str(some))
    assert some.read_bytes() == before
    file.write_text("")
    end_clean(fresh("-e", str(file)))
    assert file.stat().st_size != 0, "an empty file is as good as none"


def test_a_memory_file_is_one_server_s(fresh, tmp_path):
    file = tmp_path / "items"
    server = fresh("-e", str(file))
    with server.wire() as wire:
        fill(wire, keys(10))
    assert "it is in use by another server" in refused("-e", str(file))
    end_clean(server)
    assert [one.name for one in tmp_path.iterdir()] == ["items"]
    with fresh("-e", str(file)).wire() as wire:
        assert len(get_all(wire, keys(10))) == 10


def test_a_save_that_fails_is_no_clean_end(fresh, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    server = fresh("-e", str(folder / "items"))
    with server.wire() as wire:
        fill(wire, keys(10))
    shutil.rmtree(folder)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=servers.STOP_S) == 3
    until = time.monotonic() + DEADLINE_S
    while "could not be saved" not in server.said():
        assert time.monotonic() < until, server.said()
        time.sleep(0.01)
