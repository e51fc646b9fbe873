#!/bin/sh
# Builds what is given to others, in dist/: the wheel, the source distribution, the pins of what the
# wheel needs, a bill of materials (CycloneDX) and the notices of others.
#
# Two builds of one commit are equal byte for byte: the time in the files is that of the commit
# (SOURCE_DATE_EPOCH, if it is set).
set -eu

cd "$(dirname "$0")/.."
python=.venv/bin/python

refuse() { echo "dist: $*" >&2; exit 1; }

# A file that nobody has added may be a secret, and would be packaged.
if [ -e .git ]; then
    strange=$(git ls-files --others --exclude-standard)
    [ -z "$strange" ] || refuse "these files are not part of the sources: add, ignore or remove them
$strange"
fi
SOURCE_DATE_EPOCH=$(scripts/epoch.sh)
export SOURCE_DATE_EPOCH
umask 022
rm -rf dist
mkdir dist
"$python" -m hatchling build -d dist >/dev/null
# The wheel of the source distribution is the wheel of the sources.
version=$("$python" -m hatchling version)
wheel=headend-$version-py3-none-any.whl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "dist/headend-$version.tar.gz" -C "$work"
(cd "$work/headend-$version" && "$OLDPWD/$python" -m hatchling build -t wheel -d "$work" >/dev/null)
cmp -s "dist/$wheel" "$work/$wheel" || refuse "the wheel of the source distribution is another one"

cp requirements/runtime.txt "dist/headend-$version-requirements.txt"
"$python" -m scripts.materials "dist/headend-$version.cdx.json" "dist/THIRD_PARTY_NOTICES.txt"
(cd dist && sha256sum -- * >SHA256SUMS)
ls dist
