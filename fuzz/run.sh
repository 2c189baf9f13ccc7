#!/usr/bin/env bash
# Each target under libFuzzer for so many seconds, as many at once as there are cores. Inputs that lead somewhere new are kept in
# target/fuzz; what a target fails at is kept, too, and said how to run again.
#
#   fuzz/run.sh SECONDS [TARGET...]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
seconds=$1
shift
target=${CARGO_TARGET_DIR:-$root/target}
kept=$target/fuzz
program=$target/release/fuzz

if ! command -v c++ >/dev/null; then
    echo 'skipped: fuzz: no C++ compiler, which libFuzzer is built with (build-essential)'
    echo '0 passed, 0 failed, 1 skipped'
    exit
fi
mkdir -p "$kept"
RUSTC_WORKSPACE_WRAPPER=$root/fuzz/instrument cargo build --release -q -p fuzz --features libfuzzer
targets=$*
[ -n "$targets" ] || targets=$(ls "$root/fuzz/seeds")

one() {
    mkdir -p "$kept/$1"
    if FUZZ_TARGET=$1 "$program" "$kept/$1" "$root/fuzz/seeds/$1" -dict="$root/fuzz/words" -max_total_time="$seconds" \
        -timeout=10 -rss_limit_mb=1024 -artifact_prefix="$kept/$1-" -print_final_stats=1 >"$kept/$1.log" 2>&1; then
        echo "passed: $1, $(sed -n 's/^stat::number_of_executed_units: *//p' "$kept/$1.log") runs, $(find "$kept/$1" -type f | wc -l) inputs kept"
    else
        tail -n 40 "$kept/$1.log"
        echo "failed: $1; again: FUZZ_TARGET=$1 $program $(find "$kept" -maxdepth 1 -name "$1-*" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)"
    fi
}
export -f one
export kept program root seconds

said=$(printf '%s\n' $targets | xargs -P "$(nproc)" -I {} bash -c 'one {}')
echo "$said"
failed=$(grep -c '^failed: ' <<<"$said" || true)
echo "$(grep -c '^passed: ' <<<"$said" || true) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
