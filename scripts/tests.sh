#!/bin/sh
# Runs tests in several processes (tests/support/crew.py, tests/support/spread.py).
#
#   scripts/tests.sh PROCESSES_ON_TWO_CORES ARGUMENTS_OF_PYTEST...
#
# Four processes keep two cores busy while tests of the whole service wait. As the tests slow each
# other down, deadlines are scaled (HEADEND_TEST_SCALE).
set -eu

processes=$((($(getconf _NPROCESSORS_ONLN) * $1 + 1) / 2))
shift
# If this is set, the code would be compiled again by each run.
unset PYTHONDONTWRITEBYTECODE
# Start services as forks of a process that has imported them (tests/support/forks.py).
export HEADEND_TEST_FORKS=1
exec .venv/bin/pytest -q --processes "$processes" --ignore=tests/test_house.py "$@"
