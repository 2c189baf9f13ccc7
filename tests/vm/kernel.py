"""Takes from an unpacked kernel package what a guest needs: `vmlinux`, and in `modules` those that guests load, in order.

    kernel.py PACKAGE FOLDER

An emulated processor takes ten seconds to unpack a compressed kernel and none to start one that is not.
"""

import lzma
import pathlib
import subprocess
import sys
import tempfile

#: What guests load beyond what is built in; what these need comes with them.
MODULES = [
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "crc32c_generic",
    "ext4",
    "dm_mod",
    "nfit",
    "nd_pmem",
    "device_dax",
    "dax_pmem",
]

#: How a compressed kernel may begin inside of the image, and what unpacks it.
FORMATS = [
    (b"\xfd7zXZ\0", lambda data: lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data)),
    (b"\x28\xb5\x2f\xfd", lambda data: subprocess.run(["zstd", "-dcq"], input=data, stdout=-1, stderr=-3).stdout),
]


def kernel_inside(image):
    """The kernel that a bootable image carries."""
    for magic, unpack in FORMATS:
        at = image.find(magic)
        while 0 <= at:
            try:
                kernel = unpack(image[at:])
            except lzma.LZMAError:
                kernel = b""
            if kernel.startswith(b"\x7fELF"):
                return kernel
            at = image.find(magic, at + 1)
    sys.exit("no kernel inside of the image")


def needed(package, version):
    """Paths of all modules that are needed, each after those that it needs."""
    subprocess.run(["depmod", "-b", package, version], check=True)
    order = []
    # The system's own configuration is not the guests'.
    with tempfile.TemporaryDirectory() as empty:
        for module in MODULES:
            command = ["modprobe", "-C", empty, "-d", package, "-S", version, "--show-depends", module]
            shown = subprocess.run(command, check=True, stdout=-1, text=True).stdout
            paths = [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
            order += [pathlib.Path(path) for path in paths if pathlib.Path(path) not in order]
    return order


def main():
    package, folder = map(pathlib.Path, sys.argv[1:])
    image = next((package / "boot").glob("vmlinuz-*"))
    (folder / "vmlinux").write_bytes(kernel_inside(image.read_bytes()))
    modules = folder / "modules"
    modules.mkdir()
    names = []
    for path in needed(package, image.name.removeprefix("vmlinuz-")):
        content = path.read_bytes()
        names.append(path.name.split(".")[0] + ".ko")
        (modules / names[-1]).write_bytes(lzma.decompress(content) if path.suffix == ".xz" else content)
    (modules / "order").write_text("".join(f"{name}\n" for name in names), encoding="ascii")


main()
