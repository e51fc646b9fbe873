#!/bin/sh
# Makes what pip installed into a part of a package: paths of the place where it is used instead of
# those of the build, one command, and compiled modules, so that an upgrade's restart need not wait.
set -eu

stage=$1  # .../opt/headend
python=$2 # /usr/bin/python3
minor=$3  # 3.11
here=/opt/headend
site=$stage/lib/python$minor/site-packages

cat >"$stage/pyvenv.cfg" <<END
home = ${python%/*}
include-system-site-packages = false
END
rm -rf "$stage/bin" "$stage/include" "$stage/lib64" "$stage/share"
mkdir "$stage/bin"
ln -s "$python" "$stage/bin/python3"
cat >"$stage/bin/headend" <<END
#!$here/bin/python3
from headend.command import run

run()
END
chmod 755 "$stage/bin/headend"

# pip's own records name the build's folders; dpkg has the list of files.
find "$site" -path '*.dist-info/*' \( -name RECORD -o -name direct_url.json -o -name REQUESTED \
    -o -name INSTALLER \) -delete
# Tests of others, headers and archives to compile against: nothing here runs or compiles them.
find "$site" \( -path '*/tests' -o -path '*/_core/include' -o -path '*/_core/lib' \) -type d -prune \
    -exec rm -rf {} +
find "$site" \( -name '*_tests.*.so' -o -name '*.a' -o -name '*.pyx' -o -name '*.pxd' \) -delete
find "$stage" -type d -empty -delete
# No time of a file in them: they hold for the content, and no service could write others.
"$python" -m compileall -q -j 1 --invalidation-mode unchecked-hash -s "${stage%"$here"}" -p / "$site" ||
    echo "environment: some modules are for another Python"
