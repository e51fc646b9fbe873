#!/bin/sh
# Installs Debian packages if permitted; otherwise prints the command that does, and fails.
#
#   scripts/apt.sh "WHAT FOR" PACKAGE...
#
# Permitted = root, or sudo without a password. The package lists are refreshed first.
set -eu

why=$1
shift
command="apt-get install --yes --no-install-recommends $*"

if ! command -v apt-get >/dev/null; then
    echo "needed for $why: what Debian calls $*" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    rise=
elif sudo -n true 2>/dev/null; then
    rise="sudo -n"
else
    echo "needed for $why; run this once, then again what you ran:" >&2
    echo "    sudo apt-get update && sudo $command" >&2
    exit 1
fi
echo "installing for $why: $*"
# $rise and $command are split into words on purpose.
# shellcheck disable=SC2086
$rise env DEBIAN_FRONTEND=noninteractive apt-get update --quiet=2
# shellcheck disable=SC2086
$rise env DEBIAN_FRONTEND=noninteractive $command --quiet=2 </dev/null >/dev/null
