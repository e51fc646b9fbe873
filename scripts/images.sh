#!/bin/sh
# Writes the digests of the images that deploy/ builds on to deploy/.env, by asking their registry:
# what is built and started then is the same on every machine and every day. Run it again for newer
# images of the same versions, with their security fixes; other lines of the file stay.
#
# Docker (with buildx) asks, or skopeo where there is none.
set -eu

cd "$(dirname "$0")/.."
file=deploy/.env

digest_of() { # $1: the image, as docker.io/library/debian:12-slim
    if docker buildx version >/dev/null 2>&1; then
        docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1"
    elif command -v skopeo >/dev/null; then
        skopeo inspect --no-tags --format '{{.Digest}}' "docker://$1"
    else
        echo "images: Docker with buildx, or skopeo, is needed" >&2
        return 1
    fi
}

pin() { # $1: the variable, $2: the image
    digest=$(digest_of "$2")
    case $digest in
        sha256:*) ;;
        *) echo "images: $2 has no digest: $digest" >&2; exit 1 ;;
    esac
    echo "$1=$2@$digest"
}

umask 077 # the file also has the database's password
images=$(
    pin DEBIAN_IMAGE docker.io/library/debian:12-slim
    pin POSTGRES_IMAGE docker.io/library/postgres:15
    pin REDIS_IMAGE docker.io/library/redis:7
)
others=$(grep -v '^[A-Z]*_IMAGE=' "$file" 2>/dev/null || true)
printf '%s\n' ${others:+"$others"} "$images" >"$file.new"
mv "$file.new" "$file"
echo "$images"
