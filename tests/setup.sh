#!/bin/sh
# Brings what the conformance tests need: Debian packages and a Python environment in .venv.
# Does only what is missing, so running it twice is the same as running it once.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv
requirements=$root/tests/requirements.txt

have() { command -v "$1" >/dev/null 2>&1; }

missing=
have memcached || [ -x /usr/bin/memcached ] || missing="$missing memcached"
have memccapable || have memcapable || missing="$missing libmemcached-tools"
ls /usr/lib/*/sasl2/libplain.so >/dev/null 2>&1 || missing="$missing libsasl2-modules"
have zstd || missing="$missing zstd"
have openssl || missing="$missing openssl"
have python3 || missing="$missing python3"
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ]; then
        apt-get update -q
        # Debian's memcached would start a daemon on the well-known port; the tests start their own.
        policy=/usr/sbin/policy-rc.d
        if [ ! -e $policy ]; then
            printf '#!/bin/sh\nexit 101\n' >$policy
            chmod +x $policy
            trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        fi
        # shellcheck disable=SC2086 # a list of package names
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
    else
        echo "skipped: apt-get install$missing: not root; the tests that need them will be skipped and counted"
    fi
fi

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
stamp=$venv/.requirements
if ! cmp -s "$requirements" "$stamp"; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$stamp"
fi
echo "ready: $venv"
