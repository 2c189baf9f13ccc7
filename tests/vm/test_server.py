"""The server in a virtual machine: what does a client find after a kill of the machine, and after a clean stop?

The client is pymemcache on the host, through the emulator's network to the guest. What a disk holds is an NVDIMM without DAX: the
guest's page cache is in front of it, and is gone with the machine.
"""

import random
import socket

import pytest
from pymemcache import Client

from vm.test_dax import SLOTS, prepare
from vm.test_numa import HARDWARE as TWO_NODES

DAX, SYNCED, CRASHING = (f"pm={medium}:/mnt/tier:32MiB" for medium in ("dax", "synced", "file"))
DEVICE = "pm=dax:/dev/dax1.0:32MiB"
KEYS = 600
STEPS = 1200


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(boot, hardware, tier, is_new=None, begin=prepare):
    """A machine with a server of which all values go into a tier, and a client of it. Without a file system where `is_new` is none."""
    port = free_port()
    network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:11211"
    slots = {} if is_new is None else SLOTS
    guest = boot(*hardware, "-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile=", **slots)
    if is_new is not None:
        begin(guest, is_new, "-o dax" if tier == DAX else "")
    guest.run("ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up")
    begin_server(guest, tier)
    return guest, Client(("127.0.0.1", port), timeout=300)


def begin_server(guest, tier):
    flags = f"-l 10.0.2.15 -m 64 -t 2 --tier {tier} --placement pm"
    guest.run(f"cotenant serve {flags} >/tmp/server 2>&1 &")
    guest.run("while pidof cotenant >/dev/null && ! grep -q 'cotenant ready' /tmp/server; do sleep 0.1; done")
    guest.run("cat /tmp/server; pidof cotenant")


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


def end(guest):
    guest.run("kill -TERM $(pidof cotenant); while pidof cotenant >/dev/null; do sleep 0.1; done")
    guest.stop()


@pytest.mark.parametrize("tier", [DAX, DEVICE, SYNCED], ids=["dax", "device", "synced"])
def test_a_server_survives_a_kill_of_the_machine_and_a_clean_stop(boot, nvdimms, tier):
    hardware, known = nvdimms(128, 64), {}
    guest, client = serve(boot, hardware, tier, is_new=True)
    load(client, known, 0)
    guest.kill()
    guest, client = serve(boot, hardware, tier, is_new=False)
    before, there = len(known), compare(client, known)
    print(f"after a kill {there} of {before}")
    # The emulator's memory has no caches in front of it: what was stored there is there, written back or not. A disk is given what
    # is gathered when a segment is full, or a second later.
    assert before < 2 * there if tier == SYNCED else there == before
    load(client, known, 1)
    assert compare(client, known) == len(known)
    end(guest)
    guest, client = serve(boot, hardware, tier, is_new=False)
    before, there = len(known), compare(client, known)
    print(f"after a clean stop {there} of {before}")
    assert before * 95 <= there * 100
    stats = client.stats("tiers")
    assert 0 < there <= stats[b"pm:restored"] and stats[b"pm:dropped"] == 0, stats


def test_a_file_that_bears_no_crash_is_empty_after_one(boot, nvdimms):
    """Its notes were in the guest's page cache: what of them reached the disk says nothing."""
    hardware, known = nvdimms(128), {}
    guest, client = serve(boot, hardware, CRASHING, is_new=True)
    load(client, known, 0)
    end(guest)
    guest, client = serve(boot, hardware, CRASHING, is_new=False)
    before, there = len(known), compare(client, known)
    assert before * 95 <= there * 100
    load(client, known, 1)
    guest.kill()
    guest, client = serve(boot, hardware, CRASHING, is_new=False)
    assert compare(client, known) == 0
    load(client, known, 2)
    assert compare(client, known) == len(known)


def mapped_disk(guest, is_new, options):
    """A file system on a disk that can be made to fail."""
    guest.run("sh /test/pmem.sh")
    guest.run("echo $(($(cat /sys/block/pmem0/size))) >/tmp/sectors")
    guest.run('echo "0 $(cat /tmp/sectors) linear /dev/pmem0 0" | /test/dmsetup create disk --noudevsync')
    # What the file system notes of itself waits, so that it does not give up at once.
    prepare(guest, is_new, f"{options} -o commit=600", "/dev/dm-0")
    # What runs from now on can be told to give pages of files back.
    guest.run("mkdir /tmp/group && mount -t cgroup2 none /tmp/group && echo +memory >/tmp/group/cgroup.subtree_control")
    guest.run("mkdir /tmp/group/all && echo 1 >/tmp/group/all/cgroup.procs")


def turn_disk(guest, target):
    """What is asked of the disk goes to another device-mapper target from now on."""
    guest.run("/test/dmsetup suspend disk --noudevsync --nolockfs --noflush")
    guest.run(f'echo "0 $(cat /tmp/sectors) {target}" | /test/dmsetup load disk')
    guest.run("/test/dmsetup resume disk --noudevsync")


def take_pages_back(guest):
    """Lets the kernel forget what it has of files."""
    guest.run("for i in 1 2 3 4; do echo 256M >/tmp/group/all/memory.reclaim; done; true")


def test_what_a_disk_did_not_give_back_is_not_believed_after_it(boot, nvdimms):
    """Deletes beside pages of notes that could not be read are known to no file: no later start may take the values for live."""
    known = {}
    guest, client = serve(boot, nvdimms(128), CRASHING, is_new=True, begin=mapped_disk)
    load(client, known, 0)
    guest.run("sync")
    take_pages_back(guest)
    turn_disk(guest, "error")
    # Of whichever there are: each is noted in a page that is not there.
    for key in range(0, KEYS, 3):
        client.delete(b"key:%d" % key, noreply=False)
        known.pop(key, None)
    turn_disk(guest, "linear /dev/pmem0 0")
    # The disk is asked again whether it takes the word that the notes are void, ever more seldom.
    for key in range(1, KEYS, 3):
        client.delete(b"key:%d" % key, noreply=False)
        known.pop(key, None)
    assert known, "some are left"
    guest.run("kill -9 $(pidof cotenant); while pidof cotenant >/dev/null; do sleep 0.1; done")
    begin_server(guest, CRASHING)
    client.close()
    assert compare(client, known) == 0, "nothing is there, rather than something old"
    load(client, known, 1)
    assert compare(client, known) == len(known)


def test_a_disk_that_dies_takes_its_values_and_not_the_server(boot, nvdimms):
    """Every read and write of it is an error from now on, those of the file system, and of the notes' pages, too."""
    known = {}
    guest, client = serve(boot, nvdimms(128), CRASHING, is_new=True, begin=mapped_disk)
    load(client, known, 0)
    assert compare(client, known) == len(known)
    was = client.stats("tiers")
    turn_disk(guest, "error")
    before, there = len(known), compare(client, dict(known))
    print(f"{there} of {before} are left in memory")
    assert there < before
    for start in 0, 1:
        # Each of them is noted as dead: the first half in pages that the disk is given after it, in vain, the others in pages that it has.
        for key in range(start, KEYS, 2):
            client.delete(b"key:%d" % key, noreply=False)
            known.pop(key, None)
        guest.run("sync; true")
        take_pages_back(guest)
    assert compare(client, known) == 0
    load(client, known, 1)
    assert compare(client, known) == len(known), "in DRAM"
    tiers = client.stats("tiers")
    assert was[b"pm:errors"] < tiers[b"pm:errors"], tiers
    guest.run("pidof cotenant")
    assert client.set(b"small", b"in DRAM", noreply=False) and client.get(b"small") == b"in DRAM"


def test_a_server_on_a_node_without_processors(boot):
    """Values are that node's memory, and the server's own is not."""
    known = {}
    guest, client = serve(boot, TWO_NODES, "pm=numa:1:64MiB")
    load(client, known, 0)
    assert compare(client, known) == len(known)
    tiers = client.stats("tiers")
    assert 0 < tiers[b"pm:used_bytes"] and len(known) // 2 < tiers[b"pm:hits"], tiers
    pages = guest.run("cat /proc/$(pidof cotenant)/numa_maps | grep -o 'N1=[0-9]*'").split()
    on_the_node = 4096 * sum(int(page.removeprefix("N1=")) for page in pages)
    assert tiers[b"pm:used_bytes"] <= on_the_node <= (64 + 8) << 20, on_the_node
