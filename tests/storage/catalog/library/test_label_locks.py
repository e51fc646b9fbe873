"""Labels that are deleted while others change what has them, and their projects."""

import contextlib
from collections.abc import AsyncGenerator

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, PlayerOptions
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.errors import NoSuchLabel, NoSuchProject
from tests.support.storage.concurrent_calls import count_refused
from tests.support.storage.new_videos import new_video
from tests.support.storage.removed_projects import remove_rows

NOW = 1_800_000_000_000_000
TURNS = 10


@pytest.fixture
async def server(postgres_url: str) -> AsyncGenerator[Catalog]:
    async with open_catalog(postgres_url, migrate=False) as opened:
        await opened.installation.first_start(NOW)
        yield opened


async def _add_video(catalog: Catalog) -> int:
    new = new_video(source="")
    return await catalog.videos.expect(1, new, NOW)


async def test_a_category_and_a_player_are_deleted_while_what_has_them_is_edited(
    server: Catalog,
) -> None:
    stream = (await server.streams.add(1, "One", Change(NOW))).id
    video = await _add_video(server)
    refused = 0
    for turn in range(TURNS):
        category = (await server.labels.add("category", 1, f"{turn}", Change(NOW), active=True)).id
        player = (await server.players.add(1, f"{turn}", PlayerOptions(), Change(NOW))).id
        await server.videos.edit(video, VideoDetails.edit(category=category), Change(NOW))
        await server.videos.set_player(video, player, Change(NOW))
        change = StreamDetails.edit(category=category)
        await server.streams.edit(stream, change, Change(NOW))

        async def edit_video(category: int = category) -> None:
            with contextlib.suppress(NoSuchLabel):
                await server.videos.edit(video, VideoDetails.edit(category=category), Change(NOW))

        async def edit_stream(category: int = category) -> None:
            with contextlib.suppress(NoSuchLabel):
                change = StreamDetails.edit(category=category)
                await server.streams.edit(stream, change, Change(NOW))

        async def set_player(player: int = player) -> None:
            with contextlib.suppress(NoSuchLabel):
                await server.videos.set_player(video, player, Change(NOW))

        async def remove(category: int = category, player: int = player) -> None:
            await server.labels.remove("category", category, Change(NOW))
            await server.players.remove(player, Change(NOW))

        refused += await count_refused(
            [[edit_video] * 3, [edit_stream] * 3, [set_player] * 3, [remove]]
        )
    assert refused == 0


async def test_a_project_is_deleted_while_its_labels_are(server: Catalog) -> None:
    refused = 0
    for turn in range(TURNS):
        project = (await server.projects.add(f"{turn}", Change(NOW))).id
        tags = [
            (await server.labels.add("tag", project, f"{tag}", Change(NOW), active=True)).id
            for tag in range(6)
        ]
        player = (await server.players.add(project, "small", PlayerOptions(), Change(NOW))).id

        async def change(tags: list[int] = tags, player: int = player) -> None:
            with contextlib.suppress(NoSuchProject):
                for tag in tags[:3]:
                    await server.labels.edit("tag", tag, Change(NOW), name=f"new {tag}")
                await server.players.edit(player, Change(NOW), name="large", options={})

        async def remove(tags: list[int] = tags) -> None:
            with contextlib.suppress(NoSuchProject):
                for tag in reversed(tags):
                    await server.labels.remove("tag", tag, Change(NOW))

        async def remove_project(project: int = project) -> None:
            await server.projects.remove(project, Change(NOW))
            await remove_rows(server)

        refused += await count_refused([[change], [remove], [remove_project]])
    assert refused == 0
