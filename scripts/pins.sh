#!/bin/sh
# Compiles requirements/ from pyproject.toml: exact versions with hashes for all supported Pythons
# and platforms, without the URL of a package index.
# Arguments are passed to uv, e.g. --upgrade, or --upgrade-package av.
set -eu

pin() { # output, then arguments for uv: the sources, and what the caller gave
    output=$1
    shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --annotation-style line \
        --output-file "$output" "$@" >/dev/null
}

if ! uv --version >/dev/null 2>&1; then
    echo "uv is needed to compile the requirements" >&2
    exit 1
fi
pin requirements/runtime.txt pyproject.toml "$@"
pin requirements/dev.txt pyproject.toml --group dev "$@"
pin requirements/build.txt --group build --constraint requirements/dev.txt "$@"
pin bench/pyrtmp/requirements.txt bench/pyrtmp/requirements.in "$@"
pin bench/players/requirements.txt bench/players/requirements.in "$@"
