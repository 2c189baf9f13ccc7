#!/bin/sh
# Makes .venv, the Python environment that the black-box tests run in: what requirements.txt names, and only what is missing.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv
requirements=$root/tests/requirements.txt

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
stamp=$venv/.requirements
if ! cmp -s "$requirements" "$stamp"; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$stamp"
fi
