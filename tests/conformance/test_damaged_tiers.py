"""Files of tiers that are not what they were, or change while they are used: nothing wrong is served from them."""

import os
import random
import signal

import pytest

from conformance import servers
from conformance.test_tiers import COUNT, MIB, end_clean, engine, far, fill, get_all, keys, refused, store_all, tier, tiers_of, value  # noqa: F401  (fixtures)
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant


@pytest.mark.parametrize("damage", ["size", "foreign", "truncated", "flipped", "version"])
def test_a_tier_that_is_not_what_it_was(fresh, tmp_path, damage):
    place = tmp_path / "tier"
    end_clean(fresh("--tier", f"file:{place}:64MiB"))
    size = "64MiB"
    with place.open("r+b") as file:
        if damage == "size":
            size = "32MiB"
        elif damage == "foreign":
            file.write(b"something else")
        elif damage == "truncated":
            file.truncate(MIB)
        else:
            # Whatever is there: one file in 256 has a 0xff at that place.
            at = 9 if damage == "version" else 40
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0xFF]))
    before = place.read_bytes()
    said = refused("--tier", f"file:{place}:{size}")
    assert str(place) in said and ("remove" in said or "ask for" in said), said
    assert place.read_bytes() == before, "it is left as it was"


def test_bits_that_flipped_are_missed_not_served(fresh, tmp_path):
    arguments = ("--tier", tier(tmp_path), "--placement", "ssd")
    server = fresh(*arguments, memory="16")
    with server.wire() as wire:
        fill(wire, keys(3000))
    end_clean(server)
    draw = random.Random(4)
    with (tmp_path / "tier").open("r+b") as file:
        for _ in range(300):
            at = draw.randrange(2 * MIB, 10 * MIB)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x20]))
    again = fresh(*arguments, memory="16")
    with again.wire() as wire:
        found = get_all(wire, keys(3000))
        assert all(found[key] == value(key) for key in found)
        assert len(found) < 3000, "some of what was flipped was a value"
        assert 0 < int(tiers_of(wire)["ssd:damaged"])
        assert len(get_all(wire, keys(3000))) == len(found), "what was lost is gone, the rest stays"


def test_a_file_that_is_cut_while_it_is_used_loses_values_alone(far, tmp_path):  # noqa: F811
    """Reads of io_uring that bring less than they were asked for."""
    os.truncate(tmp_path / "tier", 4 * MIB)
    with far.wire() as wire:
        before = int(tiers_of(wire)["ssd:errors"])
        found = get_all(wire, keys())
        assert all(found[key] == value(key) for key in found)
        assert 0 < len(found) < COUNT // 2 and before < int(tiers_of(wire)["ssd:errors"])
        some = keys(500)
        fill(wire, some, version=1)
        found = get_all(wire, some)
        assert some[-1] in found and all(found[key] == value(key, 1) for key in found)
    far.check_alive()


def test_a_file_that_is_emptied_while_it_is_used_costs_its_values_alone(far, fresh, tmp_path):  # noqa: F811
    """Its notes, too, are no longer there: what is asked of them reads as nothing, and the server goes on in DRAM."""
    os.truncate(tmp_path / "tier", 0)
    with far.wire() as wire:
        some = keys(500)
        for version in 1, 2:
            store_all(wire, [set_request(key, value(key, version)) for key in some])
            found = get_all(wire, keys())
            assert all(found[key] == value(key, version if key in some else 0) for key in found)
        assert some[-1] in found, "what was written last is in DRAM"
        for key in some:
            wire.ask(b"delete %s\r\n" % key)
        assert not get_all(wire, some)
        assert 0 < int(tiers_of(wire)["ssd:errors"])
    far.check_alive()
    far.process.send_signal(signal.SIGTERM)
    assert far.process.wait(timeout=servers.STOP_S) in (0, 3)
    assert "panicked" not in far.said()
    assert "remove" in refused("--tier", tier(tmp_path)), "nothing is overwritten"
    (tmp_path / "tier").unlink()
    with fresh("--tier", tier(tmp_path), "--placement", "ssd", memory="8").wire() as wire:
        assert not get_all(wire, keys())
