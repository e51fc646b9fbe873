#!/bin/sh
# Runs tests in several processes (pytest-xdist; tests/support/spread.py is the scheduler).
#
#   scripts/tests.sh PROCESSES_ON_TWO_CORES ARGUMENTS_OF_PYTEST...
#
# Four processes keep two cores busy while tests of the whole service wait. As the tests slow each
# other down, deadlines are scaled (HEADEND_TEST_SCALE).
set -eu

processes=$((($(getconf _NPROCESSORS_ONLN) * $1 + 1) / 2))
shift
# If this is set, each process would compile the code again.
unset PYTHONDONTWRITEBYTECODE
# Start services as forks of a process that has imported them (tests/support/forks.py).
export HEADEND_TEST_FORKS=1
exec .venv/bin/pytest -q -n "$processes" --ignore=tests/test_house.py "$@"
