"""The files of the pages: their public names, and their compression."""

import asyncio
import gzip
from pathlib import Path

import pytest

from api.http.static_files import Asset, Assets, StaticFiles


def test_a_files_public_name_follows_its_content() -> None:
    one, other = Asset.of("watch.js", b"one"), Asset.of("watch.js", b"other")
    assert one.public != other.public
    assert one.public == Asset.of("watch.js", b"one").public
    assert one.public.startswith("watch.")
    assert one.public.endswith(".js")


async def test_the_bundle_has_what_the_pages_name() -> None:
    assets = Assets.read()
    built = assets.built
    assert {"watch.js", "watch.css", "embed.js", "icon.svg", "THIRD_PARTY.txt"} <= set(built)
    assert len(await StaticFiles(assets).packed(built["watch.js"])) < 200_000


def test_a_bundle_that_is_not_there_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        Assets.read(tmp_path / "nowhere")


async def test_the_gzip_of_a_file_is_made_once_however_many_ask_at_first() -> None:
    files = StaticFiles(Assets.read())
    script = files.assets.built["watch.js"]
    async with asyncio.TaskGroup() as tasks:
        requests = [tasks.create_task(files.packed(script)) for _ in range(3)]
    assert gzip.decompress(await files.packed(script)) == script.body
    assert {id(each.result()) for each in requests} == {id(await files.packed(script))}
