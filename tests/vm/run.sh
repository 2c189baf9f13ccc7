#!/bin/sh
# Runs the tests in virtual machines against target/release/cotenant and test programs of the crates. Arguments go to pytest.
# Where there can be no machines that is said, and counted as one skip.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin
"$root/tests/vm/setup.sh" || {
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}
"$root/tests/venv.sh"

# The path of a test program: `program CRATE KIND...`.
program() {
    crate=$1
    shift
    cargo test --release -q -p "$crate" "$@" --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}
cargo build --release -q -p cli
COTENANT_TEST_VM_MEDIA=$(program media --lib)
COTENANT_TEST_VM_RESTART=$(program store --test restart)
export COTENANT_TEST_VM_MEDIA COTENANT_TEST_VM_RESTART
cd tests
# An emulated machine on a busy host takes its time; what it waits for has deadlines of its own.
PYTHONDONTWRITEBYTECODE=1 exec "$root/.venv/bin/python" -m pytest -q -o timeout=900 vm "$@"
