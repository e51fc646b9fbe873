#!/bin/sh
# Builds the image `headend` out of the sources, with Docker, podman or buildah, on the base whose
# digest `make images` has written to deploy/.env (or DEBIAN_IMAGE). Arguments go to the builder.
set -eu

cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=$(scripts/epoch.sh)
export SOURCE_DATE_EPOCH
base=${DEBIAN_IMAGE:-$(sed -n 's/^DEBIAN_IMAGE=//p' deploy/.env 2>/dev/null || true)}
[ -n "$base" ] || { echo "image: run \`make images\` first: no base is named" >&2; exit 1; }

if docker version >/dev/null 2>&1; then
    set -- docker build "$@"
elif command -v podman >/dev/null; then
    # Docker's format has a place for the health check.
    set -- podman build --format docker --timestamp "$SOURCE_DATE_EPOCH" "$@"
elif command -v buildah >/dev/null; then
    set -- buildah bud --format docker --timestamp "$SOURCE_DATE_EPOCH" "$@"
else
    echo "image: Docker, podman or buildah is needed" >&2
    exit 1
fi
"$@" --file deploy/Dockerfile --build-arg "DEBIAN_IMAGE=$base" \
    --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --tag headend .
