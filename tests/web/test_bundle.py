"""The committed bundle is what its sources make, and the sources hold to their types."""

import gzip
import json
from pathlib import Path

from api.http.static_files import BUNDLE
from tests.support.web.workshop import node, run


def test_the_committed_bundle_is_what_the_sources_make(workshop: Path, tmp_path: Path) -> None:
    run(workshop, node(), "build.mjs", str(tmp_path))
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_bytes() for path in BUNDLE.iterdir()}
    assert sorted(committed) == sorted(built)
    stale = [name for name, body in built.items() if committed[name] != body]
    assert stale == [], "run `npm ci` and `npm run build` in web/, and commit api/static"


def test_the_sources_hold_to_their_types(workshop: Path) -> None:
    run(workshop, node(), "node_modules/typescript/bin/tsc")


def test_the_player_decides_as_its_tables_say(workshop: Path) -> None:
    run(workshop, node(), "tests/run.mjs")


def test_the_lock_names_packages_by_digest_and_never_by_address(web: Path) -> None:
    text = (web / "package-lock.json").read_text()
    packages = {name: entry for name, entry in json.loads(text)["packages"].items() if name}
    assert "node_modules/hls.js" in packages
    assert all("integrity" in entry for entry in packages.values())
    assert "://" not in text


def test_every_bundled_package_has_its_licence_beside_the_bundle() -> None:
    notices = (BUNDLE / "THIRD_PARTY.txt").read_text()
    player = ("hls.js", "eventemitter3", "url-toolkit", "@svta/cml-cmcd", "@svta/cml-id3")
    for name in (*player, "@picocss/pico", "htmx.org", "idiomorph", "pusher-js"):
        assert f"\n{name} " in notices
    assert "Apache License" in notices
    assert "Permission is hereby granted" in notices


def test_a_page_needs_at_most_230_kilobytes_of_scripts_and_styles() -> None:
    sizes = {
        name: len(gzip.compress((BUNDLE / name).read_bytes(), 9))
        for name in ("watch.js", "watch.css")
    }
    print(f"compressed: {sizes}, {sum(sizes.values())} bytes in all")  # noqa: T201
    assert sum(sizes.values()) <= 230_000


def test_a_page_of_the_console_needs_at_most_300_kilobytes_of_script() -> None:
    """`console.js` is on every page, at most two others beside it."""
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in BUNDLE.glob("*.js")}
    shared = sizes["console.js"]
    others = sorted(size for name, size in sizes.items() if name.startswith("console_"))
    print(f"compressed: {sizes}")  # noqa: T201
    assert shared + sum(others[-2:]) <= 300_000
