#!/bin/sh
# Brings what the conformance tests need: Debian packages, and in .venv a Python environment and clients in other languages.
# Does only what is missing, so running it twice is the same as running it once.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv

have() { command -v "$1" >/dev/null 2>&1; }

missing=
have memcached || [ -x /usr/bin/memcached ] || missing="$missing memcached"
have memccapable || have memcapable || missing="$missing libmemcached-tools"
ls /usr/lib/*/sasl2/libplain.so >/dev/null 2>&1 || missing="$missing libsasl2-modules"
have zstd || missing="$missing zstd"
have openssl || missing="$missing openssl"
have python3 || missing="$missing python3"
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
# The languages whose clients tests/clients speaks with.
php -m 2>/dev/null | grep -qx memcached || missing="$missing php-cli php-memcached"
ruby -rdalli -e '' 2>/dev/null || missing="$missing ruby ruby-dalli"
have javac || missing="$missing default-jdk-headless"
[ -e /usr/share/java/spymemcached.jar ] || missing="$missing libspymemcached-java"
have go || [ -x /usr/lib/go/bin/go ] || missing="$missing golang-go"
have node || missing="$missing nodejs"
have npm || missing="$missing npm"

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

"$root/tests/venv.sh"
"$root/tests/suites.sh" &
suites=$!

# A client that cannot be fetched or built is a skip that the tests name.
clients=$root/tests/clients
if have npm && ! cmp -s "$clients/node/package-lock.json" "$venv/node/package-lock.json"; then
    mkdir -p "$venv/node"
    cp "$clients/node/package.json" "$clients/node/package-lock.json" "$venv/node"
    if ! npm ci --prefix "$venv/node" --no-audit --no-fund --silent; then
        rm -f "$venv/node/package-lock.json"
        echo 'memjs and memcached, with its suite, cannot be fetched'
    fi
fi
if have go && ! cat "$clients"/go/* | cmp -s - "$venv/gomemcache.stamp"; then
    if (cd "$clients/go" && go build -o "$venv/bin/gomemcache" . &&
        go test -c -o "$venv/bin/gomemcache.test" github.com/bradfitz/gomemcache/memcache); then
        cat "$clients"/go/* >"$venv/gomemcache.stamp"
    else
        echo 'gomemcache and its suite cannot be fetched or built'
    fi
fi
if have javac && [ -e /usr/share/java/spymemcached.jar ] &&
    ! cmp -s "$clients/java/Conformance.java" "$venv/java/Conformance.java"; then
    javac -encoding UTF-8 -cp /usr/share/java/spymemcached.jar -d "$venv/java" "$clients/java/Conformance.java" &&
        cp "$clients/java/Conformance.java" "$venv/java" || echo 'spymemcached cannot be built'
fi
wait "$suites"
echo "ready: $venv"
