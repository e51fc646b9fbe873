#!/bin/sh
# Makes or refreshes one Python virtual environment from pinned, hashed requirements.
#
#   scripts/environment.sh FOLDER REQUIREMENTS [--project]
#
# With --project the project itself is installed too (editable, with the tools of
# requirements/build.txt: nothing is fetched that has no hash here). Where `uv` works it is used; else `venv` and
# pip. The package index is the one that the user configured for either; none is named here.
# A stamp in the folder makes the next run instant, until the pins, the project's declarations or
# its place change. Packages from other requirements, installed earlier, stay.
set -eu

folder=$1
requirements=$2
project=${3:-}
python=$folder/bin/python
tools=requirements/build.txt
stamp=$folder/.filled-$(basename "$requirements")

say() { echo "environment: $*"; }
refuse() { echo "environment: $*" >&2; exit 1; }

has_uv() { uv --version >/dev/null 2>&1; } # run it: a version manager's shim may be empty

# A Python we support; the upper bound is `requires-python` of pyproject.toml.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# Debian ships python3 without ensurepip until python3-venv is installed.
makes_environments() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Of two with the same version, prefer the distribution's: it is optimised by a profile. One that a
# version manager has compiled usually is not, and takes up to 50 % more CPU for the same work.
newest_python() { # $1: a further check that the interpreter must pass
    for candidate in /usr/bin/python3.13 python3.13 /usr/bin/python3.12 python3.12 \
        /usr/bin/python3.11 python3.11 python3; do
        if fits "$candidate" && "$1" "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

install_venv_module() {
    fits python3 || refuse "Python 3.11, 3.12 or 3.13 is needed (or uv, which brings its own)"
    command -v apt-get >/dev/null || refuse "python3 lacks its venv module: install it"
    "$here/apt.sh" "making a virtual environment" python3-venv
}

make_folder() {
    # Only what is a virtual environment is ever deleted.
    if [ -e "$folder" ]; then
        [ -f "$folder/pyvenv.cfg" ] || refuse "$folder is there and is no virtual environment"
        rm -rf "$folder"
    fi
    if has_uv; then
        interpreter=$(newest_python true) || interpreter=">=3.11,<3.14"
        uv venv --quiet --python "$interpreter" "$folder"
        # uv brings no pip, which `make advisories` asks for its registry; Python's own is enough.
        "$python" -m ensurepip >/dev/null 2>&1 || say "this Python brings no pip"
    else
        interpreter=$(newest_python makes_environments) || {
            install_venv_module
            interpreter=$(newest_python makes_environments) ||
                refuse "python3 cannot make environments"
        }
        "$interpreter" -m venv "$folder"
    fi
    say "$folder made with $("$python" --version)"
}

install() {
    if has_uv; then
        uv pip install --quiet --python "$python" "$@"
    else
        # PIP_USER=1 in someone's settings would send the packages to their home.
        PIP_USER=0 "$python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

usable() {
    fits "$python" || return 1
    has_uv || "$python" -c 'import pip' >/dev/null 2>&1
}

# The commands in an environment name the place where it was made.
moved() { [ -e "$folder/.place" ] && [ "$(cat "$folder/.place")" != "$(pwd)" ]; }

fingerprint() {
    {
        pwd
        cat "$requirements" "$here/environment.sh"
        [ -z "$project" ] || cat pyproject.toml "$tools"
    } | cksum
}

here=$(dirname "$0")
current=$(fingerprint)
if [ "$(cat "$stamp" 2>/dev/null)" = "$current" ] && fits "$python"; then
    exit 0
fi
if ! usable || moved; then
    make_folder
fi
pwd >"$folder/.place"
say "installing $requirements (the first time takes a minute or two)"
install --require-hashes -r "$requirements" ${project:+-r "$tools"}
if [ -n "$project" ]; then
    install --no-deps --no-build-isolation --editable .
fi
echo "$current" >"$stamp"
say "$folder is ready"
