"""What a guest starts with: an archive of busybox, modules, and the programs under test with the libraries that they are linked to.

Shape: files by their path in the guest -> one archive in the format that kernels unpack (cpio, "newc")
"""

import os
import pathlib
import re
import shutil
import subprocess

FOLDERS = ["bin", "dev", "dev/shm", "mnt", "proc", "sys", "test", "tmp", "modules"]
#: What busybox lacks.
TOOLS = ["mke2fs", "dmsetup"]
SEARCH = os.environ["PATH"] + ":/usr/sbin:/sbin"
GUEST = pathlib.Path(__file__).parent / "guest"


def build(path, kernel, programs):
    """Writes the archive: `kernel` is the folder that `setup.sh` fills, `programs` are files by their name in `/test`."""
    modules = kernel / "modules"
    files = {
        "init": GUEST / "init",
        "bin/busybox": find("busybox"),
        "modules/order": modules / "order",
        **{f"modules/{name}": modules / name for name in (modules / "order").read_text("ascii").split()},
        **{f"test/{script.name}": script for script in GUEST.glob("*.sh")},
        **{f"test/{tool}": find(tool) for tool in TOOLS},
        **{f"test/{name}": stripped(program, kernel / name) for name, program in programs.items()},
    }
    for program in [*map(find, TOOLS), *programs.values()]:
        files |= {library.lstrip("/"): pathlib.Path(library) for library in libraries(program)}
    with open(path, "wb") as archive:
        made = set()
        for folder in FOLDERS + [str(parent) for name in sorted(files) for parent in reversed(pathlib.Path(name).parents)]:
            if folder != "." and folder not in made:
                made.add(folder)
                archive.write(entry(folder, 0o040755, b""))
        for name, source in files.items():
            archive.write(entry(name, 0o100755, source.read_bytes()))
        archive.write(entry("TRAILER!!!", 0, b""))


def entry(name, mode, content):
    """One file or folder of an archive, filled up to a multiple of four bytes."""
    entry.number += 1
    fields = [entry.number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


entry.number = 0


def find(program):
    """The path of an installed program."""
    return pathlib.Path(shutil.which(program, path=SEARCH))


def libraries(program):
    """Paths of the libraries that a program is linked to."""
    shown = subprocess.run(["ldd", program], stdout=-1, stderr=-3, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", shown)


def stripped(program, path):
    """The program without what only a debugger reads."""
    subprocess.run(["strip", "-o", path, program], check=True)
    return path
