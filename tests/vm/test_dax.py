"""Persistent memory in a virtual machine: is it found, does a tier bear it, and what is there after a kill of the machine?

What these cannot show: an emulator's memory holds every store, written back or not. That every write-back and fence is there
is shown on a recorder (`crates/media/src/faults/recorder.rs`, `crates/store/tests/restart/recorded.rs`).
"""

import json

#: A machine whose memory has slots for NVDIMMs.
SLOTS = {"memory": "1G,slots=4,maxmem=4G", "machine": "q35,nvdimm=on"}
TIER = "dax:/mnt/tier:16MiB"
#: Steps before a machine is killed.
STEPS = [1000, 1500]


def prepare(guest, is_new=True, options="-o dax", device="/dev/pmem0"):
    """A file system at /mnt, with DAX if nothing else is said."""
    if device == "/dev/pmem0":
        guest.run("sh /test/pmem.sh")
    if is_new:
        guest.run(f"/test/mke2fs -q -t ext4 -b 4096 -F {device}")
    guest.run(f"mount -t ext4 {options} {device} /mnt")


def test_persistent_memory_is_found_and_measured(boot, nvdimms):
    guest = boot(*nvdimms(64, 64), **SLOTS)
    prepare(guest)
    findings = json.loads(guest.run("cotenant doctor --json"))["findings"]
    dax = next(finding for finding in findings if finding["name"] == "DAX")
    assert (dax["offer"], dax["seen"]) == ("yes", "file system /mnt")
    profile = json.loads(guest.run(f"cotenant probe {TIER} --time 100ms --json"))
    assert len(profile["rows"]) == 64, profile
    said = guest.run("COTENANT_TEST_DAX=/mnt/test,/dev/dax1.0 media dax:: --nocapture")
    assert "not checked" not in said, said


class Load:
    """What a program in the guest acknowledged: `crates/store/tests/restart/machine.rs` says what goes in and out."""

    def __init__(self):
        self.known = {}
        self.under_way = None

    def begin(self, guest, times):
        """Starts it; how many of the keys that are known are there, of how many. What is wrong ends the program, and the test."""
        guest.start(
            "restart --exact machine::on_a_machine --nocapture",
            COTENANT_TEST_MACHINE_TIER=TIER,
            COTENANT_TEST_MACHINE_SAVED="/mnt/saved",
            COTENANT_TEST_MACHINE_ROUND=str(times),
        )
        under_way = ["> {} {}".format(*self.under_way)] if self.under_way else []
        guest.tell(*(f"{key} {version}" for key, version in self.known.items()), *under_way, "load")
        while (line := guest.heard()) is not None:
            words = line.split()
            if words[:1] == ["="]:
                return int(words[1]), int(words[2])
            if words[:1] == ["-"]:
                del self.known[int(words[1])]
            self.note(words)
        raise AssertionError(guest.console())

    def note(self, words):
        """Learns from a line that begins or acknowledges a step."""
        if len(words) != 3 or words[0] not in "<>":
            return
        key, version = int(words[1]), int(words[2])
        self.under_way = (key, version) if words[0] == ">" else None
        if words[0] == "<":
            self.known.pop(key, None)
            if version != 0:
                self.known[key] = version

    def follow(self, guest, steps):
        """Lets it take that many steps; another is under way then, and waits to be let."""
        while (line := guest.heard()) is not None:
            words = line.split()
            self.note(words)
            if words[:1] == [">"]:
                if steps == 0:
                    return
                guest.tell("go")
                steps -= 1
        raise AssertionError(guest.console())

    def rest(self, guest):
        """All that was still said: how many keys were saved, if that was the end of it."""
        saved = None
        while (line := guest.heard()) is not None:
            words = line.split()
            self.note(words)
            saved = int(words[1]) if words[:1] == ["saved"] else saved
        return saved


def test_a_killed_machine_serves_nothing_stale_or_wrong_and_one_that_stops_keeps_nearly_all(boot, nvdimms):
    hardware, load = nvdimms(64), Load()
    for times, steps in enumerate(STEPS):
        guest = boot(*hardware, **SLOTS)
        prepare(guest, is_new=times == 0)
        there, known = load.begin(guest, times)
        print(f"after {times} kills {there} of {known}")
        assert times == 0 or 0 < there
        load.follow(guest, steps)
        guest.tell("go")
        guest.kill()
        load.rest(guest)
    guest = boot(*hardware, **SLOTS)
    prepare(guest, is_new=False)
    there, known = load.begin(guest, len(STEPS))
    print(f"after {len(STEPS)} kills {there} of {known}")
    load.follow(guest, 500)
    guest.tell("stop")
    load.under_way = None
    assert load.rest(guest) == len(load.known)
    guest.stop()
    guest = boot(*hardware, **SLOTS)
    prepare(guest, is_new=False)
    there, known = load.begin(guest, len(STEPS) + 1)
    print(f"after a clean stop {there} of {known}")
    assert known * 95 <= there * 100
