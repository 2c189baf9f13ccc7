"""A NUMA node without processors, as CXL memory is one: is it found, and is a tier's memory that node's?"""

import json

#: The second node has memory only.
HARDWARE = [
    *("-object", "memory-backend-ram,id=near,size=768M", "-numa", "node,nodeid=0,memdev=near,cpus=0-1"),
    *("-object", "memory-backend-ram,id=far,size=256M", "-numa", "node,nodeid=1,memdev=far"),
]


def test_a_node_without_processors_is_a_tier(boot):
    guest = boot(*HARDWARE)
    findings = json.loads(guest.run("cotenant doctor --json"))["findings"]
    numa = next(finding for finding in findings if finding["name"] == "NUMA")
    assert (numa["offer"], numa["seen"]) == ("yes", "nodes with memory: 0, 1; without processors: 1")
    profile = json.loads(guest.run("cotenant probe numa:1:64MiB --time 100ms --json"))
    assert len(profile["rows"]) == 64, profile
    status, said = guest.ask("cotenant probe numa:1:1GiB --time 100ms")
    assert status == 3 and "are free" in said, said
    status, said = guest.ask("cotenant probe numa:2:64MiB --time 100ms")
    assert status == 3 and "NUMA node 2 has no memory here" in said, said
    said = guest.run("COTENANT_TEST_NUMA=1 media numa:: --nocapture")
    assert "not checked" not in said, said
