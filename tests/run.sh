#!/bin/sh
# Runs the conformance tests against target/release/cotenant (or the binary that $COTENANT names).
# Arguments go to pytest. COTENANT_TEST_PEER_ONLY=1 runs them against Debian's memcached instead.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
"$root/tests/setup.sh"
cd "$root/tests"
PYTHONDONTWRITEBYTECODE=1 exec "$root/.venv/bin/python" -m pytest -q "$@"
