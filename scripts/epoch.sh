#!/bin/sh
# Prints the time that built files carry: SOURCE_DATE_EPOCH, or that of the commit. Out of an archive
# of the sources it is the time that hatchling takes, too.
set -eu

cd "$(dirname "$0")/.."
echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)}"
