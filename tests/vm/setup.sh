#!/bin/sh
# Brings what the tests in virtual machines need: qemu and busybox by apt (as root), and in target/vm Debian's kernel and the
# modules that guests load. Does only what is missing. What cannot be had is said in one line, and the status is 3.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
folder=$target/vm
PATH=$PATH:/usr/sbin:/sbin

have() { command -v "$1" >/dev/null 2>&1; }
lacks() {
    echo "skipped: virtual machines: $1"
    exit 3
}

[ "$(uname -m)" = x86_64 ] || lacks 'the guests are for x86-64'

missing=
have qemu-system-x86_64 || missing="$missing qemu-system-x86"
have busybox || missing="$missing busybox-static"
have modprobe || missing="$missing kmod"
have mke2fs || missing="$missing e2fsprogs"
have dmsetup || missing="$missing dmsetup"
have strip || missing="$missing binutils"
have python3 || missing="$missing python3"
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
if [ -n "$missing" ]; then
    have apt-get || lacks "install$missing"
    [ "$(id -u)" = 0 ] || lacks "sudo apt-get install$missing"
    # shellcheck disable=SC2086 # a list of package names
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } ||
        lacks "apt-get cannot install$missing"
fi

# Which modules are taken is in that program.
complete=$folder/complete-$(cksum <"$root/tests/vm/kernel.py" | cut -d ' ' -f 1)
if [ ! -e "$complete" ]; then
    have apt-get || lacks "the kernel comes from Debian's linux-image-amd64"
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
    [ -n "$package" ] || lacks "apt knows no linux-image-amd64 (apt-get update)"
    # With what says of which program it is complete.
    rm -rf "$folder"
    mkdir -p "$folder/package"
    (cd "$folder/package" && apt-get download -q "$package") || lacks "apt-get cannot download $package"
    dpkg-deb --fsys-tarfile "$folder"/package/*.deb | tar x -C "$folder/package" --wildcards './boot/vmlinuz*' './lib/modules/*'
    python3 "$root/tests/vm/kernel.py" "$folder/package" "$folder" || lacks "the kernel in $package cannot be unpacked"
    rm -rf "$folder/package"
    touch "$complete"
fi
