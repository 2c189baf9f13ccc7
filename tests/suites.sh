#!/bin/sh
# Brings clients' own test suites into .venv: source packages, unpacked, and what they import. Only what is missing.
# A suite that cannot be fetched is a skip that the tests name.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
suites=$root/.venv/suites
python=$root/.venv/bin/python
# Those of the clients in requirements.txt are of the same version as the client; memcache is its own client.
sources='pylibmc==1.6.3 python-binary-memcached==0.33.0 memcache==0.14.0'

stamp=$suites/.stamp
cat "$root/tests/suites.txt" "$0" | cmp -s - "$stamp" && exit 0
rm -rf "$suites"
mkdir -p "$suites/packages"
complete=yes
for source in $sources; do
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: -d "$suites/packages" \
        "$source" || { echo "the suite of $source cannot be fetched"; complete=; }
done
for package in "$suites"/packages/*.tar.gz; do
    [ ! -e "$package" ] || tar -xzf "$package" -C "$suites"
done
"$python" -m pip install --quiet --disable-pip-version-check --target "$suites/lib" \
    -c "$root/tests/requirements.txt" -r "$root/tests/suites.txt" || { echo 'what suites import cannot be fetched'; complete=; }
[ -z "$complete" ] || cat "$root/tests/suites.txt" "$0" >"$stamp"
