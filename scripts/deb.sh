#!/bin/sh
# Builds a package of Debian in dist/, out of what `make dist` made: the program in an environment of
# its own below /opt/headend, made of the pinned and hashed wheels, without anything to compile.
# It is for the Debian (the Python) on which it is built. Needs debhelper.
set -eu

cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=$(scripts/epoch.sh)
export SOURCE_DATE_EPOCH
command -v dh >/dev/null || scripts/apt.sh "building a package" debhelper
version=$(.venv/bin/python -m hatchling version)
# What comes before a release sorts before it: 0.3.0rc1 is 0.3.0~rc1.
package=$(echo "$version" | sed -E 's/\.?(dev|a|b|rc)([0-9]+)/~\1\2/')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/headend-$package

umask 022
mkdir "$tree"
cp -r deploy/debian "$tree/debian"
cp -r systemd deploy/system docs LICENSE NOTICE README.md CHANGELOG.md SECURITY.md "$tree"
cp "dist/headend-$version-py3-none-any.whl" dist/THIRD_PARTY_NOTICES.txt "$tree"
cp "dist/headend-$version-requirements.txt" "$tree/requirements.txt"
cp "dist/headend-$version.cdx.json" "$tree/materials.cdx.json"
cat >"$tree/debian/changelog" <<END
headend ($package) unstable; urgency=medium

  * Version $version; CHANGELOG.md has what changed.

 -- The Headend authors <headend@headend.invalid>  $(date --utc -R --date="@$SOURCE_DATE_EPOCH")
END
(
    cd "$tree"
    PIP=$OLDPWD/.venv/bin/pip dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
) >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
rm -f dist/*.deb
cp "$work"/*.deb dist/
(cd dist && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS)
ls dist/*.deb
