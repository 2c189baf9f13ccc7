"""DRAM and a tier's bandwidth divided together: who gains from one gives of the other, and both come back."""

import random
import threading

from conformance.test_admin import ask, wait_until
from conformance.test_bandwidth import bandwidth, decisions, id_of, tenant_json
from conformance.wire import END, parse_value_line, set_request
import pytest

pytestmark = pytest.mark.cotenant

TIER = ("--tier", "pm=emulated:2dimm:128MiB")
EPOCHS = ("--bandwidth-epoch", "500ms", "--bandwidth-part", "0.002")
HOT, STREAM = (b"hot", 8000, 3000), (b"stream", 15000, 4000)

def text(prefix, n):
    return b"%s:%d" % (prefix, n)

def fill(server, prefix, keys, size):
    with server.wire() as wire:
        for first in range(0, keys, 100):
            wire.send(b"".join(set_request(text(prefix, n), b"v" * size) for n in range(first, first + 100)))
            for _ in range(100):
                assert wire.read_line() == b"STORED\r\n"

class Reader(threading.Thread):
    def __init__(self, server, prefix, keys, size, order):
        super().__init__()
        self.server, self.prefix, self.keys, self.size, self.order = server, prefix, keys, size, order
        self.done, self.missed, self.stopped, self.failure = 0, 0, threading.Event(), None
    def run(self):
        try:
            with self.server.wire() as wire:
                while not self.stopped.is_set():
                    some = [text(self.prefix, self.order(self.done + i) % self.keys) for i in range(10)]
                    wire.send(b"".join(b"get %s\r\n" % key for key in some))
                    for _ in some:
                        line = wire.read_line()
                        if line == END:
                            self.missed += 1
                            continue
                        assert int(parse_value_line(line)[2]) == self.size
                        wire.read_exact(self.size + 2)
                        assert wire.read_line() == END
                    self.done += 10
        except Exception as error:
            self.failure = error
    def end(self):
        self.stopped.set()
        self.join()
        if self.failure:
            raise self.failure

def test_try(fresh):
    server = fresh(*TIER, *EPOCHS, "--bandwidth-policy", "symbiosis",
        "--tenant", "name=hot,prefix=hot:", "--tenant", "name=stream,prefix=stream:")
    fill(server, *HOT); fill(server, *STREAM)
    rng = random.Random(1)
    some = [Reader(server, *HOT, lambda _: rng.randrange(1 << 30)), Reader(server, *STREAM, lambda n: n)]
    for one in some: one.start()
    import time
    before=[0,0]
    for i in range(40):
        time.sleep(1)
        row=[]
        for name in ("hot","stream","default"):
            t = tenant_json(server, name)
            row.append((name, round((t["dram_target_bytes"] or 0)/2**20,1), round((t["held_bytes"]-t.get("tier_bytes",0))/2**20,1), round(t["held_bytes"]/2**20,1), round(t["bandwidth_budget_part"]*1e3,3)))
        print(row, [s.done-b for s,b in zip(some,before)], [s.missed for s in some])
        before=[s.done for s in some]
    for d in decisions(server)[-2:]:
        for t in d["tenants"]:
            u=t["signal"]["utility"]; 
            if u: 
                c=list(u.values())[0] if isinstance(u,dict) else u
                t["signal"]["utility"]=str(c)[:600]
        print(d)
    for one in some: one.end()
