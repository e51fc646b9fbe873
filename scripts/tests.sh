#!/bin/sh
# Runs tests in several processes at once (pytest-xdist; tests/support/spread.py decides which
# process runs what).
#
#   scripts/tests.sh PROCESSES_ON_TWO_CORES ARGUMENTS_OF_PYTEST...
#
# Four processes keep two cores busy while tests of the whole service wait. Each test then slows the
# others down: what has a deadline gets more time (HEADEND_TEST_SCALE).
set -eu

processes=$((($(getconf _NPROCESSORS_ONLN) * $1 + 1) / 2))
shift
# No process shall compile the code anew, as each would where this is set.
unset PYTHONDONTWRITEBYTECODE
# Services begin as forks of a process that has loaded them (tests/support/forks.py).
export HEADEND_TEST_FORKS=1
exec .venv/bin/pytest -q -n "$processes" --ignore=tests/test_house.py "$@"
