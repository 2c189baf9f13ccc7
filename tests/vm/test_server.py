"""The server on persistent memory in a virtual machine: what does a client find after a kill of it, and after a clean stop?

The client is pymemcache on the host, through the emulator's network to the guest.
"""

import random
import socket

from pymemcache import Client

from vm.test_dax import SLOTS, prepare

TIER = "pm=dax:/mnt/tier:32MiB"
KEYS = 600
STEPS = 1200


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(boot, nvdimms, is_new):
    """A machine with a server of which all values go into persistent memory, and a client of it."""
    port = free_port()
    network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:11211"
    guest = boot(*nvdimms, "-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile=", **SLOTS)
    prepare(guest, is_new)
    guest.run("ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up")
    flags = f"-l 10.0.2.15 -m 64 -t 2 --tier {TIER} --placement pm"
    guest.run(f"cotenant serve {flags} >/tmp/server 2>&1 &")
    guest.run("while pidof cotenant >/dev/null && ! grep -q 'cotenant ready' /tmp/server; do sleep 0.1; done")
    guest.run("cat /tmp/server; pidof cotenant")
    return guest, Client(("127.0.0.1", port), timeout=300)


def value(key, version):
    """What a key holds: too long to stay in DRAM."""
    draw = random.Random(f"{key} {version}")
    return b"%d %d|" % (key, version) + bytes([97 + draw.randrange(26)]) * draw.randrange(200, 6000)


def load(client, known, times):
    """Overwrites and deletes."""
    draw = random.Random(times)
    for step in range(STEPS):
        key, version = draw.randrange(KEYS), times * STEPS + step
        if draw.randrange(5) == 0:
            client.delete(b"key:%d" % key, noreply=False)
            known.pop(key, None)
        else:
            assert client.set(b"key:%d" % key, value(key, version), noreply=False)
            known[key] = version


def compare(client, known):
    """How many of those that are known are there. What is there is as it was acknowledged last."""
    there = 0
    for key in range(KEYS):
        found = client.get(b"key:%d" % key)
        if found is not None:
            assert key in known, f"key {key} is back: {found[:40]}"
            assert found == value(key, known[key]), f"key {key}: {found[:40]}"
            there += 1
        else:
            known.pop(key, None)
    return there


def test_a_server_on_persistent_memory_survives_a_kill_of_the_machine_and_a_clean_stop(boot, nvdimms):
    hardware, known = nvdimms(128), {}
    guest, client = serve(boot, hardware, is_new=True)
    load(client, known, 0)
    guest.kill()
    guest, client = serve(boot, hardware, is_new=False)
    before, there = len(known), compare(client, known)
    print(f"after a kill {there} of {before}")
    # The emulator's memory has no caches in front of it: what was stored is there, written back or not.
    assert there == before
    load(client, known, 1)
    assert compare(client, known) == len(known)
    guest.run("kill -TERM $(pidof cotenant); while pidof cotenant >/dev/null; do sleep 0.1; done")
    guest.stop()
    guest, client = serve(boot, hardware, is_new=False)
    before, there = len(known), compare(client, known)
    print(f"after a clean stop {there} of {before}")
    assert before * 95 <= there * 100
    stats = client.stats("tiers")
    assert 0 < there <= stats[b"pm:restored"] and stats[b"pm:dropped"] == 0, stats
