#!/bin/sh
# Installs the third-party software of the tests if it is missing: encoders, a browser, Redis,
# PostgreSQL, systemd's unit checker.
#
#   scripts/test-tools.sh            for `make test`
#   scripts/test-tools.sh all        also the real OBS, for `make prove`
#   scripts/test-tools.sh bench      also the programs that the benchmarks compare with
#   scripts/test-tools.sh engines    only PostgreSQL, Redis and an S3 server
set -eu

missing=
command_of() { # $1: command, $2: the Debian package that brings it
    command -v "$1" >/dev/null || missing="$missing $2"
}
package() { # plug-ins have no command of their own
    case "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" in
        installed) ;;
        *) missing="$missing $1" ;;
    esac
}

install_missing() {
    [ -n "$missing" ] || exit 0
    # shellcheck disable=SC2086 # a list of words
    exec "$(dirname "$0")/apt.sh" "the tests" $missing
}

command_of redis-server redis-server
for name in ceph-mon ceph-osd radosgw; do
    command_of "$name" "$name" # an S3 server
done
# Debian installs it outside of PATH, in a folder per version.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command_of initdb postgresql
[ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer" # in front of it, which is refused
[ "${1:-}" != engines ] || install_missing
command_of ffmpeg ffmpeg
command_of gst-launch-1.0 gstreamer1.0-tools
command_of chromium chromium
command_of chromium-headless-shell chromium-headless-shell # the same without windows, at half the CPU
command_of faketime faketime
command_of systemd-analyze systemd
command_of ps procps
command_of curl curl
[ -x /usr/sbin/nginx ] || missing="$missing nginx-light" # in front of the service, and a bench's peer
[ -e /usr/lib/nginx/modules/ngx_rtmp_module.so ] || missing="$missing libnginx-mod-rtmp" # a relay
[ -x /usr/sbin/haproxy ] || missing="$missing haproxy" # in front of hosts that receive streams, too
command_of caddy caddy # in front of the service
command_of openssl openssl # makes its certificate
command_of promtool prometheus # checks the alert rules
command_of buildah buildah # shows what gets into the image
command_of docker-compose docker-compose # reads the compose file
command_of skopeo skopeo # asks a registry for digests
command_of wrk wrk # sends the requests of `python -m bench.origin`
if [ "${1:-}" = all ]; then # the real OBS, for the proofs
    command_of obs obs-studio
    command_of xvfb-run xvfb
    command_of xwininfo x11-utils # a display that is read, and its window manager
    command_of matchbox-window-manager matchbox-window-manager
fi
if [ "${1:-}" = bench ]; then # the peers of `python -m bench.ingest`, `bench.origin` and `bench.latency`
    command_of node nodejs
    command_of npm npm
    # The programs of `python -m bench.players`, and a display for them.
    command_of Xvfb xvfb
    command_of xwininfo x11-utils
    command_of matchbox-window-manager matchbox-window-manager
    command_of xdotool xdotool
    command_of firefox-esr firefox-esr
    command_of mpv mpv
    command_of vlc vlc-bin
    command_of gst-play-1.0 gstreamer1.0-plugins-base-apps
    if command -v dpkg-query >/dev/null; then
        package libnginx-mod-stream
        package libwebkit2gtk-4.1-0 # with its MiniBrowser
        package vlc-plugin-base
        package vlc-plugin-video-output
    fi
fi
if command -v dpkg-query >/dev/null; then
    for set in base good bad ugly; do
        package "gstreamer1.0-plugins-$set" # rtmp2sink and rtmpsink: bad; x264enc: ugly
    done
    package gstreamer1.0-libav # AAC
fi
install_missing
