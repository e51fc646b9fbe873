#!/bin/sh
# Prints a table of the lines and branches that each package's own tests cover, without the tests of
# other packages and of the whole service. Child processes are measured too, engines outside their
# sandbox. The few tests that look at a sandbox or at loaded modules fail beside coverage.py.
#
#   scripts/cover.sh [PACKAGE...]     e.g. media ingest/rtmp; all packages by default
set -eu

if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^packages = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HEADEND_TEST_SCALE="${HEADEND_TEST_SCALE:-5}"
for package in "$@"; do
    name=$(echo "$package" | tr / -)
    export COVERAGE_FILE="$folder/$name"
    printf '[run]\nbranch = true\nsource = %s\nparallel = true\npatch = subprocess, fork, _exit\n' "$package" \
        >"$folder/rc"
    .venv/bin/coverage run --rcfile="$folder/rc" -m pytest -q -p no:cacheprovider \
        -m "not prove and not e2e" "tests/$package" >"$folder/log" 2>&1 || {
        grep -E '^FAILED|^ERROR| failed' "$folder/log" || tail -n 30 "$folder/log"
        echo "tests of $package fail: its figures may not be whole"
    }
    .venv/bin/coverage combine --rcfile="$folder/rc" -q "$folder" 2>/dev/null || true
    .venv/bin/coverage json --rcfile="$folder/rc" -q -o "$folder/$name.json"
done
.venv/bin/python scripts/cover.py "$folder"/*.json
