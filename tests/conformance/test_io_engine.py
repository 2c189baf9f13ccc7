"""Both engines that wait for sockets: which one is in force, and that clients cannot tell them apart."""

import os
import pathlib
import subprocess
import sys

import pytest

from conformance import servers
from conformance.wire import set_request

pytestmark = pytest.mark.cotenant

#: What shows a difference between engines if there is one: cut requests, slow readers, ends, TLS, many connections.
TRANSPORT = ["test_hostile.py", "test_shutdown.py", "test_listeners.py", "test_tls.py"]
#: Longest run of these on one engine.
RUN_S = 600.0
ENGINES = ["epoll", "io_uring"]


def settings(server):
    with server.wire() as wire:
        return wire.stats(b"settings")


@pytest.fixture(params=ENGINES)
def engine(request):
    """A server on one engine; skipped where the system forbids it."""
    server = servers.start(("--io-engine", request.param))
    in_force = settings(server)
    if in_force["io_engine"] != request.param:
        server.stop()
        pytest.skip(f"{request.param}: {in_force['io_engine_reason']}")
    yield server
    server.check_alive()
    assert server.stop() == 0


def test_settings_say_which_and_why(engine):
    assert settings(engine)["io_engine_reason"] == "as_configured"


def test_auto_is_one_of_them():
    server = servers.start(("--io-engine", "auto"))
    in_force = settings(server)
    assert in_force["io_engine"] in ENGINES
    assert in_force["io_engine_reason"] not in ("", "NULL")
    assert server.stop() == 0


def test_a_pipeline_deeper_than_a_turn_is_answered_in_order(engine):
    count = 2_000
    with engine.wire() as wire:
        wire.send(b"".join(set_request(b"k%d" % i, b"v%d" % i) for i in range(count)))
        assert wire.read_exact(len(b"STORED\r\n") * count) == b"STORED\r\n" * count
        wire.send(b"".join(b"get k%d\r\n" % i for i in range(count)))
        for i in range(count):
            value = b"v%d" % i
            expected = b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (i, len(value), value)
            assert wire.read_exact(len(expected)) == expected


def test_large_values_and_small_ones_mix(engine):
    sizes = [1, 2_047, 2_049, 16_384, 65_536, 900_000]
    with engine.wire() as wire:
        for size in sizes:
            assert wire.ask(set_request(b"k%d" % size, b"x" * size)) == b"STORED\r\n"
        wire.send(b"".join(b"get k%d\r\n" % size for size in sizes * 4))
        for size in sizes * 4:
            expected = b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (size, size, b"x" * size)
            assert wire.read_exact(len(expected)) == expected


@pytest.mark.parametrize("name", ENGINES)
def test_transport_on_the_engine_that_is_not_the_default(name):
    if os.environ.get("COTENANT_IO_ENGINE"):
        pytest.skip("this run has an engine of its own")
    server = servers.start(("--io-engine", name))
    in_force = settings(server)["io_engine"]
    server.stop()
    default = servers.start()
    is_default = settings(default)["io_engine"] == name
    default.stop()
    if in_force != name or is_default:
        pytest.skip(f"{name} is the default, or is not to be had")
    here = pathlib.Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-x", *(str(here / file) for file in TRANSPORT)]
    ran = subprocess.run(
        command,
        env={**os.environ, "COTENANT_IO_ENGINE": name},
        cwd=here.parent,
        timeout=RUN_S,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
