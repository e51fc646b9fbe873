#!/bin/sh
# Runs the tests in two halves at once: those of the whole service, which mostly wait for encoders
# and players, and all others, which mostly compute. Arguments go to both. The status is 0 when
# both halves passed.
set -u

# Each half slows the other down: what has a deadline gets more time. Alone, `make prove` is strict.
export HEADEND_TEST_SCALE="${HEADEND_TEST_SCALE:-3}"
pytest=.venv/bin/pytest
# Services and engines start hundreds of times: none shall compile the code anew, as each would
# where this is set.
unset PYTHONDONTWRITEBYTECODE
.venv/bin/python -m compileall -q media ingest transcode storage api headend
said=$(mktemp)
trap 'rm -f "$said"' EXIT
$pytest -m "e2e and not prove" "$@" >"$said" 2>&1 &
whole=$!
trap 'kill "$whole" 2>/dev/null; rm -f "$said"' INT TERM
$pytest -m "not e2e and not prove" --ignore=tests/test_house.py "$@"
status=$?
echo "the tests of the whole service:"
wait "$whole" || status=$?
cat "$said"
exit "$status"
