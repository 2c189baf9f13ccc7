"""Values that fit no segment: whatever stores and reads them, under load, with readers and writers that stop halfway."""

import functools
import random
import re
import socket
import ssl
import threading

import pytest

from conformance import packets, servers
from conformance.certificates import Authority
from conformance.test_admin import wait_until
from conformance.test_pressure import together
from conformance.wire import END, TOO_LARGE, resident_bytes, set_request

MIB = 1 << 20
NO_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"


@functools.lru_cache(maxsize=200)
def value_of(name, size):
    """Bytes that belong to a name and a size, so that a wrong page shows."""
    return random.Random(b"%b/%d" % (name, size)).randbytes(size)


def values_bytes(server):
    """Memory of large values, as the server counts it."""
    with server.wire() as wire:
        return int(wire.stats(b"controller")["value_bytes"])


def store(wire, name, size, flags=0):
    wire.send(set_request(name, value_of(name, size), flags))
    return wire.read_line()


def check(wire, name, size):
    """Whether it is there; if so, it is what it should be."""
    value = wire.value(name)
    assert value is None or value == value_of(name, size), f"{name!r} has other bytes"
    return value is not None


@pytest.mark.cotenant
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_every_way_to_read_gives_the_same_bytes(fresh, engine):
    server = fresh("-I", "128m", "--io-engine", engine, memory="512")
    with server.wire(deadline_s=60.0) as wire, packets.BinaryWire(server.address, deadline_s=60.0) as binary:
        for size in (MIB, MIB + 1, 5 * MIB, 64 * MIB):
            name, value = b"k%d" % size, value_of(b"k%d" % size, size)
            assert store(wire, name, size, flags=7) == b"STORED\r\n"
            wire.send(b"get %b\r\ngats 0 %b\r\nmg %b v f\r\nversion\r\n" % (name, name, name))
            assert wire.read_exact(len(b"VALUE %b 7 %d\r\n" % (name, size))).startswith(b"VALUE")
            assert wire.read_exact(size + 7) == value + b"\r\nEND\r\n"
            assert wire.read_line().startswith(b"VALUE %b 7 %d " % (name, size))
            assert wire.read_exact(size + 7) == value + b"\r\nEND\r\n"
            assert wire.read_line() == b"VA %d f7\r\n" % size
            assert wire.read_exact(size + 2) == value + b"\r\n"
            assert wire.read_line().startswith(b"VERSION")
            answer = binary.one(packets.packet("getk", name))
            assert (answer.status, answer.key, answer.value == value) == (packets.OK, name, True)
            name = b"b%d" % size
            stored = binary.one(packets.store("set", name, value_of(name, size)))
            assert stored.status == packets.OK and check(wire, name, size)
            assert binary.one(packets.packet("gat", name, extras=b"\0\0\0\0")).value == value_of(name, size)
    server.check_alive()


def test_storing_commands_answer_as_memcached_does(fresh):
    """The same requests to both; values go in pieces of odd sizes."""
    if servers.find_memcached() is None:
        pytest.skip("Debian's memcached is not installed (apt-get install memcached)")
    big, other = value_of(b"big", 3 * MIB), value_of(b"other", 2 * MIB)

    def block(line, value, end=b"\r\n"):
        return b"%b %d\r\n%b%b" % (line, len(value), value, end)

    requests = [
        block(b"replace k 1 0", big), block(b"append k 1 0", big), block(b"add k 1 0", big), block(b"add k 2 0", other),
        b"get k\r\n", block(b"append k 3 0", other), b"get k\r\n", block(b"prepend k 3 0", b"small"), b"get k\r\n",
        b"touch k 100\r\nget k\r\n", b"gat 200 k\r\n", b"incr k 1\r\n", block(b"replace k 4 0", big), b"get k\r\n",
        block(b"set k 1 0", big, b"xx"), b"get k\r\n", block(b"set k 5 0", other), b"get k\r\n",
        block(b"set k 1 0", b"v" * (9 * MIB)), b"get k\r\n", block(b"set a 1 0", big) + b"get a nothing a\r\n",
        block(b"cas a 1 0", other)[:0] + b"cas a 1 0 %d 1\r\n%b\r\n" % (len(other), other), b"get a\r\n",
        b"set n 0 0 %d noreply\r\n%b\r\nget n\r\n" % (len(big), big), b"delete n\r\nget n\r\n",
        b"set d 0 -1 %d\r\n%b\r\nget d\r\n" % (len(big), big), b"ms m %d T0 F3 c\r\n%b\r\n" % (len(big), big),
        b"mg m v f s\r\n", b"md m\r\n", b"get a\r\nget a\r\nget k a\r\nquit\r\n",
    ]
    answers = []
    for server in (fresh("-I", "8m", memory="256"), servers.start_memcached(("-I", "8m"), "256")):
        seen = []
        with server.wire(deadline_s=60.0) as wire:
            sentinel = wire.version_line
            for request in requests:
                rest = request if request.endswith(b"quit\r\n") else request + b"version\r\n"
                while rest:
                    wire.send(rest[:100_003])
                    rest = rest[100_003:]
                if request.endswith(b"quit\r\n"):
                    seen.append(wire.read_to_close())
                else:
                    seen.append(wire.read_until_suffix(sentinel)[: -len(sentinel)])
        answers.append(seen)
        if server.process.args[0] != str(servers.BINARY):
            server.stop()
    for request, ours, theirs in zip(requests, *answers, strict=True):
        if request.startswith(b"ms "):
            # The number of a CAS value is each server's own.
            ours, theirs = ours.split(b"c")[0], theirs.split(b"c")[0]
        assert ours == theirs, f"{request[:40]!r}: {ours[:60]!r} ({len(ours)}), memcached {theirs[:60]!r} ({len(theirs)})"


@pytest.mark.cotenant
def test_the_default_limit_is_memcacheds_however_small_the_memory(fresh):
    """-m 8 has segments of 128 KiB."""
    server = fresh(memory="8")
    largest = MIB - 48 - 8 - 2 - 2 - 4
    with server.wire() as wire:
        for _ in range(8):
            assert store(wire, b"k", largest) == b"STORED\r\n" and check(wire, b"k", largest)
        assert store(wire, b"k", MIB) == TOO_LARGE
        assert wire.value(b"k") is None
        assert wire.value(b"small") is None


@pytest.mark.cotenant
def test_replies_stay_in_order(fresh):
    server = fresh("-I", "16m", memory="128")
    with server.wire(deadline_s=60.0) as wire:
        assert store(wire, b"a", 5 * MIB) == store(wire, b"b", 3 * MIB) == store(wire, b"s", 10) == b"STORED\r\n"
        a, b, s = (value_of(*of) for of in ((b"a", 5 * MIB), (b"b", 3 * MIB), (b"s", 10)))
        shown = {n: b"VALUE %b 0 %d\r\n%b\r\n" % (n, len(v), v) for n, v in ((b"a", a), (b"b", b), (b"s", s))}
        sender = threading.Thread(
            target=wire.send,
            args=(b"get s a none s b s\r\nget a\r\n" + set_request(b"c", b) + b"get s c\r\nget b\r\nquit\r\n",),
        )
        sender.start()
        answer = wire.read_to_close()
        sender.join()
    c = b"VALUE c 0 %d\r\n%b\r\n" % (len(b), b)
    wanted = [shown[n] for n in (b"s", b"a", b"s", b"b", b"s")] + [END, shown[b"a"], END, b"STORED\r\n", shown[b"s"], c]
    assert answer == b"".join([*wanted, END, shown[b"b"], END])


@pytest.mark.cotenant
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_large_and_small_requests_in_pieces_stay_whole(fresh, engine):
    """Most of a large request is read to where it is kept: whatever the pieces, whatever stands behind it."""
    server = fresh("--io-engine", engine, memory="256")
    with server.wire() as wire:
        in_force = wire.stats(b"settings")
    if in_force["io_engine"] != engine:
        pytest.skip(f"{engine}: {in_force['io_engine_reason']}")

    def client(seed):
        rng = random.Random(seed)
        with server.wire(deadline_s=60.0) as wire:
            for turn in range(30):
                sizes = [rng.choice((10, 3_000, 15_000, 20_000, 60_000, 100_000, 400_000, 700_000)) + rng.randrange(1_000) for _ in range(4)]
                requests, answers = b"", b""
                for number, size in enumerate(sizes):
                    key = b"s%d-%d-%d" % (seed, turn, number)
                    value = value_of(b"v", size)
                    requests += set_request(key, value) + rng.choice((b"", b"get %b\r\n" % key))
                    answers += b"STORED\r\n"
                    if requests.endswith(b"get %b\r\n" % key):
                        answers += b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, size, value)

                def send(requests=requests):
                    at = 0
                    while at < len(requests):
                        piece = rng.choice((1, 100, 4_096, 5_000, 16_384, 70_000, 300_000))
                        wire.send(requests[at:at + piece])
                        at += piece

                sender = threading.Thread(target=send)
                sender.start()
                assert wire.read_exact(len(answers)) == answers, (seed, turn, sizes)
                sender.join()

    together(4, client)


@pytest.mark.cotenant
def test_large_values_pass_through_tls(fresh, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    listeners = ("-l", "notls:127.0.0.1:0,127.0.0.1:0")
    keys = ("-Z", "-o", f"ssl_chain_cert={certificate},ssl_key={key}")
    server = fresh("-I", "64m", *keys, *listeners, memory="256")
    host, port = re.search(rf"memcached {servers.ADDRESS} \(TLS\)", server.ready_line).groups()
    value = value_of(b"k", 20 * MIB)
    raw = socket.create_connection((host, int(port)), timeout=60.0)
    made = ssl.create_default_context(cafile=str(authority.certificate))
    with made.wrap_socket(raw, server_hostname="localhost") as secure:
        for _ in range(2):
            secure.sendall(set_request(b"k", value) + b"get k\r\n")
            wanted = b"STORED\r\nVALUE k 0 %d\r\n%b\r\nEND\r\n" % (len(value), value)
            got = bytearray()
            while len(got) < len(wanted) and (more := secure.recv(1 << 20)):
                got += more
            assert got == wanted


@pytest.mark.cotenant
def test_who_ends_its_sending_gets_its_value(fresh):
    server = fresh("-I", "64m", memory="256")
    with server.wire(deadline_s=60.0) as wire:
        assert store(wire, b"k", 40 * MIB) == b"STORED\r\n"
    with server.wire(deadline_s=60.0, receive_buffer=32 << 10) as wire:
        wire.send(b"get k\r\n")
        wire.sock.shutdown(socket.SHUT_WR)
        assert wire.read_line() == b"VALUE k 0 %d\r\n" % (40 * MIB)
        assert wire.read_exact(40 * MIB + 7) == value_of(b"k", 40 * MIB) + b"\r\nEND\r\n"


@pytest.mark.cotenant
def test_an_interrupted_upload_leaves_nothing(fresh):
    server = fresh("-I", "32m", memory="128")
    head = b"set k 0 0 %d\r\n" % (30 * MIB)
    with server.wire() as wire:
        assert store(wire, b"k", 2 * MIB) == b"STORED\r\n"
        for cut in (0, 1, MIB, 20 * MIB):
            other = server.wire()
            other.send(head + bytes(cut))
            other.reset()
            # Answered by the same worker or another; the reset is seen before long.
            wait_until(lambda: values_bytes(server) == 2 * MIB)
        assert check(wire, b"k", 2 * MIB), "the older value is still there"


@pytest.mark.cotenant
def test_a_slow_reader_gets_the_value_that_it_asked_for(fresh):
    """Sixteen readers that read nothing while their values are replaced and the memory turns over."""
    server = fresh("-I", "16m", memory="128")
    readers = []
    with server.wire(deadline_s=60.0) as wire:
        for n in range(4):
            assert store(wire, b"slow%d" % n, 8 * MIB) == b"STORED\r\n"
        for n in range(16):
            reader = server.wire(deadline_s=60.0, receive_buffer=16 << 10)
            reader.send(b"get slow%d\r\n" % (n % 4))
            # Its value is on its way.
            assert reader.read_line() == b"VALUE slow%d 0 %d\r\n" % (n % 4, 8 * MIB)
            readers.append(reader)
        for n in range(4):
            wire.send(set_request(b"slow%d" % n, b"new"))
            assert wire.read_line() == b"STORED\r\n"
        for n in range(60):
            assert store(wire, b"other%d" % n, 4 * MIB) == b"STORED\r\n"
        for n, reader in enumerate(readers):
            assert reader.read_exact(8 * MIB + 7) == value_of(b"slow%d" % (n % 4), 8 * MIB) + b"\r\nEND\r\n"
            reader.close()
        assert resident_bytes(server.pid, "VmHWM") <= (128 + 24) * MIB
        # What they held comes back.
        assert wire.ask(b"flush_all\r\n") == b"OK\r\n"
        wait_until(lambda: values_bytes(server) == 0)
    server.check_alive()


@pytest.mark.cotenant
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_contents_hold_under_load_and_eviction(fresh, engine):
    """Four clients store, read and delete small and large items, three times the memory."""
    server = fresh("-I", "70m", "--io-engine", engine, memory="192")
    # Segments of 512 KiB: what is larger lies apart.
    sizes = (100, 2_000, MIB // 2 - 200, MIB, 5 * MIB, 64 * MIB)
    weights = (30, 30, 12, 12, 14, 2)
    refused = [0] * 4

    def load(seed):
        rng = random.Random(seed)
        hits = 0
        with server.wire(deadline_s=120.0) as wire:
            for _ in range(150):
                size = rng.choices(sizes, weights)[0]
                name = b"%d-%d" % (size, rng.randrange(3 if size == sizes[-1] else 25))
                act = rng.random()
                if act < 0.45:
                    stored = store(wire, name, size)
                    # Two of the largest at once are more than may be on their way, and leave others that lie apart nothing.
                    assert stored == b"STORED\r\n" or stored == NO_MEMORY and MIB <= size
                    refused[seed] += stored == NO_MEMORY
                elif act < 0.95:
                    hits += check(wire, name, size)
                else:
                    wire.send(b"delete %b\r\n" % name)
                    assert wire.read_line() in (b"DELETED\r\n", b"NOT_FOUND\r\n")
        assert hits > 20 and refused[seed] < 10

    together(4, load)
    with server.wire() as wire:
        assert int(wire.stats()["evictions"]) > 0
    assert resident_bytes(server.pid, "VmHWM") <= (192 + 24) * MIB
    server.check_alive()


@pytest.mark.cotenant
def test_uploads_that_stall_do_not_take_the_memory(fresh):
    """Twenty clients announce 30 MiB and send ten; others are served meanwhile."""
    server = fresh("-I", "32m", memory="128")
    stalled = []
    with server.wire(deadline_s=60.0) as wire:
        for n in range(20):
            other = server.wire()
            other.send(b"set stalled%d 0 0 %d\r\n" % (n, 30 * MIB) + bytes(10 * MIB))
            stalled.append(other)
            assert store(wire, b"k%d" % n, 200_000) == b"STORED\r\n"
        assert all(check(wire, b"k%d" % n, 200_000) for n in range(20))
        assert values_bytes(server) <= 65 * MIB
        for other in stalled:
            other.close()
        wait_until(lambda: values_bytes(server) == 0)
        assert store(wire, b"k", 30 * MIB) == b"STORED\r\n" and check(wire, b"k", 30 * MIB)


@pytest.mark.cotenant
def test_announcers_who_send_nothing_are_closed_for_others(fresh):
    """Addresses are taken by what is announced; who is refused for that is told so, and has them once the silent ones are gone."""
    server = fresh(memory="64")
    silent = [server.wire(deadline_s=60.0) for _ in range(300)]
    for n, wire in enumerate(silent):
        wire.send(b"set silent%d 0 0 1048000\r\n" % n)
    with server.wire(deadline_s=60.0) as wire:
        wait_until(lambda: store(wire, b"k", 1_000_000) == b"SERVER_ERROR out of memory storing object\r\n")
        last_words = {silent_wire.read_to_close() for silent_wire in silent}
        assert last_words == {b"SERVER_ERROR out of memory reading request\r\n"}
        assert store(wire, b"k", 1_000_000) == b"STORED\r\n" and check(wire, b"k", 1_000_000)


@pytest.mark.cotenant
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_a_get_of_many_keys_finds_them_all(fresh, engine):
    """More than one gathering write takes, and more large values than are kept at once."""
    server = fresh("-I", "2m", "--io-engine", engine, memory="256")
    with server.wire(deadline_s=60.0) as wire:
        for names, size in (([b"m%d" % n for n in range(700)], 3_000), ([b"l%d" % n for n in range(70)], 1_200_000)):
            for name in names:
                assert store(wire, name, size) == b"STORED\r\n"
            wire.send(b"get %b\r\nversion\r\n" % b" ".join(names))
            for name in names:
                assert wire.read_line() == b"VALUE %b 0 %d\r\n" % (name, size)
                assert wire.read_exact(size + 2) == value_of(name, size) + b"\r\n"
            assert wire.read_line() == b"END\r\n"
            assert wire.read_line().startswith(b"VERSION")


def buffers_bytes(server):
    return int(re.search(r"^cotenant_buffers_bytes(?:{})? (\d+)", server.http("/metrics")[1], re.MULTILINE).group(1))


@pytest.mark.cotenant
def test_what_is_copied_beside_large_values_is_given_back(fresh):
    server = fresh("-I", "2m", memory="256")
    with server.wire(deadline_s=60.0) as wire:
        for name, size in ((b"large", 1_500_000), (b"other", 100_000)):
            assert store(wire, name, size) == b"STORED\r\n"
        before = buffers_bytes(server)
        for _ in range(20):
            wire.send(b"get large other\r\n")
            for name, size in ((b"large", 1_500_000), (b"other", 100_000)):
                assert wire.read_line() == b"VALUE %b 0 %d\r\n" % (name, size)
                wire.read_exact(size + 2)
            assert wire.read_line() == b"END\r\n"
        assert buffers_bytes(server) <= before + 100_000
