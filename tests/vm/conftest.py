"""Fixtures: `boot` starts machines that end with the test, `nvdimms` makes files that a machine has as persistent memory."""

import os
import pathlib

import pytest

from vm import image, machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
KERNEL = TARGET / "vm"


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """What every guest starts with."""
    programs = {"cotenant": TARGET / "release" / "cotenant"}
    for name in ["media", "restart"]:
        programs[name] = pathlib.Path(os.environ[f"COTENANT_TEST_VM_{name.upper()}"])
    path = tmp_path_factory.mktemp("guest") / "archive"
    image.build(path, KERNEL, programs)
    return path


@pytest.fixture
def boot(archive, tmp_path):
    """Starts a machine with this hardware."""
    running = []

    def start(*hardware, **options):
        console = tmp_path / f"console-{len(running)}"
        running.append(machine.Machine(KERNEL, archive, console, *hardware, **options))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def nvdimms(tmp_path):
    """Hardware: one NVDIMM for each size in MiB, whose content outlives the machine."""

    def make(*sizes_mib):
        hardware = []
        for number, size in enumerate(sizes_mib):
            path = tmp_path / f"nvdimm-{number}"
            with open(path, "wb") as file:
                file.truncate(size << 20)
            backend = f"memory-backend-file,id=nv{number},share=on,mem-path={path},size={size}M,align=2M"
            hardware += ["-object", backend, "-device", f"nvdimm,memdev=nv{number},id=dimm{number}"]
        return hardware

    return make
